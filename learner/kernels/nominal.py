"""Splits on nominal attributes and on tokens, from the counts n_ijk."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.kernels.criterion import branch_impurity, cell
from learner.kernels.jit import inner
from learner.kernels.rules import BEFORE, CUT, KNOWN, MERIT, Rules, Scratch
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

    Writes scratch.nominal_merit, nominal_cut (the value of ``x == v``), and the known weight of
    column a in scratch.nominal_known.
    """
    classes = len(seen)
    n = 0.0
    for k in range(classes):
        n += seen[k]
    for a in range(len(layout.nominal_position)):
        first, count = layout.value_start[a], tree.values_seen[a]
        known = _sum_values(tree.values, slot, first, count, classes, rules, scratch)
        start = before if known == n else _known_impurity(classes, known, rules, scratch)
        scratch.nominal[KNOWN, a] = known
        scratch.nominal[BEFORE, a] = start
        scratch.nominal[CUT, a] = -1.0
        if rules.binary_nominal:
            _best_value(tree.values, slot, first, count, classes, known, start, a, rules, scratch)
        else:
            scratch.nominal[MERIT, a] = start - _after_multiway(
                count, classes, known, rules, scratch
            )


@inner
def _sum_values(
    values: Floats, slot: int, first: int, count: int, classes: int, rules: Rules, scratch: Scratch
) -> float:
    """Cells of all values, their weights, and the class weights where the value is known."""
    cells, of_class, of_value = scratch.cells, scratch.classes[0], scratch.value_weight
    for v in range(count):
        for k in range(classes):
            cells[v * classes + k] = cell(rules.criterion, values[slot, first + v, k])
    of_class[:classes] = 0.0
    known = 0.0
    for v in range(count):
        weight = 0.0
        for k in range(classes):
            weight += values[slot, first + v, k]
            of_class[k] += values[slot, first + v, k]
        of_value[v] = weight
        known += weight
    return known


@inner
def _known_impurity(classes: int, known: float, rules: Rules, scratch: Scratch) -> float:
    cells = 0.0
    for k in range(classes):
        cells += cell(rules.criterion, scratch.classes[0, k])
    return branch_impurity(rules.criterion, known, cells)


@inner
def _after_multiway(
    count: int, classes: int, known: float, rules: Rules, scratch: Scratch
) -> float:
    """Impurity after a split into one branch a value; inf when fewer than two are big enough."""
    after = 0.0
    big = 0
    for v in range(count):
        cells = 0.0
        for k in range(classes):
            cells += scratch.cells[v * classes + k]
        after += branch_impurity(rules.criterion, scratch.value_weight[v], cells)
        big += scratch.value_weight[v] > rules.min_branch_fraction * known
    return after if big >= 2 else np.inf


@inner
def _best_value(
    values: Floats,
    slot: int,
    first: int,
    count: int,
    classes: int,
    known: float,
    start: float,
    a: int,
    rules: Rules,
    scratch: Scratch,
) -> None:
    """The best test ``x == v`` of one column; ties to the lower code."""
    least = rules.min_branch_fraction * known
    best = -np.inf
    for v in range(count):
        equal, rest = scratch.value_weight[v], known - scratch.value_weight[v]
        if not (equal > least and rest > least):
            continue
        cells = 0.0
        cells_rest = 0.0
        for k in range(classes):
            cells += scratch.cells[v * classes + k]
            others = scratch.classes[0, k] - values[slot, first + v, k]
            cells_rest += cell(rules.criterion, max(0.0, others))
        after = branch_impurity(rules.criterion, equal, cells)
        after += branch_impurity(rules.criterion, rest, cells_rest)
        if start - after > best:
            best = start - after
            scratch.nominal[CUT, a] = v
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
    classes = len(seen)
    n = 0.0
    for k in range(classes):
        n += seen[k]
    least = rules.min_branch_fraction * n
    for t in range(tree.counts[TOKENS]):
        held = 0.0
        for k in range(classes):
            held += tree.tokens[slot, t, k]
        scratch.token_merit[t] = -np.inf if held > 0.0 else np.nan
        if not (held > least and n - held > least):
            continue
        cells = 0.0
        cells_absent = 0.0
        for k in range(classes):
            present = tree.tokens[slot, t, k]
            cells += cell(rules.criterion, present)
            cells_absent += cell(rules.criterion, max(0.0, seen[k] - present))
        after = branch_impurity(rules.criterion, held, cells)
        after += branch_impurity(rules.criterion, n - held, cells_absent)
        scratch.token_merit[t] = before - after
