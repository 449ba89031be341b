"""How long candidates stay silent: no events, however malicious, bring the trigger earlier."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from learner import Batch, Encoder, Feature, Kind, Schema, StreamingTree
from learner.kernels.bound import GINI, INFO_GAIN
from learner.kernels.jit import kernel
from learner.kernels.quiet import quiet_weight
from tests.oracle import criterion as crit

Floats = npt.NDArray[np.float64]


@kernel
def weight_of_silence(
    criterion: int, n: float, least: float, branches: int, classes: int, target: float,
    best: float, lead: float,
) -> float:  # fmt: skip
    """The kernel's own, callable from here."""
    return quiet_weight(criterion, n, least, branches, classes, target, best, lead)


def merit(criterion: int, table: Floats) -> float:
    """Impurity before minus after a split, times n, of [branch, class]."""
    branches = [dict(enumerate(row.tolist())) for row in table if row.sum() > 0.0]
    name = "info_gain" if criterion == INFO_GAIN else "gini"
    gain = crit.gain(crit.merged(branches), branches, criterion=name)
    return gain * float(table.sum())


def lead_of(criterion: int, tables: Floats) -> tuple[float, float]:
    """The best merit, and by how much it leads the others and X_0."""
    merits = sorted([0.0, 0.0, *(merit(criterion, table) for table in tables)])
    return merits[-1], merits[-1] - merits[-2]


def worst_event(criterion: int, tables: Floats, weight: float) -> Floats:
    """The tables after the event that makes the lead largest."""
    found, largest = tables, -np.inf
    merits = [merit(criterion, table) for table in tables]
    for k in range(tables.shape[2]):
        for leader in np.argsort(merits)[-2:]:
            after = tables.copy()
            for q, table in enumerate(tables):
                moved = []
                for j in range(tables.shape[1]):
                    other = table.copy()
                    other[j, k] += weight
                    moved.append(other)
                pick = max if q == leader else min
                after[q] = pick(moved, key=lambda other: merit(criterion, other))
            lead = lead_of(criterion, after)[1]
            if lead > largest:
                found, largest = after, lead
    return found


shapes = st.tuples(st.integers(2, 3), st.integers(2, 3), st.integers(2, 4))
counts = st.one_of(st.just(0.0), st.integers(0, 60).map(float), st.floats(0.0, 5.0))


@given(
    criterion=st.sampled_from([INFO_GAIN, GINI]),
    tables=shapes.flatmap(lambda shape: arrays(np.float64, shape, elements=counts)),
    further=st.floats(0.1, 40.0),
    weight=st.sampled_from([0.5, 1.0, 3.0]),
    knows_least=st.booleans(),
)
@example(
    criterion=INFO_GAIN, tables=np.array([[[30.0, 0.0], [0.0, 30.0]]] * 2), further=20.0,
    weight=1.0, knows_least=True,
)  # fmt: skip
def test_no_events_bring_the_lead_to_the_target_while_it_is_quiet(
    criterion: int, tables: Floats, further: float, weight: float, knows_least: bool
) -> None:
    n = float(tables.sum(axis=(1, 2)).max())
    if n < 2.0:
        return
    best, lead = lead_of(criterion, tables)
    target = lead + further
    least = float(tables.sum(axis=2).min()) if knows_least else 0.0
    branches, classes = tables.shape[1:]

    quiet = weight_of_silence(criterion, n, least, branches, classes, target, best, lead)

    assert 0.0 <= quiet <= n
    for _ in range(min(40, int(quiet / weight))):
        tables = worst_event(criterion, tables, weight)
        assert lead_of(criterion, tables)[1] < target + 1e-9


def test_the_further_the_target_the_longer_the_silence() -> None:
    found = [
        weight_of_silence(INFO_GAIN, 1e4, 3e3, 2, 2, target, 300.0, 100.0)
        for target in (100.0, 200.0, 400.0, 800.0)
    ]

    assert found[0] == 0.0
    assert found == sorted(set(found))
    assert found[-1] > 180.0


@pytest.mark.parametrize("criterion", ["info_gain", "gini"])
def test_a_model_that_was_saved_in_a_silence_goes_on_as_one_that_was_not(criterion: str) -> None:
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(3000, 6))
    y = (rows[:, 0] + 0.5 * rows[:, 1] + 0.3 * rng.normal(size=3000) > 0.0).astype(np.int32)
    rows[rng.random(rows.shape) < 0.01] = np.nan
    schema = Schema(tuple(Feature(f"x{i}", Kind.NUMERIC) for i in range(6)), ("no", "yes"))
    whole = StreamingTree(Encoder(schema), "imac", criterion=criterion, delta=1e-3)
    parts = StreamingTree(Encoder(schema), "imac", criterion=criterion, delta=1e-3)

    def learn(tree: StreamingTree, start: int, end: int) -> None:
        nothing = np.zeros((end - start, 0), np.int32), np.zeros(end - start + 1, np.int64)
        tree.learn(Batch(rows[start:end], *nothing, np.zeros(0, np.int32)), y[start:end])

    for start in range(0, 3000, 7):
        end = min(start + 7, 3000)
        learn(whole, start, end)
        learn(parts, start, end)
        if start % 13 == 0:
            parts = StreamingTree.from_bytes(parts.to_bytes())

    assert whole.shape().leaves > 2
    assert parts.to_bytes() == whole.to_bytes()
