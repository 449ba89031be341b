"""The learner and its slow twin side by side on one stream."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict

import numpy as np
import numpy.typing as npt
import pytest

from learner import Batch, Encoder, Kind, NodeView, Schema, Snapshot, StreamingTree
from tests.learner.concepts import Event
from tests.oracle.choose import oracle_for
from tests.oracle.criterion import merged
from tests.oracle.history import Fact
from tests.oracle.leaf import DOUBT, Leaf, Options
from tests.oracle.vfdt import OTHER, OracleTree, Row, Split

RELATIVE = 1e-9
WEIGHTS = 1e-6
OUT_OF_SIGHT = 1e9  # a forecast so far off that rounding of the lead decides about it
ACTIVITY = ("deactivate", "reactivate")
OF_KIND = {"numeric": "numeric", "multiway": "multiway", "equal": "equals",
           "sparse_binary": "contains", "subset": "subset"}  # fmt: skip


class RoundingTie(Exception):
    """The twins parted where two gains are equal up to rounding: nothing to compare below."""


class Twins:
    """Both trees, fed event by event."""

    def __init__(self, schema: Schema, options: Options) -> None:
        self.encoder = Encoder(schema)
        self.tree = StreamingTree(self.encoder, "vfdt", **asdict(options))
        self.kinds = [feature.kind for feature in schema.features]
        kinds = [kind.value for kind in self.kinds]
        self.oracle = oracle_for(kinds, len(schema.classes), options)
        self.agreed: tuple[int, int] = (1, 0)

    def encode(self, row: list[object]) -> tuple[Batch, Row]:
        """The same event for the learner and for the oracle."""
        batch = self.encoder.encode([row])
        return batch, self._plain_row(batch)

    def _plain_row(self, batch: Batch) -> Row:
        out: Row = {}
        numeric = iter(batch.numeric[0])
        nominal = iter(batch.nominal[0])
        owner = [feature for feature, _ in self.encoder.tokens]
        for i, kind in enumerate(self.kinds):
            if kind == Kind.NUMERIC:
                x = float(next(numeric))
                if not math.isnan(x):
                    out[i] = x
            elif kind == Kind.NOMINAL:
                v = int(next(nominal))
                if v >= 0:
                    out[i] = v
            else:
                out[i] = frozenset(int(t) for t in batch.sparse_index if owner[int(t)] == i)
        return out

    def learn(self, event: Event) -> None:
        """One event for both; the structure is compared whenever it changed."""
        values, label, w = event
        batch, row = self.encode(values)
        y = self.encoder.encode_labels([label])
        expected = self.oracle.predict(row)
        standing = self.oracle.standing(row)
        predicted = np.full(1, -9, np.int32)

        self.tree.learn(batch, y, np.array([w]), predicted)
        self.oracle.learn(row, int(y[0]), w)

        if not self._is_toss_up(list(standing.values())) and not self._is_doubtful():
            assert predicted[0] == expected
        changed = self.tree.shape().nodes, self._changes()
        if changed != self.agreed or changed[0] != len(self.oracle.nodes):
            self.compare()
            self.agreed = changed

    def _changes(self) -> int:
        """Structural changes so far."""
        counters = self.tree.counters()
        splits = counters.splits_bound + counters.splits_tie + counters.splits_replaced
        return splits + counters.thresholds_moved + counters.subtrees_collapsed

    def _is_doubtful(self) -> bool:
        """Rounding may have decided something, now or in what was chosen to be followed."""
        return self.oracle.doubtful_now or self.oracle.doubtful_ever

    def learn_all(self, events: Iterable[Event]) -> None:
        """Every event, then one last comparison of everything."""
        for event in events:
            self.learn(event)
        self.compare()

    def learn_batch(self, batch: Batch, y: npt.NDArray[np.int32]) -> None:
        """Event by event; sizes are compared after each, everything whenever one changed."""
        for row, label in enumerate(y.tolist()):
            event = batch.part(row, row + 1)
            self.tree.learn(event, y[row : row + 1])
            self.oracle.learn(self._plain_row(event), label)
            changed = self.tree.shape().nodes, self._changes()
            if changed != self.agreed or changed[0] != len(self.oracle.nodes):
                self.compare()
                self.agreed = changed
        self.compare()

    def compare(self) -> None:
        """Same nodes, tests, activity and class weights; raises RoundingTie at a verified tie."""
        try:
            compare_trees(self.tree.snapshot(), self.oracle)
            self._compare_counters()
        except AssertionError:
            if self._is_doubtful():
                raise RoundingTie from None
            raise

    def _compare_counters(self) -> None:
        counters, oracle = self.tree.counters(), self.oracle
        assert counters.events == oracle.events
        assert counters.weight == pytest.approx(oracle.weight)
        for name in (
            "candidate_checks", "reevaluations", "splits_replaced", "thresholds_moved",
            "subtrees_collapsed",
        ):  # fmt: skip
            assert getattr(counters, name) == getattr(oracle, name), name
        assert counters.split_attempts == oracle.attempts
        assert counters.no_split == oracle.no_split
        assert counters.pure_checks == oracle.pure_checks
        assert counters.attribute_evaluations == oracle.attribute_evaluations
        assert counters.audited_splits == oracle.audited_splits
        assert counters.leaves_deactivated == oracle.deactivated
        assert counters.leaves_reactivated == oracle.reactivated
        assert counters.memory_checks == oracle.memory_checks
        assert counters.splits_bound == sum(s.kind == "bound" for s in oracle.splits)
        assert counters.splits_tie == sum(s.kind == "tie" for s in oracle.splits)

    def compare_predictions(self, rows: Iterable[list[object]]) -> None:
        """Same class and probabilities for unlabelled rows; nothing is learned by asking."""
        snapshot = self.tree.snapshot()
        before = self.tree.hash()
        for values in rows:
            batch = snapshot.encode([values])
            row = self._plain_row(batch)
            expected = self.oracle.probabilities(row)
            given = snapshot.probabilities(batch)[0]
            if self._is_doubtful() and given[: len(expected)] != pytest.approx(expected, rel=1e-6):
                raise RoundingTie
            assert given[: len(expected)] == pytest.approx(expected, rel=1e-6, abs=1e-9)
            assert sum(given[len(expected) :]) == 0.0
            if not self._is_toss_up(expected):
                assert snapshot.predict(batch)[0] == self.oracle.predict(row)
        assert self.tree.hash() == before

    def _is_toss_up(self, weights: list[float]) -> bool:
        """The two largest numbers are equal up to rounding; counts that are equal are so."""
        top = sorted(weights, reverse=True)[:2]
        if len(top) < 2 or (top[0] == top[1] and self.oracle.options.leaf_predictor == "mc"):
            return False
        return top[0] - top[1] < DOUBT * max(1.0, top[0])

    def compare_splits(self) -> None:
        """Same structural changes in the same order, with the same numbers."""
        names = [feature.name for feature in self.encoder.schema.features]
        changes = self.tree.take_splits()
        records = [change for change in changes if change.kind not in ACTIVITY]
        if self._is_doubtful() and len(records) != len(self.oracle.splits):
            raise RoundingTie
        assert len(records) == len(self.oracle.splits)
        told = [(c.event, c.node, c.kind) for c in changes if c.kind in ACTIVITY]
        if not self._is_doubtful():
            assert sorted(told) == sorted(self.oracle.history.activity)
        for ours, forecast in zip(records, self.oracle.history.forecasts, strict=True):
            if max(ours.forecast, forecast) < OUT_OF_SIGHT:
                assert ours.forecast == pytest.approx(forecast, rel=WEIGHTS)
        for ours, theirs in zip(records, self.oracle.splits, strict=True):
            assert (ours.event, ours.node, ours.depth) == (theirs.event, theirs.node, theirs.depth)
            assert (ours.kind, ours.feature) == (theirs.kind, names[theirs.feature])
            for field in ("n", "merit", "second_merit", "bound", "delay"):
                expected = getattr(theirs, field)
                assert getattr(ours, field) == pytest.approx(expected, rel=1e-9, abs=1e-9), field


def compare_trees(snapshot: Snapshot, oracle: OracleTree) -> None:
    """Node by node; `AssertionError` names the first difference."""
    views = {view.id: view for view in snapshot.walk()}
    assert views.keys() == oracle.nodes.keys()
    codes = {label: code for code, label in enumerate(snapshot.classes)}
    votes = votes_below(oracle)
    for name, node in oracle.nodes.items():
        view = views[name]
        where = f"node {name} after event {oracle.events}"
        assert (view.parent, view.depth) == (node.parent, node.depth), where
        assert view.created_at == oracle.history.created[name], where
        assert view.age_events == oracle.events - view.created_at, where
        if isinstance(node, Split):
            compare_test(view, snapshot, node, where)
            compare_facts(view, snapshot, oracle.history.facts[name], where)
        else:
            assert (view.kind, view.feature, view.children) == ("leaf", None, ()), where
            assert view.split is None, where
            assert view.active == node.active, where
            assert view.n == pytest.approx(node.n, rel=RELATIVE), where
        given = {codes[label]: weight for label, weight in view.distribution.items()}
        for k in given.keys() | votes[name].keys():
            expected = pytest.approx(votes[name].get(k, 0.0), rel=WEIGHTS, abs=WEIGHTS)
            assert given.get(k, 0.0) == expected, where


def compare_facts(view: NodeView, snapshot: Snapshot, fact: Fact, where: str) -> None:
    """Same reason and numbers; the same runner-up, unless rounding chose it."""
    assert view.split is not None, where
    assert (view.split.reason, view.split.event) == (fact.reason, fact.event), where
    for name in ("merit", "second_merit", "bound", "n"):
        close = pytest.approx(getattr(fact, name), rel=RELATIVE, abs=RELATIVE)
        assert getattr(view.split, name) == close, f"{where}: {name}"
    if not fact.is_second_doubtful:
        named = view.split.second and view.split.second.split(" ")[0]
        second = None if fact.second is None else snapshot.schema.features[fact.second].name
        assert named == second, where


def votes_below(oracle: OracleTree) -> dict[int, dict[int, float]]:
    """For each node the votes of its leaves."""
    votes: dict[int, dict[int, float]] = {}
    for name, node in sorted(oracle.nodes.items(), reverse=True):
        if isinstance(node, Leaf):
            votes[name] = node.votes()
        else:
            votes[name] = merged(votes[child] for child in node.children.values())
    return votes


def compare_test(view: NodeView, snapshot: Snapshot, node: Split, where: str) -> None:
    """Same test, and the same child on every branch."""
    feature = snapshot.schema.features[node.feature]
    assert (view.feature, view.kind) == (feature.name, OF_KIND[node.kind]), where
    if node.kind == "multiway":
        keys = sorted(key for key in node.children if key != OTHER)
        assert view.values == tuple(feature.values[key] for key in keys), where
        keys += [OTHER] if OTHER in node.children else []
        assert view.children == tuple(node.children[key] for key in keys), where
        return
    assert view.children == (node.children[0], node.children[1]), where
    if node.threshold is not None:
        close = pytest.approx(node.threshold, rel=RELATIVE, abs=1e-300)
        assert view.threshold == close, where
    elif node.kind == "equal":
        assert view.values == (feature.values[node.values[0]],), where
    elif node.kind == "subset":
        assert set(view.values) == {feature.values[v] for v in node.values}, where
