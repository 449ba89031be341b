"""A read-only copy of a tree: predicts, explains, walks. Safe to read from any thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learner.answering import Answering
from learner.batch import Batch
from learner.encoder import Encoder
from learner.errors import UnknownNode
from learner.explanation import Explanation
from learner.facts import SplitFacts, importance, split_facts
from learner.kernels.rules import MAJORITY
from learner.kernels.tally import count_nodes
from learner.kernels.tree import (
    ATTEMPTS,
    AUDITED_SPLITS,
    AUDITS,
    CANDIDATE_CHECKS,
    CLASSES,
    COLLAPSED,
    CONTAINS,
    COUNTED,
    DEACTIVATED,
    DONE_AT,
    EQUALS,
    EVALUATIONS,
    EVENTS,
    LEAF,
    MEMORY_CHECKS,
    MOVED,
    MULTIWAY,
    NO_SPLIT,
    NODES,
    NOWHERE,
    NUMERIC,
    PURE_CHECKS,
    REACTIVATED,
    REEVALUATIONS,
    REPLACED,
    SPLITS_BOUND,
    SPLITS_TIE,
    SUBSET,
    Layout,
    Tree,
)
from learner.memory import model_bytes
from learner.params import TreeParams
from learner.reading import KIND_NAMES, attribute, branch_text, condition, set_of, test_text
from learner.row_walk import RowWalk, Stop
from learner.schema import Schema, Value
from learner.state import Sizes

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]


class Counters(NamedTuple):
    """What happened since the tree began."""

    events: int
    weight: float
    split_attempts: int
    splits_bound: int
    splits_tie: int
    no_split: int
    pure_checks: int
    attribute_evaluations: int
    audit_evaluations: int
    audited_splits: int
    leaves_deactivated: int
    leaves_reactivated: int
    memory_checks: int
    candidate_checks: int
    reevaluations: int
    splits_replaced: int
    thresholds_moved: int
    subtrees_collapsed: int
    events_counted: int  # events that went into statistics
    events_until_done: int  # events when no leaf was active or queued any more, 0 = not yet


class Shape(NamedTuple):
    """The size of a tree."""

    nodes: int
    leaves: int
    active_leaves: int
    depth: int


class Step(NamedTuple):
    """One test on the way to a leaf."""

    node: int
    feature: str
    operator: str  # <= > == != in, not in, contains, not contains, other
    value: Any  # threshold, nominal value, values of a set, or token
    observed: Any  # the record's own value, None if missing
    branch: int  # id of the node that it leads to


class NodeView(NamedTuple):
    """One node, as a person reads it."""

    id: int
    parent: int | None
    depth: int
    branch: str  # condition that leads here: "salary <= 51200"; empty at the root
    kind: str  # leaf, numeric, multiway, equals, contains, subset
    feature: str | None
    test: str | None
    threshold: float | None  # of a numeric test
    values: tuple[Value, ...]  # of equals, contains or the set; multiway: one a child
    children: tuple[int, ...]  # ids; the other branch of a multiway split comes last
    weight: float  # of the events that came by it
    share: float  # of the root's weight
    distribution: dict[Value, float]  # votes of its leaves, prior votes included
    prediction: Value | None
    active: bool  # a leaf that keeps statistics, or an inner node
    n: float  # observed since it was created; at an inner node when it split
    created_at: int  # events learned when it was made
    age_events: int  # events since
    split: SplitFacts | None  # of an inner node


def counters_of(tree: Tree) -> Counters:
    """Read the counters."""
    places = (
        ATTEMPTS, SPLITS_BOUND, SPLITS_TIE, NO_SPLIT, PURE_CHECKS, EVALUATIONS,
        AUDITS, AUDITED_SPLITS, DEACTIVATED, REACTIVATED, MEMORY_CHECKS,
        CANDIDATE_CHECKS, REEVALUATIONS, REPLACED, MOVED, COLLAPSED, COUNTED, DONE_AT,
    )  # fmt: skip
    counts = tree.counts
    return Counters(int(counts[EVENTS]), float(tree.weight[0]), *(int(counts[p]) for p in places))


class Snapshot:
    """A tree at one moment. Nothing in it ever changes.

    Its arrays are lent: when the snapshot is gone they become a later one (learner/publication.py),
    so none of them may be held without it.
    """

    def __init__(
        self,
        tree: Tree,
        handles: tuple[Any, Any],
        spare: list[Any],
        sizes: Sizes,
        layout: Layout,
        encoder: Encoder,
        variant: str,
        params: TreeParams,
    ) -> None:
        self.parts = tree, handles[1], sizes, layout, encoder, variant, params
        used = int(tree.counts[NODES])
        self._tree = tree._replace(
            node=tree.node[:used], votes=tree.votes[:used], seen=tree.seen[:used]
        )
        self._handles = handles  # tree and layout as kernels take them
        self._sizes = sizes._replace(longest=0)
        self._encoder = encoder
        self._rules = params.rules(has_numeric=sizes.numeric > 0)
        self.variant = variant
        self.params = params
        self.counters = counters_of(tree)
        self.memory_bytes = model_bytes(tree, layout, sum(encoder.value_counts()))
        self.classes: tuple[Value, ...] = encoder.classes[: int(tree.counts[CLASSES])]
        self._answering = Answering(tree, handles, self._sizes, self._rules, spare)
        self._row_walk = RowWalk(self._tree, encoder)

    @cached_property
    def shape(self) -> Shape:
        """Nodes, leaves and depth."""
        return Shape(*map(int, count_nodes(self._handles[0])))

    @cached_property
    def schema(self) -> Schema:
        """Features with the values, and the classes, known then."""
        return self._encoder.schema

    @property
    def events(self) -> int:
        """Events learned when the snapshot was taken."""
        return self.counters.events

    @property
    def id(self) -> str:
        """Names the snapshot within its stream: the variant and the events learned."""
        return f"{self.variant}-{self.events}"

    def encode(self, rows: Sequence[Sequence[Any]]) -> Batch:
        """Rows in schema order (None = missing) as a batch; nothing is remembered."""
        return self._encoder.encode(rows)

    def encode_records(self, records: Sequence[Mapping[str, object]]) -> Batch:
        """Mappings as a batch; raises BadValue where a type is wrong."""
        return self._encoder.encode_records(records)

    def evaluate(self, batch: Batch) -> tuple[Codes, Floats, Ids]:
        """Class codes, probabilities of all known classes, and leaf ids, in one pass."""
        probabilities = np.empty((batch.rows, len(self.classes)))
        codes, leaves = self._answering.answer(batch, probabilities)
        return codes, probabilities, leaves

    def settle(self, batch: Batch) -> tuple[Codes, Ids]:
        """Class codes and leaf ids, for those who do without probabilities."""
        return self._answering.answer(batch, None)

    def predict(self, batch: Batch) -> Codes:
        """Class codes; -1 when no class is known yet."""
        return self.settle(batch)[0]

    def probabilities(self, batch: Batch) -> Floats:
        """Probabilities of all known classes; every row sums to 1."""
        return self.evaluate(batch)[1]

    def leaves(self, batch: Batch) -> Ids:
        """Ids of the nodes that the rows end in."""
        return self.settle(batch)[1]

    def end_of(self, row: Sequence[Any]) -> Stop:
        """The node that one row ends in: values in schema order, types right already."""
        return self._row_walk.end_of(row)

    def votes_at(self, place: int) -> tuple[int, list[float]]:
        """Class code and probabilities at a node, where all rows that end there get the same."""
        return self._answering.by_votes(place)

    @property
    def answers_by_leaf(self) -> bool:
        """Whether all rows that end in a leaf get the same answer."""
        return self._rules.predictor == MAJORITY

    @cached_property
    def explanation(self) -> Explanation:
        """What stands behind the answers, and what would change them."""
        return Explanation(
            self._tree, self._handles, self._sizes, self._rules, self._encoder, self.evaluate
        )

    def path(self, batch: Batch, row: int = 0) -> list[Step]:
        """The tests between the root and the leaf of one row."""
        nodes = self._tree.node
        node = self._place_of(int(self.leaves(batch.part(row, row + 1))[0]))
        steps = []
        while (parent := int(nodes["parent"][node])) != NOWHERE:
            operator, value = condition(self._tree, self._encoder, node)
            kind, column = int(nodes["kind"][parent]), int(nodes["column"][parent])
            position, _ = attribute(self._encoder, kind, column)
            steps.append(
                Step(
                    int(nodes["id"][parent]),
                    self._encoder.feature_name(position),
                    operator,
                    value,
                    self._observed(batch, row, kind, column, position),
                    int(nodes["id"][node]),
                )
            )
            node = parent
        return steps[::-1]

    def _observed(self, batch: Batch, row: int, kind: int, column: int, position: int) -> Any:
        if kind == NUMERIC:
            x = float(batch.numeric[row, column])
            return None if x != x else x
        if kind == CONTAINS:
            start, end = batch.sparse_start[row], batch.sparse_start[row + 1]
            return bool((batch.sparse_index[start:end] == column).any())
        code = int(batch.nominal[row, column])
        return None if code < 0 else self._encoder.value_name(position, code)

    def walk(self, root: int | None = None, depth: int | None = None) -> Iterator[NodeView]:
        """Nodes in pre-order below a node id, down to a depth (0: the node alone)."""
        nodes = self._tree.node
        top = 0 if root is None else self._place_of(root)
        children = self._children()
        votes, traffic = self._summed_votes(), self._traffic()
        stack = [top]
        while stack:
            node = stack.pop()
            yield self._view(node, children[node], votes[node], traffic)
            if depth is None or nodes["depth"][node] - nodes["depth"][top] < depth:
                stack.extend(reversed(children[node]))

    @cached_property
    def importance(self) -> dict[str, float]:
        """Features with a split and their share of all gain, weighted by traffic, largest first."""
        return importance(self._tree.node, self._tree.fact, self._traffic(), self._encoder)

    def levels(self, root: int | None = None) -> list[int]:
        """How many nodes there are at each level from a node id down, itself the first."""
        parent, depth = self._tree.node["parent"].tolist(), self._tree.node["depth"]
        top = 0 if root is None else self._place_of(root)
        inside = np.zeros(len(parent), np.bool_)
        inside[top] = True
        for node in range(top + 1, len(parent)):  # parents come before their children
            inside[node] = inside[parent[node]]
        found: list[int] = np.bincount(depth[inside] - depth[top]).tolist()
        return found

    def _place_of(self, node_id: int) -> int:
        found = np.flatnonzero(self._tree.node["id"] == node_id)
        if not len(found):
            raise UnknownNode(
                f"node is {node_id}; this snapshot has no node of that id "
                f"({self.shape.nodes} nodes, the root is {int(self._tree.node['id'][0])})"
            )
        return int(found[0])

    def _children(self) -> list[list[int]]:
        """Children of every node; values of a multiway split by code, the other branch last."""
        nodes = self._tree.node
        below: list[list[int]] = [[] for _ in range(self.shape.nodes)]
        for node in range(1, self.shape.nodes):
            below[nodes["parent"][node]].append(node)
        for node, found in enumerate(below):
            if nodes["kind"][node] == MULTIWAY:
                found.sort(key=lambda child: (child == nodes["other"][node], nodes["value"][child]))
        return below

    def _traffic(self) -> Floats:
        """Weight of the events that came by every node: all at the root, shared out below."""
        parent, routed = self._tree.node["parent"], self._tree.node["routed"]
        below = np.bincount(parent[1:], routed[1:], minlength=len(parent))
        traffic = np.zeros(len(parent))
        traffic[0] = self.counters.weight
        depth = self._tree.node["depth"]
        by_level = np.argsort(depth, kind="stable")
        ends = np.searchsorted(depth[by_level], np.arange(1, self.shape.depth + 2))
        for start, end in pairwise(ends):  # level by level, from the first below the root
            nodes = by_level[start:end]
            above = parent[nodes]
            some = below[above] > 0.0
            nodes, above = nodes[some], above[some]
            traffic[nodes] = traffic[above] * routed[nodes] / below[above]
        return traffic

    def _summed_votes(self) -> Floats:
        """Votes of every node: a leaf's own, an inner node's from its leaves."""
        nodes = self._tree.node
        classes = len(self.classes)
        weights: Floats = np.where((nodes["kind"] == LEAF)[:, None], self._tree.votes, 0.0)[
            :, :classes
        ]
        for node in range(self.shape.nodes - 1, 0, -1):  # children come after their parents
            weights[nodes["parent"][node]] += weights[node]
        return weights

    def _view(self, node: int, children: list[int], votes: Floats, traffic: Floats) -> NodeView:
        nodes = self._tree.node
        kind, column, cut = (
            int(nodes["kind"][node]),
            int(nodes["column"][node]),
            float(nodes["cut"][node]),
        )
        weight, whole = float(traffic[node]), float(traffic[0])
        values: tuple[Value, ...] = ()
        feature = test = None
        if kind != LEAF:
            position, token = attribute(self._encoder, kind, column)
            feature = self._encoder.feature_name(position)
            test = test_text(self._encoder, kind, column, cut)
            if kind == MULTIWAY:
                codes = [int(nodes["value"][child]) for child in children]
                values = tuple(self._encoder.value_name(position, c) for c in codes if c >= 0)
            elif kind == EQUALS:
                values = (self._encoder.value_name(position, int(cut)),)
            elif kind == SUBSET:
                values = set_of(self._tree, self._encoder, node)
                test = f"{feature} in {', '.join(map(str, values))}"
            elif token is not None:
                values = (token,)
        parent, fact = int(nodes["parent"][node]), self._tree.fact[node]
        return NodeView(
            id=int(nodes["id"][node]),
            parent=None if parent == NOWHERE else int(nodes["id"][parent]),
            depth=int(nodes["depth"][node]),
            branch=branch_text(self._tree, self._encoder, node),
            kind=KIND_NAMES.get(kind, "leaf"),
            feature=feature,
            test=test,
            threshold=cut if kind == NUMERIC else None,
            values=values,
            children=tuple(int(nodes["id"][child]) for child in children),
            weight=weight,
            share=weight / whole if whole > 0.0 else float(node == 0),
            distribution=dict(zip(self.classes, map(float, votes), strict=True)),
            prediction=self._prediction(node, votes),
            active=kind != LEAF or int(nodes["slot"][node]) != NOWHERE,
            n=float(nodes["n"][node]),
            created_at=int(fact["created"]),
            age_events=self.events - int(fact["created"]),
            split=split_facts(fact, self._encoder),
        )

    def _prediction(self, node: int, weights: Floats) -> Value | None:
        if not self.classes:
            return None
        best = int(weights.argmax()) if weights.any() else int(self._tree.node["majority"][node])
        return self.classes[best]
