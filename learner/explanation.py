"""What stands behind an answer: the events that support it, what naive Bayes weighed, what else
the record could have been.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learner.batch import Batch
from learner.counterfactual import Evaluate, find_nearest_row
from learner.encoder import Encoder
from learner.kernels.evidence import weigh_evidence
from learner.kernels.predict import settle_nodes
from learner.kernels.rules import Rules
from learner.kernels.tree import (
    CLASSES,
    EQUALS,
    LEAF,
    MULTIWAY,
    NODES,
    NOWHERE,
    NUMERIC,
    SUBSET,
    Bytes,
    Floats,
    Tree,
)
from learner.neighbourhood import Change, Landscape, Neighbourhood, batch_of, landscape_of
from learner.schema import Kind, Value
from learner.scratch import new_scratch
from learner.state import Sizes, scratch_reference

Codes = npt.NDArray[np.int32]


class Factor(NamedTuple):
    """What one feature says to naive Bayes."""

    feature: str
    observed: Any
    log2_likelihoods: tuple[float, ...]  # log2 P(x | class), in the order of the classes


class Evidence(NamedTuple):
    """What a leaf weighs: the class with the highest sum is its answer."""

    log2_prior: tuple[float, ...]  # -inf for a class that the leaf has never seen
    factors: tuple[Factor, ...]  # none where the values are too far out to tell classes apart


class Settled(NamedTuple):
    """How every node answers a row that ends there."""

    codes: Codes  # class by votes, -1 = no class is known
    probabilities: Floats  # by votes
    by_bayes: Bytes  # 1 = naive Bayes answers in place of the votes


class Decision(NamedTuple):
    """How a node answers a row that ends there, and where it sends a missing value."""

    label: Value | None  # by votes; None = no class is known
    probabilities: tuple[float, ...]  # of all classes, by votes
    by_bayes: bool  # naive Bayes answers in place of the votes
    missing: int | None  # id of the child for missing and unseen values; None: they end here


class Counterfactual(NamedTuple):
    """A record that is answered otherwise, and what is different in it."""

    label: Value
    leaf: int
    changes: tuple[Change, ...]
    record: dict[str, Any]
    change_count: int  # every token is one
    distance: float  # how far they go together
    exact: bool  # no record with fewer changes, or as many smaller ones, gets a wanted answer


class Explanation:
    """Reads one tree that does not change; any thread may ask."""

    def __init__(
        self,
        tree: Tree,
        handles: tuple[Any, Any],
        sizes: Sizes,
        rules: Rules,
        encoder: Encoder,
        evaluate: Evaluate,
    ) -> None:
        self._tree, self._handles, self._sizes = tree, handles, sizes
        self._rules, self._encoder, self._evaluate = rules, encoder, evaluate
        self._classes = int(tree.counts[CLASSES])

    @cached_property
    def _settled(self) -> Settled:
        nodes = int(self._tree.counts[NODES])
        found = Settled(
            np.empty(nodes, np.int32), np.empty((nodes, self._classes)), np.empty(nodes, np.int8)
        )
        settle_nodes(self._handles[0], self._rules.predictor, self._rules.new_leaf, *found)
        return found

    @cached_property
    def _landscape(self) -> Landscape:
        return landscape_of(self._tree, len(self._encoder.positions(Kind.NUMERIC)))

    def decisions(self) -> dict[int, Decision]:
        """How every node answers, by id."""
        found, ids, classes = {}, self._tree.node["id"].tolist(), self._encoder.classes
        settled = self._settled
        for node, code in enumerate(settled.codes.tolist()):
            missing = self._way_of_missing(node)
            found[ids[node]] = Decision(
                classes[code] if code >= 0 else None,
                tuple(settled.probabilities[node].tolist()),
                bool(settled.by_bayes[node]),
                None if missing == NOWHERE else ids[missing],
            )
        return found

    def _way_of_missing(self, node: int) -> int:
        nodes = self._tree.node
        kind, child = int(nodes["kind"][node]), int(nodes["child"][node])
        if kind == LEAF:
            return NOWHERE
        if kind == MULTIWAY:
            return int(nodes["other"][node])
        if kind == NUMERIC:
            return child + int(nodes["routed"][child + 1] > nodes["routed"][child])
        return child + 1 if kind in (EQUALS, SUBSET) else child

    def support(self, leaf: int) -> dict[int, float]:
        """Weight of the events that came by the nodes from the root to a leaf, all by their ids."""
        nodes, node = self._tree.node, self._place_of(leaf)
        path = [node]
        while (node := int(nodes["parent"][node])) != NOWHERE:
            path.insert(0, node)
        parent, routed = nodes["parent"], nodes["routed"]
        below = np.bincount(parent[1:], routed[1:], minlength=len(parent))
        weight = float(self._tree.weight[0])
        found = {int(nodes["id"][0]): weight}
        for above, node in itertools.pairwise(path):
            weight = weight * float(routed[node] / below[above]) if below[above] > 0.0 else 0.0
            found[int(nodes["id"][node])] = weight
        return found

    def counterfactual(
        self, record: Mapping[str, object], wanted: Collection[Value], frozen: Collection[str] = ()
    ) -> Counterfactual | None:
        """The record with the fewest and smallest changes that gets one of the wanted answers."""
        classes = self._encoder.classes[: self._classes]
        codes = [code for code, label in enumerate(classes) if label in wanted]
        batch = self._encoder.encode_records([record])
        around = Neighbourhood(
            self._tree, self._handles[0], self._landscape, self._encoder, batch, frozen
        )
        ends = around.ends(codes, self._settled.codes, self._settled.by_bayes)
        found = find_nearest_row(around, self._tree, self._evaluate, codes, *ends)
        if found is None:
            return None
        answer, _, leaves = self._evaluate(batch_of([found.row]))
        changes = around.changes(found.row, record)
        return Counterfactual(
            label=classes[int(answer[0])],
            leaf=int(leaves[0]),
            changes=tuple(changes),
            record={**record, **{change.feature: change.after for change in changes}},
            change_count=found.cost[0],
            distance=found.cost[1],
            exact=found.exact,
        )

    def evidence(self, batch: Batch, row: int = 0) -> Evidence | None:
        """What naive Bayes weighs for a row; None where the votes answer."""
        leaf = int(self._evaluate(batch.part(row, row + 1))[2][0])
        node = self._place_of(leaf)
        if not self._classes or not self._settled.by_bayes[node]:
            return None
        tree = self._tree
        columns = min(tree.moments.shape[3], batch.numeric.shape[1])
        nominal = min(len(self._sizes.values), batch.nominal.shape[1])
        said = [
            np.empty((count, self._classes)) for count in (columns, nominal, tree.tokens.shape[2])
        ]
        prior = np.empty(self._classes)
        weigh_evidence(*self._handles, self._scratch(), batch, row, node, prior, *said)
        factors = self._factors(batch, row, *said)
        scores = prior + sum((np.array(each.log2_likelihoods) for each in factors), np.zeros(1))
        if np.isnan(scores).any() or not (scores > -np.inf).any():
            factors = []
        return Evidence(tuple(prior.tolist()), tuple(factors))

    def _place_of(self, node_id: int) -> int:
        return int(np.flatnonzero(self._tree.node["id"] == node_id)[0])

    def _factors(
        self, batch: Batch, row: int, numeric: Floats, nominal: Floats, tokens: Floats
    ) -> list[Factor]:
        """Factors in schema order; a feature that says nothing has none."""
        encoder, found = self._encoder, dict[int, tuple[Any, Floats]]()
        for column, said in enumerate(numeric):
            observed = float(batch.numeric[row, column])
            found[encoder.positions(Kind.NUMERIC)[column]] = (observed, said)
        for column, said in enumerate(nominal):
            position, code = encoder.positions(Kind.NOMINAL)[column], batch.nominal[row, column]
            name: Any = encoder.value_name(position, int(code)) if code >= 0 else None
            found[position] = (name, said)
        if len(tokens):
            found |= self._said_by_tokens(batch, row, tokens)
        return [
            Factor(encoder.feature_name(position), observed, tuple(said.tolist()))
            for position, (observed, said) in sorted(found.items())
            if not np.isnan(said).any()
        ]

    def _said_by_tokens(
        self, batch: Batch, row: int, tokens: Floats
    ) -> dict[int, tuple[list[Any], Floats]]:
        """The tokens of a set, held and absent, speak together."""
        held = batch.sparse_index[batch.sparse_start[row] : batch.sparse_start[row + 1]].tolist()
        found: dict[int, tuple[list[Any], Floats]] = {}
        for column in np.flatnonzero(~np.isnan(tokens[:, 0])).tolist():
            position, token = self._encoder.token(column)
            observed, said = found.setdefault(position, ([], np.zeros(self._classes)))
            said += tokens[column]
            if column in held:
                observed.append(token)
        return found

    def _scratch(self) -> Any:
        return scratch_reference(new_scratch(self._sizes, self._rules))
