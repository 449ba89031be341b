"""The invariants of VHT: spread over workers it is the same tree, and late decisions are told."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learner import (
    Batch,
    Encoder,
    InProcess,
    LearnerError,
    ParamsError,
    SnapshotError,
    StreamingTree,
    Vertical,
    VerticalTree,
    WorkerLost,
    Workers,
)
from learner.kernels.tree import LEAF, NODES
from learner.local_statistics import LocalStatistics
from learner.message import Done, Known
from tests.learner.concepts import Concept
from tests.learner.simulated_workers import Simulated
from tests.learner.twins import Twins, compare_trees
from tests.oracle.leaf import Options
from tests.oracle.vht import VhtOracle

EAGER: dict[str, Any] = {"n_min": 20.0, "delta": 0.05, "tau": 0.2}
EVENTS = 1200
MIXED = Concept(seed=3, numeric=3, nominal=3, sparse=2, classes=3, missing=0.1, declared=False)

concepts = st.builds(
    Concept,
    seed=st.integers(0, 10_000),
    numeric=st.integers(0, 3),
    nominal=st.integers(1, 3),
    sparse=st.integers(0, 2),
    classes=st.integers(2, 4),
    missing=st.sampled_from([0.0, 0.1]),
    weights=st.sampled_from(["one", "real"]),
    late_classes=st.booleans(),
    declared=st.booleans(),
)
options = st.fixed_dictionaries(
    {
        "nominal_split": st.sampled_from(["multiway", "binary", "subset"]),
        "unseen": st.sampled_from(["other", "grow"]),
        "new_leaf": st.sampled_from(["separate", "inherit", "empty"]),
        "criterion": st.sampled_from(["info_gain", "gini"]),
        "null_merit": st.sampled_from(["zero", "minus_inf"]),
        "bound_n": st.sampled_from(["weight", "effective"]),
    }
)


class Told(NamedTuple):
    """All that can be seen of a tree that has learned."""

    hash: str
    predicted: list[int]
    splits: list[Any]
    counters: Any


def local(concept: Concept, **params: Any) -> StreamingTree:
    return StreamingTree(Encoder(concept.schema()), "vht", **EAGER, **params)


def spread(
    concept: Concept, vertical: Vertical, workers: Workers | None = None, **params: Any
) -> VerticalTree:
    return VerticalTree(local(concept, **params), workers or InProcess(), vertical)


def teach(
    tree: StreamingTree, concept: Concept, cuts: Sequence[int] = (), events: int = EVENTS
) -> Told:
    """Learn the concept's events in the pieces that the cuts make of them."""
    rows, labels, weights = zip(*concept.events(events), strict=True)
    predicted = np.full(events, -9, np.int32)
    for start, stop in itertools.pairwise(sorted({0, *cuts, events})):
        batch = tree.encoder.encode(rows[start:stop])
        y = tree.encoder.encode_labels(labels[start:stop])
        w = None if concept.weights == "one" else np.array(weights[start:stop])
        tree.learn(batch, y, w, predicted[start:stop])
    return Told(tree.hash(), predicted.tolist(), tree.take_splits(), tree.counters())


# sync --------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    concept=concepts,
    params=options,
    workers=st.sampled_from([1, 2, 3, 8, 64]),
    cuts=st.lists(st.integers(1, 799), max_size=8),
)
def test_in_sync_any_number_of_workers_learns_the_tree_of_one_thread(
    concept: Concept, params: dict[str, Any], workers: int, cuts: list[int]
) -> None:
    expected = teach(local(concept, **params), concept, cuts, 800)

    assert teach(spread(concept, Vertical(workers), **params), concept, cuts, 800) == expected


@settings(max_examples=40)
@given(seed=st.integers(0, 1 << 30), workers=st.integers(1, 4), haste=st.floats(0.0, 0.9))
def test_in_sync_no_schedule_of_messages_changes_the_tree(
    seed: int, workers: int, haste: float
) -> None:
    simulated = Simulated(seed, haste=haste, repeats=0.2)

    told = teach(spread(MIXED, Vertical(workers), simulated), MIXED, [600])

    assert told == teach(local(MIXED), MIXED, [600])


def test_the_tree_in_question_has_grown_by_every_kind_of_test() -> None:
    tree = local(MIXED)
    teach(tree, MIXED)

    kinds = {view.kind for view in tree.snapshot().walk()}

    assert tree.shape().nodes > 20
    assert {"numeric", "multiway"} <= kinds


def test_a_saved_model_goes_on_with_another_number_of_workers() -> None:
    tree: StreamingTree = spread(MIXED, Vertical(3))
    rows, labels, _ = zip(*MIXED.events(EVENTS), strict=True)
    for start, workers in ((0, 2), (300, 1), (600, 5), (900, 0)):
        part = slice(start, start + 300)
        batch, y = tree.encoder.encode(rows[part]), tree.encoder.encode_labels(labels[part])
        tree.learn(batch, y)
        restored = StreamingTree.from_bytes(tree.to_bytes())
        tree = VerticalTree(restored, InProcess(), Vertical(workers)) if workers else restored

    alone = local(MIXED)
    teach(alone, MIXED, [300, 600, 900])
    assert tree.hash() == alone.hash()


def test_features_that_come_later_go_to_the_last_worker() -> None:
    rows: list[dict[str, Any]] = [{"a": float(i % 7), "b": "xyz"[i % 3]} for i in range(300)]
    rows += [
        {"a": float(i % 7), "b": "xyz"[i % 3], "c": float(i % 2), "d": "uv"[i % 2], "e": [i % 3]}
        for i in range(300)
    ]
    labels = [i % 2 for i in range(600)]
    told = []
    for workers in (0, 1, 2, 3):
        encoder = Encoder(Concept(numeric=1, nominal=1).schema(), growing=True)
        tree = StreamingTree(encoder, "vht", **EAGER)
        if workers:
            tree = VerticalTree(tree, InProcess(), Vertical(workers))
        for start in range(0, 600, 100):
            part = rows[start : start + 100]
            for record in part:
                encoder.admit(record)
            batch = encoder.encode_records(part)
            tree.learn(batch, encoder.encode_labels(labels[start : start + 100]))
        told.append((tree.hash(), tree.shape().nodes))
    assert told[0][1] > 1
    assert set(told) == {told[0]}


def test_snapshots_and_sizes_are_those_of_the_local_tree() -> None:
    alone, together = local(MIXED), spread(MIXED, Vertical(2))
    teach(alone, MIXED)
    teach(together, MIXED)
    rows = [row for row, _, _ in MIXED.events(200)]
    one, other = alone.snapshot(), together.snapshot()

    assert list(one.walk()) == list(other.walk())
    np.testing.assert_array_equal(
        one.probabilities(one.encode(rows)), other.probabilities(other.encode(rows))
    )
    assert alone.memory_bytes() == together.memory_bytes()
    assert alone.shape() == together.shape()


def test_why_a_leaf_has_not_split_is_told_from_the_statistics_of_all_workers() -> None:
    alone, together = local(MIXED), spread(MIXED, Vertical(3))
    teach(alone, MIXED)
    teach(together, MIXED)
    leaves = [view.id for view in alone.snapshot().walk() if view.kind == "leaf"]

    for leaf in leaves[:5]:
        assert together.copy_leaf(leaf).prospect() == alone.copy_leaf(leaf).prospect()


# statistics --------------------------------------------------------------------------------------


@settings(max_examples=15)
@given(seed=st.integers(0, 1 << 30), mode=st.sampled_from(["sync", "wok", "wk"]))
def test_after_a_drop_no_worker_holds_anything_of_the_leaf(seed: int, mode: str) -> None:
    simulated = Simulated(seed)
    tree = spread(MIXED, Vertical(3, mode, lag=50, keep=30), simulated)
    teach(tree, MIXED)
    nodes = tree._tree.node[: int(tree._tree.counts[NODES])]

    for worker in simulated.workers:
        held = worker.state()["node"]["slot"][: len(nodes)]
        np.testing.assert_array_equal(held, nodes["slot"])
    assert ((nodes["slot"] >= 0) == (nodes["kind"] == LEAF)).all()


def test_columns_of_all_workers_together_are_those_of_the_tree() -> None:
    sizes = []
    for workers in (1, 2, 4):
        simulated = Simulated(0)
        teach(spread(Concept(numeric=40, nominal=8), Vertical(workers), simulated), MIXED_WIDE)
        columns = [worker.state()["moments"].shape[3] for worker in simulated.workers]
        sizes.append((sum(columns), max(columns)))
    assert sizes == [(40, 40), (40, 20), (40, 10)]


MIXED_WIDE = Concept(numeric=40, nominal=8)


def test_a_message_that_is_missing_is_noticed_and_one_that_comes_twice_is_not_obeyed() -> None:
    simulated = Simulated(0)
    tree = spread(MIXED, Vertical(2), simulated)
    teach(tree, MIXED)
    worker: LocalStatistics = simulated.workers[0]
    counted, last = worker.events, tree.vertical_counters().messages

    assert worker.take(last, Done(1)) == []
    assert worker.events == counted
    with pytest.raises(WorkerLost, match=f"got message {last + 2}; expected {last + 1}"):
        worker.take(last + 2, Done(1))


# modes -------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(concept=concepts, keep=st.sampled_from([0, 10]), mode=st.sampled_from(["wk", "wok"]))
def test_without_delay_every_mode_is_sync(concept: Concept, keep: int, mode: str) -> None:
    late = spread(concept, Vertical(2, mode, lag=0, keep=keep))
    told, expected = teach(late, concept), teach(local(concept), concept)

    assert told[1:] == expected[1:]
    assert late.vertical_counters().lost == 0


@settings(max_examples=40)
@given(
    seed=st.integers(0, 1 << 30),
    mode=st.sampled_from(["wok", "wk"]),
    lag=st.sampled_from([0, 1, 7, 60, 400]),
    keep=st.sampled_from([0, 5, 100]),
    workers=st.integers(1, 4),
    cuts=st.lists(st.integers(1, EVENTS - 1), max_size=5),
)
def test_at_a_fixed_lag_neither_schedule_nor_workers_nor_batches_change_the_tree(
    seed: int, mode: str, lag: int, keep: int, workers: int, cuts: list[int]
) -> None:
    vertical = Vertical(workers, mode, lag, keep, keep_most=150)
    told = teach(spread(MIXED, vertical, Simulated(seed, repeats=0.2)), MIXED, cuts)

    assert told == teach(spread(MIXED, vertical._replace(workers=2)), MIXED)


@settings(max_examples=25)
@given(
    stop=st.integers(1, EVENTS - 1),
    mode=st.sampled_from(["wok", "wk"]),
    keep=st.sampled_from([0, 5, 100]),
    workers=st.integers(1, 3),
)
def test_decisions_under_way_are_saved_and_restored(
    stop: int, mode: str, keep: int, workers: int
) -> None:
    vertical = Vertical(2, mode, lag=90, keep=keep, keep_most=200)
    whole = spread(MIXED, vertical)
    teach(whole, MIXED, [stop])
    broken: StreamingTree = spread(MIXED, vertical)
    rows, labels, _ = zip(*MIXED.events(EVENTS), strict=True)
    for part in (slice(0, stop), slice(stop, EVENTS)):
        batch, y = broken.encoder.encode(rows[part]), broken.encoder.encode_labels(labels[part])
        broken.learn(batch, y)
        restored = StreamingTree.from_bytes(broken.to_bytes())
        broken = VerticalTree(restored, InProcess(), vertical._replace(workers=workers))

    assert broken.hash() == whole.hash()


class LateTwins(Twins):
    """A tree with workers and the slow twin of its mode."""

    def __init__(self, concept: Concept, vertical: Vertical) -> None:
        super().__init__(concept.schema(), Options(**EAGER, audit_fraction=0.0))
        self.tree = VerticalTree(
            StreamingTree(self.encoder, "vht", **EAGER), Simulated(1), vertical
        )
        kinds = [kind.value for kind in self.kinds]
        self.late = VhtOracle(
            kinds, len(concept.schema().classes), Options(**EAGER, audit_fraction=0.0),
            vertical.mode, vertical.lag, vertical.keep, vertical.keep_most,
        )  # fmt: skip
        self.oracle = self.late


@settings(max_examples=12)
@given(
    seed=st.integers(0, 1000),
    mode=st.sampled_from(["wok", "wk"]),
    lag=st.sampled_from([0, 30, 200]),
    keep=st.sampled_from([0, 8, 1000]),
)
def test_modes_do_what_their_slow_twin_does(seed: int, mode: str, lag: int, keep: int) -> None:
    concept = Concept(seed=seed, numeric=1, nominal=2, sparse=1, classes=3, missing=0.05)
    twins = LateTwins(concept, Vertical(2, mode, lag, keep, keep_most=120))
    for event in concept.events(700):
        values, label, w = event
        batch, row = twins.encode(values)
        y = twins.encoder.encode_labels([label])
        twins.tree.learn(batch, y, np.array([w]))
        twins.oracle.learn(row, int(y[0]), w)
        if twins.late.doubtful_ever:
            return
    compare_trees(twins.tree.snapshot(), twins.oracle)
    told = twins.tree.vertical_counters()
    assert told.lost == twins.late.lost
    assert told.kept == twins.late.kept
    assert told.replayed == twins.late.replayed
    assert told.buffered == twins.late.buffered
    assert told.waiting == len(twins.late.pending)
    assert twins.tree.counters().split_attempts == twins.late.attempts


def test_with_room_for_all_no_event_is_lost_and_without_any_some_are() -> None:
    told = {}
    for name, mode, keep in (("wok", "wok", 0), ("wk(0)", "wk", 0), ("wk(z)", "wk", 10**6)):
        tree = spread(MIXED, Vertical(2, mode, lag=100, keep=keep, keep_most=10**6))
        teach(tree, MIXED)
        told[name] = tree.vertical_counters()
    assert told["wok"].lost > told["wk(0)"].lost > told["wk(z)"].lost == 0
    assert told["wk(z)"].replayed > 0
    assert told["wk(0)"].kept == 0


def test_the_buffers_together_keep_to_their_bound() -> None:
    tree = spread(MIXED, Vertical(2, "wk", lag=200, keep=1000, keep_most=25))
    rows, labels, _ = zip(*MIXED.events(EVENTS), strict=True)
    most = 0
    for start in range(0, EVENTS, 10):
        batch = tree.encoder.encode(rows[start : start + 10])
        tree.learn(batch, tree.encoder.encode_labels(labels[start : start + 10]))
        most = max(most, tree.vertical_counters().buffered)
    assert most == 25
    assert tree.vertical_counters().lost > 0


# missing answers ---------------------------------------------------------------------------------


def test_a_missing_answer_never_splits_a_leaf() -> None:
    tree = spread(MIXED, Vertical(3), Simulated(5, silent=[1]))
    teach(tree, MIXED)

    assert tree.shape().nodes == 1
    assert tree.vertical_counters().unanswered == tree.counters().split_attempts > 10


def test_with_partial_answers_the_others_decide() -> None:
    tree = spread(MIXED, Vertical(3, partial=True), Simulated(5, silent=[1]))
    teach(tree, MIXED)

    assert tree.shape().nodes > 1
    assert tree.vertical_counters().unanswered > 0


# bad input ---------------------------------------------------------------------------------------


def test_parameters_that_do_not_go_with_workers_are_named_all_at_once() -> None:
    tree = local(MIXED, leaf_predictor="nba", numeric_observer="ordered")

    with pytest.raises(ParamsError) as caught:
        VerticalTree(tree, InProcess(), Vertical(0, "never", lag=-1))

    text = str(caught.value)
    for part in ("'leaf_predictor' is 'nba'", "'numeric_observer' is 'ordered'",
                 "workers is 0; expected at least 1", "mode is 'never'", "lag is -1"):  # fmt: skip
        assert part in text


def test_an_infinite_number_and_an_unknown_class_are_refused() -> None:
    tree = spread(Concept(numeric=2, nominal=0), Vertical(2))
    rows = np.array([[0.0, 1.0], [2.0, np.inf]])

    with pytest.raises(LearnerError, match="infinite number"):
        tree.learn(rows, np.array([0, 1]))
    with pytest.raises(LearnerError, match="class code 2; expected 0 to 1"):
        tree.learn(rows[:1], np.array([2]))


def test_a_model_with_decisions_under_way_needs_its_workers_and_its_mode() -> None:
    tree = spread(MIXED, Vertical(2, "wk", lag=500, keep=100))
    teach(tree, MIXED)
    assert tree.vertical_counters().waiting
    restored = StreamingTree.from_bytes(tree.to_bytes())

    with pytest.raises(LearnerError, match="decisions of workers under way"):
        restored.learn(Batch.part(_one_row(restored), 0, 1), np.array([0]))
    with pytest.raises(ParamsError, match="expected the same"):
        VerticalTree(restored, InProcess(), Vertical(2, "wk", lag=400, keep=100))


def _one_row(tree: StreamingTree) -> Batch:
    return tree.encoder.encode([row for row, _, _ in MIXED.events(1)])


def test_damaged_decisions_under_way_are_refused() -> None:
    from learner.archive import pack, unpack

    tree = spread(MIXED, Vertical(2, "wk", lag=500, keep=100))
    teach(tree, MIXED)
    named = unpack(tree.to_bytes())
    for name, place, value in (
        ("vht.questions", (0, 0), 10**6),
        ("vht.questions", (0, 5), 10**6),
        ("vht.kept_y", 0, 99),
        ("vht.kept_weights", 0, -1.0),
        ("vht.branch_counts", (0, 0), np.nan),
    ):
        if not named[name].size:
            continue
        damaged: npt.NDArray[Any] = named[name].copy()
        damaged[place] = value
        with pytest.raises(SnapshotError):
            StreamingTree.from_bytes(pack(named | {name: damaged}))


def test_what_is_known_is_told_in_full() -> None:
    assert Known._fields == ("classes", "numeric", "nominal", "values", "sparse", "tokens")
