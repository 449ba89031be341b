"""The radius of a split test: Hoeffding's, the normal one, or the smaller of both."""

from __future__ import annotations

import math

from learner.kernels.elementary import log2
from learner.kernels.jit import inner, kernel
from learner.kernels.rules import HOEFFDING, NORMAL_STRICT, Rules

INFO_GAIN, GINI = 0, 1
FEW = 30.0  # below this weight a normal approximation says nothing


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


@inner
def radius(rules: Rules, R: float, n: float, spread: float) -> float:
    """The radius in force at n; ``spread`` is z times the joint deviation of the two gains."""
    if n < FEW:
        return hoeffding_bound(R, rules.log_inverse_delta, n)
    return expected_radius(rules, R, n, spread)


@inner
def expected_radius(rules: Rules, R: float, n: float, spread: float) -> float:
    """The radius once n events are there, if the spread stays as it is.

    Normal: epsilon = z sqrt((s_a^2 + s_b^2) / n).   [JA03] Eq. 5, with the variance corrected.
    """
    hoeffding = hoeffding_bound(R, rules.log_inverse_delta, n)
    if rules.split_test == HOEFFDING:
        return hoeffding
    normal = spread / math.sqrt(n)
    return normal if rules.split_test == NORMAL_STRICT else min(hoeffding, normal)


@inner
def lead_passes(rules: Rules, R: float, n: float, gap: float, spread: float, bias: float) -> bool:
    """Whether a lead of ``gap`` is beyond doubt; the normal test takes the gains' bias off."""
    if rules.split_test != NORMAL_STRICT and gap > hoeffding_bound(R, rules.log_inverse_delta, n):
        return True
    if rules.split_test == HOEFFDING or n < FEW:
        return False
    return gap - bias / n > spread / math.sqrt(n)


@inner
def count_needed(rules: Rules, R: float, gap: float, spread: float) -> float:
    """The weight at which the expected radius equals the gap; inf for a gap of 0."""
    if gap <= 0.0:
        return math.inf
    hoeffding = hoeffding_count(R, rules.log_inverse_delta, gap)
    if rules.split_test == HOEFFDING:
        return hoeffding
    normal = (spread / gap) * (spread / gap)
    return normal if rules.split_test == NORMAL_STRICT else min(hoeffding, normal)
