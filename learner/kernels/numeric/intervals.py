"""Intervals that cannot hold the best cut are not searched.   [JA03] Sec. 4, NIP.

Cuts are the edges of all intervals and the values inside intact ones. What a cut inside interval i
can gain is bounded by the class weights below and inside it, without looking at its values:

    u_i = max over subsets S of classes of gain(left = below + inside of S)         corner bound
    u_i = gain of the events outside interval i, as if those inside were sorted out   loose bound
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.kernels.jit import flag, inner, int64
from learner.kernels.numeric.blocks import shrink_block
from learner.kernels.numeric.entries import compact, lay_if_needed
from learner.kernels.numeric.histogram import DROPPED, INTACT, PRUNED, interval_of
from learner.kernels.numeric.ordered import (
    BELOW,
    BEST_LEFT,
    LEFT,
    TOTAL,
    impurity_after,
    offer_cut,
    start_column,
    sweep,
)
from learner.kernels.rules import (
    AUTO_BOUND,
    BEFORE,
    CORNER_BOUND,
    CUT,
    INTERVALS,
    KNOWN,
    MERIT,
    ORDERED,
    Rules,
    Scratch,
)
from learner.kernels.tree import NOWHERE, Tree

Floats = npt.NDArray[np.float64]

_EXACT_UP_TO = 4  # classes of the tree
_MOST_CORNERS = 16  # classes inside one interval, if corners are asked for


@inner
def entry_merits(
    tree: Tree, slot: int, seen: Floats, before: float, rules: Rules, scratch: Scratch,
    first: int, end: int, settles: bool,
) -> None:  # fmt: skip
    """Best cut of columns first..end-1, and its impurity before minus after, times the weight.

    Intervals are laid only where it ``settles``, in an attempt or a re-evaluation: an audit, or a
    look at one candidate, must leave no trace. Writes MERIT (-inf: no admissible cut), CUT, KNOWN
    and BEFORE of scratch.numeric. ``before`` is the node's impurity times n; where values are
    missing, the known part counts.
    """
    classes, rows = len(seen), scratch.numeric
    for j in range(first, end):
        compact(tree, rules, scratch, slot, j)
        if settles and rules.observer == INTERVALS:
            lay_if_needed(tree, rules, slot, j, rules.intervals)
        elif settles and rules.observer == ORDERED:
            lay_if_needed(tree, rules, slot, j, rules.max_distinct)
        start_column(tree, slot, seen, before, rules, scratch, j)
        rows[MERIT, j] = -np.inf
        rows[CUT, j] = 0.0
        column = tree.column[slot, j]
        if column.histogram == NOWHERE:
            for k in range(classes):
                scratch.classes[LEFT, k] = 0.0
            end_of_run = column.start + column.run
            sweep(tree, rules, scratch, j, classes, column.start, end_of_run, classes > 0)
        else:
            _interval_cuts(tree, rules, scratch, slot, j, classes)


@inner
def _interval_cuts(
    tree: Tree, rules: Rules, scratch: Scratch, slot: int, j: int, classes: int
) -> None:
    """Offer the edges of all intervals, and the values of intact ones.

    Behind an empty interval nothing is new, and above the highest weight there is no cut.
    """
    column, rows = tree.column[slot, j], scratch.numeric
    h, below, total = int64(column.histogram), scratch.classes[BELOW], scratch.classes[TOTAL]
    cells = tree.histogram[h]
    top, least, left = _highest(cells), rules.min_branch_fraction * rows[KNOWN, j], 0.0
    for k in range(classes):
        below[k] = 0.0
    for i in range(top + 1):
        inside = 0.0
        for k in range(classes):
            inside += cells[i, k]
        if inside == 0.0:
            continue
        if tree.pruned[h, i] == INTACT:
            _look_inside(tree, rules, scratch, slot, j, classes, i, i == top)
        left += inside
        for k in range(classes):
            below[k] += cells[i, k]
        if i < top and left > least and rows[KNOWN, j] - left > least:
            after = impurity_after(rules.criterion, total, below, classes)
            offer_cut(scratch, j, rows[BEFORE, j] - after, column.low + (i + 1) * column.step)


@inner
def _highest(cells: Floats) -> int:
    """The highest interval with weight."""
    for i in range(cells.shape[0] - 1, 0, -1):
        for k in range(cells.shape[1]):
            if cells[i, k] > 0.0:
                return i
    return int64(0)


@inner
def _look_inside(
    tree: Tree, rules: Rules, scratch: Scratch, slot: int, j: int, classes: int, i: int, top: bool
) -> None:
    """Offer the values of interval i; scratch.classes[BELOW] lies below it."""
    column = tree.column[slot, j]
    first, end = column.start, column.start + column.run
    if i > 0:
        first = _after(tree.entry_value, first, end, column.low + i * column.step)
    if i + 1 < tree.histogram.shape[1]:
        end = _after(tree.entry_value, first, end, column.low + (i + 1) * column.step)
    for k in range(classes):
        scratch.classes[LEFT, k] = scratch.classes[BELOW, k]
    sweep(tree, rules, scratch, j, classes, first, end, top)


@inner
def _after(value: Floats, first: int, end: int, x: float) -> int:
    """The place of the first of sorted values that is above x."""
    while first < end:
        middle = (first + end) // 2
        if value[middle] <= x:
            first = middle + 1
        else:
            end = middle
    return first


@inner
def look_again(
    tree: Tree, slot: int, seen: Floats, rules: Rules, scratch: Scratch,
    best: float, epsilon: float, n: float, settles: bool,
) -> None:  # fmt: skip
    """Open every pruned interval that could come within epsilon of the best gain, and search it.

    MERIT of scratch.numeric is still times weight n.   [JA03] Sec. 4, step 2.
    """
    _review(tree, slot, seen, rules, scratch, (best - epsilon) * n, flag(True), settles)


@inner
def prune(
    tree: Tree, slot: int, seen: Floats, rules: Rules, scratch: Scratch,
    best: float, epsilon: float, n: float,
) -> None:  # fmt: skip
    """Close every intact interval that cannot come within epsilon of the best gain.

    Its entries stay for another look, or are dropped for good.   [JA03] Sec. 4, step 4.
    """
    _review(tree, slot, seen, rules, scratch, (best - epsilon) * n, flag(False), flag(True))


@inner
def _review(
    tree: Tree,
    slot: int,
    seen: Floats,
    rules: Rules,
    scratch: Scratch,
    needed: float,
    opens: bool,
    settles: bool,
) -> None:
    """Compare the bounds of pruned (opens) or intact intervals with the merit that is needed."""
    classes, below = len(seen), scratch.classes[BELOW]
    for j in range(tree.column.shape[1]):
        h = int64(tree.column[slot, j].histogram)
        merit = scratch.numeric[MERIT, j]
        if h == NOWHERE or merit != merit:  # NaN: not considered at this node
            continue
        start_column(tree, slot, seen, scratch.numeric[BEFORE, j], rules, scratch, j)
        for k in range(classes):
            below[k] = 0.0
        cells, pruned = tree.histogram[h], tree.pruned[h]
        top, drops = _highest(cells), False
        for i in range(cells.shape[0]):
            if pruned[i] == (PRUNED if opens else INTACT):
                bound = _bound_inside(rules, scratch, j, cells[i], classes, needed)
                if opens and bound > needed:
                    pruned[i] = INTACT if settles else PRUNED
                    _look_inside(tree, rules, scratch, slot, j, classes, i, i == top)
                elif not opens and bound < needed:
                    pruned[i] = PRUNED if rules.keep_details else DROPPED
                    drops = not rules.keep_details
            for k in range(classes):
                below[k] += cells[i, k]
        if drops:
            compact(tree, rules, scratch, slot, j)
            _drop_entries(tree, slot, j)


@inner
def _bound_inside(
    rules: Rules, scratch: Scratch, j: int, inside: Floats, classes: int, needed: float
) -> float:
    """A merit that no cut inside an interval exceeds, as exact as it must be to know ``needed``."""
    total, below = scratch.classes[TOTAL], scratch.classes[BELOW]
    outside, left = scratch.classes[BEST_LEFT], scratch.classes[LEFT]
    before, present = scratch.numeric[BEFORE, j], 0
    for k in range(classes):
        outside[k] = max(0.0, total[k] - inside[k])
        present += inside[k] > 0.0
    loose = before - impurity_after(rules.criterion, outside, below, classes)
    corner = rules.interval_bound == CORNER_BOUND
    corner |= rules.interval_bound == AUTO_BOUND and classes <= _EXACT_UP_TO
    if loose <= needed or not corner or present > _MOST_CORNERS:
        return loose
    bound = -np.inf
    for subset in range(1 << present):
        bit = 1
        for k in range(classes):
            left[k] = below[k]
            if inside[k] > 0.0:
                left[k] += inside[k] if subset & bit else 0.0
                bit <<= 1
        bound = max(bound, before - impurity_after(rules.criterion, total, left, classes))
        if bound > needed:
            break
    return bound


@inner
def _drop_entries(tree: Tree, slot: int, j: int) -> None:
    """Forget the entries of dropped intervals."""
    column = tree.column[slot, j]
    low, step, intervals = column.low, column.step, tree.histogram.shape[1]
    start, h, kept = column.start, int64(column.histogram), int64(0)
    for q in range(start, start + column.run):
        v = tree.entry_value[q]
        if tree.pruned[h, interval_of(low, step, intervals, v)] != DROPPED:
            tree.entry_value[start + kept] = v
            tree.entry_weight[start + kept] = tree.entry_weight[q]
            tree.entry_class[start + kept] = tree.entry_class[q]
            kept += 1
    column.run = kept
    column.used = kept
    shrink_block(tree, slot, j)
