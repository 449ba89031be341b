"""Bytes of models whose checksum holds and whose content does not.

A checksum stops accidents. Here it is made anew after every change, so that the reading itself is
asked: it refuses the bytes with one clear error, or what it returns predicts, learns and is saved
like any other model. Compiled kernels would not raise but crash, so each batch runs in a child.
"""

from __future__ import annotations

import os
import random
import tracemalloc
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learner import BadValue, SnapshotError, StreamingTree
from tests.fuzz.child import in_child
from tests.fuzz.model import MODELS, mutant, real_model, records, teach

BATCH = 60
LONGER = int(os.environ.get("FUZZ_TIMES", "1"))  # times as many examples

bytes_of = cache(real_model)


def use(tree: StreamingTree, name: str) -> None:
    """Predict, explain, learn and save, as the service does."""
    concept = MODELS[name][1]
    rows, _ = records(concept, 50)
    for _ in range(2):
        snapshot = tree.snapshot()
        batch = snapshot.encode_records(rows)
        codes, probabilities, _ = snapshot.evaluate(batch)
        assert ((codes >= -1) & (codes < len(snapshot.classes))).all()
        assert np.isfinite(probabilities).all()
        assert len(list(snapshot.walk())) == snapshot.shape.nodes
        for row in range(5):
            snapshot.path(batch, row)
        teach(tree, concept, 250)
        tree.take_splits()
    again = StreamingTree.from_bytes(tree.to_bytes())
    assert again.hash() == tree.hash()


def try_batch(name: str, seed: int, count: int) -> Callable[[Callable[[str], None]], Any]:
    """What became of so many mutants of a model."""
    data = bytes_of(name)

    def work(take_note: Callable[[str], None]) -> dict[str, int]:
        rng, outcomes = random.Random(seed), Counter[str]()
        for number in range(count):
            changed = mutant(data, rng)
            take_note(f"{name}, seed {seed}, mutant {number}: {changed.story}")
            try:
                tree = StreamingTree.from_bytes(changed.data)
            except SnapshotError:
                outcomes["refused"] += 1
                continue
            try:
                use(tree, name)
            except BadValue:  # its features have exchanged their names
                outcomes["renamed"] += 1
                continue
            outcomes["accepted"] += 1
        return dict(outcomes)

    return work


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_every_kind_is_accepted_and_goes_on(name: str) -> None:
    tree = StreamingTree.from_bytes(bytes_of(name))

    assert tree.to_bytes() == bytes_of(name)
    assert name == "never taught" or tree.shape().nodes > 3

    use(tree, name)


@settings(max_examples=3 * LONGER)
@given(seed=st.integers(0, 2**32))
@pytest.mark.parametrize("name", MODELS)
def test_mutated_bytes_are_refused_or_are_a_model_that_works(name: str, seed: int) -> None:
    outcomes = in_child(try_batch(name, seed, BATCH))

    assert sum(outcomes.values()) == BATCH
    assert outcomes["refused"] > 0


@pytest.mark.parametrize("name", MODELS)
def test_reading_takes_no_more_memory_than_a_few_times_the_bytes(name: str) -> None:
    data = bytes_of(name)
    StreamingTree.from_bytes(data)

    tracemalloc.start()
    try:
        StreamingTree.from_bytes(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 8 * len(data) + 2**19
