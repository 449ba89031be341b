"""Numeric attributes as one normal distribution a class: weight, mean, M2, lowest, highest.

One event touches one contiguous run of memory, and every loop below runs over many columns (and
all their candidate cut points) at once, so that it vectorises; over no more than the nearest cache
holds with all that is noted of them.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from learner.kernels.bound import GINI, INFO_GAIN
from learner.kernels.criterion import branch_impurity, cell
from learner.kernels.elementary import bell, normal_cdf_of, whole_vectors, xlog2x
from learner.kernels.jit import apart, inlined, inner, kernel
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
from learner.kernels.tree import HIGH, LOW, M2, MEAN, MISSING

Floats = npt.NDArray[np.float64]

# A distribution without spread is a step: z beyond this means all or nothing.
_FAR = 1e9
_STEP = 1e300
_CUTS_AT_ONCE = 512  # each has 56 bytes in scratch.points


@inlined
def columns_at_once(points: int) -> int:
    """How many columns are evaluated together, each with so many cuts: whole vectors of them."""
    return max(8, _CUTS_AT_ONCE // points // 8 * 8)


@inlined
def _share_below(z: float, bell_of_z: float) -> float:
    """Phi(z), and exactly nothing or all far out."""
    p = normal_cdf_of(z, bell_of_z)
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
    z = offset * (1.0 / math.sqrt(m2 / (known - 1.0)))
    return known * _share_below(z, bell(z))


@inner
def gaussian_merits(
    moments: Floats,
    slot: int,
    gaps: int,
    seen: Floats,
    before: float,
    rules: Rules,
    scratch: Scratch,
    first: int,
    end: int,
) -> None:
    """Best cut of the numeric columns first..end-1, and impurity before minus after, times weight.

    Candidates: split_points cuts, evenly between the lowest and the highest value seen. ``before``
    is the leaf's impurity times n; where values are missing (``gaps``), the known part counts.
    Writes MERIT (-inf: no admissible cut), CUT, KNOWN and BEFORE of scratch.numeric.
    """
    step = columns_at_once(rules.split_points)
    for at in range(first, end, step):
        _merits_at_once(moments, slot, gaps, seen, before, rules, scratch, at, min(at + step, end))


@inner
def _merits_at_once(
    moments: Floats,
    slot: int,
    gaps: int,
    seen: Floats,
    before: float,
    rules: Rules,
    scratch: Scratch,
    first: int,
    end: int,
) -> None:
    """The same for so few columns that scratch.points has room for them."""
    points, width = rules.split_points, end - first
    known, start = scratch.numeric[KNOWN, first:end], scratch.numeric[BEFORE, first:end]
    after, left, cells_left = scratch.points[1], scratch.points[2], scratch.points[4]
    cells_right, weights = scratch.points[5], scratch.points[6]
    is_info, size = rules.criterion == INFO_GAIN, whole_vectors(points * width)
    known_part(moments, slot, gaps, seen, before, rules.criterion, scratch, first, end)
    _find_range(moments, slot, seen, scratch, first, end)
    _lay_out_cuts(points, scratch, first, end)
    for k in range(len(seen)):
        if seen[k] > 0.0:
            _standardise_cuts(moments, slot, k, seen[k], points, scratch, first, end)
            _share_out(scratch.points[1, :size], scratch.points[3, :size], weights[:size])
            _add_class(
                scratch.points[3, :size], weights[:size], left[:size], cells_left[:size],
                cells_right[:size], is_info,
            )  # fmt: skip
    for b in range(points):
        _copy(known, weights[b * width : (b + 1) * width])
    _impurity_after(
        left[:size], weights[:size], cells_left[:size], cells_right[:size], is_info, after[:size]
    )
    for b in range(points):
        row = slice(b * width, (b + 1) * width)
        _merits(after[row], left[row], known, start, rules.min_branch_fraction)
    _choose(points, scratch, first, end)


@apart
def _impurity_after(
    left: Floats,
    known: Floats,
    cells_left: Floats,
    cells_right: Floats,
    is_info: bool,
    after: Floats,
) -> None:
    """The impurity of both sides of every cut, times their weights."""
    criterion = INFO_GAIN if is_info else GINI
    for q in range(len(after)):
        right = known[q] - left[q]
        after[q] = branch_impurity(criterion, left[q], cells_left[q])
        after[q] += branch_impurity(criterion, right, cells_right[q])


@apart
def _merits(merit: Floats, left: Floats, known: Floats, start: Floats, fraction: float) -> None:
    """From impurities after a split at one cut of each column to merits; -inf: not admissible."""
    for i in range(len(merit)):
        least = fraction * known[i]
        admissible = left[i] > least and known[i] - left[i] > least
        merit[i] = start[i] - merit[i] if admissible else -np.inf


@apart
def _copy(source: Floats, to: Floats) -> None:
    for i in range(len(to)):
        to[i] = source[i]


@inner
def known_part(
    moments: Floats,
    slot: int,
    gaps: int,
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
    if gaps:
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
    of_class = moments[slot, k]
    mean, m2 = of_class[MEAN, first:end], of_class[M2, first:end]
    low, high = of_class[LOW, first:end], of_class[HIGH, first:end]
    cuts, z, weights = scratch.points[0], scratch.points[1], scratch.points[6]
    scale, known = scratch.numeric[SCALE, first:end], scratch.numeric[OF_CLASS, first:end]
    _scale_class(m2, of_class[MISSING, first:end], class_weight, scale, known)
    if width == 1:
        size = whole_vectors(points)
        _standardise_one(
            z[:size], weights[:size], cuts[:size], mean[0], low[0], high[0], scale[0], known[0]
        )
        return
    for b in range(points):
        row = slice(b * width, (b + 1) * width)
        _standardise(z[row], cuts[row], mean, low, high, scale)
        _copy(known, weights[row])


@apart
def _scale_class(
    m2: Floats, missing: Floats, class_weight: float, scale: Floats, known: Floats
) -> None:
    """1 / s of every column, _STEP where there is no spread, and the weight that is known."""
    for i in range(len(m2)):
        w = class_weight - missing[i]
        s = 1.0 / math.sqrt(m2[i] / (w - 1.0))
        known[i] = w if w > 0.0 else 0.0
        scale[i] = s if w > 1.0 and m2[i] > 0.0 else _STEP


@apart
def _standardise(
    z: Floats, cuts: Floats, mean: Floats, low: Floats, high: Floats, scale: Floats
) -> None:
    """One cut of every column as z."""
    for i in range(len(z)):
        z[i] = _standardised(cuts[i], mean[i], low[i], high[i], scale[i])


@apart
def _standardise_one(
    z: Floats,
    weights: Floats,
    cuts: Floats,
    mean: float,
    low: float,
    high: float,
    scale: float,
    known: float,
) -> None:
    """All cuts of one column as z, and its weight beside each."""
    for b in range(len(z)):
        z[b] = _standardised(cuts[b], mean, low, high, scale)
        weights[b] = known


@inlined
def _standardised(cut: float, mean: float, low: float, high: float, scale: float) -> float:
    """(cut - mean) / s, and far out where the class has nothing on one side."""
    offset = cut - mean
    far = _FAR if offset >= 0.0 else -_FAR
    at = far if scale == _STEP else offset * scale
    at = -_FAR if cut < low else at
    return _FAR if cut >= high else at


@apart
def _share_out(z: Floats, below: Floats, weights: Floats) -> None:
    """How much of a class lies below each cut.

    Two loops, so that the constants of each have a place in the processor.
    """
    for q in range(len(z)):
        below[q] = bell(z[q])
    for q in range(len(z)):
        below[q] = weights[q] * _share_below(z[q], below[q])


@apart
def _add_class(
    of_class: Floats,
    weights: Floats,
    left: Floats,
    cells_left: Floats,
    cells_right: Floats,
    is_info: bool,
) -> None:
    """Add what a class has below to both sides of every candidate cut.

    Entropy needs only the sum of the cells of both sides, which is kept on the left.
    """
    if is_info:
        for q in range(len(of_class)):
            below = of_class[q]
            left[q] += below
            cells_left[q] += xlog2x(below) + xlog2x(weights[q] - below)
    else:
        for q in range(len(of_class)):
            below = of_class[q]
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
