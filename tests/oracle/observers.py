"""What one leaf remembers of one feature, and which split it proposes.

numeric: a Gaussian per class, or a table value -> class, or the events themselves, or the
intervals of `intervals.py`; nominal: a table value -> class; sparse: a table token -> class.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.oracle import criterion as crit
from tests.oracle.criterion import Weights
from tests.oracle.intervals import BINS, Bins, Cut, IntervalHistogram, cuts_between

FLOOR_OF_SPREAD = 1e-9


@dataclass(frozen=True)
class Candidate:
    """One possible split: its test, its gain and the class weights of its branches."""

    kind: str
    feature: int
    token: int
    threshold: float | None
    values: tuple[int, ...]
    branches: tuple[dict[int, float], ...]
    gain: float
    rival: float = -math.inf  # the best gain of this attribute's other cut points
    summed: bool = False  # the branches are sums of observed weights, not estimates

    def place(self) -> tuple[float, int, int]:
        """Sort key: higher gain, then lower attribute."""
        return (-self.gain, self.feature, self.token)


@dataclass
class Bell:
    """Weighted mean, squared deviations and extremes of one class."""

    weight: float = 0.0
    mean: float = 0.0
    m2: float = 0.0
    low: float = math.inf
    high: float = -math.inf

    def add(self, x: float, w: float) -> None:
        """One value, by Welford's update."""
        self.weight += w
        off = x - self.mean
        self.mean += off * w / self.weight
        self.m2 += w * off * (x - self.mean)
        self.low = min(self.low, x)
        self.high = max(self.high, x)

    def spread(self) -> float:
        """Standard deviation; 0 while one unit of weight says nothing about it."""
        return math.sqrt(max(0.0, self.m2) / (self.weight - 1.0)) if self.weight > 1.0 else 0.0

    def at_most(self, t: float) -> float:
        """Estimated weight of values <= t."""
        if t < self.low:
            return 0.0
        if t >= self.high:
            return self.weight
        s = self.spread()
        if s == 0.0:
            return self.weight if t >= self.mean else 0.0
        return self.weight * crit.normal_cdf((t - self.mean) / s)


@dataclass
class Numeric:
    """Gaussian observer: one bell per class, equally spaced cut points."""

    bells: dict[int, Bell] = field(default_factory=dict)

    def add(self, x: float, y: int, w: float) -> None:
        """One known value."""
        self.bells.setdefault(y, Bell()).add(x, w)

    def known(self) -> dict[int, float]:
        """Class weights of the events that had a value."""
        return {k: bell.weight for k, bell in self.bells.items()}

    def extremes(self) -> tuple[float, float]:
        """Smallest and largest value met."""
        bells = self.bells.values()
        return min(bell.low for bell in bells), max(bell.high for bell in bells)

    def entries(self) -> int:
        """Values kept."""
        return 0

    def sides(self, t: float) -> tuple[dict[int, float], dict[int, float]]:
        """Estimated class weights of x <= t and of the rest."""
        left = {k: bell.at_most(t) for k, bell in self.bells.items()}
        return left, crit.without(self.known(), left)

    def cuts(self, points: int) -> list[Cut]:
        """Every cut point of a grid strictly inside the extremes."""
        low, high = self.extremes()
        step = (high - low) / (points + 1)
        thresholds = [low + step * b for b in range(1, points + 1)]
        return [(t, self.sides(t)) for t in thresholds if low < t < high]

    def log_likelihood(self, x: float, k: int) -> float:
        """Log density of x in class k; uniform for a class without a value here."""
        low, high = self.extremes()
        bell = self.bells.get(k)
        if bell is None:
            return -math.log(max(high - low, FLOOR_OF_SPREAD))
        s = max(bell.spread(), 1e-3 * (high - low) / math.sqrt(12.0), FLOOR_OF_SPREAD)
        z = (x - bell.mean) / s
        return -0.5 * z * z - math.log(s) - 0.5 * math.log(2.0 * math.pi)


@dataclass
class Ordered:
    """Table of value -> class weights; every value but the last is a cut."""

    table: dict[float, dict[int, float]] = field(default_factory=dict)

    def add(self, x: float, y: int, w: float) -> None:
        """One known value."""
        row = self.table.setdefault(x, {})
        row[y] = row.get(y, 0.0) + w

    def known(self) -> dict[int, float]:
        """Class weights of the events that had a value."""
        return crit.merged(self.table[v] for v in sorted(self.table))

    def entries(self) -> int:
        """Values kept."""
        return len(self.table)

    def cuts(self) -> list[Cut]:
        """All cuts in ascending order."""
        return cuts_between(self.table, {}, {})[:-1]

    def sides(self, t: float) -> tuple[dict[int, float], dict[int, float]]:
        """Class weights of x <= t and of the rest."""
        left = crit.merged(self.table[v] for v in sorted(self.table) if v <= t)
        return left, crit.merged(self.table[v] for v in sorted(self.table) if v > t)

    def bins(self) -> Bins:
        """At most ten equally wide bins between the extremes."""
        low, high, number = min(self.table), max(self.table), min(BINS, len(self.table))
        width = (high - low) / number

        def place(x: float) -> int:
            if number == 1 or not (x - low) / width > 1.0:
                return 1
            return number if (x - low) / width >= number else math.ceil((x - low) / width)

        counts = {
            q: crit.merged(self.table[v] for v in sorted(self.table) if place(v) == q)
            for q in range(1, number + 1)
        }
        return Bins(number, place, counts)


@dataclass
class Sample:
    """The events themselves; they are sorted when somebody asks."""

    events: list[tuple[float, int, float]] = field(default_factory=list)

    def add(self, x: float, y: int, w: float) -> None:
        """One known value."""
        self.events.append((x, y, w))

    def ordered(self) -> Ordered:
        """The same as a table."""
        table = Ordered()
        for x, y, w in self.events:
            table.add(x, y, w)
        return table

    def known(self) -> dict[int, float]:
        """Class weights of the events that had a value."""
        return self.ordered().known()

    def entries(self) -> int:
        """Values kept."""
        return len(self.events)

    def cuts(self) -> list[Cut]:
        """All cuts in ascending order."""
        return self.ordered().cuts()

    def sides(self, t: float) -> tuple[dict[int, float], dict[int, float]]:
        """Class weights of x <= t and of the rest."""
        return self.ordered().sides(t)

    def bins(self) -> Bins:
        """At most ten equally wide bins between the extremes."""
        return self.ordered().bins()


@dataclass
class Nominal:
    """Table of value -> class weights."""

    table: dict[int, dict[int, float]] = field(default_factory=dict)

    def add(self, v: int, y: int, w: float) -> None:
        """One known value."""
        row = self.table.setdefault(v, {})
        row[y] = row.get(y, 0.0) + w

    def known(self) -> dict[int, float]:
        """Class weights of the events that had a value."""
        return crit.merged(self.table[v] for v in sorted(self.table))

    def multiway(self) -> tuple[tuple[int, ...], tuple[dict[int, float], ...]]:
        """Values in code order, and one branch for each."""
        values = tuple(sorted(self.table))
        return values, tuple(dict(self.table[v]) for v in values)

    def against_rest(self, v: int) -> tuple[dict[int, float], dict[int, float]]:
        """Branches of the test x == v."""
        known = self.known()
        equal = {k: self.table[v].get(k, 0.0) for k in known}
        return equal, crit.without(known, equal)

    def inside(self, values: Iterable[int]) -> tuple[dict[int, float], dict[int, float]]:
        """Branches of the test whether x is one of the values."""
        chosen = set(values)
        within = crit.merged(self.table[v] for v in sorted(self.table) if v in chosen)
        return within, crit.merged(self.table[v] for v in sorted(self.table) if v not in chosen)

    def shares(self) -> list[tuple[float, int]]:
        """(share of class 1, value) of every value, in ascending order."""
        return sorted((row.get(1, 0.0) / crit.total(row), v) for v, row in self.table.items())

    def prefixes(self) -> list[tuple[int, ...]]:
        """The values poorest in class 1: one of them, two of them, ... all but one."""
        order = [v for _, v in self.shares()]
        return [tuple(sorted(order[:size])) for size in range(1, len(order))]

    def log_likelihood(self, v: int, k: int) -> float:
        """Laplace-smoothed share of value v in class k."""
        n_ivk = self.table.get(v, {}).get(k, 0.0)
        return math.log((n_ivk + 1.0) / (self.known().get(k, 0.0) + len(self.table)))


@dataclass
class Tokens:
    """Table of token -> class weights of the events that contain it."""

    table: dict[int, dict[int, float]] = field(default_factory=dict)

    def add(self, token: int, y: int, w: float) -> None:
        """One token of one event."""
        row = self.table.setdefault(token, {})
        row[y] = row.get(y, 0.0) + w

    def presence(self, token: int, seen: Weights) -> tuple[dict[int, float], dict[int, float]]:
        """Branches absent, present of the token's test."""
        present = {k: self.table[token].get(k, 0.0) for k in seen}
        return crit.without(seen, present), present

    def log_likelihood(self, tokens: frozenset[int], k: int, n_k: float) -> float:
        """Smoothed presence or absence of every token met here."""
        out = 0.0
        for token in sorted(self.table):
            share = (self.table[token].get(k, 0.0) + 1.0) / (n_k + 2.0)
            out += math.log(share if token in tokens else 1.0 - share)
        return out


Exact = Ordered | Sample | IntervalHistogram
Observer = Numeric | Exact | Nominal | Tokens


def fresh_numeric(kind: str) -> Numeric | Ordered | Sample:
    """An empty observer; intervals begin as a table."""
    if kind == "gaussian":
        return Numeric()
    return Sample() if kind == "sample" else Ordered()
