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
    tree: Tree,
    slot: int,
    seen: Floats,
    before: float,
    rules: Rules,
    scratch: Scratch,
    first: int,
    end: int,
) -> None:
    """Best cut of the numeric columns first..end-1, and impurity before minus after, times weight.

    Candidates: split_points cuts, evenly between the lowest and the highest value seen. ``before``
    is the leaf's impurity times n; where values are missing, the known part counts.
    Writes MERIT (-inf: no admissible cut), CUT, KNOWN and BEFORE of scratch.numeric.
    """
    points, width = rules.split_points, end - first
    known, start = scratch.numeric[KNOWN, first:end], scratch.numeric[BEFORE, first:end]
    merit, left = scratch.points[1], scratch.points[2]
    cells_left, cells_right = scratch.points[4], scratch.points[5]
    criterion, fraction = rules.criterion, rules.min_branch_fraction
    known_part(tree, slot, seen, before, criterion, scratch, first, end)
    _find_range(tree.moments, slot, seen, scratch, first, end)
    _lay_out_cuts(points, scratch, first, end)
    for k in range(len(seen)):
        if seen[k] > 0.0:
            _standardise_cuts(tree.moments, slot, k, seen[k], points, scratch, first, end)
            _add_class(points * width, criterion == INFO_GAIN, scratch)
    for b in range(points):
        for i in range(width):
            q = b * width + i
            right = known[i] - left[q]
            after = branch_impurity(criterion, left[q], cells_left[q])
            after += branch_impurity(criterion, right, cells_right[q])
            least = fraction * known[i]
            admissible = left[q] > least and right > least
            merit[q] = start[i] - after if admissible else -np.inf
    _choose(points, scratch, first, end)


@inner
def known_part(
    tree: Tree,
    slot: int,
    seen: Floats,
    before: float,
    criterion: int,
    scratch: Scratch,
    first: int,
    end: int,
) -> None:
    """KNOWN weight of the columns first..end-1, and the impurity of that part, BEFORE a split."""
    known, start = scratch.numeric[KNOWN], scratch.numeric[BEFORE]
    n = 0.0
    for k in range(len(seen)):
        n += seen[k]
    for j in range(first, end):
        known[j] = n
        start[j] = before
    if tree.slot[slot].gaps:
        moments = tree.moments
        for j in range(first, end):
            total = 0.0
            cells = 0.0
            for k in range(len(seen)):
                w = max(0.0, seen[k] - moments[slot, k, MISSING, j])
                total += w
                cells += cell(criterion, w)
            known[j] = total
            start[j] = branch_impurity(criterion, total, cells)


@inner
def _find_range(
    moments: Floats, slot: int, seen: Floats, scratch: Scratch, first: int, end: int
) -> None:
    """The lowest and the highest value of every column."""
    low, high = scratch.numeric[LOWEST], scratch.numeric[HIGHEST]
    for j in range(first, end):
        low[j] = np.inf
        high[j] = -np.inf
    for k in range(len(seen)):
        if seen[k] > 0.0:
            for j in range(first, end):
                a, b = moments[slot, k, LOW, j], moments[slot, k, HIGH, j]
                low[j] = a if a < low[j] else low[j]
                high[j] = b if b > high[j] else high[j]


@inner
def _lay_out_cuts(points: int, scratch: Scratch, first: int, end: int) -> None:
    """t_b = low + b (high - low) / (B + 1) for every column, and empty sums on both sides."""
    low, high = scratch.numeric[LOWEST, first:end], scratch.numeric[HIGHEST, first:end]
    cuts, width = scratch.points[0], end - first
    for b in range(points):
        for i in range(width):
            cuts[b * width + i] = low[i] + (high[i] - low[i]) / (points + 1.0) * (b + 1.0)
    scratch.points[2:6, : points * width] = 0.0


@inner
def _standardise_cuts(
    moments: Floats,
    slot: int,
    k: int,
    class_weight: float,
    points: int,
    scratch: Scratch,
    first: int,
    end: int,
) -> None:
    """Every cut as z under class k, and the known weight of the class beside it."""
    width = end - first
    of_class = moments[slot, k, :, first:end]
    cuts, z, weights = scratch.points[0], scratch.points[1], scratch.points[6]
    scale, known = scratch.numeric[SCALE, first:end], scratch.numeric[OF_CLASS, first:end]
    for i in range(width):
        w = class_weight - of_class[MISSING, i]
        m2 = of_class[M2, i]
        s = 1.0 / math.sqrt(m2 / (w - 1.0))
        known[i] = w if w > 0.0 else 0.0
        scale[i] = s if w > 1.0 and m2 > 0.0 else _STEP
    # One loop writes one array: with more, the compiler gives up proving that they are apart.
    for b in range(points):
        for i in range(width):
            cut = cuts[b * width + i]
            offset = cut - of_class[MEAN, i]
            at = offset * scale[i]
            far = _FAR if offset >= 0.0 else -_FAR
            at = far if scale[i] == _STEP else at
            at = -_FAR if cut < of_class[LOW, i] else at
            z[b * width + i] = _FAR if cut >= of_class[HIGH, i] else at
    for b in range(points):
        for i in range(width):
            weights[b * width + i] = known[i]


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
def _choose(points: int, scratch: Scratch, first: int, end: int) -> None:
    """The best cut of each column; ties to the lower one."""
    low, high = scratch.numeric[LOWEST], scratch.numeric[HIGHEST]
    cuts, merit, width = scratch.points[0], scratch.points[1], end - first
    for j in range(first, end):
        best = -np.inf
        at = 0.0
        for b in range(points):
            q = b * width + j - first
            if merit[q] > best and low[j] < cuts[q] < high[j]:
                best = merit[q]
                at = cuts[q]
        scratch.numeric[MERIT, j] = best
        scratch.numeric[CUT, j] = at
