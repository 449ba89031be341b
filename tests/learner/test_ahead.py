"""Events walked a block at a time, and nodes told of them once a batch, as if one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learner import Encoder, LearnerError, StreamingTree
from learner.kernels.ahead import plus_ones
from learner.kernels.jit import kernel
from streams import open_stream

EDGE = 2.0**53


@kernel
def summed(x: float, count: int) -> float:
    return plus_ones(x, count)


def one_by_one(x: float, count: int) -> float:
    for _ in range(count):
        x += 1.0
    return x


@given(st.floats(0.0, 1e6), st.integers(0, 3000))
def test_many_ones_are_added_as_if_each_sum_were_rounded(x: float, count: int) -> None:
    assert summed(x, count) == one_by_one(x, count)


@pytest.mark.parametrize("x", [0.0, 0.1, 1.0 - 2**-53, 1023.7, EDGE - 3.0, EDGE - 1.0, EDGE + 2.0])
@pytest.mark.parametrize("count", [0, 1, 2, 5, 300])
def test_ones_are_added_rightly_at_powers_of_two(x: float, count: int) -> None:
    assert summed(x, count) == one_by_one(x, count)


@pytest.mark.parametrize("stream", ["agrawal", "sea", "led", "rtg"])
@pytest.mark.parametrize("predictor", ["mc", "nba"])
def test_blocks_learn_what_single_events_learn(stream: str, predictor: str) -> None:
    """One event a call has nothing to walk ahead of, and tells all nodes above at once."""
    source = open_stream(stream)
    batch, labels = source.take(6000)
    hashes, guesses = [], []
    for size in (1, 7, 6000):
        tree = StreamingTree(
            Encoder(source.schema), n_min=50.0, delta=0.1, tau=0.3, leaf_predictor=predictor
        )
        guessed = np.empty(len(labels), np.int32)
        for at in range(0, len(labels), size):
            end = min(at + size, len(labels))
            tree.learn(batch.part(at, end), labels[at:end], predicted=guessed[at:end])
        assert tree.shape().nodes > 3
        hashes.append(tree.hash())
        guesses.append(guessed.tobytes())
    assert len(set(hashes)) == 1
    assert len(set(guesses)) == 1


def test_weights_of_one_are_the_same_as_none() -> None:
    source = open_stream("agrawal")
    batch, labels = source.take(6000)
    trees = [StreamingTree(Encoder(source.schema), n_min=50.0) for _ in range(2)]
    trees[0].learn(batch, labels)
    trees[1].learn(batch, labels, np.ones(len(labels)))
    assert trees[0].hash() == trees[1].hash()


def test_predictions_need_an_array_without_gaps() -> None:
    source = open_stream("sea")
    batch, labels = source.take(10)
    tree = StreamingTree(Encoder(source.schema))
    with pytest.raises(LearnerError, match="one after the other in memory"):
        tree.learn(batch, labels, predicted=np.empty(20, np.int32)[::2])
