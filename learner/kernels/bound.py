"""The Hoeffding bound and the tie rule."""

from __future__ import annotations

import math

from learner.kernels.elementary import log2
from learner.kernels.jit import kernel

INFO_GAIN, GINI = 0, 1


@kernel
def gain_range(criterion: int, tight: bool, classes: int) -> float:
    """R: log2 c for information gain; 1, or 1 - 1/c when tight, for Gini. c is at least 2."""
    c = float(max(2, classes))
    if criterion == INFO_GAIN:
        return log2(c)
    return 1.0 - 1.0 / c if tight else 1.0


@kernel
def hoeffding_bound(R: float, log_inverse_delta: float, n: float) -> float:
    """The radius epsilon = sqrt(R^2 ln(1/delta) / 2n).   [DH00] Eq. 1."""
    return math.sqrt(R * R * log_inverse_delta / (2.0 * n))


@kernel
def hoeffding_count(R: float, log_inverse_delta: float, gap: float) -> float:
    """The n at which epsilon equals the gap: R^2 ln(1/delta) / 2 gap^2."""
    return R * R * log_inverse_delta / (2.0 * gap * gap)
