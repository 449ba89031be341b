"""What every variant must hold, tested over the registry itself."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learner import (
    VARIANTS,
    Batch,
    Encoder,
    Feature,
    Kind,
    NodeView,
    ParamsError,
    Schema,
    StreamingTree,
)
from tests.learner.concepts import Concept

Labels = npt.NDArray[np.int32]
EAGER: dict[str, Any] = {"n_min": 20.0, "delta": 0.05, "tau": 0.2}
# What keeps a variant's own defaults from growing a small tree in a few events.
PATIENT: dict[str, dict[str, Any]] = {
    "streamtree": {"n_first": 20.0, "stop_depth": 0, "stop_purity": 0.0, "stop_share": 0.0},
}
# The memory bound and the queues would own the same memory.
WITHOUT_QUEUES: dict[str, Any] = {"queue_bytes": 0}
MIXED = Concept(seed=3, numeric=2, nominal=2, sparse=1, classes=3, missing=0.1, declared=False)
EVENTS = 1200

pytestmark = pytest.mark.parametrize("variant", list(VARIANTS))


def fresh(variant: str, schema: Schema | None = None, **params: Any) -> StreamingTree:
    """An untaught tree that splits early."""
    return StreamingTree(Encoder(schema or MIXED.schema()), variant, **eager(variant, **params))


def eager(variant: str, **params: Any) -> dict[str, Any]:
    """Parameters that split early."""
    return {**EAGER, **PATIENT.get(variant, {}), **params}


def encoded(tree: StreamingTree, concept: Concept, count: int) -> tuple[Batch, Labels]:
    """Events in the codes of the tree's encoder."""
    rows, labels, _ = zip(*concept.events(count), strict=True)
    return tree.encoder.encode(rows), tree.encoder.encode_labels(labels)


def teach(tree: StreamingTree, batch: Batch, y: Labels, cuts: Sequence[int]) -> None:
    """Learn the batch in the pieces that `cuts` make of it."""
    edges = sorted({0, *cuts, len(y)})
    for start, stop in itertools.pairwise(edges):
        tree.learn(batch.part(start, stop), y[start:stop])


def grown(variant: str, **params: Any) -> StreamingTree:
    """A tree with a few dozen nodes."""
    tree = fresh(variant, **params)
    tree.learn(*encoded(tree, MIXED, EVENTS))
    return tree


def numbers(count: int, columns: int = 2, seed: int = 0) -> tuple[npt.NDArray[np.float64], Labels]:
    """A dense matrix and two classes that its first column separates in part."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(count, columns))
    noisy = matrix[:, 0] + 0.5 * rng.normal(size=count) > 0.2
    return matrix, noisy.astype(np.int32)


def numeric_schema(columns: int = 2) -> Schema:
    return Schema(tuple(Feature(f"x{i}", Kind.NUMERIC) for i in range(columns)), ("no", "yes"))


def test_same_events_give_the_same_bytes(variant: str) -> None:
    first, second = grown(variant), grown(variant)

    assert first.shape().nodes > 10
    assert first.to_bytes() == second.to_bytes()
    assert first.hash() == second.hash()


@settings(max_examples=15)
@given(cuts=st.lists(st.integers(1, EVENTS - 1), max_size=30))
def test_batch_size_does_not_change_the_tree(variant: str, cuts: list[int]) -> None:
    tree = fresh(variant)

    teach(tree, *encoded(tree, MIXED, EVENTS), cuts)

    assert tree.to_bytes() == grown(variant).to_bytes()


def test_encoding_event_by_event_gives_the_same_tree_as_all_at_once(variant: str) -> None:
    """Codes of values, tokens and classes must not depend on how events are batched."""
    concept = Concept(seed=4, numeric=1, nominal=2, sparse=2, classes=3, declared=False)
    at_once, one_by_one = (fresh(variant, concept.schema()) for _ in range(2))

    at_once.learn(*encoded(at_once, concept, 400))
    for row, label, _ in concept.events(400):
        encoder = one_by_one.encoder
        one_by_one.learn(encoder.encode([row]), encoder.encode_labels([label]))

    assert one_by_one.hash() == at_once.hash()


@settings(max_examples=10)
@given(stop=st.integers(0, EVENTS))
def test_saved_and_restored_tree_goes_on_as_if_nothing_happened(variant: str, stop: int) -> None:
    tree = fresh(variant, leaf_predictor="nba")
    batch, y = encoded(tree, MIXED, EVENTS)
    tree.learn(batch.part(0, stop), y[:stop])

    restored = StreamingTree.from_bytes(tree.to_bytes())
    for twin in (tree, restored):
        twin.learn(batch.part(stop, EVENTS), y[stop:])

    assert restored.hash() == tree.hash()
    assert restored.snapshot().id == tree.snapshot().id


def test_snapshot_does_not_move_while_learning_goes_on(variant: str) -> None:
    tree = fresh(variant, leaf_predictor="nb")
    batch, y = encoded(tree, MIXED, EVENTS)
    tree.learn(batch.part(0, 600), y[:600])
    snapshot = tree.snapshot()
    before = (list(snapshot.walk()), snapshot.probabilities(batch), snapshot.leaves(batch))

    tree.learn(batch.part(600, EVENTS), y[600:])

    assert snapshot.events == 600
    assert list(snapshot.walk()) == before[0]
    np.testing.assert_array_equal(snapshot.probabilities(batch), before[1])
    np.testing.assert_array_equal(snapshot.leaves(batch), before[2])


@pytest.mark.parametrize("predictor", ["mc", "nb", "nba"])
def test_predicting_never_changes_the_tree(variant: str, predictor: str) -> None:
    """Unknown values, tokens and gaps must not create branches (a peer's bug for months)."""
    tree = grown(variant, leaf_predictor=predictor)
    before, shape = tree.hash(), tree.shape()
    snapshot = tree.snapshot()
    unknown = {Kind.NUMERIC: 1e9, Kind.NOMINAL: "never met", Kind.SPARSE: ["never met"]}
    odd = [[unknown[feature.kind] for feature in snapshot.schema.features]]
    gaps: list[list[object]] = [[None] * len(odd[0])]

    snapshot.evaluate(snapshot.encode(odd + gaps))
    snapshot.path(snapshot.encode(odd))

    assert tree.hash() == before
    assert tree.shape() == shape
    assert tree.snapshot().schema == snapshot.schema


@pytest.mark.parametrize("unseen", ["other", "grow"])
@pytest.mark.parametrize("new_leaf", ["separate", "inherit", "empty"])
@pytest.mark.parametrize("predictor", ["mc", "nb", "nba"])
def test_prediction_before_learning_is_what_a_snapshot_would_say(
    variant: str, predictor: str, new_leaf: str, unseen: str
) -> None:
    chosen = {"leaf_predictor": predictor, "new_leaf": new_leaf, "unseen": unseen}
    if new_leaf == "inherit" and variant in ("efdt", "streamtree"):
        with pytest.raises(ParamsError, match="own events"):
            fresh(variant, **chosen)
        return
    tree = fresh(variant, **chosen)
    batch, y = encoded(tree, MIXED, 300)
    asked = []
    predicted = np.full(300, -9, np.int32)
    for row in range(300):
        asked.append(int(tree.snapshot().predict(batch.part(row, row + 1))[0]))
        tree.learn(batch.part(row, row + 1), y[row : row + 1], None, predicted[row : row + 1])

    assert predicted.tolist() == asked


def test_one_class_only_never_splits(variant: str) -> None:
    tree = fresh(variant, numeric_schema())
    matrix, y = numbers(500)

    tree.learn(matrix, np.zeros_like(y))

    assert tree.shape().nodes == 1
    assert tree.counters().split_attempts == 0
    assert tree.counters().pure_checks == (0 if variant == "imac" else 25)


@pytest.mark.parametrize("constant", [0.0, 7.5, -1e300])
def test_constant_feature_is_never_chosen(variant: str, constant: float) -> None:
    tree = fresh(variant, numeric_schema(3))
    matrix, y = numbers(2000, 3)
    matrix[:, 1] = constant

    tree.learn(matrix, y)

    assert tree.shape().nodes > 1
    assert "x1" not in {split.feature for split in tree.take_splits()}


def test_feature_that_is_always_missing_is_never_chosen(variant: str) -> None:
    tree = fresh(variant, numeric_schema(3))
    matrix, y = numbers(2000, 3)
    matrix[:, 1] = np.nan

    tree.learn(matrix, y)

    assert tree.shape().nodes > 1
    assert "x1" not in {split.feature for split in tree.take_splits()}


@pytest.mark.parametrize("predictor", ["mc", "nb", "nba"])
def test_event_with_nothing_known_still_reaches_a_leaf(variant: str, predictor: str) -> None:
    tree = grown(variant, leaf_predictor=predictor)
    snapshot = tree.snapshot()
    width = len(snapshot.schema.features)
    nothing = tree.encoder.encode([[None] * width])

    tree.learn(nothing, np.zeros(1, np.int32))
    leaf = tree.snapshot().leaves(nothing)[0]

    views = {view.id: view for view in tree.snapshot().walk()}
    assert views[leaf].children == ()
    assert tree.counters().events == EVENTS + 1
    assert snapshot.probabilities(nothing).sum() == pytest.approx(1.0)


def test_infinite_values_are_missing(variant: str) -> None:
    tree = fresh(variant, numeric_schema(1))
    rows: list[list[object]] = [[float("inf")], [float("-inf")], [1.0]]

    tree.learn(tree.encoder.encode(rows), np.array([0, 1, 0], np.int32))

    assert tree.encoder.rejected_values == 2


def test_late_classes_are_learned_and_get_probabilities(variant: str) -> None:
    tree = fresh(variant, Schema((Feature("x", Kind.NUMERIC),)))
    for start in range(0, 60, 2):
        labels = [f"c{start}", f"c{start + 1}"] * 20
        rows = [[float(start + i % 2)] for i in range(40)]
        tree.learn(tree.encoder.encode(rows), tree.encoder.encode_labels(labels))

    snapshot = tree.snapshot()
    chances = snapshot.probabilities(snapshot.encode([[59.0]]))

    assert len(snapshot.classes) == 60
    assert chances.shape == (1, 60)
    assert chances.sum() == pytest.approx(1.0)
    assert chances[0, 59] > 0.0


@pytest.mark.parametrize("unseen", ["other", "grow"])
def test_late_nominal_values_are_learned(variant: str, unseen: str) -> None:
    tree = fresh(variant, Schema((Feature("v", Kind.NOMINAL),)), unseen=unseen)
    for first in (0, 2, 40):
        values = [f"v{first + i % 2}" for i in range(100)]
        labels = ["even", "odd"] * 50
        tree.learn(tree.encoder.encode([[v] for v in values]), tree.encoder.encode_labels(labels))

    snapshot = tree.snapshot()
    answers = snapshot.predict(snapshot.encode([["v0"], ["v1"]]))

    assert [snapshot.classes[code] for code in answers] == ["even", "odd"]
    assert snapshot.probabilities(snapshot.encode([["v41"], ["v99"]])).sum() == pytest.approx(2.0)


def test_nominal_value_beyond_the_limit_counts_as_missing(variant: str) -> None:
    encoder = Encoder(Schema((Feature("v", Kind.NOMINAL),)), max_values=2)
    tree = StreamingTree(encoder, variant, **eager(variant))
    values = [[f"v{i % 5}"] for i in range(200)]

    tree.learn(encoder.encode(values), encoder.encode_labels([i % 5 == 0 for i in range(200)]))

    assert encoder.overflowed_values == 120
    assert tree.counters().events == 200


def test_capacity_of_nodes_values_and_tokens_may_be_crossed(variant: str) -> None:
    schema = Schema((Feature("v", Kind.NOMINAL), Feature("w", Kind.SPARSE)))
    tree = fresh(variant, schema, n_min=5.0, n_first=5.0, nominal_split="binary", tau=0.4)
    rng = np.random.default_rng(1)
    draws = rng.integers(0, 300, size=(6000, 2))
    rows = [[f"v{v}", [f"t{t}", f"t{t + 1}"]] for v, t in draws.tolist()]
    labels = [str((v * 7 + t) % 3) for v, t in draws.tolist()]

    tree.learn(tree.encoder.encode(rows), tree.encoder.encode_labels(labels))

    assert tree.shape().nodes > 300
    assert len(list(tree.snapshot().walk())) == tree.shape().nodes
    assert tree.counters().events == 6000


def test_features_that_appear_late_are_missing_before(variant: str) -> None:
    """With a growing schema the weight before a feature's first value is not its own."""
    encoder = Encoder(Schema((Feature("a", Kind.NUMERIC),)), growing=True)
    late = {"n_min": 400.0, "n_first": 400.0, "leaf_predictor": "nb"}
    tree = StreamingTree(encoder, variant, **eager(variant, **late))
    rng = np.random.default_rng(2)
    early = [{"a": float(x)} for x in rng.normal(size=200)]
    late = [{"a": float(x), "b": float(i % 2)} for i, x in enumerate(rng.normal(size=200))]

    for records in (early, late):
        for record in records:
            encoder.admit(record)
        labels = [int(r.get("b", i % 2)) for i, r in enumerate(records)]
        tree.learn(encoder.encode_records(records), encoder.encode_labels(labels))

    (split,) = tree.take_splits()
    assert split.feature == "b"
    assert split.merit == pytest.approx(0.5, abs=0.01)


def test_probabilities_cover_all_known_classes_and_sum_to_one(variant: str) -> None:
    for predictor in ("mc", "nb", "nba"):
        for count in (0, 1, 10, 300):
            schema = replace(MIXED.schema(), classes=("c2", "c7"))
            tree = fresh(variant, schema, leaf_predictor=predictor)
            batch, y = encoded(tree, MIXED, 300)
            tree.learn(batch.part(0, count), y[:count])

            chances = tree.snapshot().probabilities(batch)

            assert chances.shape == (300, len(tree.snapshot().classes))
            assert np.all(chances >= 0.0)
            np.testing.assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-9)


def test_class_is_never_an_attribute(variant: str) -> None:
    """Labels without relation to the features cannot be predicted better than by chance."""
    tree = fresh(variant, numeric_schema())
    matrix, _ = numbers(5000)
    y = np.random.default_rng(9).integers(0, 2, 5000).astype(np.int32)
    predicted = np.empty(5000, np.int32)

    tree.learn(matrix, y, None, predicted)

    assert {split.feature for split in tree.take_splits()} <= {"x0", "x1"}
    assert np.mean(predicted == y) < 0.55


def test_event_one_million_is_like_any_other(variant: str) -> None:
    """A peer stopped there: every period of checks is crossed."""
    bounded = {"max_memory_bytes": 20_000, "memory_check_every": 10_000, **WITHOUT_QUEUES}
    tree = StreamingTree(Encoder(numeric_schema()), variant, **bounded)
    matrix, y = numbers(50_001)

    for _ in range(20):
        tree.learn(matrix, y)

    assert tree.counters().events == 1_000_020
    assert tree.counters().memory_checks == 100
    assert tree.shape().nodes > 1


def test_tree_deeper_than_the_recursion_limit_can_be_used(variant: str) -> None:
    """Sorted values, two events a level: every split sends the rest of the stream to the right."""
    depth = max(1500, sys.getrecursionlimit() + 100)
    tree = fresh(variant, numeric_schema(1), n_min=2.0, n_first=2.0, delta=0.9)
    values = np.arange(2.0 * depth + 2.0)
    y = (np.arange(len(values)) % 2).astype(np.int32)

    tree.learn(values.reshape(-1, 1), y)
    snapshot = tree.snapshot()

    assert tree.shape().depth >= depth
    last = snapshot.encode([[values[-1]]])
    assert len(snapshot.path(last)) >= depth
    assert sum(1 for _ in snapshot.walk()) == tree.shape().nodes
    assert snapshot.predict(last)[0] == y[-1]
    assert StreamingTree.from_bytes(tree.to_bytes()).hash() == tree.hash()


def test_weight_two_is_the_same_as_every_event_twice(variant: str) -> None:
    concept = Concept(seed=8, numeric=0, nominal=4, classes=2, values=3)
    if variant == "imac":
        pytest.skip("imac looks after every event, so also between the two halves of a pair")
    heavy, doubled = (fresh(variant, concept.schema()) for _ in range(2))
    batch, y = encoded(heavy, concept, 600)
    twice = np.repeat(batch.nominal, 2, axis=0)
    copies = Batch(np.empty((1200, 0)), twice, np.zeros(1201, np.int64), batch.sparse_index)

    heavy.learn(batch, y, np.full(600, 2.0))
    doubled.learn(copies, np.repeat(y, 2))

    assert heavy.shape().nodes > 5
    assert list(heavy.snapshot().walk()) == list(map(counted_in_pairs, doubled.snapshot().walk()))


def counted_in_pairs(view: NodeView) -> NodeView:
    """Its moments in pairs of events."""
    split = view.split and view.split._replace(event=view.split.event // 2)
    created, age = view.created_at // 2, view.age_events // 2
    return view._replace(created_at=created, age_events=age, split=split)


def test_audit_never_changes_the_tree(variant: str) -> None:
    watched = grown(variant, audit_fraction=1.0, audit_step=1)
    unwatched = grown(variant, audit_fraction=0.0)

    assert list(watched.snapshot().walk()) == list(unwatched.snapshot().walk())
    delays = [split.delay for split in watched.take_splits()]
    assert min(delays) >= 0.0
    assert {split.delay for split in unwatched.take_splits()} == {-1.0}


def test_leaf_predictor_does_not_change_the_structure(variant: str) -> None:
    trees = [grown(variant, leaf_predictor=name) for name in ("mc", "nb", "nba")]

    tests = [[(v.id, v.test, v.children) for v in tree.snapshot().walk()] for tree in trees]

    assert tests[0] == tests[1] == tests[2]


def test_tree_under_a_tiny_memory_bound_still_predicts(variant: str) -> None:
    tree = grown(variant, max_memory_bytes=1, memory_check_every=50, **WITHOUT_QUEUES)

    assert tree.counters().leaves_deactivated > 0
    assert tree.shape().active_leaves < tree.shape().leaves
    batch, _ = encoded(tree, MIXED, 50)
    np.testing.assert_allclose(tree.snapshot().probabilities(batch).sum(axis=1), 1.0)
