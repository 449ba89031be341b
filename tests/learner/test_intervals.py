"""Intervals that cannot hold the best cut: bounds, and the cuts that are found in spite of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learner.kernels.numeric.histogram import DROPPED, INTACT, PRUNED
from tests.learner.columns import (
    Columns,
    Event,
    best_merit,
    by_class,
    corners,
    impurity_sum,
    known,
    merit_of,
)

INTERVALS = 12

options = st.fixed_dictionaries(
    {
        "criterion": st.sampled_from(["info_gain", "gini"]),
        "interval_bound": st.sampled_from(["auto", "corner", "loose"]),
        "min_branch_fraction": st.sampled_from([0.0, 0.01, 0.1]),
    }
)


@st.composite
def streams(draw: st.DrawFn, columns: int = 2) -> tuple[int, list[Event]]:
    """Classes, and events of which some classes follow the first column."""
    classes = draw(st.sampled_from([2, 3, 6]))
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    size = draw(st.integers(2 * INTERVALS, 250))
    x = rng.normal(size=(size, columns)) * rng.choice([1.0, 1.0, 5.0], size=(size, 1))
    if draw(st.booleans()):
        x = np.round(x, 1)
    noise = draw(st.sampled_from([0.1, 0.5, 2.0]))
    y = np.clip(np.floor(x[:, 0] + noise * rng.normal(size=size)) + 1, 0, classes - 1)
    gaps = draw(st.sampled_from([0.0, 0.1]))
    x[rng.random(x.shape) < gaps] = np.nan
    w = rng.choice(draw(st.sampled_from([[1.0], [1.0, 0.3]])), size=size)
    rows = zip(x.tolist(), y.tolist(), w.tolist(), strict=True)
    return classes, [(tuple(row), int(k), weight) for row, k, weight in rows]


def all_cuts(columns: Columns, j: int, entries: list[tuple[float, int, float]]) -> list[float]:
    """Every value, and every edge once intervals are laid."""
    return [v for v, _, _ in entries] + (
        columns.edges(j) if columns.histogram(j) is not None else []
    )


def parts(
    columns: Columns, j: int, entries: list[tuple[float, int, float]]
) -> list[list[tuple[float, int, float]]]:
    """Entries of each interval."""
    edges = columns.edges(j)
    out: list[list[tuple[float, int, float]]] = [[] for _ in range(len(edges) + 1)]
    for entry in entries:
        out[sum(edge < entry[0] for edge in edges)].append(entry)
    return out


@settings(max_examples=60)
@given(streams(), options, st.booleans())
def test_histograms_count_every_event(
    stream: tuple[int, list[Event]], chosen: dict[str, Any], keep: bool
) -> None:
    classes, events = stream
    columns = Columns(
        2,
        classes,
        numeric_observer="intervals",
        intervals=INTERVALS,
        interval_details="keep" if keep else "discard",
        **chosen,
    )
    columns.open()
    n = 0
    for start in range(0, len(events), 60):
        columns.learn(events[start : start + 60])
        n = min(len(events), start + 60)
        merits = columns.cuts()
        columns.review(max(merits)[0] / columns.seen[0].sum(), 0.01, opens=False)
    for j in range(2):
        entries = known(events, j)
        histogram = columns.histogram(j)
        if histogram is None:
            assert len({v for v, _, _ in entries}) <= INTERVALS
            continue
        inside = parts(columns, j, entries)
        for i, part in enumerate(inside):
            sums = by_class(part)
            assert histogram[i].tolist() == pytest.approx(
                [sums.get(k, 0.0) for k in range(classes)]
            )
            state = columns.pruned(j)[i]
            kept = by_class([e for e in columns.entries(j) if e[0] in {v for v, _, _ in part}])
            assert kept == ({} if state == DROPPED else pytest.approx(sums))
            assert state in ((INTACT, PRUNED) if keep else (INTACT, DROPPED))
        column = columns.tree.column[0, j]
        assert column["used"] < column["capacity"]
    held = sum(24 * int(c) for c in columns.tree.column[0]["capacity"])
    laid = sum(columns.histogram(j) is not None for j in range(2))
    assert columns.tree.slot[0]["bytes"] == held + laid * 8 * INTERVALS * classes
    assert n == len(events)


@settings(max_examples=60)
@given(streams(), options)
def test_bounds_hold_for_every_cut_inside(
    stream: tuple[int, list[Event]], chosen: dict[str, Any]
) -> None:
    """Invariant 26: best <= corner <= loose, and an empty interval gains what its edge does.

    The kernel's bound is read from what it prunes: everything whose bound is below the best.
    """
    classes, events = stream
    columns = Columns(2, classes, numeric_observer="intervals", intervals=INTERVALS, **chosen)
    columns.open()
    columns.learn(events)
    merits, n = columns.cuts(), float(columns.seen[0].sum())
    best = max(merits)[0]
    if best == -math.inf:
        return
    columns.review(best / n, 0.02, opens=False)
    needed = best - 0.02 * n
    criterion = columns.rules.criterion
    corner = chosen["interval_bound"] == "corner" or (
        chosen["interval_bound"] == "auto" and classes <= 4
    )
    for j in range(2):
        if columns.histogram(j) is None:
            continue
        entries = known(events, j)
        before = impurity_sum(by_class(entries), criterion)
        inside = parts(columns, j, entries)
        for i, part in enumerate(inside):
            below = by_class([e for lower in inside[:i] for e in lower])
            above = by_class([e for upper in inside[i + 1 :] for e in upper])
            loose = before - impurity_sum(below, criterion) - impurity_sum(above, criterion)
            exact = max(
                before
                - impurity_sum(added(below, left), criterion)
                - impurity_sum(added(above, without(by_class(part), left)), criterion)
                for left in corners(by_class(part))
            )
            highest = max((merit_of(entries, v, columns.rules) for v, _, _ in part), default=0.0)
            assert highest <= exact + 1e-9
            assert exact <= loose + 1e-9
            if not part:
                assert exact == pytest.approx(loose)
            bound = exact if corner else loose
            if abs(bound - needed) > 1e-9:
                assert columns.pruned(j)[i] == (PRUNED if bound < needed else INTACT)


def added(a: dict[int, float], b: dict[int, float]) -> dict[int, float]:
    return {k: a.get(k, 0.0) + b.get(k, 0.0) for k in a.keys() | b.keys()}


def without(a: dict[int, float], b: dict[int, float]) -> dict[int, float]:
    return {k: w for k, w in a.items() if k not in b}


@settings(max_examples=80)
@given(streams(), options, st.sampled_from([0.0, 0.01, 0.1]), st.integers(20, 90))
def test_what_is_found_with_details_is_the_best_of_all(
    stream: tuple[int, list[Event]], chosen: dict[str, Any], epsilon: float, step: int
) -> None:
    """Invariant 27: for every history of pruning, the best gain is that of the full histogram."""
    classes, events = stream
    columns = Columns(2, classes, numeric_observer="intervals", intervals=INTERVALS, **chosen)
    columns.open()
    for start in range(0, len(events), step):
        columns.learn(events[start : start + step])
        so_far, n = events[: start + step], float(columns.seen[0].sum())
        columns.cuts()
        columns.review(max(columns.found())[0] / n, epsilon, opens=True)
        found = columns.found()
        full = [
            best_merit(known(so_far, j), all_cuts(columns, j, known(so_far, j)), columns.rules)
            for j in range(2)
        ]
        best = max(merit for merit, _ in full)
        assert max(found)[0] == pytest.approx(best, abs=1e-9)
        for (merit, cut), (highest, cuts) in zip(found, full, strict=True):
            if merit == pytest.approx(highest, abs=1e-9) and cuts:
                assert cut in cuts
            else:  # it could not have come near the best
                assert highest == -math.inf or highest <= best - epsilon * n + 1e-9
        columns.review(best / n, epsilon, opens=False)


@settings(max_examples=40)
@given(streams(1), st.floats(-4.0, 4.0))
def test_counts_at_a_cut_use_what_is_left(stream: tuple[int, list[Event]], cut: float) -> None:
    classes, events = stream
    columns = Columns(
        1, classes, numeric_observer="intervals", intervals=INTERVALS, interval_details="discard"
    )
    columns.open()
    columns.learn(events)
    merits, n = columns.cuts(), float(columns.seen[0].sum())
    if columns.histogram() is None or merits[0][0] == -math.inf:
        return
    columns.review(merits[0][0] / n, 0.0, opens=False)
    entries = known(events)
    i = sum(edge < cut for edge in columns.edges())
    whole = columns.pruned()[i] == DROPPED
    inside = parts(columns, 0, entries)
    left = by_class(
        [e for part in inside[:i] for e in part] + [e for e in inside[i] if whole or e[0] <= cut]
    )
    assert columns.at_most(cut) == pytest.approx([left.get(k, 0.0) for k in range(classes)])


def test_a_closed_slot_gives_its_histograms_back() -> None:
    columns = Columns(1, 2, numeric_observer="intervals", intervals=INTERVALS)
    events = [((float(i),), i % 2, 1.0) for i in range(50)]
    for _ in range(5):
        columns.open()
        columns.learn(events)
        columns.cuts()
        histogram = columns.histogram()
        assert histogram is not None
        assert histogram.sum() == 50
        columns.close()
    assert columns.sizes.histograms == 2


def test_values_beyond_the_range_go_to_the_outer_intervals() -> None:
    columns = Columns(1, 2, numeric_observer="intervals", intervals=4)
    columns.open()
    columns.learn([((float(i),), int(i > 3), 1.0) for i in range(9)])
    columns.cuts()
    columns.learn([((-1e300,), 0, 1.0), ((1e300,), 1, 1.0)])
    histogram = columns.histogram()
    assert histogram is not None
    assert histogram.sum(axis=1).tolist() == [4.0, 2.0, 2.0, 3.0]  # 0 1 2 | 3 4 | 5 6 | 7 8


def test_a_range_too_narrow_to_divide_does_no_harm() -> None:
    tiny = 5e-324
    columns = Columns(1, 2, numeric_observer="intervals", intervals=4)
    columns.open()
    columns.learn([((i * tiny,), int(i > 3), 1.0) for i in range(9)])
    ((merit, cut),) = columns.cuts()
    entries = [(i * tiny, int(i > 3), 1.0) for i in range(9)]
    assert merit == pytest.approx(best_merit(entries, [e[0] for e in entries], columns.rules)[0])
    assert cut == 3 * tiny
    columns.learn([((1.0,), 1, 1.0), ((-1.0,), 0, 1.0)])
    histogram = columns.histogram()
    assert histogram is not None
    assert histogram.sum() == 11
