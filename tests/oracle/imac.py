"""IMAC (Sun et al. 2020): the gains of a few candidates are known after every event.

P holds the candidates with frozen tests, M the attributes that may still become one, I those
that are too far behind.  Gains are computed from the counts each time they are asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tests.oracle import criterion as crit
from tests.oracle.leaf import (
    DOUBT,
    NUMERIC,
    SPARSE,
    Attribute,
    Leaf,
    Options,
    Row,
    Verdict,
    available,
    bound_weight,
    duel_of,
    fit,
    measured,
    merit_of,
    same_counts,
    two_best,
)
from tests.oracle.normal import Duel
from tests.oracle.observers import Candidate

FEWEST, MOST = 5, 10  # candidates, when the options do not say how many


def room_for_candidates(kinds: list[str], tokens_met: int, o: Options) -> int:
    """K: a tenth of all attributes, tokens met by the tree included."""
    if o.candidates:
        return o.candidates
    attributes = sum(kind != SPARSE for kind in kinds) + tokens_met
    return min(max(-(-attributes // 10), FEWEST), MOST)


def attribute_of(candidate: Candidate) -> Attribute:
    """What the candidate tests."""
    return candidate.feature, candidate.token


def with_own_counts(candidate: Candidate) -> Candidate:
    """The candidate with branches that may be counted on."""
    return replace(candidate, branches=tuple(dict(branch) for branch in candidate.branches))


def is_cut_doubtful(candidate: Candidate) -> bool:
    """Rounding could choose another cut or value of the same attribute."""
    return candidate.gain - candidate.rival < DOUBT


def are_close(a: Candidate, b: Candidate) -> bool:
    """Rounding could order them either way; next to nothing is never exact."""
    return abs(a.gain - b.gain) < DOUBT and (abs(a.gain) < DOUBT or not same_counts(a, b))


@dataclass
class Followed:
    """P, M and I of one node."""

    leaf: Leaf
    options: Options
    candidates: dict[Attribute, Candidate] = field(default_factory=dict)  # P
    potential: dict[Attribute, float] = field(default_factory=dict)  # M
    illegal: set[Attribute] = field(default_factory=set)  # I
    n_check: float = 0.0
    spread: float = 0.0  # quantile times joint spread of the two best when last evaluated
    bias_sum: float = 0.0  # their difference of biases then, times n
    doubtful: bool = False

    # after an attempt ---------------------------------------------------------------------

    def start(self, verdict: Verdict, room: int) -> None:
        """The best become candidates; the rest is sorted by how far it is behind."""
        self._admit(verdict.ranked, room)
        self._dismiss_all(verdict.ranked[room:], verdict)
        self.spread = verdict.spread
        self.bias_sum = verdict.bias * bound_weight(self.leaf, self.options)

    def _admit(self, ranked: list[Candidate], room: int) -> None:
        self.n_check = self.leaf.n
        for candidate in ranked[:room]:
            self.candidates[attribute_of(candidate)] = with_own_counts(candidate)
            self.doubtful |= is_cut_doubtful(candidate)
        if len(ranked) > room:
            self.doubtful |= are_close(ranked[room - 1], ranked[room])

    def _dismiss_all(self, others: list[Candidate], verdict: Verdict) -> None:
        for candidate in others:
            self.dismiss(attribute_of(candidate), candidate.gain, verdict.merit, verdict.bound)
        kept = self.candidates.keys() | self.potential.keys()
        self.illegal |= {attribute for attribute in available(self.leaf) if attribute not in kept}

    def dismiss(self, attribute: Attribute, gain: float, top: float, radius: float) -> None:
        """To I if the attribute is further behind than the radius, else to M."""
        behind = top - gain - radius
        self.doubtful |= abs(behind) < DOUBT
        if behind > 0.0:
            self.illegal.add(attribute)
        else:
            self.potential[attribute] = gain

    # per event ----------------------------------------------------------------------------

    def count(self, x: Row, y: int, w: float) -> None:
        """One event on the two sides of every frozen cut; other tests share the leaf's counts."""
        for candidate in self.candidates.values():
            value = x.get(candidate.feature)
            if candidate.kind == NUMERIC and isinstance(value, float):
                assert candidate.threshold is not None
                side = candidate.branches[int(value > candidate.threshold)]
                side[y] = side.get(y, 0.0) + w

    def now(self, attribute: Attribute) -> Candidate:
        """A candidate with its counts and its gain as they are now."""
        c, o = self.candidates[attribute], self.options
        if c.kind != NUMERIC:
            return measured(self.leaf, c.kind, c.feature, c.token, None, c.values, o)
        return replace(c, gain=self.leaf.gain(crit.merged(c.branches), c.branches, o))

    def ranked(self) -> list[Candidate]:
        """P in order of merit."""
        return sorted((self.now(attribute) for attribute in self.candidates), key=Candidate.place)

    def rivals(self) -> tuple[Candidate | None, Candidate | None]:
        """X_a and X_b: the two best of P and the null split (None)."""
        return two_best(self.ranked(), self.options, only_null=False)

    def lead(self) -> float:
        """G_a - G_b."""
        first, second = self.rivals()
        return merit_of(first, self.options) - merit_of(second, self.options)

    def duel(self, classes: int) -> Duel:
        """The split test between the rivals, with the spread of their last evaluation."""
        o, n = self.options, bound_weight(self.leaf, self.options)
        radius = self.leaf.hoeffding(classes, o)
        return Duel(o.split_test, self.lead(), n, radius, self.spread, self.bias_sum / n)

    def is_triggered(self, classes: int) -> bool:
        """An attempt would pass if the candidates were all there is."""
        first, _ = self.rivals()
        self.doubtful |= first is not None and abs(first.gain - self.options.min_merit) < DOUBT
        if first is None or first.gain <= self.options.min_merit:
            return False
        duel = self.duel(classes)
        self.doubtful |= duel.is_doubtful(self.options.tau)
        return duel.kind(self.options.tau) != "none"

    # check --------------------------------------------------------------------------------

    def is_check_due(self) -> bool:
        """Enough weight since the last check or attempt."""
        return self.leaf.n - self.n_check >= self.options.mu

    def check(self, classes: int) -> int:
        """Fit cuts again and let the best of M challenge the worst of P; attributes evaluated."""
        self.n_check = self.leaf.n
        evaluated = self._refit_all(classes)
        exchanged = True
        while exchanged and self.potential:
            evaluated += 1
            exchanged = self._exchange(classes) and self.options.mu_swaps == "all"
        self.remember_spread(classes)
        return evaluated

    def is_refitted(self, candidate: Candidate) -> bool:
        """Its attribute has other tests of the same kind."""
        return candidate.kind in (NUMERIC, "equal")

    def _refit_all(self, classes: int) -> int:
        able = [name for name, c in self.candidates.items() if self.is_refitted(c)]
        for attribute in able:
            self._refit(attribute, classes)
        return len(able)

    def _refit(self, attribute: Attribute, classes: int) -> None:
        """Another cut comes with the observer's counts; the same one keeps its own."""
        old = self.candidates[attribute]
        found, doubtful = fit(self.leaf, *attribute, classes, self.options)
        self.doubtful |= doubtful
        if found is None:
            return
        self.doubtful |= is_cut_doubtful(found)
        if (found.threshold, found.values) != (old.threshold, old.values):
            self.candidates[attribute] = with_own_counts(found)

    def exchangeable(self) -> list[Candidate]:
        """Candidates that may leave P, in order of merit."""
        return self.ranked()

    def _exchange(self, classes: int) -> bool:
        """One challenge; the loser goes to I or M."""
        attribute = self._take_challenger()
        challenger, doubtful = fit(self.leaf, *attribute, classes, self.options)
        worst = self._worst()
        gain = -math.inf if challenger is None else challenger.gain
        self.doubtful |= doubtful or abs(gain - worst.gain) < DOUBT
        loser, its_gain = attribute, gain
        if challenger is not None and gain > worst.gain:
            loser, its_gain = attribute_of(worst), worst.gain
            del self.candidates[loser]
            self.candidates[attribute] = with_own_counts(challenger)
            self.doubtful |= is_cut_doubtful(challenger)
        self.dismiss(loser, its_gain, self.ranked()[0].gain, self.duel(classes).radius)
        return loser != attribute

    def _take_challenger(self) -> Attribute:
        """X_s: the attribute of M with the largest gain when last evaluated."""
        best = min(self.potential, key=lambda attribute: (-self.potential[attribute], attribute))
        gain = self.potential.pop(best)
        self.doubtful |= any(0.0 < gain - other < DOUBT for other in self.potential.values())
        return best

    def _worst(self) -> Candidate:
        """X_p: the last one in order of merit."""
        able = self.exchangeable()
        self.doubtful |= len(able) > 1 and are_close(able[-2], able[-1])
        return able[-1]

    def remember_spread(self, classes: int) -> None:
        """Spread and bias of the rivals as they are now."""
        first, second = self.rivals()
        duel = duel_of(self.leaf, first, second, self.lead(), classes, self.options)
        self.spread, self.bias_sum = duel.spread, duel.bias * duel.n
        if self.options.split_test != "hoeffding":
            self.doubtful |= any(are_close(a, b) for a, b in pairwise(self.ranked()[:3]))
