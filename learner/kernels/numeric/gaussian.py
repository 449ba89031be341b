"""Numeric attributes as one normal distribution a class: weight, mean, M2, lowest, highest.

One event touches one contiguous run of memory, and every loop below runs over all columns (and
all candidate cut points) at once, so that it vectorises.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from learner.kernels.bound import INFO_GAIN
from learner.kernels.criterion import branch_impurity, cell
from learner.kernels.elementary import normal_cdf, xlog2x
from learner.kernels.jit import inlined, inner, kernel
from learner.kernels.rules import (
    BEFORE,
    CUT,
    HIGHEST,
    KNOWN,
    LOWEST,
    MERIT,
    OF_CLASS,
    SCALE,
    Rules,
    Scratch,
)
from learner.kernels.tree import HIGH, LOW, M2, MEAN, MISSING, Tree

Floats = npt.NDArray[np.float64]

# A distribution without spread is a step: z beyond this means all or nothing.
_FAR = 1e9
_STEP = 1e300


@inner
def observe_with_gaps(
    tree: Tree, slot: int, k: int, weight: float, class_weight: float, x: Floats, row: int
) -> None:
    """Weighted Welford update of one event, where values are or were missing (NaN).

    ``class_weight`` is the weight of class k at the leaf, this event included; what of it was
    missing in a column is kept in that column.
    """
    m = tree.moments
    for j in range(x.shape[1]):
        value = x[row, j]
        if value != value:
            m[slot, k, MISSING, j] += weight
            tree.slot[slot].gaps = 1
            continue
        known = class_weight - m[slot, k, MISSING, j]
        delta = value - m[slot, k, MEAN, j]
        mean = m[slot, k, MEAN, j] + delta * (weight / known)
        m[slot, k, MEAN, j] = mean
        m[slot, k, M2, j] += weight * delta * (value - mean)
        m[slot, k, LOW, j] = min(m[slot, k, LOW, j], value)
        m[slot, k, HIGH, j] = max(m[slot, k, HIGH, j], value)


@inlined
def _share_below(z: float) -> float:
    """Phi(z), and exactly nothing or all far out."""
    p = normal_cdf(z)
    p = 0.0 if z <= -_FAR else p
    return 1.0 if z >= _FAR else p


@kernel
def weight_below(moments: Floats, slot: int, k: int, j: int, known: float, cut: float) -> float:
    """Weight of class k with x <= cut: W Phi((cut - mean) / s), exact outside [low, high]."""
    if known <= 0.0 or cut < moments[slot, k, LOW, j]:
        return 0.0
    if cut >= moments[slot, k, HIGH, j]:
        return known
    m2 = moments[slot, k, M2, j]
    offset = cut - moments[slot, k, MEAN, j]
    if known <= 1.0 or m2 <= 0.0:
        return known if offset >= 0.0 else 0.0
    return known * _share_below(offset * (1.0 / math.sqrt(m2 / (known - 1.0))))


@inner
def gaussian_merits(
    tree: Tree, slot: int, seen: Floats, before: float, rules: Rules, scratch: Scratch
) -> None:
    """Best cut of every numeric column, and its impurity before minus after, times the weight.

    Candidates: split_points cuts, evenly between the lowest and the highest value seen. ``before``
    is the leaf's impurity times n; where values are missing, the known part counts.
    Writes scratch.numeric_merit (-inf: no admissible cut), numeric_cut and the known weights.
    """
    points = rules.split_points
    columns = tree.moments.shape[3]
    known, start = scratch.numeric[KNOWN], scratch.numeric[BEFORE]
    merit, left = scratch.points[1], scratch.points[2]
    cells_left, cells_right = scratch.points[4], scratch.points[5]
    _prepare(tree, slot, seen, before, rules, scratch)
    _lay_out_cuts(points, columns, scratch)
    for k in range(len(seen)):
        if seen[k] > 0.0:
            _standardise_cuts(tree.moments, slot, k, seen[k], points, scratch)
            _add_class(points * columns, rules.criterion == INFO_GAIN, scratch)
    for b in range(points):
        for j in range(columns):
            q = b * columns + j
            right = known[j] - left[q]
            after = branch_impurity(rules.criterion, left[q], cells_left[q])
            after += branch_impurity(rules.criterion, right, cells_right[q])
            least = rules.min_branch_fraction * known[j]
            admissible = left[q] > least and right > least
            merit[q] = start[j] - after if admissible else -np.inf
    _choose(points, columns, scratch)


@inner
def _prepare(
    tree: Tree, slot: int, seen: Floats, before: float, rules: Rules, scratch: Scratch
) -> None:
    """Range, known weight and impurity before, per column."""
    moments = tree.moments
    columns = moments.shape[3]
    low, high = scratch.numeric[LOWEST], scratch.numeric[HIGHEST]
    known, start = scratch.numeric[KNOWN], scratch.numeric[BEFORE]
    n = 0.0
    for k in range(len(seen)):
        n += seen[k]
    for j in range(columns):
        low[j] = np.inf
        high[j] = -np.inf
        known[j] = n
        start[j] = before
    for k in range(len(seen)):
        if seen[k] > 0.0:
            for j in range(columns):
                a, b = moments[slot, k, LOW, j], moments[slot, k, HIGH, j]
                low[j] = a if a < low[j] else low[j]
                high[j] = b if b > high[j] else high[j]
    if tree.slot[slot].gaps:
        for j in range(columns):
            total = 0.0
            cells = 0.0
            for k in range(len(seen)):
                w = max(0.0, seen[k] - moments[slot, k, MISSING, j])
                total += w
                cells += cell(rules.criterion, w)
            known[j] = total
            start[j] = branch_impurity(rules.criterion, total, cells)


@inner
def _lay_out_cuts(points: int, columns: int, scratch: Scratch) -> None:
    """t_b = low + b (high - low) / (B + 1) for every column, and empty sums on both sides."""
    low, high = scratch.numeric[LOWEST], scratch.numeric[HIGHEST]
    cuts = scratch.points[0]
    for b in range(points):
        for j in range(columns):
            cuts[b * columns + j] = low[j] + (high[j] - low[j]) / (points + 1.0) * (b + 1.0)
    scratch.points[2:6, : points * columns] = 0.0


@inner
def _standardise_cuts(
    moments: Floats, slot: int, k: int, class_weight: float, points: int, scratch: Scratch
) -> None:
    """Every cut as z under class k, and the known weight of the class beside it."""
    columns = moments.shape[3]
    cuts, z, weights = scratch.points[0], scratch.points[1], scratch.points[6]
    scale, known = scratch.numeric[SCALE], scratch.numeric[OF_CLASS]
    for j in range(columns):
        w = class_weight - moments[slot, k, MISSING, j]
        m2 = moments[slot, k, M2, j]
        s = 1.0 / math.sqrt(m2 / (w - 1.0))
        known[j] = w if w > 0.0 else 0.0
        scale[j] = s if w > 1.0 and m2 > 0.0 else _STEP
    # One loop writes one array: with more, the compiler gives up proving that they are apart.
    for b in range(points):
        for j in range(columns):
            cut = cuts[b * columns + j]
            offset = cut - moments[slot, k, MEAN, j]
            at = offset * scale[j]
            far = _FAR if offset >= 0.0 else -_FAR
            at = far if scale[j] == _STEP else at
            at = -_FAR if cut < moments[slot, k, LOW, j] else at
            z[b * columns + j] = _FAR if cut >= moments[slot, k, HIGH, j] else at
    for b in range(points):
        for j in range(columns):
            weights[b * columns + j] = known[j]


@inner
def _add_class(size: int, info: bool, scratch: Scratch) -> None:
    """Add one class to both sides of every candidate cut.

    Entropy needs only the sum of the cells of both sides, which is kept on the left.
    """
    z, weights, left = scratch.points[1], scratch.points[6], scratch.points[2]
    cells_left, cells_right = scratch.points[4], scratch.points[5]
    if info:
        for q in range(size):
            below = weights[q] * _share_below(z[q])
            left[q] += below
            cells_left[q] += xlog2x(below) + xlog2x(weights[q] - below)
    else:
        for q in range(size):
            below = weights[q] * _share_below(z[q])
            above = weights[q] - below
            left[q] += below
            cells_left[q] += below * below
            cells_right[q] += above * above


@inner
def _choose(points: int, columns: int, scratch: Scratch) -> None:
    """The best cut of each column; ties to the lower one."""
    low, high = scratch.numeric[LOWEST], scratch.numeric[HIGHEST]
    cuts, merit = scratch.points[0], scratch.points[1]
    for j in range(columns):
        best = -np.inf
        at = 0.0
        for b in range(points):
            q = b * columns + j
            if merit[q] > best and low[j] < cuts[q] < high[j]:
                best = merit[q]
                at = cuts[q]
        scratch.numeric[MERIT, j] = best
        scratch.numeric[CUT, j] = at
