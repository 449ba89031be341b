"""Numeric values kept one by one: the pool, the order of entries, every value as a cut, bins."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learner.kernels.jit import JIT_DISABLED
from learner.kernels.numeric.entries import MOST_VALUES
from learner.kernels.tree import BIN_COUNT, BLOCK_BYTES, ENTRIES, FIRST_BLOCK, MISSING
from tests.learner.columns import Columns, Event, best_merit, by_class, known, table

CLASSES = 3
SHAPES = ("random", "duplicates", "ascending", "descending", "constant")

weights = st.sampled_from([1.0, 1.0, 2.0, 0.1, 1.0 / 3.0])
units = st.just(1.0)
criteria = st.sampled_from(["info_gain", "gini"])
exact_observers = st.sampled_from(["ordered", "sample"])


@st.composite
def streams(
    draw: st.DrawFn, weight: st.SearchStrategy[float] = units, columns: int = 2, most: int = 120
) -> list[Event]:
    """Events whose columns are random, of few values, sorted, constant, and sometimes missing."""
    size = draw(st.integers(1, most))
    seed = draw(st.integers(0, 2**20))
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(columns):
        shape, gaps = draw(st.sampled_from(SHAPES)), draw(st.sampled_from([0.0, 0.0, 0.2]))
        column = rng.normal(size=size)
        if shape == "duplicates":
            column = np.round(2.0 * column)
        elif shape == "constant":
            column[:] = column[0]
        elif shape != "random":
            column = np.sort(column)[:: 1 if shape == "ascending" else -1]
        made.append(np.where(rng.random(size) < gaps, np.nan, column))
    ws = draw(st.lists(weight, min_size=1, max_size=4))
    rows = zip(*(column.tolist() for column in made), strict=True)
    pulled = rng.random(size) < 0.5  # classes that follow the first column
    return [
        (
            row,
            int(rng.integers(CLASSES)) if free or math.isnan(row[0]) else int(row[0] > 0.0),
            ws[i % len(ws)],
        )
        for i, (row, free) in enumerate(zip(rows, pulled, strict=True))
    ]


@given(streams(weights), exact_observers, st.integers(1, 50))
def test_no_entry_is_lost_and_none_depends_on_when_they_are_sorted(
    events: list[Event], observer: str, step: int
) -> None:
    often, once = Columns(2, CLASSES, numeric_observer=observer), None
    often.open()
    for start in range(0, len(events), step):
        often.learn(events[start : start + step])
        often.compact()
    once = Columns(2, CLASSES, numeric_observer=observer, entries=1 << 14)
    once.open()
    once.learn(events)
    once.compact()
    for j in range(2):
        found = often.entries(j)
        assert found == once.entries(j)  # to the last bit
        assert [(v, k) for v, k, _ in found] == sorted((v, k) for v, k, _ in found)
        if observer == "ordered":
            assert {(v, k): w for v, k, w in found} == table(events, j)
            assert len({(v, k) for v, k, _ in found}) == len(found)
        else:
            assert found == sorted(known(events, j), key=lambda entry: entry[:2])
    missing = often.tree.moments[0, :, MISSING]
    for k in range(CLASSES):
        for j in range(2):
            lost = sum(w for x, y, w in events if y == k and math.isnan(x[j]))
            assert missing[k, j] == pytest.approx(lost)
    assert often.tree.slot[0]["gaps"] == any(math.isnan(v) for x, _, _ in events for v in x)


@given(streams(weights), exact_observers, criteria, st.sampled_from([0.0, 0.01, 0.2]))
def test_best_cut_is_that_of_brute_force(
    events: list[Event], observer: str, criterion: str, fraction: float
) -> None:
    columns = Columns(
        2,
        CLASSES,
        numeric_observer=observer,
        criterion=criterion,
        min_branch_fraction=fraction,
    )
    columns.open()
    columns.learn(events)
    for j, (merit, cut) in enumerate(columns.cuts()):
        entries = known(events, j)
        best, cuts = best_merit(entries, [entry[0] for entry in entries], columns.rules)
        assert merit == pytest.approx(best, abs=1e-9)
        if cuts:
            assert cut in cuts
            left = by_class([entry for entry in entries if entry[0] <= cut])
            assert columns.at_most(cut, j) == pytest.approx(
                [left.get(k, 0.0) for k in range(CLASSES)]
            )


@given(streams(units, 1), exact_observers, criteria)
def test_of_equal_cuts_the_lower_one_is_taken(
    events: list[Event], observer: str, criterion: str
) -> None:
    mirrored: list[Event] = [((-x[0],), k, w) for x, k, w in events]
    columns = Columns(1, CLASSES, numeric_observer=observer, criterion=criterion)
    columns.open()
    columns.learn(events + mirrored)
    ((merit, cut),) = columns.cuts()
    values = sorted({v for v, _, _ in known(events + mirrored)})
    if merit > -math.inf:  # the same cut from the other side has the same counts
        assert cut <= -values[values.index(cut) + 1]


@given(streams(weights), st.floats(-3.0, 3.0), st.booleans())
def test_counts_at_any_cut_are_those_of_brute_force(
    events: list[Event], cut: float, compacted: bool
) -> None:
    columns = Columns(2, CLASSES, numeric_observer="ordered")
    columns.open()
    columns.learn(events)
    if compacted:
        columns.compact()
    for j in range(2):
        left = by_class([entry for entry in known(events, j) if entry[0] <= cut])
        assert columns.at_most(cut, j) == pytest.approx([left.get(k, 0.0) for k in range(CLASSES)])


@pytest.mark.parametrize("observer", ["ordered", "sample"])
@pytest.mark.parametrize("criterion", ["info_gain", "gini"])
@pytest.mark.parametrize(("zeros", "cut"), [(5, 20.0), (95, 78.0), (50, 49.0)])
def test_a_cut_inside_one_class_is_taken_where_a_better_one_is_not_admissible(
    observer: str, criterion: str, zeros: int, cut: float
) -> None:
    columns = Columns(1, 2, numeric_observer=observer, criterion=criterion, min_branch_fraction=0.2)
    columns.open()
    columns.learn([((float(i),), int(i >= zeros), 1.0) for i in range(100)])
    assert columns.cuts()[0][1] == cut


def test_a_negative_zero_is_the_same_value() -> None:
    columns = Columns(1, 2, numeric_observer="ordered")
    columns.open()
    columns.learn([((-0.0,), 0, 1.0), ((0.0,), 0, 1.0), ((1.0,), 1, 1.0)])
    columns.compact()
    assert columns.entries() == [(0.0, 0, 2.0), (1.0, 1, 1.0)]
    assert math.copysign(1.0, columns.entries()[0][0]) == 1.0


@given(streams(most=100), streams(most=100))
def test_blocks_never_overlap_and_are_used_again(first: list[Event], second: list[Event]) -> None:
    columns = Columns(2, CLASSES, numeric_observer="sample", slots=3)
    used, peak = [], 0
    for _ in range(3):
        for slot, events in ((0, first), (1, second)):
            columns.open(slot)
            columns.learn(events, slot)
        columns.open(2)
        blocks = columns.blocks([0, 1, 2])
        ends = [start + capacity for start, capacity in blocks]
        assert all(end <= after for end, (after, _) in zip(ends, blocks[1:], strict=False))
        assert sum(capacity for _, capacity in blocks) == columns.tree.counts[ENTRIES]
        assert ends[-1] == columns.tree.counts[ENTRIES] <= len(columns.tree.entry_value)
        slots = columns.tree.slot
        for slot in (0, 1, 2):
            capacity = columns.tree.column[slot]["capacity"].sum()
            assert slots[slot]["bytes"] == slots[slot]["peak"] == 24 * capacity
        assert columns.tree.counts[BLOCK_BYTES] == slots["bytes"].sum()
        peak = int(slots[0]["peak"])
        for slot in (0, 1, 2):
            columns.close(slot)
        assert columns.tree.counts[BLOCK_BYTES] == 0
        used.append(int(columns.tree.counts[ENTRIES]))
    assert peak == columns.tree.slot[0]["peak"]
    assert used[1] == used[2]


def test_a_pool_that_is_too_small_grows_and_asks_once_more() -> None:
    rng = np.random.default_rng(3)
    events = [((float(v),), int(v > 0.3), 1.0) for v in rng.normal(size=3000)]
    columns = Columns(1, 2, numeric_observer="ordered", entries=FIRST_BLOCK)
    columns.open()
    columns.learn(events)
    columns.compact()
    assert columns.grown >= 8
    assert {(v, k): w for v, k, w in columns.entries()} == table(events)
    assert columns.tree.column[0, 0]["capacity"] == 4096


def test_few_values_need_no_more_than_a_small_block() -> None:
    columns = Columns(1, 2, numeric_observer="ordered", entries=64)
    columns.open()
    columns.learn([((float(i % 5),), i % 2, 1.0) for i in range(1000)])
    assert columns.tree.column[0, 0]["capacity"] == FIRST_BLOCK
    assert columns.at_most(2.0) == [300.0, 300.0]


def test_looking_at_a_column_does_not_change_the_size_of_its_block() -> None:
    events: list[Event] = [((float(7 * i % 13),), 0, 1.0) for i in range(200)]
    looked, left_alone = (Columns(1, 2, numeric_observer="ordered") for _ in range(2))
    for columns in (looked, left_alone):
        columns.open()
        for event in events:
            columns.learn([event])
            if columns is looked:
                columns.compact()
    assert looked.tree.column[0, 0]["capacity"] == left_alone.tree.column[0, 0]["capacity"]
    assert looked.tree.slot[0]["bytes"] == left_alone.tree.slot[0]["bytes"]


def test_too_many_values_become_intervals_at_an_evaluation() -> None:
    rng = np.random.default_rng(5)
    events: list[Event] = [((float(v),), int(v > 0.3), 1.0) for v in rng.normal(size=300)]
    columns = Columns(1, 2, numeric_observer="ordered", max_distinct=100, intervals=20)
    columns.open()
    columns.learn(events[:100])
    columns.cuts()
    assert columns.histogram() is None  # exactly as many as allowed
    columns.learn(events[100:])
    assert columns.histogram() is None
    columns.cuts()
    columns.learn(events)
    histogram = columns.histogram()
    assert histogram is not None
    assert histogram.sum() == 600
    assert columns.entries() == []
    assert columns.tree.column[0, 0]["capacity"] == FIRST_BLOCK
    assert columns.tree.slot[0]["bytes"] == 24 * FIRST_BLOCK + 8 * 20 * 2
    assert columns.tree.slot[0]["peak"] > columns.tree.slot[0]["bytes"]
    entries = known(events + events)
    ((merit, cut),) = columns.cuts()
    best, cuts = best_merit(entries, columns.edges(), columns.rules)
    assert merit == pytest.approx(best, abs=1e-9)
    assert cut in cuts
    left = by_class([entry for entry in entries if entry[0] <= cut])
    assert columns.at_most(cut) == [left.get(0, 0.0), left.get(1, 0.0)]


@pytest.mark.skipif(JIT_DISABLED, reason="very many values")
def test_values_of_a_leaf_that_is_never_evaluated_do_not_grow_without_end() -> None:
    columns = Columns(1, 2, numeric_observer="ordered", max_distinct=100, intervals=20)
    columns.open()
    columns.learn([((float(v),), 0, 1.0) for v in range(2 * MOST_VALUES + 1)])
    histogram = columns.histogram()
    assert histogram is not None
    assert histogram.sum() == 2 * MOST_VALUES + 1
    assert columns.tree.column[0, 0]["capacity"] == FIRST_BLOCK


@settings(max_examples=40)
@given(streams(weights), st.sampled_from(["ordered", "sample", "intervals"]))
def test_bins_are_those_of_brute_force(events: list[Event], observer: str) -> None:
    columns = Columns(2, CLASSES, numeric_observer=observer, intervals=25)
    columns.open()
    columns.learn(events)
    columns.cuts()  # lays intervals where there are many values
    columns.bins()
    for j in range(2):
        entries = known(events, j)
        values = sorted({entry[0] for entry in entries})
        number = int(columns.tree.bin_shape[0, j, BIN_COUNT])
        laid = columns.histogram(j) is not None
        assert number == (10 if laid else min(10, len(values)))
        if number == 0:
            continue

        def place(x: float, j: int = j, b: int = number, laid: bool = laid) -> int:
            if laid:
                return sum(edge < x for edge in columns.edges(j)) * 10 // 25
            low, high = min(known(events, j))[0], max(known(events, j))[0]
            return 0 if b == 1 else min(max(math.ceil((x - low) / ((high - low) / b)), 1), b) - 1

        for x in [*values, -9.0, 9.0, 0.1]:
            for k in range(CLASSES):
                mine = [entry for entry in entries if entry[1] == k]
                count = sum(w for v, _, w in mine if place(v) == place(x))
                share = (count + 1.0) / (sum(w for _, _, w in mine) + number)
                assert columns.bin_share(j, k, x) == pytest.approx(math.log2(share * number))
