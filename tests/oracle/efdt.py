"""EFDT (Manapragada et al. 2018): every node keeps its statistics, and splits are looked at again.

A leaf's best split competes with not splitting at all, later with the split that is installed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tests.oracle.imac import (
    Followed,
    are_close,
    attribute_of,
    is_cut_doubtful,
    with_own_counts,
)
from tests.oracle.leaf import (
    DOUBT,
    NUMERIC,
    Attribute,
    Leaf,
    Options,
    Row,
    Verdict,
    candidates,
    duel_of,
    judge_against_null,
    measured,
    merit_of,
    null_merit,
)
from tests.oracle.normal import Duel
from tests.oracle.observers import Candidate
from tests.oracle.timing import Wait
from tests.oracle.vfdt import OracleTree, Split

NO_ATTRIBUTE: Attribute = (-1, -1)
NOT_AUDITED = -1.0


# the second look --------------------------------------------------------------------------


def look_again(leaf: Leaf, installed: Candidate, classes: int, o: Options) -> Verdict:
    """What should become of a split: "replace", "move", "collapse" or "none" of these."""
    ranked, evaluations, doubtful = candidates(leaf, classes, o)
    best = ranked[0] if ranked and ranked[0].gain >= null_merit(o) else None
    merit = merit_of(best, o)
    duel = duel_of(leaf, best, installed, merit - installed.gain, classes, o)
    kind = outcome(best, installed, duel, o)
    doubtful = doubtful or is_outcome_doubtful(ranked, installed, duel, o)
    reason = "bound" if duel.is_won() else "tie"
    return Verdict(
        kind, best, merit, installed.gain, duel.radius, ranked, evaluations, doubtful,
        installed, duel.spread, duel.bias, reason,
    )  # fmt: skip


def outcome(best: Candidate | None, installed: Candidate, duel: Duel, o: Options) -> str:
    """The best candidate, or the null split (None), against the installed test."""
    if best is None:
        return "collapse" if duel.is_won() else "none"
    if attribute_of(best) == attribute_of(installed):
        is_cut = o.refine_threshold and best.kind == NUMERIC
        return "move" if is_cut and duel.is_won() else "none"
    is_useful = best.gain > o.min_merit
    return "replace" if is_useful and is_exchange(duel, o.tau) else "none"


def is_exchange(duel: Duel, tau: float) -> bool:
    """The lead over the installed test is significant, or of some size once that is a tie."""
    return duel.is_won() or (duel.is_tied(tau) and duel.lead > tau / 2.0)


def is_exchange_doubtful(duel: Duel, tau: float) -> bool:
    """Rounding could change that."""
    close_to_half = duel.is_tied(tau) and abs(duel.lead - tau / 2.0) < DOUBT
    return duel.is_doubtful(tau) or close_to_half


def is_outcome_doubtful(
    ranked: list[Candidate], installed: Candidate, duel: Duel, o: Options
) -> bool:
    """Rounding could change the outcome of a second look."""
    if not ranked or ranked[0].gain < null_merit(o) + DOUBT:
        return duel.is_doubtful(o.tau) or any(abs(c.gain - null_merit(o)) < DOUBT for c in ranked)
    if len(ranked) > 1 and are_close(ranked[0], ranked[1]):
        return True
    if attribute_of(ranked[0]) == attribute_of(installed) and not o.refine_threshold:
        return False
    close_to_useless = abs(ranked[0].gain - o.min_merit) < DOUBT
    return close_to_useless or is_cut_doubtful(ranked[0]) or is_exchange_doubtful(duel, o.tau)


# candidates of IMAC -----------------------------------------------------------------------


@dataclass
class AgainstNull(Followed):
    """Candidates of a leaf: the best one competes with the null split alone."""

    def rivals(self) -> tuple[Candidate | None, Candidate | None]:
        """The best of P and the null split."""
        return self.ranked()[0], None

    def lead(self) -> float:
        """G_a - G_0; infinite for the policy that takes the first useful split."""
        return math.inf if self.options.policy == "anytime_eager" else super().lead()


@dataclass
class AgainstInstalled(Followed):
    """Candidates of an inner node: the best one competes with the installed test."""

    current: Attribute = NO_ATTRIBUTE

    def start_inside(self, verdict: Verdict, installed: Candidate, room: int, classes: int) -> None:
        """The installed test and the best of the other attributes become candidates."""
        self.current = attribute_of(installed)
        others = [c for c in verdict.ranked if attribute_of(c) != self.current]
        self._admit(others, room - 1)
        self.candidates[self.current] = with_own_counts(installed)
        self._dismiss_all(others[room - 1 :], verdict)
        self.remember_spread(classes)

    def exchangeable(self) -> list[Candidate]:
        """All but the installed test."""
        return [c for c in self.ranked() if attribute_of(c) != self.current]

    def is_refitted(self, candidate: Candidate) -> bool:
        """The installed test stays as it is."""
        return attribute_of(candidate) != self.current and super().is_refitted(candidate)

    def rivals(self) -> tuple[Candidate | None, Candidate | None]:
        """The best of the others, if there is one, and the installed test."""
        others = self.exchangeable()
        return others[0] if others else None, self.now(self.current)

    def is_triggered(self, classes: int) -> bool:
        """A second look would replace the split if the candidates were all there is."""
        if not self.exchangeable():
            return False
        duel = self.duel(classes)
        self.doubtful |= is_exchange_doubtful(duel, self.options.tau)
        return is_exchange(duel, self.options.tau)


# the tree ---------------------------------------------------------------------------------


class EfdtOracle(OracleTree):
    """The tree of the anytime policies; `statistics` are those of its inner nodes."""

    counts_on_the_way = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.statistics: dict[int, Leaf] = {}
        self.quiet_since: dict[int, float] = {}

    def learn(self, x: Row, y: int, w: float = 1.0) -> None:
        """One labelled event, counted by every node on its way."""
        self._begin(x, y, w)
        node = self.nodes[0]
        while isinstance(node, Split):
            self._observe(self.statistics[node.id], x, y, w)
            node = self._revised(node)
            if isinstance(node, Leaf):
                break
            node = self._step(node, x, w)
        else:
            self._learn_at(node, x, y, w)
        self._end()

    def _judge(self, leaf: Leaf, *, settle: bool = True) -> Verdict:
        verdict = judge_against_null(leaf, self._classes(), self.options, settle=settle)
        close = len(verdict.ranked) > 1 and are_close(*verdict.ranked[:2])
        return replace(verdict, doubtful=verdict.doubtful or close)

    def _accept(self, leaf: Leaf, verdict: Verdict) -> None:
        super()._accept(leaf, verdict)
        self.statistics[leaf.id] = leaf
        assert verdict.best is not None
        self._follow_inside(leaf, verdict, verdict.best)

    def _new_followed(self, leaf: Leaf) -> Followed:
        return AgainstNull(leaf, self.options)

    def _follow_inside(self, state: Leaf, verdict: Verdict, installed: Candidate) -> None:
        if self.options.timing != "imac":
            return
        followed = AgainstInstalled(state, self.options)
        followed.start_inside(verdict, installed, self._room(), self._classes())
        self.followed[state.id] = followed
        self._doubt(followed.doubtful, lasting=True)

    # looking again ------------------------------------------------------------------------

    def _revised(self, node: Split) -> Leaf | Split:
        """The node as it is after a second look, if one is due."""
        state = self.statistics[node.id]
        if self._is_look_due(state):
            state.n_last = state.n
            if not state.is_pure(self.options):
                self._look_again(node, state)
        return self.nodes[node.id]

    def _is_look_due(self, state: Leaf) -> bool:
        if self.options.timing == "imac":
            return self._is_triggered(state)
        return state.n - state.n_last >= self.options.reevaluate_every

    def _look_again(self, node: Split, state: Leaf) -> None:
        installed = measured(
            state, node.kind, node.feature, node.token, node.threshold, node.values, self.options
        )
        verdict = look_again(state, installed, self._classes(), self.options)
        self.reevaluations += 1
        self.attribute_evaluations += verdict.evaluations
        self._doubt(verdict.doubtful or state.doubtful, lasting=self.options.timing == "imac")
        if self._is_quiet_for_long(state, verdict) or verdict.kind == "collapse":
            self._collapse(node, state, verdict)
        elif verdict.kind == "replace":
            self._replace(node, state, verdict)
        elif verdict.kind == "move":
            self._move(node, state, verdict)
        else:
            self._follow_inside(state, verdict, installed)

    def _is_quiet_for_long(self, state: Leaf, verdict: Verdict) -> bool:
        """No attribute gained more than the radius in all second looks of a long time."""
        if self.options.collapse_after <= 0.0:
            return False
        top = verdict.ranked[0].gain if verdict.ranked else -math.inf
        self._doubt(abs(top - verdict.bound) < DOUBT, lasting=True)
        if top > verdict.bound:
            self.quiet_since.pop(state.id, None)
            return False
        since = self.quiet_since.setdefault(state.id, state.n)
        return state.n - since >= self.options.collapse_after

    def _record_look(self, state: Leaf, kind: str, feature: int, verdict: Verdict) -> None:
        self._record(
            state, kind, feature, verdict.merit, verdict.second_merit, verdict.bound, NOT_AUDITED
        )

    def _collapse(self, node: Split, state: Leaf, verdict: Verdict) -> None:
        """The node becomes a leaf that keeps its statistics."""
        self.subtrees_collapsed += 1
        self._record_look(state, "collapse", node.feature, verdict)
        self._drop_below(node)
        self._forget(node.id)
        del self.history.facts[node.id]
        self.nodes[node.id] = state
        self.waits[node.id] = Wait(self.options.n_min)
        state.audit_passed = None

    def _replace(self, node: Split, state: Leaf, verdict: Verdict) -> None:
        """Another test with new leaves; the node's own statistics stay."""
        assert verdict.best is not None
        self.splits_replaced += 1
        self._record_look(state, "replace", verdict.best.feature, verdict)
        self._drop_below(node)
        self.history.note(self.events, state, verdict, verdict.reason)
        self._install(state, verdict.best)
        self._follow_inside(state, verdict, verdict.best)

    def _move(self, node: Split, state: Leaf, verdict: Verdict) -> None:
        """Another cut between the same children."""
        assert verdict.best is not None
        self.thresholds_moved += 1
        self._record_look(state, "move", node.feature, verdict)
        self.history.note(self.events, state, verdict, "bound")
        node.threshold = verdict.best.threshold

    def _drop_below(self, node: Split) -> None:
        for child in node.children.values():
            below = self.nodes.pop(child)
            del self.routed[child]
            self._forget(child)
            if isinstance(below, Split):
                self._drop_below(below)

    def _forget(self, node: int) -> None:
        self._forget_timing(node)
        self.statistics.pop(node, None)
        self.quiet_since.pop(node, None)

    # what inner nodes count ---------------------------------------------------------------

    def _own_votes(self, node: Leaf | Split) -> dict[int, float]:
        return node.votes() if isinstance(node, Leaf) else self.statistics[node.id].votes()

    def _inner_statistics(self) -> int:
        return len(self.statistics)
