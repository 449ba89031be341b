"""Splits on nominal attributes and on tokens, from the counts n_ijk."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.kernels.bound import INFO_GAIN
from learner.kernels.criterion import branch_impurity, cell
from learner.kernels.elementary import xlog2x
from learner.kernels.jit import inner, int64
from learner.kernels.rules import (
    AFTER,
    BEFORE,
    BY_SUBSET,
    BY_VALUE,
    CELLS,
    CUT,
    KNOWN,
    MERIT,
    ONE_AGAINST_REST,
    TOKEN_MERIT,
    WEIGHT,
    Rules,
    Scratch,
)
from learner.kernels.tree import CLASSES, Layout, Tree

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]


@inner
def nominal_merits(
    tree: Tree,
    layout: Layout,
    slot: int,
    seen: Floats,
    before: float,
    rules: Rules,
    scratch: Scratch,
    first: int,
    end: int,
) -> None:
    """For the nominal columns first..end-1 impurity before minus after, times the weight.

    -inf: no admissible split. The sums of all values of all columns are made in one sweep a class,
    which vectorises. Writes MERIT, CUT (the value of ``x == v``, or the length of the prefix that
    is the set), KNOWN and BEFORE of scratch.nominal.
    """
    starts, values, classes = layout.value_start, tree.values, len(seen)
    criterion, how = rules.criterion, rules.nominal_split
    if how == BY_SUBSET and tree.counts[CLASSES] > 2:
        how = ONE_AGAINST_REST
    n = 0.0
    for k in range(classes):
        n += seen[k]
    places = int64(starts[first]), int64(starts[end])
    _sum_values(values, slot, classes, criterion, scratch, places[0], places[1])
    for a in range(first, end):
        from_, to = int64(starts[a]), int64(starts[a + 1])
        known = 0.0
        for place in range(from_, to):
            known += scratch.values[WEIGHT, place]
        start = before
        if known != n or how != BY_VALUE:
            start = _known_impurity(values, slot, from_, to, classes, criterion, scratch)
        scratch.nominal[KNOWN, a] = known
        scratch.nominal[BEFORE, a] = start
        scratch.nominal[CUT, a] = -1.0
        if how == ONE_AGAINST_REST:
            _best_value(values, slot, from_, to, classes, known, a, rules, scratch)
        elif how == BY_SUBSET:
            _best_prefix(values, slot, from_, to, known, a, rules, scratch)
        else:
            after = _after_multiway(from_, to, known, rules.min_branch_fraction, scratch)
            scratch.nominal[MERIT, a] = start - after


@inner
def _sum_values(
    values: Floats,
    slot: int,
    classes: int,
    criterion: int,
    scratch: Scratch,
    first: int,
    end: int,
) -> None:
    """Weight, cells and impurity of every value."""
    weight, cells, after = scratch.values[WEIGHT], scratch.values[CELLS], scratch.values[AFTER]
    for place in range(first, end):
        weight[place] = 0.0
        cells[place] = 0.0
    for k in range(classes):
        if criterion == INFO_GAIN:
            for place in range(first, end):
                count = values[slot, k, place]
                weight[place] += count
                cells[place] += xlog2x(count)
        else:
            for place in range(first, end):
                count = values[slot, k, place]
                weight[place] += count
                cells[place] += count * count
    for place in range(first, end):
        after[place] = branch_impurity(criterion, weight[place], cells[place])


@inner
def _known_impurity(
    values: Floats, slot: int, first: int, end: int, classes: int, criterion: int, scratch: Scratch
) -> float:
    """Impurity of the events whose value is known; their class weights go to scratch.classes."""
    total = 0.0
    cells = 0.0
    for k in range(classes):
        of_class = 0.0
        for place in range(first, end):
            of_class += values[slot, k, place]
        scratch.classes[0, k] = of_class
        total += of_class
        cells += cell(criterion, of_class)
    return branch_impurity(criterion, total, cells)


@inner
def _after_multiway(first: int, end: int, known: float, fraction: float, scratch: Scratch) -> float:
    """Impurity after a split into one branch a value; inf when fewer than two are big enough."""
    after = 0.0
    big = 0
    for place in range(first, end):
        after += scratch.values[AFTER, place]
        big += scratch.values[WEIGHT, place] > fraction * known
    return after if big >= 2 else np.inf


@inner
def _best_value(
    values: Floats,
    slot: int,
    first: int,
    end: int,
    classes: int,
    known: float,
    a: int,
    rules: Rules,
    scratch: Scratch,
) -> None:
    """The best test ``x == v`` of one column; ties to the lower code."""
    least = rules.min_branch_fraction * known
    best = -np.inf
    for place in range(first, end):
        rest = known - scratch.values[WEIGHT, place]
        if not (scratch.values[WEIGHT, place] > least and rest > least):
            continue
        cells = 0.0
        for k in range(classes):
            others = scratch.classes[0, k] - values[slot, k, place]
            cells += cell(rules.criterion, max(0.0, others))
        after = scratch.values[AFTER, place] + branch_impurity(rules.criterion, rest, cells)
        if scratch.nominal[BEFORE, a] - after > best:
            best = scratch.nominal[BEFORE, a] - after
            scratch.nominal[CUT, a] = place - first
    scratch.nominal[MERIT, a] = best


@inner
def order_by_share(values: Floats, slot: int, first: int, end: int, order: Ints) -> int:
    """Values with weight, by their share of class 1 and then by code; returns how many.

    With two classes and a concave impurity the best subset is a prefix of this order.
    """
    found = 0
    for place in range(first, end):
        n1 = values[slot, 1, place] if values.shape[1] > 1 else 0.0
        weight = values[slot, 0, place] + n1
        if weight <= 0.0:
            continue
        at = found
        while at > 0:
            other = first + order[at - 1]
            m1 = values[slot, 1, other] if values.shape[1] > 1 else 0.0
            if m1 / (values[slot, 0, other] + m1) <= n1 / weight:
                break
            order[at] = order[at - 1]
            at -= 1
        order[at] = place - first
        found += 1
    return found


@inner
def _best_prefix(
    values: Floats,
    slot: int,
    first: int,
    end: int,
    known: float,
    a: int,
    rules: Rules,
    scratch: Scratch,
) -> None:
    """The best set of values as a prefix of the order by class share; ties to the shorter one."""
    found = order_by_share(values, slot, first, end, scratch.order)
    least, criterion = rules.min_branch_fraction * known, rules.criterion
    best, n0, n1 = -np.inf, 0.0, 0.0
    for m in range(1, found):
        place = first + scratch.order[m - 1]
        n0 += values[slot, 0, place]
        n1 += values[slot, 1, place] if values.shape[1] > 1 else 0.0
        inside, outside = n0 + n1, known - n0 - n1
        if not (inside > least and outside > least):
            continue
        m0 = max(0.0, scratch.classes[0, 0] - n0)
        m1 = max(0.0, scratch.classes[0, 1] - n1)
        after = branch_impurity(criterion, inside, cell(criterion, n0) + cell(criterion, n1))
        after += branch_impurity(criterion, m0 + m1, cell(criterion, m0) + cell(criterion, m1))
        if scratch.nominal[BEFORE, a] - after > best:
            best = scratch.nominal[BEFORE, a] - after
            scratch.nominal[CUT, a] = m
    scratch.nominal[MERIT, a] = best


@inner
def token_merits(
    tree: Tree,
    slot: int,
    seen: Floats,
    before: float,
    rules: Rules,
    scratch: Scratch,
    first: int,
    end: int,
) -> None:
    """For the tokens first..end-1 the merit of ``contains``; NaN when no event here held it.

    The events without the token are what the class weights leave: n_i0k = n_k - n_i1k.
    """
    counts, criterion = tree.tokens, rules.criterion
    held, cells = scratch.tokens[WEIGHT], scratch.tokens[CELLS]
    absent, merit = scratch.tokens[AFTER], scratch.tokens[TOKEN_MERIT]
    n = 0.0
    for t in range(first, end):
        held[t] = 0.0
        cells[t] = 0.0
        absent[t] = 0.0
    for k in range(len(seen)):
        n += seen[k]
        for t in range(first, end):
            present = counts[slot, k, t]
            rest = seen[k] - present
            held[t] += present
            cells[t] += cell(criterion, present)
            absent[t] += cell(criterion, rest if rest > 0.0 else 0.0)
    least = rules.min_branch_fraction * n
    for t in range(first, end):
        after = branch_impurity(criterion, held[t], cells[t])
        after += branch_impurity(criterion, n - held[t], absent[t])
        admissible = held[t] > least and n - held[t] > least
        merit[t] = before - after if admissible else -np.inf
        merit[t] = merit[t] if held[t] > 0.0 else np.nan
