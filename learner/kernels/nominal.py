"""Splits on nominal attributes and on tokens, from the counts n_ijk."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.kernels.bound import INFO_GAIN
from learner.kernels.criterion import branch_impurity, cell
from learner.kernels.elementary import xlog2x
from learner.kernels.jit import inner
from learner.kernels.rules import (
    AFTER,
    BEFORE,
    CELLS,
    CUT,
    KNOWN,
    MERIT,
    TOKEN_MERIT,
    WEIGHT,
    Rules,
    Scratch,
)
from learner.kernels.tree import TOKENS, Layout, Tree

Floats = npt.NDArray[np.float64]


@inner
def nominal_merits(
    tree: Tree,
    layout: Layout,
    slot: int,
    seen: Floats,
    before: float,
    rules: Rules,
    scratch: Scratch,
) -> None:
    """For every nominal column impurity before minus after, times the weight; -inf: no split.

    The sums of all values of all columns are made in one sweep a class, which vectorises. Writes
    MERIT, CUT (the value of ``x == v``), KNOWN and BEFORE of scratch.nominal.
    """
    n = 0.0
    for k in range(len(seen)):
        n += seen[k]
    _sum_values(tree.values, slot, len(seen), rules, scratch)
    for a in range(len(layout.nominal_position)):
        first, end = layout.value_start[a], layout.value_start[a + 1]
        known = 0.0
        for place in range(first, end):
            known += scratch.values[WEIGHT, place]
        start = before
        if known != n or rules.binary_nominal:
            start = _known_impurity(tree.values, slot, first, end, len(seen), rules, scratch)
        scratch.nominal[KNOWN, a] = known
        scratch.nominal[BEFORE, a] = start
        scratch.nominal[CUT, a] = -1.0
        if rules.binary_nominal:
            _best_value(tree.values, slot, first, end, len(seen), known, a, rules, scratch)
        else:
            after = _after_multiway(first, end, known, rules, scratch)
            scratch.nominal[MERIT, a] = start - after


@inner
def _sum_values(values: Floats, slot: int, classes: int, rules: Rules, scratch: Scratch) -> None:
    """Weight, cells and impurity of every value."""
    places = values.shape[2]
    weight, cells, after = scratch.values[WEIGHT], scratch.values[CELLS], scratch.values[AFTER]
    for place in range(places):
        weight[place] = 0.0
        cells[place] = 0.0
    for k in range(classes):
        if rules.criterion == INFO_GAIN:
            for place in range(places):
                count = values[slot, k, place]
                weight[place] += count
                cells[place] += xlog2x(count)
        else:
            for place in range(places):
                count = values[slot, k, place]
                weight[place] += count
                cells[place] += count * count
    for place in range(places):
        after[place] = branch_impurity(rules.criterion, weight[place], cells[place])


@inner
def _known_impurity(
    values: Floats, slot: int, first: int, end: int, classes: int, rules: Rules, scratch: Scratch
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
        cells += cell(rules.criterion, of_class)
    return branch_impurity(rules.criterion, total, cells)


@inner
def _after_multiway(first: int, end: int, known: float, rules: Rules, scratch: Scratch) -> float:
    """Impurity after a split into one branch a value; inf when fewer than two are big enough."""
    after = 0.0
    big = 0
    for place in range(first, end):
        after += scratch.values[AFTER, place]
        big += scratch.values[WEIGHT, place] > rules.min_branch_fraction * known
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
def token_merits(
    tree: Tree,
    slot: int,
    seen: Floats,
    before: float,
    rules: Rules,
    scratch: Scratch,
) -> None:
    """For every token the merit of ``contains``; NaN when no event of the leaf held it.

    The events without the token are what the class weights leave: n_i0k = n_k - n_i1k.
    """
    tokens = tree.counts[TOKENS]
    held, cells = scratch.tokens[WEIGHT], scratch.tokens[CELLS]
    absent, merit = scratch.tokens[AFTER], scratch.tokens[TOKEN_MERIT]
    n = 0.0
    for t in range(tokens):
        held[t] = 0.0
        cells[t] = 0.0
        absent[t] = 0.0
    for k in range(len(seen)):
        n += seen[k]
        for t in range(tokens):
            present = tree.tokens[slot, k, t]
            rest = seen[k] - present
            held[t] += present
            cells[t] += cell(rules.criterion, present)
            absent[t] += cell(rules.criterion, rest if rest > 0.0 else 0.0)
    least = rules.min_branch_fraction * n
    for t in range(tokens):
        after = branch_impurity(rules.criterion, held[t], cells[t])
        after += branch_impurity(rules.criterion, n - held[t], absent[t])
        admissible = held[t] > least and n - held[t] > least
        merit[t] = before - after if admissible else -np.inf
        merit[t] = merit[t] if held[t] > 0.0 else np.nan
