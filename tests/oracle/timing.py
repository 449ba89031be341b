"""How long a leaf waits after a failed attempt when split times are predicted.

cgd (Garcia-Martin et al. 2018): the lead stays as it is and only the radius shrinks.
osm (Losing et al. 2018): from now on every event falls into the purest branch of the best split
with that branch's majority class, and the second best split stays as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tests.oracle import criterion as crit
from tests.oracle.leaf import DOUBT, Leaf, Options, Verdict, bound_weight

NARROW = 0.5  # width at which the search for a root ends


@dataclass(frozen=True)
class Wait:
    """Weight until the next check; `is_computed` if rounding reaches its last digits."""

    length: float
    is_computed: bool = False
    doubtful: bool = False  # rounding could have led to quite another wait

    def is_over(self, passed: float) -> bool:
        """The weight has passed."""
        return passed >= self.length

    def is_doubtful_at(self, passed: float) -> bool:
        """Rounding decides whether the weight has passed."""
        return self.is_computed and is_near(passed, self.length)


def first_wait(o: Options) -> Wait:
    """Of a new leaf."""
    return Wait(o.n_first or o.n_min)


def wait_after_failure(verdict: Verdict, leaf: Leaf, classes: int, o: Options) -> Wait:
    """By the timing of the options; verdicts of the anytime policies have X_0 as second best."""
    if o.timing == "cgd":
        return cgd(verdict, leaf, classes, o)
    if o.timing == "osm":
        return osm(verdict, leaf, classes, o)
    return Wait(o.n_min)


def is_near(a: float, b: float) -> bool:
    """Two finite weights that rounding could order either way."""
    return abs(a - b) <= DOUBT * max(1.0, abs(b)) if math.isfinite(a - b) else False


def reached_at(scale: float, goal: float) -> float:
    """The n at which a radius scale / sqrt(n) equals the goal."""
    return math.inf if goal <= 0.0 else (scale / goal) ** 2


def hoeffding_scale(classes: int, o: Options) -> float:
    """Hoeffding's radius times sqrt(n)."""
    value_range = crit.gain_range(classes, criterion=o.criterion, gini_range=o.gini_range)
    return value_range * math.sqrt(math.log(1.0 / o.delta) / 2.0)


def scales(verdict: Verdict, classes: int, o: Options) -> list[float]:
    """Radius times sqrt(n) of every test in force; the smallest radius counts."""
    normal = [] if o.split_test == "hoeffding" else [verdict.spread]
    return normal if o.split_test == "normal_strict" else [hoeffding_scale(classes, o), *normal]


# cgd --------------------------------------------------------------------------------------


def cgd(verdict: Verdict, leaf: Leaf, classes: int, o: Options) -> Wait:
    """Until the radius has shrunk to the lead or to tau."""
    n = bound_weight(leaf, o)
    needed = needed_for_the_lead(verdict, classes, o)
    doubtful = is_near(needed, n)
    if needed <= n:
        return Wait(o.n_min, doubtful=doubtful)
    length = min(max(needed - n, 1.0), o.max_wait)
    return Wait(length, length not in (1.0, o.max_wait), doubtful)


def needed_for_the_lead(verdict: Verdict, classes: int, o: Options) -> float:
    """The n of the bound at which an unchanged lead would pass one of the tests in force."""
    wins = verdict.best is not None
    lead = verdict.merit - verdict.second_merit if wins else 0.0
    unbiased = lead - verdict.bias if wins else 0.0
    by_hoeffding = reached_at(hoeffding_scale(classes, o), max(lead, o.tau))
    by_normal = reached_at(verdict.spread, max(unbiased, o.tau))
    if o.split_test == "hoeffding":
        return by_hoeffding
    return by_normal if o.split_test == "normal_strict" else min(by_hoeffding, by_normal)


# osm --------------------------------------------------------------------------------------


def osm(verdict: Verdict, leaf: Leaf, classes: int, o: Options) -> Wait:
    """Until the most helpful stream imaginable would pass the test, or until the tie."""
    if verdict.best is None or verdict.second_merit == -math.inf:
        return Wait(o.n_min)
    n = bound_weight(leaf, o)
    tie = min(reached_at(scale, o.tau) for scale in scales(verdict, classes, o))
    if tie <= n:
        return Wait(o.n_min, doubtful=is_near(tie, n))
    forecast = Forecast(verdict, leaf, classes, o)
    root, doubtful = forecast.first_pass()
    length = min(tie - n, max(o.n_min, root))
    by_the_tie = is_near(tie - n, length)
    doubtful = doubtful or is_near(tie, n) or (by_the_tie and is_near(length, round(length)))
    return Wait(max(1.0, float(math.ceil(length))), doubtful=doubtful)


@dataclass(frozen=True)
class Forecast:
    """The test of X_a against X_b after z more events as helpful as can be."""

    verdict: Verdict
    leaf: Leaf
    classes: int
    options: Options

    def branches(self) -> tuple[dict[int, float], ...]:
        """Class weights of the best split's branches."""
        assert self.verdict.best is not None
        return self.verdict.best.branches

    def purest(self) -> int:
        """Place of the branch with weight that has the least impurity."""
        filled = [j for j, branch in enumerate(self.branches()) if crit.total(branch) > 0.0]
        return min(filled, key=lambda j: (self.impurity(self.branches()[j]), j))

    def helpful_class(self) -> int:
        """Majority of the purest branch."""
        return crit.majority(self.branches()[self.purest()])

    def impurity(self, weights: crit.Weights) -> float:
        """Per weight: entropy, or 1 - Q; one class alone has none."""
        if is_single(weights):
            return 0.0
        return crit.impurity_sum(weights, self.options.criterion) / crit.total(weights)

    def with_more(self, weights: crit.Weights, z: float) -> dict[int, float]:
        """Class weights and z more of the helpful class."""
        return crit.merged([weights, {self.helpful_class(): z}])

    def remaining_of_best(self, z: float) -> float:
        """H_a(z): impurity per weight that X_a leaves; unknown values stay as they are."""
        n, purest = self.leaf.n, self.purest()
        sums = [crit.impurity_sum(branch, self.options.criterion) for branch in self.branches()]
        now = self.impurity(self.leaf.counted(self.options)) - self.verdict.merit
        of_unknown = n * now - sum(sums)
        grown = self.with_more(self.branches()[purest], z)
        rest = sum(sums[:purest]) + sum(sums[purest + 1 :])
        return (of_unknown + rest + crit.impurity_sum(grown, self.options.criterion)) / (n + z)

    def remaining_of_second(self, z: float) -> float:
        """Impurity per weight that X_b leaves: constant, but the node's own one under X_0."""
        counted = self.leaf.counted(self.options)
        if self.verdict.second is None:
            return self.impurity(self.with_more(counted, z))
        return self.impurity(counted) - self.verdict.second_merit

    def radius(self, z: float) -> float:
        """Of the test in force."""
        n = bound_weight(self.leaf, self.options) + z
        return min(scales(self.verdict, self.classes, self.options)) / math.sqrt(n)

    def margin(self, z: float) -> float:
        """f(z): positive when the test passes."""
        return self.remaining_of_second(z) - self.remaining_of_best(z) - self.radius(z)

    def first_pass(self) -> tuple[float, bool]:
        """The z of the first passed test, at most the longest wait; whether rounding chose it."""
        low, high = 0.0, self.options.max_wait
        if self.verdict.second is None:
            high = self.doubled_until_passed()
        doubtful = self.is_toss_up() or abs(self.margin(high)) < DOUBT
        if self.margin(high) <= 0.0:
            return high, doubtful
        while high - low > NARROW:
            middle = (low + high) / 2.0
            margin = self.margin(middle)
            doubtful = doubtful or abs(margin) < DOUBT
            if margin > 0.0:
                high = middle
            else:
                low = middle
        return high, doubtful

    def doubled_until_passed(self) -> float:
        """Against X_0 the lead falls again once the node itself is nearly pure: begin small."""
        z = 1.0
        while z < self.options.max_wait and self.margin(z) <= 0.0:
            z *= 2.0
        return min(z, self.options.max_wait)

    def is_toss_up(self) -> bool:
        """Another branch is as pure, or another class as frequent, up to rounding."""
        chosen = self.branches()[self.purest()]
        others = [branch for branch in self.branches() if branch is not chosen]
        top = chosen[self.helpful_class()]
        close_class = any(0.0 < top - weight <= DOUBT * top for weight in chosen.values())
        close_branch = any(
            crit.total(branch) > 0.0
            and abs(self.impurity(branch) - self.impurity(chosen)) < DOUBT
            and not self.is_no_matter(branch, chosen)
            for branch in others
        )
        return close_class or close_branch

    def is_no_matter(self, a: crit.Weights, b: crit.Weights) -> bool:
        """Both branches lead to the same forecast, or are equally pure without any rounding."""
        if self.verdict.second is None and crit.majority(a) != crit.majority(b):
            return is_single(a) and is_single(b) and self.options.criterion == "info_gain"
        return (is_single(a) and is_single(b)) or sorted(a.values()) == sorted(b.values())


def is_single(weights: crit.Weights) -> bool:
    """At most one class has weight."""
    return sum(weight > 0.0 for weight in weights.values()) <= 1
