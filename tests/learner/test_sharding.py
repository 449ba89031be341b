"""Sharding: whole trees that take turns, and the vote of all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learner import Encoder, ParamsError, ShardedTrees, StreamingTree
from learner.sharding import FRESH, majority
from tests.learner.concepts import Concept
from tests.learner.twins import Twins, compare_trees
from tests.oracle.choose import oracle_for
from tests.oracle.leaf import Options
from tests.oracle.sharding import ShardedOracle

EAGER: dict[str, Any] = {"n_min": 20.0, "delta": 0.05, "tau": 0.2, "audit_fraction": 0.0}
EVENTS = 900
PLAIN = Concept(seed=4, numeric=0, nominal=4, classes=3)


def taught(concept: Concept, shards: int, batch: int) -> tuple[ShardedTrees, list[int]]:
    trees = ShardedTrees(Encoder(concept.schema()), "vht", shards, **EAGER)
    rows, labels, _ = zip(*concept.events(EVENTS), strict=True)
    predicted = np.full(EVENTS, -9, np.int32)
    for start in range(0, EVENTS, batch):
        part = slice(start, start + batch)
        X = trees.encoder.encode(rows[part])
        trees.learn(X, trees.encoder.encode_labels(labels[part]), predicted[part])
    return trees, predicted.tolist()


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_trees_and_votes_are_those_of_the_slow_twin(shards: int) -> None:
    options = Options(**EAGER)
    twins = Twins(PLAIN.schema(), options)
    kinds = [kind.value for kind in twins.kinds]
    oracle = ShardedOracle([oracle_for(kinds, 3, options) for _ in range(shards)], FRESH)
    expected = []
    for values, label, _ in PLAIN.events(EVENTS):
        _, row = twins.encode(values)
        expected.append(oracle.predict(row))
        oracle.learn(row, int(twins.encoder.encode_labels([label])[0]))

    trees, predicted = taught(PLAIN, shards, 250)

    assert predicted == expected
    for tree, twin in zip(trees.trees, oracle.trees, strict=True):
        compare_trees(tree.snapshot(), twin)
    assert trees.counters().events == EVENTS
    assert trees.shape().nodes == sum(len(twin.nodes) for twin in oracle.trees)


@pytest.mark.parametrize("batch", [1, 7, 100, 333])
def test_batches_change_neither_trees_nor_answers(batch: int) -> None:
    whole, expected = taught(PLAIN, 3, EVENTS)
    cut, predicted = taught(PLAIN, 3, batch)

    assert cut.hash() == whole.hash()
    assert predicted == expected


def test_one_shard_is_the_tree() -> None:
    trees, _ = taught(PLAIN, 1, 300)
    tree = StreamingTree(Encoder(PLAIN.schema()), "vht", **EAGER)
    rows, labels, _ = zip(*PLAIN.events(EVENTS), strict=True)
    tree.learn(tree.encoder.encode(rows), tree.encoder.encode_labels(labels))

    assert trees.trees[0].hash() == tree.hash()
    assert trees.counters() == tree.counters()
    assert trees.shape() == tree.shape()
    assert trees.memory_bytes() == tree.memory_bytes()
    assert trees.take_splits() == tree.take_splits()


def test_shards_hold_as_many_statistics_as_there_are_trees() -> None:
    alone, together = taught(PLAIN, 1, EVENTS)[0], taught(PLAIN, 4, EVENTS)[0]

    assert len(together.trees) == 4
    assert together.memory_bytes() > 2 * alone.memory_bytes()


@settings(max_examples=50)
@given(votes=st.lists(st.lists(st.integers(-1, 3), min_size=4, max_size=4), min_size=1, max_size=6))
def test_the_majority_wins_and_the_lower_class_of_equals(votes: list[list[int]]) -> None:
    found = majority(np.array(votes, np.int32))

    for event, chosen in enumerate(found.tolist()):
        named = [vote[event] for vote in votes if vote[event] >= 0]
        best = max(named, key=lambda k: (named.count(k), -k), default=-1)
        assert chosen == best


def test_no_shard_is_refused() -> None:
    with pytest.raises(ParamsError, match="shards is 0; expected at least 1"):
        ShardedTrees(Encoder(PLAIN.schema()), "vht", 0)
