"""Every observed value as a cut, in one pass over the sorted entries.   [GRM03] Sec. 3.1.

The paper's binary tree counts the classes below each value; here the counts are carried from entry
to entry, and the impurity with them: only the cells of the class that moved change.

    impurity after = L(|l|) + L(|r|) - sum_k [L(l_k) + L(r_k)]        L(z) = z log2 z
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from learner.kernels.bound import GINI
from learner.kernels.criterion import branch_impurity, cell
from learner.kernels.elementary import xlog2x
from learner.kernels.jit import inner, int64, place
from learner.kernels.numeric.histogram import DROPPED, interval_of
from learner.kernels.rules import BEFORE, CUT, KNOWN, MERIT, Rules, Scratch
from learner.kernels.tree import MISSING, NOWHERE, Tree

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]

# rows of Scratch.classes: all known weight; what lies left of the entries, of the cut in hand, of
# the best one, of an interval; and the cells of both sides of the cut in hand
TOTAL, LEFT, REACHED, BEST_LEFT, BELOW, LEFT_CELLS, RIGHT_CELLS = range(7)

_BATCH = 64


@inner
def start_column(
    tree: Tree, slot: int, seen: Floats, before: float, rules: Rules, scratch: Scratch, j: int
) -> None:
    """Weight of each class that knows the column, their sum, and their impurity."""
    rows, total = scratch.numeric, scratch.classes[TOTAL]
    known, cells = 0.0, 0.0
    for k in range(len(seen)):
        total[k] = max(0.0, seen[k] - tree.moments[slot, k, MISSING, j])
        known += total[k]
        cells += cell(rules.criterion, total[k])
    rows[KNOWN, j] = known
    gaps = tree.slot[slot].gaps
    rows[BEFORE, j] = branch_impurity(rules.criterion, known, cells) if gaps else before


@inner
def impurity_after(criterion: int, total: Floats, left: Floats, classes: int) -> float:
    """Impurity of both sides of a cut, times weight, from the weights of the left one."""
    below, above, left_cells, right_cells = 0.0, 0.0, 0.0, 0.0
    for k in range(classes):
        right = max(0.0, total[k] - left[k])
        below += left[k]
        above += right
        left_cells += cell(criterion, left[k])
        right_cells += cell(criterion, right)
    after = branch_impurity(criterion, below, left_cells)
    return after + branch_impurity(criterion, above, right_cells)


@inner
def sweep(
    tree: Tree,
    rules: Rules,
    scratch: Scratch,
    j: int,
    classes: int,
    first: int,
    end: int,
    top: bool,
) -> None:
    """Offer the best of the cuts x <= value at the sorted entries first..end-1 of the pool.

    scratch.classes[LEFT] holds what lies below them; nothing lies above them where ``top``. The
    sums that are carried along are off by rounding: of the cuts that could be best, all are
    computed anew from their counts.
    """
    value, weight = tree.entry_value[first:end], tree.entry_weight[first:end]
    klass, size, criterion = tree.entry_class[first:end], end - first, rules.criterion
    known, before = scratch.numeric[KNOWN, j], scratch.numeric[BEFORE, j]
    total, left = scratch.classes[TOTAL], scratch.classes[LEFT]
    least, merit = rules.min_branch_fraction * known, scratch.sort_value
    cuts = size - top
    doubt = 1e-15 * (size + classes)
    whole = _is_whole(weight, left, total, known, classes, len(scratch.xlog2x))
    if criterion == GINI:
        doubt *= known / max(rules.min_branch_fraction, 1e-4)
        highest = _carry_squares(value, weight, klass, scratch, known, least, classes, cuts)
    else:
        doubt *= abs(cell(criterion, known)) + known
        if whole:
            highest = _carry_whole(value, weight, klass, scratch, known, least, classes, cuts)
        else:
            highest = _carry_logs(value, weight, klass, scratch, known, least, classes, cuts)
    best, counted = -np.inf, int64(0)
    for cut in range(cuts):
        if not (merit[cut] > -np.inf and merit[cut] >= highest - doubt):
            continue
        _count_to(value, weight, klass, left, counted, cut + 1, whole)
        counted = cut + 1
        exact = before - impurity_after(criterion, total, left, classes)
        if exact > best:
            best = exact
            offer_cut(scratch, j, exact, value[cut])


@inner
def _count_to(
    value: Floats, weight: Floats, klass: Ints, left: Floats, first: int, end: int, whole: bool
) -> None:
    """Class weights of entries first..end-1; equal pairs of a sample are summed before.

    Of whole numbers the order does not matter.
    """
    w = 0.0
    if whole:
        for at in range(first, end):
            left[place(klass[at])] += weight[at]
        return
    for at in range(first, end):
        w += weight[at]
        if at + 1 == end or value[at + 1] != value[at] or klass[at + 1] != klass[at]:
            left[klass[at]] += w
            w = 0.0


@inner
def _is_whole(
    weight: Floats, left: Floats, total: Floats, known: float, classes: int, size: int
) -> bool:
    """Whether all weights are whole numbers whose L(z) can be looked up."""
    broken = not known < size
    for k in range(classes):
        broken |= left[k] != math.floor(left[k])
        broken |= total[k] != math.floor(total[k])
    for at in range(len(weight)):
        broken |= weight[at] != math.floor(weight[at])
    return not broken


@inner
def _carry_whole(
    value: Floats, weight: Floats, klass: Ints, scratch: Scratch, known: float, least: float,
    classes: int, cuts: int,
) -> float:  # fmt: skip
    """Minus the impurity after every cut, in scratch.sort_value; the highest. Whole weights.

    L(z) is looked up: 2 ns a cut, where computing it takes 14.
    """
    L, merit = scratch.xlog2x, scratch.sort_value
    below_of, above_of = scratch.whole[0], scratch.whole[1]
    n, below, size = int64(known), int64(0), len(value)
    cells, highest = 0.0, -np.inf
    for k in range(classes):
        l_k = int64(scratch.classes[LEFT, k])
        r_k = max(int64(0), int64(scratch.classes[TOTAL, k]) - l_k)
        below_of[k], above_of[k] = l_k, r_k
        below += l_k
        cells += L[l_k] + L[r_k]
    for at in range(cuts):
        k, w = place(klass[at]), int64(weight[at])
        l_k, r_k = below_of[k], above_of[k]
        l_next, r_next = l_k + w, max(int64(0), r_k - w)
        cells += (L[place(l_next)] - L[place(l_k)]) - (L[place(r_k)] - L[place(r_next)])
        below_of[k], above_of[k] = l_next, r_next
        below += w
        above = max(int64(0), n - below)
        shared = at + 1 < size and value[at + 1] == value[at]
        cut = cells - (L[place(below)] + L[place(above)])
        cut = -np.inf if shared | (not below > least) | (not above > least) else cut
        merit[at] = cut
        highest = cut if cut > highest else highest
    return highest


@inner
def _carry_logs(
    value: Floats, weight: Floats, klass: Ints, scratch: Scratch, known: float, least: float,
    classes: int, cuts: int,
) -> float:  # fmt: skip
    """Minus the impurity after every cut, in scratch.sort_value; the highest. Any weights."""
    total, left, merit = scratch.classes[TOTAL], scratch.classes[REACHED], scratch.sort_value
    left_cells, right_cells = scratch.classes[LEFT_CELLS], scratch.classes[RIGHT_CELLS]
    four, size, cells, below, highest = scratch.sort_weight, len(value), 0.0, 0.0, -np.inf
    for k in range(classes):
        left[k] = scratch.classes[LEFT, k]
        below += left[k]
        left_cells[k] = xlog2x(left[k])
        right_cells[k] = xlog2x(max(0.0, total[k] - left[k]))
        cells += left_cells[k] + right_cells[k]
    room = min(_BATCH, len(four) // 4)
    for start in range(0, cuts, room):
        count = min(room, cuts - start)
        for i in range(count):
            k = klass[start + i]
            left[k] += weight[start + i]
            below += weight[start + i]
            four[4 * i] = left[k]
            four[4 * i + 1] = max(0.0, total[k] - left[k])
            four[4 * i + 2] = below
            four[4 * i + 3] = max(0.0, known - below)
            admits = (below > least) & (known - below > least)
            merit[start + i] = 0.0 if admits else -np.inf
        for f in range(4 * count):
            four[f] = xlog2x(four[f])
        for i in range(count):
            at = start + i
            k = klass[at]
            cells += (four[4 * i] - left_cells[k]) + (four[4 * i + 1] - right_cells[k])
            left_cells[k], right_cells[k] = four[4 * i], four[4 * i + 1]
            merit[at] += cells - (four[4 * i + 2] + four[4 * i + 3])
            if at + 1 < size and value[at + 1] == value[at]:
                merit[at] = -np.inf
            highest = max(highest, merit[at])
    return highest


@inner
def _carry_squares(
    value: Floats, weight: Floats, klass: Ints, scratch: Scratch, known: float, least: float,
    classes: int, cuts: int,
) -> float:  # fmt: skip
    """Minus the Gini impurity after every cut but for a constant; the highest. Any weights."""
    total, left, merit = scratch.classes[TOTAL], scratch.classes[REACHED], scratch.sort_value
    below, cells_below, cells_above, highest = 0.0, 0.0, 0.0, -np.inf
    for k in range(classes):
        left[k] = scratch.classes[LEFT, k]
        below += left[k]
        cells_below += left[k] * left[k]
        cells_above += (total[k] - left[k]) * (total[k] - left[k])
    size = len(value)
    for at in range(cuts):
        k, w = klass[at], weight[at]
        l_k, r_k = left[k], total[k] - left[k]
        cells_below += w * (2.0 * l_k + w)
        cells_above -= w * (2.0 * r_k - w)
        left[k] = l_k + w
        below += w
        above = known - below
        merit[at] = -np.inf
        if below > least and above > least and not (at + 1 < size and value[at + 1] == value[at]):
            merit[at] = cells_below / below + cells_above / above
            highest = max(highest, merit[at])
    return highest


@inner
def offer_cut(scratch: Scratch, j: int, merit: float, cut: float) -> None:
    """Keep the cut if it is the column's best; ties to the lower one."""
    rows = scratch.numeric
    if merit > rows[MERIT, j] or (merit == rows[MERIT, j] and cut < rows[CUT, j]):
        rows[MERIT, j] = merit
        rows[CUT, j] = cut


@inner
def weight_at_most(tree: Tree, slot: int, j: int, cut: float, classes: int, out: Floats) -> None:
    """Known weight of each class with x <= cut; an interval that dropped its entries is below it.

    Summed as the sweep does it, so that the counts are the same.
    """
    column = tree.column[slot, j]
    start, used, h = column.start, int64(column.used), int64(column.histogram)
    value, weight = tree.entry_value[start : start + used], tree.entry_weight[start : start + used]
    klass = tree.entry_class[start : start + used]
    lowest = -np.inf  # what lies at most here is counted in intervals
    for k in range(classes):
        out[k] = 0.0
    if h != NOWHERE:
        below = interval_of(column.low, column.step, tree.histogram.shape[1], cut)
        below += tree.pruned[h, below] == DROPPED
        for i in range(below):
            for k in range(classes):
                out[k] += tree.histogram[h, i, k]
        if below > 0:
            lowest = column.low + below * column.step
    w = 0.0
    for q in range(used):
        w += weight[q]
        if q + 1 < used and value[q + 1] == value[q] and klass[q + 1] == klass[q]:
            continue
        if lowest < value[q] <= cut:
            out[klass[q]] += w
        w = 0.0
