"""What must hold of a model's tests, and of the statistics that only some trees keep.

A part of learner/integrity.py: entries and their blocks, intervals, and candidates.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from learner.fault import HEAVIEST, Array, Named, each, within
from learner.kernels.numeric.blocks import ENTRY_BYTES
from learner.kernels.rules import BY_SUBSET, BY_VALUE, Rules
from learner.kernels.tree import (
    BIN_COUNT,
    BIN_STEP,
    BLOCK_SIZES,
    CONTAINS,
    EQUALS,
    FIRST_BLOCK,
    LEAF,
    MOST_BINS,
    MULTIWAY,
    NUMERIC,
    SUBSET,
)
from learner.state import Sizes, spans


def kinds_of_tests(rules: Rules) -> tuple[int, ...]:
    """The tests that such a tree can have."""
    if rules.nominal_split == BY_VALUE:
        return NUMERIC, CONTAINS, MULTIWAY
    if rules.nominal_split == BY_SUBSET:
        return NUMERIC, CONTAINS, SUBSET, EQUALS
    return NUMERIC, CONTAINS, EQUALS


def check_tests(
    of: str, kind: Array, column: Array, cut: Array, sizes: Sizes, kinds: Sequence[int]
) -> None:
    """Kinds that this tree can have, columns that it has, and cuts that are numbers or codes."""
    each(f"{of}kind", kind, np.isin(kind, kinds), f"one of {sorted(kinds)}")
    rooms = np.zeros(SUBSET + 1, np.int64)
    rooms[[MULTIWAY, EQUALS, SUBSET]] = len(sizes.values)
    rooms[NUMERIC], rooms[CONTAINS] = sizes.numeric, sizes.tokens
    there = (column >= 0) & (column < rooms[kind])
    each(f"{of}column", column, there | (kind == LEAF), "a column of its kind")
    each(f"{of}cut", cut, np.isfinite(cut), "a finite number")
    value_counts = np.array([*sizes.values, 0], np.int64)
    equals = kind == EQUALS
    known = value_counts[np.where(equals, column, -1)]
    is_code = (cut >= 0) & (cut < known) & (cut == np.floor(cut))
    each(f"{of}cut", cut, ~equals | is_code, "the code of a value")


def check_columns(named: Named, sizes: Sizes) -> None:
    """Blocks of entries: powers of two, no larger than their entries explain, with room for one."""
    capacity, run, used, room = (
        named[f"column.{name}"].astype(np.int64) for name in ("capacity", "run", "used", "room")
    )
    each("column.used", used, used >= 0, "no less than 0")
    each("column.run", run, (run >= 0) & (run <= used), "no more than are used")
    powers = (capacity >= FIRST_BLOCK) & (capacity & (capacity - 1) == 0)
    each("column.capacity", capacity, powers & (capacity < 1 << (BLOCK_SIZES - 2)),
          f"a power of two from {FIRST_BLOCK} on")  # fmt: skip
    each("column.capacity", capacity, capacity <= np.maximum(FIRST_BLOCK, 4 * used),
          "a block that is a quarter full")  # fmt: skip
    each("column.room", room, (room >= 1) & (used + room <= capacity), "free places of the block")
    bare = named["column.laid"] == 0
    low, step = named["column.low"], named["column.step"]
    each("column.low", low, bare | np.isfinite(low), "a finite edge")
    each("column.step", step, bare | ((step >= 0.0) & np.isfinite(step)), "a finite width")
    within("tree.pruned", named["tree.pruned"], 0, 2)
    of_slot = (sizes.slots, sizes.numeric)
    least = ENTRY_BYTES * capacity.reshape(of_slot).sum(axis=1)
    laid = named["column.laid"].astype(np.int64).reshape(of_slot).sum(axis=1)
    most = least + 8 * sizes.parts.intervals * sizes.classes * laid
    size = named["slot.bytes"]
    each("slot.bytes", size, (least <= size) & (size <= most), "the bytes of its blocks")


def check_entries(named: Named, sizes: Sizes, *, merged: bool) -> None:
    """Entries are numbers of known classes, and those that were sorted are in order."""
    value, weight, klass = (named[f"tree.entry_{name}"] for name in ("value", "weight", "class"))
    each("tree.entry_value", value, np.isfinite(value), "a finite number")
    each("tree.entry_weight", weight, (weight > 0.0) & (weight <= HEAVIEST), "a weight above 0")
    within("tree.entry_class", klass, 0, sizes.classes - 1)
    used, run = named["column.used"], named["column.run"]
    place = spans(np.zeros(len(used), np.int64), used)[1:]  # in its block
    same_run = (place > 0) & (place < np.repeat(run, used)[1:])
    tie = klass[:-1] < klass[1:] if merged else klass[:-1] <= klass[1:]
    in_order = (value[:-1] < value[1:]) | ((value[:-1] == value[1:]) & tie)
    each("tree.entry_value", value[1:], ~same_run | in_order, "values in ascending order")


def check_bins(bins: Array, shape: Array, sizes: Sizes) -> None:
    """Shares are finite, and lead to bins that are there."""
    within("tree.bins", bins, -HEAVIEST, HEAVIEST)
    count = shape[..., BIN_COUNT]
    whole = (count >= 0) & (count <= MOST_BINS) & (count == np.floor(count))
    each("tree.bin_shape", count, whole, f"a number of bins from 0 to {MOST_BINS}")
    if not sizes.parts.intervals:
        step = shape[..., BIN_STEP]
        each("tree.bin_shape", step, ~(step < 0.0), "no intervals, which this tree does not have")


def check_candidates(named: Named, sizes: Sizes, rules: Rules) -> None:
    """Those that are followed are tests of this tree."""
    number = named["slot.candidates"]
    followed = np.arange(sizes.parts.candidates) < number[:, None]
    kind, column, cut = (named[f"candidate.{name}"][followed] for name in ("kind", "column", "cut"))
    check_tests("candidate.", kind, column, cut, sizes, kinds_of_tests(rules))
    for name in ("before", "after", "known", "first", "second"):
        within(f"candidate.{name}", named[f"candidate.{name}"][followed], -HEAVIEST, HEAVIEST)
