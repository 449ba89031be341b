"""Numeric values one by one: (value, weight, class), a block of the pool for each column.

    start            start + run              start + used      start + capacity
      | sorted by value and class | in the order of the events | free |

An event appends an entry to every column. When a block is full, or somebody wants to see the
column, the tail is sorted into the run. Entries of the same value and class become one: its
weight is summed in the order of the events, so that nothing depends on when that happens. Nor does
the size of the block: it is looked at when as many entries came as had room after the last time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.kernels.jit import inner, int64, kernel, place
from learner.kernels.numeric.blocks import (
    ENTRY_BYTES,
    add_bytes,
    give_block,
    take_block,
)
from learner.kernels.numeric.histogram import (
    DROPPED,
    give_histogram,
    interval_of,
    lay_intervals,
)
from learner.kernels.numeric.order import put_in_order
from learner.kernels.rules import ORDERED, SAMPLE, Rules, Scratch
from learner.kernels.tree import ENTRIES, FIRST_BLOCK, MISSING, NOWHERE, SHORT_OF_ROOM, Tree

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]

MOST_VALUES = 1 << 16  # of an ordered column that nobody evaluates, if twice max_distinct is less


@kernel
def open_columns(tree: Tree, slot: int) -> None:
    """An empty block of FIRST_BLOCK entries for every column; the caller saw to the room."""
    tree.slot[slot].bytes = 0
    tree.slot[slot].peak = 0
    open_new_columns(tree, slot, int64(0))


@kernel
def open_new_columns(tree: Tree, slot: int, first: int) -> None:
    """Empty blocks for the columns from ``first`` on."""
    columns = tree.column.shape[1]
    for j in range(first, columns):
        column = tree.column[slot, j]
        column.start = take_block(tree, int64(FIRST_BLOCK))
        column.capacity = FIRST_BLOCK
        column.room = FIRST_BLOCK
        column.run = 0
        column.used = 0
        column.histogram = NOWHERE
    add_bytes(tree, slot, (columns - first) * FIRST_BLOCK * ENTRY_BYTES)


@kernel
def close_columns(tree: Tree, slot: int) -> None:
    """Blocks and histograms of the slot are free for others; its peak stays to be read."""
    for j in range(tree.column.shape[1]):
        column = tree.column[slot, j]
        give_block(tree, column.start, int64(column.capacity))
        give_histogram(tree, int64(column.histogram))
        column.histogram = NOWHERE
        column.capacity = 0
    add_bytes(tree, slot, -tree.slot[slot].bytes)


@inner
def observe_entries(tree: Tree, slot: int, k: int, weight: float, x: Floats, row: int) -> bool:
    """Append the values of one event; whether a block is full now, see ``make_room``.

    Every column has room for one more. Intervals are counted where they are laid, and those whose
    entries were dropped get none.
    """
    columns = tree.column[slot]
    value, weights, klass = tree.entry_value, tree.entry_weight, tree.entry_class
    full = False
    for j in range(len(columns)):
        v = x[row, j] + 0.0  # one zero
        if v != v:
            tree.moments[slot, k, MISSING, j] += weight
            tree.slot[slot].gaps = 1
            continue
        column = columns[j]
        if column.histogram != NOWHERE:
            h = column.histogram
            i = interval_of(column.low, column.step, tree.histogram.shape[1], v)
            tree.histogram[h, i, k] += weight
            if tree.pruned[h, i] == DROPPED:
                continue
        used = column.used
        at = place(column.start + used)
        value[at] = v
        weights[at] = weight
        klass[at] = k
        column.used = used + 1
        column.room -= 1
        full |= column.room == 0
    return full


@inner
def make_room(tree: Tree, rules: Rules, scratch: Scratch, slot: int) -> bool:
    """Every column can take one more entry again; False when pool or scratch must grow first.

    SHORT_OF_ROOM then says for how long a block.

    A full block is compacted, and doubled if it is still more than three quarters full. Room for
    the blocks of one more leaf stays: the event may still make one, further down. An
    ordered column with far too many values becomes intervals without waiting for an evaluation,
    which a pure leaf never has.
    """
    for j in range(tree.column.shape[1]):
        column = tree.column[slot, j]
        capacity = int64(column.capacity)
        if column.room > 0:
            continue
        reserve = tree.column.shape[1] * FIRST_BLOCK
        start = int64(NOWHERE)
        if 2 * capacity <= len(scratch.sort_value):
            start = take_block(tree, 2 * capacity)
        if start != NOWHERE and tree.counts[ENTRIES] + reserve > len(tree.entry_value):
            give_block(tree, start, 2 * capacity)
            start = int64(NOWHERE)
        if start == NOWHERE:
            tree.counts[SHORT_OF_ROOM] = max(tree.counts[SHORT_OF_ROOM], 2 * capacity)
            return False
        compact(tree, rules, scratch, slot, j)
        if rules.observer == ORDERED:
            lay_if_needed(tree, rules, slot, j, max(2 * rules.max_distinct, MOST_VALUES))
        run, old = int64(column.run), column.start
        if 4 * run <= 3 * capacity:
            give_block(tree, start, 2 * capacity)
            column.room = column.capacity - run
            continue
        for q in range(run):
            tree.entry_value[start + q] = tree.entry_value[old + q]
            tree.entry_weight[start + q] = tree.entry_weight[old + q]
            tree.entry_class[start + q] = tree.entry_class[old + q]
        give_block(tree, old, capacity)
        column.start = start
        column.capacity = 2 * capacity
        column.room = 2 * capacity - run
        add_bytes(tree, slot, ENTRY_BYTES * capacity)
    return True


@inner
def lay_if_needed(tree: Tree, rules: Rules, slot: int, j: int, most: int) -> None:
    """Lay intervals over a compacted column that has more than ``most`` distinct values."""
    column = tree.column[slot, j]
    if column.histogram == NOWHERE and column.run > most:
        if distinct_values(tree, slot, j, most + 1) > most:
            lay_intervals(tree, rules, slot, j)


@inner
def distinct_values(tree: Tree, slot: int, j: int, enough: int) -> int:
    """Distinct values of a compacted column; not counted further than ``enough``."""
    column = tree.column[slot, j]
    value = tree.entry_value[column.start : column.start + column.run]
    found = 0
    for q in range(len(value)):
        if q == 0 or value[q] != value[q - 1]:
            found += 1
            if found >= enough:
                break
    return found


@inner
def compact(tree: Tree, rules: Rules, scratch: Scratch, slot: int, j: int) -> None:
    """Sort the tail into the run; equal pairs of value and class become one, except of a sample."""
    column = tree.column[slot, j]
    run, used, start = int64(column.run), int64(column.used), column.start
    if run == used:
        return
    value, weight = tree.entry_value[start : start + used], tree.entry_weight[start : start + used]
    klass = tree.entry_class[start : start + used]
    put_in_order(value, klass, scratch, run, used)
    fresh = _join_equals(value, weight, klass, scratch, run, used - run, rules.observer != SAMPLE)
    _let_in(value, weight, klass, scratch, run, fresh)
    column.run = run + fresh
    column.used = run + fresh


@inner
def _join_equals(
    value: Floats, weight: Floats, klass: Ints, scratch: Scratch, run: int, count: int, joins: bool
) -> int:
    """Of the sorted tail what has no equal in the run: how many, and behind how many of the run."""
    new_value, new_weight, new_class = scratch.sort_value, scratch.sort_weight, scratch.sort_class
    behind, fresh, at = scratch.sort_place, int64(0), int64(0)
    for t in range(count):
        v, origin = new_value[t], place(behind[t])
        w, k = weight[origin], klass[origin]
        while at + 8 <= run and value[place(at + 7)] < v:
            at += 8
        while at < run and value[place(at)] < v:
            at += 1
        while at < run and value[place(at)] == v and klass[place(at)] <= k:
            at += 1
        if joins and at > 0 and value[at - 1] == v and klass[at - 1] == k:
            weight[at - 1] += w
        elif joins and fresh > 0 and new_value[fresh - 1] == v and new_class[fresh - 1] == k:
            new_weight[fresh - 1] += w
        else:
            new_value[fresh], new_weight[fresh], new_class[fresh] = v, w, k
            behind[fresh] = at
            fresh += 1
    return fresh


@inner
def _let_in(
    value: Floats, weight: Floats, klass: Ints, scratch: Scratch, run: int, fresh: int
) -> None:
    """Move the run's entries apart, from the end on, and let the new ones in between."""
    new_value, new_weight, new_class = scratch.sort_value, scratch.sort_weight, scratch.sort_class
    end = run
    for t in range(fresh - 1, -1, -1):
        first, shift = int64(scratch.sort_place[t]), t + 1
        for q in range(end - 1, first - 1, -1):
            to = place(q + shift)
            value[to], weight[to], klass[to] = value[place(q)], weight[place(q)], klass[place(q)]
        at = place(first + t)
        value[at], weight[at], klass[at] = new_value[t], new_weight[t], new_class[t]
        end = first
