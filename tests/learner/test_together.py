"""Events that are counted several at once: what they leave is what one after the other leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import example, given, settings
from hypothesis import strategies as st

from learner import (
    Batch,
    Encoder,
    Feature,
    InProcess,
    Kind,
    Schema,
    StreamingTree,
    Vertical,
    VerticalTree,
)
from learner.kernels.together import NOTED, STRETCH

EAGER: dict[str, Any] = {"n_min": 40.0, "delta": 0.1, "tau": 0.3}
EVENTS = 5 * NOTED + 7


def wide_events(
    seed: int, columns: int, classes: int, missing: float
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """Numbers of which some tell the class; those that are missing come in runs."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(EVENTS, columns))
    y = (numbers[:, : min(3, columns)].sum(axis=1) > 0) * (classes - 1)
    for row in np.flatnonzero(rng.random(EVENTS) < missing):
        first = rng.integers(columns)
        numbers[row, first : first + rng.integers(1, 20)] = np.nan
    noise = rng.random(EVENTS) < 0.2
    y[noise] = rng.integers(0, classes, noise.sum())
    return numbers, y.astype(np.int32), rng.choice([0.5, 1.0, 3.0], EVENTS)


def tree_of(columns: int, classes: int) -> StreamingTree:
    features = tuple(Feature(f"x{i}", Kind.NUMERIC) for i in range(columns))
    schema = Schema(features, tuple(f"c{k}" for k in range(classes)))
    return StreamingTree(Encoder(schema), "vht", **EAGER)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    columns=st.integers(1, 4 * STRETCH),
    classes=st.integers(2, 5),
    missing=st.sampled_from([0.0, 0.02, 0.5]),
    workers=st.integers(1, 3),
    weighted=st.booleans(),
)
@example(seed=1, columns=STRETCH, classes=2, missing=0.0, workers=1, weighted=False)
@example(seed=2, columns=3 * STRETCH + 1, classes=3, missing=0.02, workers=1, weighted=True)
def test_wide_events_counted_several_at_once_leave_the_tree_of_one_after_the_other(
    seed: int, columns: int, classes: int, missing: float, workers: int, weighted: bool
) -> None:
    numbers, y, w = wide_events(seed, columns, classes, missing)
    empty = np.zeros((EVENTS, 0), np.int32), np.zeros(EVENTS + 1, np.int64), np.zeros(0, np.int32)
    batch = Batch(numbers, *empty)
    local = tree_of(columns, classes)
    spread = VerticalTree(tree_of(columns, classes), InProcess(), Vertical(workers))
    for tree in (local, spread):
        for start in range(0, EVENTS, 150):
            part = slice(start, start + 150)
            tree.learn(
                batch.part(start, min(start + 150, EVENTS)), y[part], w[part] if weighted else None
            )

    assert spread.hash() == local.hash()
