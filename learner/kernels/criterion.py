"""Impurity of a class distribution: entropy in bits, or the Gini form.

Both are kept as sums over cells, so that one pass over counts serves every split:

    entropy   H(D) = (L(n) - sum_k L(n_k)) / n           L(z) = z log2 z
    Gini      Q(D) = sum_k n_k^2 / n^2                    impurity = 1 - Q

``cell`` is the summand of one count, ``branch_impurity`` closes the sum for one branch (times its
weight), and a gain is the impurity before the split minus the impurity after it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.kernels.bound import INFO_GAIN
from learner.kernels.elementary import xlog2x
from learner.kernels.jit import inlined, kernel

Floats = npt.NDArray[np.float64]


@inlined
def cell(criterion: int, count: float) -> float:
    """What one count adds to its branch's sum: L(n_k), or n_k^2."""
    return xlog2x(count) if criterion == INFO_GAIN else count * count


@inlined
def branch_impurity(criterion: int, total: float, cells: float) -> float:
    """The impurity of a branch times n_j: L(n_j) - cells, or n_j - cells / n_j; 0 when empty."""
    if total <= 0.0:
        return 0.0
    return xlog2x(total) - cells if criterion == INFO_GAIN else total - cells / total


@kernel
def impurity(criterion: int, counts: Floats) -> float:
    """The impurity of a class distribution, times its weight."""
    total = 0.0
    cells = 0.0
    for k in range(len(counts)):
        total += counts[k]
        cells += cell(criterion, counts[k])
    return branch_impurity(criterion, total, cells)
