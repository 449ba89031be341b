"""Every observed value as a cut, in one pass over the sorted entries.   [GRM03] Sec. 3.1.

The paper's binary tree counts the classes below each value; here the counts are carried from entry
to entry, and the impurity with them: only the cells of the class that moved change.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.kernels.bound import INFO_GAIN
from learner.kernels.criterion import branch_impurity, cell
from learner.kernels.elementary import xlog2x
from learner.kernels.jit import inner, int64
from learner.kernels.numeric.histogram import DROPPED, interval_of
from learner.kernels.rules import BEFORE, CUT, KNOWN, MERIT, Rules, Scratch
from learner.kernels.tree import MISSING, NOWHERE, Tree

Floats = npt.NDArray[np.float64]

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

    scratch.classes[LEFT] holds what lies below them; nothing lies above them where ``top``. A cut
    between two values of one and the same class is never best, the impurity being concave, and is
    passed over. The sums that are carried along are off by rounding: where that could decide, both
    cuts are computed anew from their counts.
    """
    value, weight = tree.entry_value[first:end], tree.entry_weight[first:end]
    klass, size, criterion = tree.entry_class[first:end], end - first, rules.criterion
    known, before = scratch.numeric[KNOWN, j], scratch.numeric[BEFORE, j]
    total, left, reached = scratch.classes[TOTAL], scratch.classes[LEFT], scratch.classes[REACHED]
    left_cells, right_cells = scratch.classes[LEFT_CELLS], scratch.classes[RIGHT_CELLS]
    best_left, least = scratch.classes[BEST_LEFT], rules.min_branch_fraction * known
    four, sums, where = scratch.sort_value, scratch.sort_weight, scratch.sort_class
    room = min(_BATCH, len(four) // 4)
    doubt = 5e-16 * (size + classes)
    if criterion == INFO_GAIN:
        doubt *= abs(cell(criterion, known)) + known
    else:
        doubt *= known / max(rules.min_branch_fraction, 1e-4)
    below, cells_below, cells_above = 0.0, 0.0, 0.0
    for k in range(classes):
        reached[k] = left[k]
        below += left[k]
        left_cells[k] = cell(criterion, left[k])
        right_cells[k] = cell(criterion, max(0.0, total[k] - left[k]))
        cells_below += left_cells[k]
        cells_above += right_cells[k]
    best, cut, w, alone = -np.inf, 0.0, 0.0, True
    at = int64(0)
    while at < size:
        # Move entries to the left side, as many as the buffers hold.
        moves = 0
        while at < size and moves < room:
            v, k = value[at], klass[at]
            w += weight[at]
            at += 1
            last = at == size or value[at] != v
            if not last and klass[at] == k:  # a sample does not merge its entries
                continue
            follows, pure, alone = below > least, alone and last, last
            left[k] += w
            below += w
            w = 0.0
            above = known - below
            if last and (not above > least or (top and at == size)):
                at = size
                break
            four[4 * moves] = left[k]
            four[4 * moves + 1] = max(0.0, total[k] - left[k])
            four[4 * moves + 2] = below
            four[4 * moves + 3] = above
            sums[2 * moves] = left[k]
            sums[2 * moves + 1] = below
            where[moves] = at if last and below > least else -at
            a, b = min(at, size - 1), min(at + 1, size - 1)
            skips = pure & follows & (a < b) & (klass[a] == k) & (value[a] != value[b])
            moves += not (skips & (above - weight[a] > least))  # no branch to guess wrong
        # The cells of all of them at once.
        if criterion == INFO_GAIN:
            for f in range(4 * moves):
                four[f] = xlog2x(four[f])
        else:
            for f in range(4 * moves):
                four[f] *= four[f]
        # Carry the impurity from cut to cut.
        for move in range(moves):
            k = klass[abs(where[move]) - 1]
            reached[k] = sums[2 * move]
            cells_below += four[4 * move] - left_cells[k]
            cells_above += four[4 * move + 1] - right_cells[k]
            left_cells[k] = four[4 * move]
            right_cells[k] = four[4 * move + 1]
            if where[move] < 0:
                continue
            if criterion == INFO_GAIN:
                after = four[4 * move + 2] + four[4 * move + 3] - (cells_below + cells_above)
            else:
                below_cut = sums[2 * move + 1]
                after = known - (cells_below / below_cut + cells_above / (known - below_cut))
            merit = before - after
            if merit > best - doubt and (
                merit > best + doubt
                or before - impurity_after(criterion, total, reached, classes)
                > before - impurity_after(criterion, total, best_left, classes)
            ):
                best = merit
                cut = value[where[move] - 1]
                for c in range(classes):
                    best_left[c] = reached[c]
    if best > -np.inf:
        offer_cut(scratch, j, before - impurity_after(criterion, total, best_left, classes), cut)


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
