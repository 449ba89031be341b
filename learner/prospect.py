"""Why a leaf has not split yet: what an attempt would say now, asked of a copy.

An evaluation sorts values that are kept one by one, so asking the leaf itself would leave a trace.
A copy of one leaf costs microseconds; whoever asks evaluates it, and learning goes on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from learner.encoder import Encoder
from learner.errors import UnknownNode
from learner.kernels.forecast import UNKNOWN, examine
from learner.kernels.rules import (
    BEST,
    BEST_COLUMN,
    BEST_CUT,
    BEST_KIND,
    BIAS,
    EPSILON,
    FOLLOWED,
    INHERIT,
    NO_SPLIT_YET,
    RANKING,
    SECOND,
    SECOND_COLUMN,
    SECOND_CUT,
    SECOND_KIND,
    Rules,
)
from learner.kernels.tree import (
    CLASSES,
    ENDED,
    ENTRIES,
    EVENTS,
    FIRST_BLOCK,
    HISTOGRAMS,
    LEAF,
    NODES,
    NOWHERE,
    PURE,
    QUEUED,
    Floats,
    Layout,
    Records,
    Tree,
)
from learner.reading import attribute_name, branch_text, test_text
from learner.schema import Value
from learner.scratch import new_scratch
from learner.state import (
    Sizes,
    layout_reference,
    new_tree,
    rules_reference,
    scratch_reference,
    tree_reference,
)

SHOWN_LEAVES = 5  # of a node that is no leaf
_OF_NODE = ("node", "votes", "seen", "fact")
_OF_SLOT = ("slot", "moments", "values", "tokens", "barred", "barred_tokens")
_STANDINGS = {QUEUED: "queued", PURE: "done", ENDED: "done"}


class Option(NamedTuple):
    """A split that a leaf could make."""

    test: str | None  # None: not to split
    merit: float


class Prospect(NamedTuple):
    """How far a leaf is from a split."""

    events: int  # learned by the tree
    leaf: int
    branch: str  # condition that leads to it
    n: float  # weight it has counted
    distribution: dict[Value, float]  # votes, prior votes included
    status: str  # waiting, ready, useless, pure, empty, queued, done, inactive
    best: Option | None = None
    second: Option | None = None
    gap: float | None = None  # between their merits
    bias: float = 0.0  # of the gap, which the normal test takes off
    bound: float | None = None  # the gap that is asked for
    tie: float = 0.0  # once the bound is below this, the gap does not matter
    weight_needed: float | None = None  # until the test passes, if the gap stays as it is
    next_attempt_in: float | None = None  # weight; None: none is planned


class LeafCopy:
    """One leaf as it is now; it does not change any more.

    ``plain`` says that VFDT's own parts are enough to evaluate it.
    """

    def __init__(
        self,
        tree: Tree,
        sizes: Sizes,
        layout: Layout,
        rules: Rules,
        encoder: Encoder,
        node: int,
        *,
        plain: bool,
    ) -> None:
        classes = int(tree.counts[CLASSES])
        counted = tree.votes if rules.new_leaf == INHERIT else tree.seen
        self._node = tree.node[node].copy()
        self._alive = int(np.count_nonzero(counted[node, :classes]))
        votes = map(float, tree.votes[node, :classes])
        self._votes = dict(zip(encoder.classes, votes, strict=False))
        self._events = int(tree.counts[EVENTS])
        self._branch = branch_text(tree, encoder, node)
        self._rules, self._layout, self._encoder, self._plain = rules, layout, encoder, plain
        self._slot, self._follows = int(self._node["slot"]), False
        if self._slot != NOWHERE:
            if rules.timing == FOLLOWED:
                self._follows = int(tree.slot["candidates"][self._slot]) > 0
            self._sizes = _one_leaf(sizes, tree, self._slot)
            self._tree = _copied(tree, self._sizes, node, self._slot)

    def prospect(self) -> Prospect:
        """What an attempt would say."""
        node, n = self._node, float(self._node["n"])
        known = Prospect(
            self._events, int(node["id"]), self._branch, n, self._votes, "inactive",
            tie=self._rules.tau,
        )  # fmt: skip
        if self._slot == NOWHERE:
            standing = int(node["standing"])
            return known._replace(status=_STANDINGS.get(standing, known.status))
        planned = max(0.0, float(node["n_last"] + node["wait"]) - n)
        known = known._replace(next_attempt_in=None if self._follows else planned)
        if self._alive < 2:
            return known._replace(status="pure" if self._alive else "empty")
        ranking = np.zeros(RANKING)
        outcome, at = self._examine(ranking)
        worthwhile = ranking[BEST_KIND] != LEAF and ranking[BEST] > self._rules.min_merit
        status = "waiting" if worthwhile else "useless"
        return known._replace(
            status=status if outcome == NO_SPLIT_YET else "ready",
            best=self._option(ranking, BEST, BEST_KIND, BEST_COLUMN, BEST_CUT),
            second=self._option(ranking, SECOND, SECOND_KIND, SECOND_COLUMN, SECOND_CUT),
            gap=float(ranking[BEST] - ranking[SECOND]),
            bias=float(ranking[BIAS]),
            bound=float(ranking[EPSILON]),
            weight_needed=None if at == UNKNOWN else at - n,
        )

    def _examine(self, ranking: Floats) -> tuple[int, float]:
        """The outcome, and the n at which it would be a split; puts values in order first."""
        tree = Tree(**{name: part.copy() for name, part in self._tree._asdict().items()})
        scratch = new_scratch(self._sizes, self._rules)
        outcome, at = examine(
            tree_reference(tree), layout_reference(self._layout), rules_reference(self._rules),
            scratch_reference(scratch), 0, ranking, None if self._plain else True,
        )  # fmt: skip
        return int(outcome), float(at)

    def _option(
        self, ranking: Floats, merit: int, kind: int, column: int, cut: int
    ) -> Option | None:
        if ranking[merit] == -np.inf:
            return None
        test = test_text(self._encoder, int(ranking[kind]), int(ranking[column]), ranking[cut])
        return Option(test or None, float(ranking[merit]))


def place_of_leaf(tree: Tree, encoder: Encoder, node_id: int) -> int:
    """Where the leaf of this id is; raises UnknownNode, which says where leaves are."""
    nodes = tree.node[: int(tree.counts[NODES])]
    found = np.flatnonzero(nodes["id"] == node_id)
    if not len(found):
        raise UnknownNode(f"leaf is {node_id}; the tree has no node of that id")
    node = int(found[0])
    if nodes["kind"][node] != LEAF:
        name = attribute_name(encoder, int(nodes["kind"][node]), int(nodes["column"][node]))
        raise UnknownNode(
            f"leaf is {node_id}, a node that splits on '{name}'; expected a leaf, below it are "
            f"{_leaves_below(nodes, node)}"
        )
    return node


def _leaves_below(nodes: Records, node: int) -> str:
    """The ids of a few leaves, and how many there are besides."""
    below, parents = {node}, nodes["parent"].tolist()
    for other in range(node + 1, len(parents)):  # parents come before their children
        if parents[other] in below:
            below.add(other)
    leaves = [int(nodes["id"][at]) for at in sorted(below) if nodes["kind"][at] == LEAF]
    more = len(leaves) - SHOWN_LEAVES
    shown = ", ".join(map(str, leaves[:SHOWN_LEAVES]))
    return shown + (f" and {more} more" if more > 0 else "")


def _one_leaf(sizes: Sizes, tree: Tree, slot: int) -> Sizes:
    """Room for one leaf with what it has counted, and nothing else."""
    entries = longest = 0
    if sizes.parts.entries:
        capacity = tree.column["capacity"][slot]
        entries, longest = int(capacity.sum()), int(capacity.max(initial=FIRST_BLOCK))
    return sizes._replace(
        nodes=1, slots=1, table=1, entries=entries, longest=longest,
        histograms=sizes.numeric if sizes.parts.intervals else 0,
        parts=sizes.parts._replace(bayes=False, bins=False, candidates=0),
    )  # fmt: skip


def _copied(tree: Tree, sizes: Sizes, node: int, slot: int) -> Tree:
    """A tree of one node with the statistics of this leaf."""
    copy = new_tree(sizes)
    copy.counts[:] = tree.counts
    for name in _OF_NODE:
        getattr(copy, name)[0] = getattr(tree, name)[node]
    for name in _OF_SLOT:
        getattr(copy, name)[0] = getattr(tree, name)[slot]
    copy.node["slot"][0] = 0
    copy.counts[NODES], copy.counts[ENTRIES], copy.counts[HISTOGRAMS] = 1, 0, 0
    for j in range(tree.column.shape[1] if sizes.parts.entries else 0):
        _copy_column(tree, copy, slot, j)
    return copy


def _copy_column(tree: Tree, copy: Tree, slot: int, j: int) -> None:
    """The entries and the intervals of one numeric column."""
    column, at = tree.column[slot, j], int(copy.counts[ENTRIES])
    start, used, histogram = int(column["start"]), int(column["used"]), int(column["histogram"])
    copy.column[0, j] = column
    copy.column["start"][0, j] = at
    for name in ("entry_value", "entry_weight", "entry_class"):
        getattr(copy, name)[at : at + used] = getattr(tree, name)[start : start + used]
    copy.counts[ENTRIES] = at + int(column["capacity"])
    if histogram != NOWHERE:
        laid = int(copy.counts[HISTOGRAMS])
        copy.histogram[laid], copy.pruned[laid] = tree.histogram[histogram], tree.pruned[histogram]
        copy.column["histogram"][0, j] = laid
        copy.counts[HISTOGRAMS] = laid + 1
