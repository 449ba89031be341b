"""How uncertain a gain is: the variance of its influence function, and its bias.

A gain is a smooth function of the cell frequencies p_jk of a split. To first order its variance is
that of its influence function over n, which for two classes and two branches is [JA03] Lemma 2
with the factors 1/p_L and 1/(1-p_L) that the proportions inside the branches need:

    information gain   l_jk = log2(p_jk / (p_j p_k))
    Gini gain          l_jk = 2 p(k|j) - sum_k p(k|j)^2 - 2 p_k + sum_k p_k^2
    sigma^2            = sum p_jk l_jk^2 - (sum p_jk l_jk)^2

Events that do not know the attribute are one more cell, of influence 0.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from learner.kernels.bound import INFO_GAIN
from learner.kernels.elementary import log2
from learner.kernels.jit import kernel

Floats = npt.NDArray[np.float64]

LEAST_DEVIATION = 1e-6
_2_LN2 = 2.0 * math.log(2.0)


@kernel
def deviation(
    criterion: int, counts: Floats, branches: int, classes: int, n: float, margin: Floats
) -> float:
    """Sigma of the gain of a split with these branches, for one event; n counts the unknown too."""
    known, squares = 0.0, 0.0
    for k in range(classes):
        margin[k] = 0.0
        for j in range(branches):
            margin[k] += counts[j, k]
        known += margin[k]
    if known <= 0.0:
        return LEAST_DEVIATION
    for k in range(classes):
        squares += (margin[k] / known) * (margin[k] / known)
    mean, second = 0.0, 0.0
    for j in range(branches):
        n_j, purity = 0.0, 0.0
        for k in range(classes):
            n_j += counts[j, k]
        for k in range(classes):
            purity += (counts[j, k] / n_j) * (counts[j, k] / n_j) if n_j > 0.0 else 0.0
        for k in range(classes):
            n_jk = counts[j, k]
            if n_jk <= 0.0:
                continue
            if criterion == INFO_GAIN:
                influence = log2(n_jk * known / (n_j * margin[k]))
            else:
                influence = 2.0 * n_jk / n_j - purity - 2.0 * margin[k] / known + squares
            mean += n_jk / n * influence
            second += n_jk / n * influence * influence
    return max(LEAST_DEVIATION, math.sqrt(max(0.0, second - mean * mean)))


@kernel
def gain_bias(criterion: int, counts: Floats, branches: int, classes: int) -> float:
    """The bias of an information gain, times n: (v - 1)(c - 1) / 2 ln 2; a Gini gain has none."""
    if criterion != INFO_GAIN:
        return 0.0
    v, c = 0, 0
    for j in range(branches):
        weight = 0.0
        for k in range(classes):
            weight += counts[j, k]
        v += weight > 0.0
    for k in range(classes):
        weight = 0.0
        for j in range(branches):
            weight += counts[j, k]
        c += weight > 0.0
    return max(0, v - 1) * max(0, c - 1) / _2_LN2
