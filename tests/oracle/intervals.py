"""StreamTree's interval histogram with pruning (Jin and Agrawal 2003, corrected).

Class weights of equally wide intervals; the values themselves only inside intact intervals, and
inside pruned ones while details are kept.  A pruned interval offers no cut but its boundary.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.oracle import criterion as crit
from tests.oracle.criterion import Weights
from tests.oracle.normal import DOUBT

if TYPE_CHECKING:
    from tests.oracle.leaf import Leaf, Options, Verdict

Cut = tuple[float, tuple[dict[int, float], dict[int, float]]]  # threshold, left, right
Measure = Callable[[Weights, Weights], float]  # gain of a left and a right branch
EXACT_UP_TO = 4  # classes whose corners are all tried
BINS = 10


def sums_so_far(parts: Iterable[Weights]) -> list[dict[int, float]]:
    """Class by class sums of the first 0, 1, 2, ... parts."""
    sums: list[dict[int, float]] = [{}]
    for part in parts:
        sums.append(crit.merged([sums[-1], part]))
    return sums


def cuts_between(table: Mapping[float, Weights], below: Weights, above: Weights) -> list[Cut]:
    """One cut at every value of a table that has `below` in front of it and `above` behind."""
    values = sorted(table)
    left = sums_so_far(table[v] for v in values)[1:]
    right = sums_so_far(table[v] for v in reversed(values))[:-1][::-1]
    return [
        (v, (crit.merged([below, lower]), crit.merged([upper, above])))
        for v, lower, upper in zip(values, left, right, strict=True)
    ]


@dataclass
class Bins:
    """Naive Bayes' table of a numeric feature: bin -> class weights, as of the last build."""

    number: int
    place: Callable[[float], int]
    counts: dict[int, dict[int, float]]

    def log_likelihood(self, x: float, k: int) -> float:
        """Laplace-smoothed share of x's bin in class k."""
        n_ik = sum(row.get(k, 0.0) for row in self.counts.values())
        in_bin = self.counts.get(self.place(x), {}).get(k, 0.0)
        return math.log((in_bin + 1.0) / (n_ik + self.number))


@dataclass
class IntervalHistogram:
    """Interval i holds edge(i-1) < x <= edge(i); the outer two are open."""

    edges: list[float]
    counts: list[dict[int, float]]
    details: dict[int, dict[float, dict[int, float]]]  # no entry: values are not kept any more
    pruned: set[int]

    @classmethod
    def laid(
        cls, table: Mapping[float, Weights], intervals: int, *, details: bool
    ) -> IntervalHistogram:
        """Intervals over the range of the values so far, which are counted into them."""
        low, high = min(table), max(table)
        step = (high - low) / intervals
        edges = [low + (i + 1) * step for i in range(intervals - 1)]
        every = range(intervals)
        kept: dict[int, dict[float, dict[int, float]]] = {i: {} for i in every} if details else {}
        made = cls(edges, [{} for _ in every], kept, set() if details else set(every))
        for value in sorted(table):
            for k, weight in table[value].items():
                made.add(value, k, weight)
        return made

    def interval(self, x: float) -> int:
        """Number of x's interval."""
        return bisect_left(self.edges, x)

    def add(self, x: float, y: int, w: float) -> None:
        """One known value."""
        i = self.interval(x)
        rows = [self.counts[i]]
        if i in self.details:
            rows.append(self.details[i].setdefault(x, {}))
        for row in rows:
            row[y] = row.get(y, 0.0) + w

    def known(self) -> dict[int, float]:
        """Class weights of the events that had a value."""
        return crit.merged(self.counts)

    def entries(self) -> int:
        """Values kept."""
        return sum(len(table) for table in self.details.values())

    def surroundings(self) -> list[tuple[dict[int, float], dict[int, float]]]:
        """Class weights below and above every interval."""
        below = sums_so_far(self.counts)[:-1]
        above = sums_so_far(reversed(self.counts))[:-1][::-1]
        return list(zip(below, above, strict=True))

    def cuts(self, opened: frozenset[int] = frozenset()) -> list[Cut]:
        """Values of intact and opened intervals, and all boundaries, in ascending order."""
        found: list[Cut] = []
        for i, (below, above) in enumerate(self.surroundings()):
            if i not in self.pruned or i in opened:
                found += cuts_between(self.details[i], below, above)
            if i < len(self.edges):
                found.append((self.edges[i], (crit.merged([below, self.counts[i]]), above)))
        return [(t, (left, right)) for t, (left, right) in found if right]

    def sides(self, t: float) -> tuple[dict[int, float], dict[int, float]]:
        """Class weights of x <= t and of the rest; an interval without values counts as x <= t."""
        i = self.interval(t)
        below, above = self.surroundings()[i]
        if i not in self.details:
            return crit.merged([below, self.counts[i]]), above
        table = self.details[i]
        left = crit.merged([below, *(table[v] for v in sorted(table) if v <= t)])
        return left, crit.merged([*(table[v] for v in sorted(table) if v > t), above])

    def bins(self) -> Bins:
        """Ten bins of neighbouring intervals."""
        bin_of = [i * BINS // len(self.counts) + 1 for i in range(len(self.counts))]
        counts = {
            q: crit.merged(h for h, its in zip(self.counts, bin_of, strict=True) if its == q)
            for q in set(bin_of)
        }
        return Bins(BINS, lambda x: bin_of[self.interval(x)], counts)

    def openable(self) -> set[int]:
        """Pruned intervals whose values are still kept."""
        return self.pruned & self.details.keys()

    def upper_bounds(self, measure: Measure, measure_outside: Measure, bound: str) -> list[float]:
        """For every interval a gain that no cut inside can exceed."""
        return [
            corner_bound(below, inside, above, measure)
            if bound == "corner"
            else measure_outside(below, above)
            for (below, above), inside in zip(self.surroundings(), self.counts, strict=True)
        ]

    def prune(self, i: int, *, keep: bool) -> None:
        """Offer no cut inside interval i; without `keep` its values are forgotten for good."""
        self.pruned.add(i)
        if not keep:
            del self.details[i]


def corner_bound(below: Weights, inside: Weights, above: Weights, measure: Measure) -> float:
    """The gain is convex in the left weights: its maximum gives each class to one side whole."""
    classes = sorted(k for k, weight in inside.items() if weight > 0.0)
    best = -math.inf
    for sides in itertools.product((0, 1), repeat=len(classes)):
        to_left = {k: inside[k] for k, side in zip(classes, sides, strict=True) if side}
        to_right = {k: inside[k] for k, side in zip(classes, sides, strict=True) if not side}
        gain = measure(crit.merged([below, to_left]), crit.merged([to_right, above]))
        best = max(best, gain)
    return best


def bounds_inside(
    leaf: Leaf, histogram: IntervalHistogram, classes: int, o: Options
) -> list[float]:
    """Upper bounds of the histogram's intervals, as exact as the options ask for."""
    known = histogram.known()
    bound = o.interval_bound
    if bound == "auto":
        bound = "corner" if classes <= EXACT_UP_TO else "loose"

    def measure(left: Weights, right: Weights) -> float:
        return leaf.gain(known, (left, right), o)

    def measure_outside(left: Weights, right: Weights) -> float:
        return leaf.gain(known, (left, right), o, over=crit.total(known))

    return histogram.upper_bounds(measure, measure_outside, bound)


def promising(
    leaf: Leaf, histogram: IntervalHistogram, best: float, classes: int, o: Options
) -> tuple[frozenset[int], bool]:
    """Pruned intervals that might hold a cut near the best gain so far, and any doubt."""
    closed = histogram.openable()
    if not closed:
        return frozenset(), False
    bounds = bounds_inside(leaf, histogram, classes, o)
    needed = best - leaf.hoeffding(classes, o)
    doubtful = any(abs(bounds[i] - needed) < DOUBT for i in closed)
    return frozenset(i for i in closed if bounds[i] > needed), doubtful


def prune_after_failure(leaf: Leaf, verdict: Verdict, classes: int, o: Options) -> None:
    """After a failed attempt: close the intact intervals that cannot hold the best cut."""
    best = max((candidate.gain for candidate in verdict.ranked), default=-math.inf)
    needed = best - leaf.hoeffding(classes, o)
    for i, histogram in leaf.observers.items():
        if not isinstance(histogram, IntervalHistogram) or leaf.is_barred(i):
            continue
        bounds = bounds_inside(leaf, histogram, classes, o)
        for place in range(len(bounds)):
            if place in histogram.pruned:
                continue
            leaf.doubtful |= abs(bounds[place] - needed) < DOUBT
            if bounds[place] < needed:
                histogram.prune(place, keep=o.interval_details == "keep")
