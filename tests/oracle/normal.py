"""The normal test of StreamTree with its corrected variance, next to Hoeffding's.

A split is a list of branches; the null split X_0 is None: no spread, no bias.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tests.oracle import criterion as crit
from tests.oracle.criterion import Weights

DOUBT = 1e-9  # two computed numbers closer than this may be ordered either way by rounding
ENOUGH = 30.0  # weight below which no estimate is taken for normal
FLOOR_OF_SIGMA = 1e-6
Branches = Sequence[Weights]


def quantile(delta: float) -> float:
    """The z that a standard normal variable exceeds with probability delta, at least 0."""
    low, high = 0.0, 50.0
    while high - low > 1e-13:
        z = (low + high) / 2.0
        if math.erfc(z / math.sqrt(2.0)) / 2.0 > delta:
            low = z
        else:
            high = z
    return round(low, 9)


def sigma(branches: Branches | None, n: float, criterion: str) -> float:
    """Standard deviation of one event's influence on the gain; unknown events have none."""
    if branches is None:
        return 0.0
    cells = influences(branches, criterion)
    mean = sum(weight / n * influence for weight, influence in cells)
    square = sum(weight / n * influence**2 for weight, influence in cells)
    return max(math.sqrt(max(0.0, square - mean * mean)), FLOOR_OF_SIGMA)


def influences(branches: Branches, criterion: str) -> list[tuple[float, float]]:
    """(weight, influence) of every cell branch x class that holds weight."""
    known = crit.merged(branches)
    n_known = crit.total(known)
    found: list[tuple[float, float]] = []
    for branch in branches:
        n_branch = crit.total(branch)
        for k in sorted(branch):
            if branch[k] <= 0.0:
                continue
            if criterion == "info_gain":
                influence = math.log2(branch[k] * n_known / (n_branch * known[k]))
            else:
                apart = 2.0 * branch[k] / n_branch - sum_of_squared_shares(branch)
                influence = apart - 2.0 * known[k] / n_known + sum_of_squared_shares(known)
            found.append((branch[k], influence))
    return found


def sum_of_squared_shares(weights: Weights) -> float:
    """Q: the chance that two draws agree."""
    n = crit.total(weights)
    return sum((weights[k] / n) ** 2 for k in sorted(weights))


def joint_spread(sigma_a: float, sigma_b: float, covariance: str) -> float:
    """Standard deviation of the difference of two influences."""
    return sigma_a + sigma_b if covariance == "worst_case" else math.hypot(sigma_a, sigma_b)


def bias(branches: Branches | None, n: float, criterion: str) -> float:
    """How much an information gain of n events exceeds the true one on average."""
    if branches is None or criterion != "info_gain":
        return 0.0
    filled = sum(crit.total(branch) > 0.0 for branch in branches)
    classes = sum(weight > 0.0 for weight in crit.merged(branches).values())
    return (filled - 1) * (classes - 1) / (2.0 * n * math.log(2.0))


@dataclass(frozen=True)
class Duel:
    """A lead of one gain over another, and what it must exceed under the split test."""

    test: str
    lead: float
    n: float  # of the bound
    hoeffding: float  # Hoeffding's radius at n
    spread: float = 0.0  # quantile times joint spread
    bias: float = 0.0  # of the lead

    @property
    def is_normal(self) -> bool:
        """The normal radius is in force."""
        return self.test != "hoeffding" and self.n >= ENOUGH

    @property
    def normal(self) -> float:
        """The normal radius at n."""
        return self.spread / math.sqrt(self.n)

    @property
    def radius(self) -> float:
        """The smaller one of the radii in force; Hoeffding's while none is."""
        if not self.is_normal:
            return self.hoeffding
        return self.normal if self.test == "normal_strict" else min(self.hoeffding, self.normal)

    def is_won(self) -> bool:
        """The lead is significant."""
        by_hoeffding = self.test != "normal_strict" and self.lead > self.hoeffding
        return by_hoeffding or (self.is_normal and self.lead - self.bias > self.normal)

    def is_tied(self, tau: float) -> bool:
        """The radius is so small that the choice does not matter."""
        return (self.is_normal or self.test != "normal_strict") and self.radius < tau

    def kind(self, tau: float) -> str:
        """What the test says: "bound", "tie" or "none"."""
        if self.is_won():
            return "bound"
        return "tie" if self.is_tied(tau) else "none"

    def is_doubtful(self, tau: float) -> bool:
        """Rounding could change what the test says."""
        edges = [self.radius - tau]
        if self.test != "normal_strict":
            edges.append(self.lead - self.hoeffding)
        if self.is_normal:
            edges.append(self.lead - self.bias - self.normal)
        at_the_start = self.test != "hoeffding" and self.n != ENOUGH
        return any(abs(edge) < DOUBT for edge in edges) or (
            at_the_start and abs(self.n - ENOUGH) < DOUBT
        )
