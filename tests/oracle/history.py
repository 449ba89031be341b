"""What the slow twin remembers of how its tree came about."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tests.oracle.leaf import DOUBT, Leaf, Options, Verdict, bound_weight
from tests.oracle.normal import ENOUGH
from tests.oracle.timing import hoeffding_scale, reached_at

UNKNOWN = -1.0


@dataclass(frozen=True)
class Fact:
    """Why a node has its test."""

    reason: str
    merit: float
    second_merit: float
    bound: float
    n: float
    event: int
    second: int | None  # feature of the runner-up, None: not to split
    is_second_doubtful: bool  # another candidate was as good, up to rounding


@dataclass
class History:
    """Facts by node, and the comings and goings of statistics."""

    created: dict[int, int] = field(default_factory=lambda: {0: 0})
    facts: dict[int, Fact] = field(default_factory=dict)
    forecast: dict[int, float] = field(default_factory=dict)  # of leaves that failed an attempt
    forecasts: list[float] = field(default_factory=list)  # one a structural change
    activity: list[tuple[int, int, str]] = field(default_factory=list)  # event, node, what

    def note(self, event: int, leaf: Leaf, verdict: Verdict, reason: str) -> None:
        """A test is installed at the node of these statistics."""
        second = verdict.second
        gains = [candidate.gain for candidate in verdict.ranked if candidate is not verdict.best]
        close = [gain for gain in gains if abs(gain - verdict.second_merit) < DOUBT]
        self.facts[leaf.id] = Fact(
            reason, verdict.merit, verdict.second_merit, verdict.bound, leaf.n, event,
            None if second is None else second.feature, len(close) > 1,
        )  # fmt: skip

    def changed(self, node: int) -> None:
        """A line for a structural change: what the last failed attempt foresaw."""
        self.forecasts.append(self.forecast.get(node, UNKNOWN))


def split_weight(verdict: Verdict, leaf: Leaf, classes: int, o: Options) -> float:
    """The n at which the test passes if the lead stays; by each test in force, or by the tie."""
    if verdict.best is None or verdict.merit <= o.min_merit:
        return UNKNOWN
    n, lead = bound_weight(leaf, o), verdict.merit - verdict.second_merit
    needed = []
    if o.split_test != "normal_strict":
        needed.append(reached_at(hoeffding_scale(classes, o), max(lead, o.tau)))
    if o.split_test != "hoeffding":
        by_normal = reached_at(verdict.spread, max(lead - verdict.bias, o.tau))
        needed.append(max(by_normal, ENOUGH))
    return UNKNOWN if math.isinf(min(needed)) else leaf.n + max(0.0, min(needed) - n)
