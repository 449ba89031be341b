"""Streams of a few events whose tree can be computed by hand; quick without the compiler."""

from __future__ import annotations

import math

import numpy as np
import pytest

from learner import Encoder, Feature, Kind, Schema, StreamingTree, Value
from tests.learner.concepts import Concept
from tests.learner.twins import Twins
from tests.oracle.leaf import Options

EAGER = {"n_min": 1.0, "delta": 0.1, "tau": 0.0, "audit_fraction": 0.0}


def taught(
    features: list[Feature], events: list[tuple[list[object], Value]], **params: object
) -> StreamingTree:
    """A tree that has learned these events, with parameters that split at once."""
    tree = StreamingTree(Encoder(Schema(tuple(features))), "vfdt", **{**EAGER, **params})
    for row, label in events:
        tree.learn(tree.encoder.encode([row]), tree.encoder.encode_labels([label]))
    return tree


NOMINAL = Feature("colour", Kind.NOMINAL)
NUMERIC = Feature("size", Kind.NUMERIC)
WORDS = Feature("words", Kind.SPARSE)


def test_a_perfect_nominal_feature_splits_when_one_bit_beats_the_bound() -> None:
    tree = taught([NOMINAL], [(["red"], "a"), (["blue"], "b")])

    (split,) = tree.take_splits()
    assert (split.kind, split.feature, split.n) == ("bound", "colour", 2.0)
    assert split.merit == pytest.approx(1.0)
    assert split.bound == pytest.approx(math.sqrt(math.log(10.0) / 4.0))
    assert tree.shape().nodes == 3


def test_two_equal_features_wait_for_the_tie_and_take_the_first() -> None:
    """The radius sqrt(ln 10 / 2n) falls below 0.3 at n = 13."""
    features = [NOMINAL, Feature("shade", Kind.NOMINAL)]
    events: list[tuple[list[object], Value]] = [([i % 2, i % 2], i % 2) for i in range(14)]

    tree = taught(features, events, tau=0.3)

    (split,) = tree.take_splits()
    assert (split.kind, split.feature, split.n) == ("tie", "colour", 13.0)


def test_numeric_cut_is_the_lowest_grid_point_that_separates() -> None:
    events: list[tuple[list[object], Value]] = [
        ([0.0], "a"), ([1.0], "a"), ([9.0], "b"), ([10.0], "b")
    ]  # fmt: skip

    tree = taught([NUMERIC], events, n_min=4.0)

    root, small, large = tree.snapshot().walk()
    assert root.threshold == pytest.approx(20.0 / 11.0)
    assert {k: v for k, v in small.distribution.items() if v} == {"a": 2.0}
    assert {k: v for k, v in large.distribution.items() if v} == {"b": 2.0}


def test_missing_values_scale_the_gain_by_the_known_share() -> None:
    events: list[tuple[list[object], Value]] = [
        (["red"], "a"), (["blue"], "b"), ([None], "a"), ([None], "b")
    ]  # fmt: skip

    tree = taught([NOMINAL], events, n_min=4.0, delta=0.5)

    assert tree.take_splits()[0].merit == pytest.approx(0.5)


def test_a_token_of_a_sparse_feature_becomes_a_test() -> None:
    events: list[tuple[list[object], Value]] = [
        ([["good", "film"] if i % 2 else ["film"]], i % 2) for i in range(6)
    ]

    tree = taught([WORDS], events, n_min=6.0)

    root = next(tree.snapshot().walk())
    assert (root.kind, root.feature, root.values) == ("contains", "words", ("good",))
    assert tree.take_splits()[0].test.startswith("words contains ")


def test_empty_tree_answers_uniformly_and_names_the_first_class() -> None:
    tree = StreamingTree(Encoder(Schema((NUMERIC,), ("a", "b", "c", "d"))), "vfdt")
    snapshot = tree.snapshot()

    batch = snapshot.encode([[1.0], [None]])

    assert snapshot.probabilities(batch).tolist() == [[0.25] * 4] * 2
    assert snapshot.predict(batch).tolist() == [0, 0]


def test_tree_that_never_met_a_class_predicts_none() -> None:
    snapshot = StreamingTree(Encoder(Schema((NUMERIC,))), "vfdt").snapshot()

    batch = snapshot.encode([[1.0]])

    assert snapshot.predict(batch).tolist() == [-1]
    assert snapshot.probabilities(batch).shape == (1, 0)


def test_prediction_before_learning_is_written_event_by_event() -> None:
    tree = StreamingTree(Encoder(Schema((NUMERIC,))), "vfdt")
    y = tree.encoder.encode_labels(["a", "b", "b", "b"])
    predicted = np.full(4, -9, np.int32)

    tree.learn(tree.encoder.encode([[0.0]] * 4), y, None, predicted)

    assert predicted.tolist() == [-1, 0, 0, 1]


def test_missing_follows_the_heavier_child_in_training_and_prediction() -> None:
    events: list[tuple[list[object], Value]] = [
        ([0.0], "a"), ([1.0], "a"), ([9.0], "b"), ([10.0], "b")
    ]  # fmt: skip
    tree = taught([NUMERIC], events, n_min=4.0)
    gone = tree.encoder.encode([[None]])
    first, second = tree.snapshot().leaves(tree.encoder.encode([[0.0], [9.0]]))

    before = tree.snapshot().leaves(gone)[0]
    tree.learn(tree.encoder.encode([[9.5]]), tree.encoder.encode_labels(["b"]))

    assert before == first
    assert tree.snapshot().leaves(gone)[0] == second


@pytest.mark.parametrize("nominal_split", ["multiway", "binary"])
@pytest.mark.parametrize("new_leaf", ["separate", "inherit", "empty"])
def test_small_mixed_stream_grows_the_oracles_tree(nominal_split: str, new_leaf: str) -> None:
    concept = Concept(
        seed=5, numeric=1, nominal=1, sparse=1, classes=3, missing=0.1, declared=False
    )  # fmt: skip
    option = Options(
        n_min=5.0, delta=0.2, tau=0.4, leaf_predictor="nba", nominal_split=nominal_split,
        new_leaf=new_leaf, audit_fraction=0.5,
    )  # fmt: skip
    twins = Twins(concept.schema(), option)

    twins.learn_all(concept.events(60))

    twins.compare_splits()
    twins.compare_predictions(row for row, _, _ in concept.events(10))
