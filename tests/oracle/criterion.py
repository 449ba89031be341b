"""Gains and bounds over plain dictionaries class -> weight.

A branch is a dictionary; a split is a list of branches.  Nothing here knows of trees.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

Weights = Mapping[int, float]


def xlog2x(z: float) -> float:
    """z * log2(z), continued by 0 at z = 0."""
    return z * math.log2(z) if z > 0.0 else 0.0


def total(weights: Weights) -> float:
    """Sum of the weights, in class order."""
    return sum(weights[k] for k in sorted(weights))


def impurity_sum(weights: Weights, criterion: str) -> float:
    """The branch's impurity times its weight: entropy in bits, or the Gini impurity."""
    n = total(weights)
    if n <= 0.0:
        return 0.0
    if criterion == "info_gain":
        return xlog2x(n) - sum(xlog2x(weights[k]) for k in sorted(weights))
    return n - sum(weights[k] ** 2 for k in sorted(weights)) / n


def gain(
    before: Weights,
    branches: Sequence[Weights],
    *,
    criterion: str,
    scale: float = 1.0,
    over: float | None = None,
) -> float:
    """Impurity of `before` minus the mean impurity of the branches, times `scale`.

    The mean is over the branches' weight, or over a larger one whose rest is free of impurity.
    """
    n_before = total(before)
    n_after = sum(total(branch) for branch in branches) if over is None else over
    if n_before <= 0.0 or n_after <= 0.0:
        return 0.0
    at_once = impurity_sum(before, criterion) / n_before
    apart = sum(impurity_sum(branch, criterion) for branch in branches) / n_after
    return scale * (at_once - apart)


def is_admissible(branches: Sequence[Weights], fraction: float) -> bool:
    """At least two branches hold more than `fraction` of the candidate's weight."""
    weights = [total(branch) for branch in branches]
    return sum(weight > fraction * sum(weights) for weight in weights) >= 2


def gain_range(classes: int, *, criterion: str, gini_range: str) -> float:
    """R: the largest gain that `classes` classes allow."""
    if criterion == "info_gain":
        return math.log2(classes)
    return 1.0 if gini_range == "one" else 1.0 - 1.0 / classes


def hoeffding(value_range: float, delta: float, n: float) -> float:
    """Radius of the Hoeffding bound after weight n."""
    return math.sqrt(value_range * value_range * math.log(1.0 / delta) / (2.0 * n))


def merged(parts: Iterable[Weights]) -> dict[int, float]:
    """Class by class sum of several branches."""
    out: dict[int, float] = {}
    for part in parts:
        for k, weight in part.items():
            out[k] = out.get(k, 0.0) + weight
    return out


def without(whole: Weights, part: Weights) -> dict[int, float]:
    """Class by class difference, never below 0."""
    return {k: max(0.0, weight - part.get(k, 0.0)) for k, weight in whole.items()}


def majority(weights: Weights) -> int:
    """Class of the largest weight; the smallest index among equals."""
    return min(weights, key=lambda k: (-weights[k], k))


def normalised(weights: Weights) -> dict[int, float]:
    """The weights as shares of their sum."""
    n = total(weights)
    return {k: weight / n for k, weight in weights.items()}


def normal_cdf(z: float) -> float:
    """Distribution function of the standard normal."""
    return 0.5 * (1.0 + math.erf(z / math.sqrt(2.0)))
