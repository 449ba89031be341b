"""IMAC: the best attributes are followed event by event, and start an attempt when it can succeed.

Paper
    [SJH20] J. Sun, H. Jia, B. Hu, X. Huang, H. Zhang, H. Wan, X. Zhao: Speeding up Very Fast
    Decision Tree with Low Computational Cost. IJCAI 2020.
Idea
    The measure of a fixed split changes by a few terms with each event (Theorems 1 and 2). So the
    gains of a few candidate attributes are kept up to date at O(1) each, and the full evaluation
    of all attributes starts only when the candidates pass the test.
Differs from VFDT
    In when an attempt starts; the attempt and its decision are VFDT's.
Symbols
    P the candidates, at most K; M potential attributes with their last known gain; I illegal ones,
    too far behind; eta the weight before the first attempt (n_first); mu the weight between two
    checks of the candidates.
Departures
    - The measure is kept as sums of L(z) = z log2 z (or squares), which is exact with zero counts
      and any weights; the authors' program clamps counts to 1.
    - X_0 and g_min take part in the trigger. Top K by rank, legal or not; one exchange a check.
    - A check searches the cuts of numeric candidates anew, so that P follows a moving best cut.
    - Where only the lead decides, an event moves the counts of two-way tests, and their measures
      are taken from these when the lead may have come up to the bound: learner/kernels/quiet.py.
    - Nothing to follow after a failed attempt: the next one comes after mu.
    - The spread and bias of the normal test are those of the last evaluation.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.kernels.attribute import best_of_all, cut_of, forget_gain, gain_of, position_of
from learner.kernels.best_two import null_merit
from learner.kernels.bound import gain_range, lead_passes, radius
from learner.kernels.candidate import candidate_counts, load_candidate
from learner.kernels.criterion import impurity
from learner.kernels.jit import flag, inner, int64, place
from learner.kernels.numeric.gaussian import gaussian_merits
from learner.kernels.quiet import measure_candidates
from learner.kernels.ranking import (
    bound_weight,
    gains,
    impurity_per_weight,
    is_pure,
    joint_spread,
    merits,
    nominal_kind,
    range_of_gain,
    spread_of_branches,
    tie_breaks,
)
from learner.kernels.rules import (
    ANYTIME_EAGER,
    BEST,
    BIAS,
    COMMIT_ONCE,
    EPSILON,
    GAUSSIAN,
    HOEFFDING,
    INHERIT,
    LEAST_CANDIDATES,
    MERIT,
    MOST_CANDIDATES,
    SPREAD,
    TOKEN_MERIT,
    Rules,
    Scratch,
)
from learner.kernels.tree import (
    CANDIDATE_CHECKS,
    CLASSES,
    CONTAINS,
    EQUALS,
    EVALUATIONS,
    LEAF,
    NOWHERE,
    NUMERIC,
    TOKENS,
    Layout,
    Tree,
)

Floats = npt.NDArray[np.float64]


# Every event that learner/kernels/quiet.py leaves open ------------------------------------------


@inner
def attempt_is_due(tree: Tree, layout: Layout, rules: Rules, scratch: Scratch, node: int) -> bool:
    """Whether the candidates of a leaf start an attempt; every mu they are checked first."""
    at = tree.node[node]
    watch = tree.slot[at.slot]
    waited = at.n - at.n_last
    if watch.candidates == 0:
        return waited >= at.wait and not is_pure(tree, rules, node)
    if is_pure(tree, rules, node):
        return False
    triggered = _leaf_trigger(tree, layout, rules, node)
    if not triggered and at.n - watch.n_check >= rules.mu:
        check_candidates(tree, layout, rules, scratch, node)
        triggered = _leaf_trigger(tree, layout, rules, node)
    return triggered and waited >= rules.min_attempt_gap


@inner
def squared_bound(rules: Rules, classes: int) -> float:
    """The product of n and epsilon(n)^2, where that is all the trigger needs; 0 = it needs more."""
    if not rules.measured_late:
        return 0.0
    R = gain_range(rules.criterion, rules.tight_range, classes)
    return R * R * rules.log_inverse_delta / 2.0


@inner
def revision_is_due(tree: Tree, layout: Layout, rules: Rules, scratch: Scratch, node: int) -> bool:
    """Whether a candidate overtakes the installed test of an inner node beyond doubt."""
    at = tree.node[node]
    if is_pure(tree, rules, node):
        return False
    triggered = _inner_trigger(tree, layout, rules, node)
    if not triggered and at.n - tree.slot[at.slot].n_check >= rules.mu:
        check_candidates(tree, layout, rules, scratch, node)
        triggered = _inner_trigger(tree, layout, rules, node)
    return triggered and at.n - at.n_last >= rules.min_attempt_gap


@inner
def _leaf_trigger(tree: Tree, layout: Layout, rules: Rules, node: int) -> bool:
    """G_a - G_b > epsilon or epsilon < tau, with X_a, X_b the two best of P and X_0.

    A gain of at most g_min would be refused by the attempt, and the next event would ask again.
    """
    best, second = two_best(tree, layout, rules, node, int64(0))
    g_a = candidate_gain(tree, rules, node, best)
    g_b = null_merit(rules)
    if rules.policy == COMMIT_ONCE and second != NOWHERE:
        g_b = max(g_b, candidate_gain(tree, rules, node, second))
    if not g_a > rules.min_merit or g_a < g_b:
        return False
    gap = np.inf if rules.policy == ANYTIME_EAGER else g_a - g_b
    return _passes(tree, rules, node, gap, flag(False))


@inner
def _inner_trigger(tree: Tree, layout: Layout, rules: Rules, node: int) -> bool:
    """Another candidate leads the installed one by epsilon, or by half of tau in a tie."""
    best, _ = two_best(tree, layout, rules, node, int64(1))
    if best == NOWHERE:
        return False
    gap = candidate_gain(tree, rules, node, best) - candidate_gain(tree, rules, node, int64(0))
    return _passes(tree, rules, node, gap, flag(True))


@inner
def _passes(tree: Tree, rules: Rules, node: int, gap: float, revises: bool) -> bool:
    """The split test on a gap, with the spread and bias of the last evaluation."""
    watch = tree.slot[tree.node[node].slot]
    R, n = range_of_gain(tree, rules), bound_weight(tree, rules, node)
    if lead_passes(rules, R, n, gap, watch.spread, watch.bias):
        return True
    tie = tie_breaks(rules, n, radius(rules, R, n, watch.spread))
    return tie and (not revises or gap > rules.tau / 2.0)


@inner
def candidate_gain(tree: Tree, rules: Rules, node: int, q: int) -> float:
    """The gain of a candidate now: (before - after) / n."""
    at = tree.candidate[tree.node[node].slot, q]
    if rules.new_leaf == INHERIT:
        votes = tree.votes[node, : tree.counts[CLASSES]]
        return impurity_per_weight(rules.criterion, votes) - at.after / at.known
    return (at.before - at.after) / tree.node[node].n


@inner
def two_best(tree: Tree, layout: Layout, rules: Rules, node: int, first: int) -> tuple[int, int]:
    """The two best candidates from place ``first`` on; NOWHERE where there are none."""
    slot = int64(tree.node[node].slot)
    best, second = int64(NOWHERE), int64(NOWHERE)
    g_best, g_second = -np.inf, -np.inf
    for q in range(first, tree.slot[slot].candidates):
        gain = candidate_gain(tree, rules, node, q)
        if best == NOWHERE or _comes_first(tree, layout, slot, gain, q, g_best, best):
            best, second, g_best, g_second = int64(q), best, gain, g_best
        elif second == NOWHERE or _comes_first(tree, layout, slot, gain, q, g_second, second):
            second, g_second = int64(q), gain
    return best, second


@inner
def _comes_first(
    tree: Tree, layout: Layout, slot: int, gain: float, q: int, other_gain: float, other: int
) -> bool:
    """Higher gain, then the earlier feature, then the lower token."""
    if gain != other_gain:
        return gain > other_gain
    a, b = tree.candidate[slot, q], tree.candidate[slot, other]
    place = position_of(layout, int64(a.kind), int64(a.column))
    other_place = position_of(layout, int64(b.kind), int64(b.column))
    return place < other_place or (place == other_place and a.column < b.column)


# After a failed attempt -------------------------------------------------------------------------


@inner
def choose_candidates(
    tree: Tree, layout: Layout, rules: Rules, scratch: Scratch, node: int
) -> None:
    """P anew: the top K; of the others, those within epsilon of the best are M, the rest I.

    At an inner node the installed test is the first candidate, as it stands.
    """
    at, ranking = tree.node[node], scratch.ranking
    slot = int64(at.slot)
    watch = tree.slot[slot]
    watch.n_check = at.n
    watch.candidates = 0
    tree.quiet_until[slot] = 0.0
    watch.spread, watch.bias = ranking[SPREAD], ranking[BIAS]
    if keeps_installed(tree, rules, node):
        load_candidate(
            tree, layout, rules, scratch, node, int64(0), int64(at.kind), int64(at.column), at.cut
        )
        watch.candidates = 1
        forget_gain(scratch, int64(at.kind), int64(at.column))
    _mark_potential(tree, scratch, slot, ranking[BEST] - ranking[EPSILON])
    most = _most_candidates(tree, layout, rules)
    while watch.candidates < most:
        kind, column = best_of_all(
            tree, layout, nominal_kind(tree, rules),
            scratch.numeric[MERIT], scratch.nominal[MERIT], scratch.tokens[TOKEN_MERIT],
        )  # fmt: skip
        if kind == LEAF:
            break
        cut = cut_of(scratch, kind, column)
        forget_gain(scratch, kind, column)
        _set_potential(tree, slot, kind, column, np.nan)
        load_candidate(
            tree, layout, rules, scratch, node, int64(watch.candidates), kind, column, cut
        )
        watch.candidates += 1
    if watch.candidates == 0:
        at.wait = rules.mu
    if keeps_installed(tree, rules, node):
        _remember_spread(tree, layout, rules, scratch, node)


@inner
def keeps_installed(tree: Tree, rules: Rules, node: int) -> bool:
    """Whether the installed test of this node is the first candidate, to be overtaken."""
    return rules.policy != COMMIT_ONCE and tree.node[node].kind != LEAF


@inner
def _most_candidates(tree: Tree, layout: Layout, rules: Rules) -> int:
    """K: as configured, or a tenth of the attributes, from 5 to 10.   [SJH20] Sec. 4."""
    if rules.candidates > 0:
        return rules.candidates
    d = len(layout.numeric_position) + len(layout.nominal_position) + tree.counts[TOKENS]
    return min(max((d + 9) // 10, LEAST_CANDIDATES), MOST_CANDIDATES)


@inner
def _mark_potential(tree: Tree, scratch: Scratch, slot: int, least: float) -> None:
    """Every attribute with a gain of at least ``least`` is potential, the others are illegal."""
    _keep_above(scratch.numeric[MERIT], tree.potential_numeric[slot], least)
    _keep_above(scratch.nominal[MERIT], tree.potential_nominal[slot], least)
    tree.potential_tokens[slot] = np.nan
    tokens = tree.counts[TOKENS]
    _keep_above(scratch.tokens[TOKEN_MERIT, :tokens], tree.potential_tokens[slot, :tokens], least)


@inner
def _keep_above(found: Floats, kept: Floats, least: float) -> None:
    """Gains of at least ``least``, NaN for the others."""
    for i in range(len(found)):
        kept[i] = found[i] if found[i] >= least else np.nan


@inner
def _set_potential(tree: Tree, slot: int, kind: int, column: int, gain: float) -> None:
    """Remember a gain; NaN takes the attribute out of M."""
    if kind == NUMERIC:
        tree.potential_numeric[slot, column] = gain
    elif kind == CONTAINS:
        tree.potential_tokens[slot, column] = gain
    else:
        tree.potential_nominal[slot, column] = gain


# Every mu ---------------------------------------------------------------------------------------


@inner
def check_candidates(tree: Tree, layout: Layout, rules: Rules, scratch: Scratch, node: int) -> None:
    """Search cuts anew, and let the best potential attribute challenge the worst candidate."""
    at, counts = tree.node[node], tree.counts
    slot = int64(at.slot)
    watch = tree.slot[slot]
    counts[CANDIDATE_CHECKS] += 1
    watch.n_check = at.n
    tree.quiet_until[slot] = 0.0
    installed = int64(keeps_installed(tree, rules, node))
    _search_cuts(tree, layout, rules, scratch, node, installed)
    if rules.measured_late:
        measure_candidates(tree, rules, scratch, node)
    R, n = range_of_gain(tree, rules), bound_weight(tree, rules, node)
    epsilon = radius(rules, R, n, watch.spread)
    while True:
        worst = _worst(tree, layout, rules, node, installed)
        kind, column = best_of_all(
            tree, layout, nominal_kind(tree, rules), tree.potential_numeric[slot],
            tree.potential_nominal[slot], tree.potential_tokens[slot],
        )  # fmt: skip
        if worst == NOWHERE or kind == LEAF:
            break
        counts[EVALUATIONS] += 1
        merits(
            tree, layout, rules, scratch, node, kind, column, column + 1, flag(False), flag(True)
        )
        gains(tree, layout, rules, scratch, node, kind, column, column + 1)
        challenger, gain = gain_of(scratch, kind, column), candidate_gain(tree, rules, node, worst)
        exchanged = challenger > gain
        _set_potential(tree, slot, kind, column, np.nan)
        if exchanged:
            cut, old = cut_of(scratch, kind, column), tree.candidate[slot, worst]
            loser, loser_column, loser_gain = int64(old.kind), int64(old.column), gain
            load_candidate(tree, layout, rules, scratch, node, worst, kind, column, cut)
            if rules.measured_late:
                measure_candidates(tree, rules, scratch, node)
        else:
            loser, loser_column, loser_gain = kind, column, challenger
        leader, _ = two_best(tree, layout, rules, node, int64(0))
        if loser_gain >= candidate_gain(tree, rules, node, leader) - epsilon:
            _set_potential(tree, slot, loser, loser_column, loser_gain)
        if not (exchanged and rules.swap_all):
            break
    _remember_spread(tree, layout, rules, scratch, node)


@inner
def _search_cuts(
    tree: Tree, layout: Layout, rules: Rules, scratch: Scratch, node: int, first: int
) -> None:
    """Candidates with a cut take the best one of now; unchanged, they keep their own counts."""
    slot = int64(tree.node[node].slot)
    gaussian, found = rules.observer == GAUSSIAN, int64(0)
    if gaussian:
        _search_side_by_side(tree, rules, scratch, node, first)
    for q in range(first, tree.slot[slot].candidates):
        at = tree.candidate[slot, q]
        kind, column = int64(at.kind), int64(at.column)
        if kind != NUMERIC and kind != EQUALS:
            continue
        tree.counts[EVALUATIONS] += 1
        if gaussian and kind == NUMERIC:
            cut, gain = cut_of(scratch, kind, found), gain_of(scratch, kind, found)
            found += 1
            if tree.barred[slot, layout.numeric_position[column]]:
                continue
        else:
            merits(
                tree, layout, rules, scratch, node, kind, column, column + 1, flag(False),
                flag(True),
            )  # fmt: skip
            gains(tree, layout, rules, scratch, node, kind, column, column + 1)
            cut, gain = cut_of(scratch, kind, column), gain_of(scratch, kind, column)
        if gain > -np.inf and cut != at.cut:
            load_candidate(tree, layout, rules, scratch, node, int64(q), kind, column, cut)


@inner
def _search_side_by_side(tree: Tree, rules: Rules, scratch: Scratch, node: int, first: int) -> None:
    """The best cuts of all numeric candidates, in the first places of scratch.numeric."""
    slot, found = int64(tree.node[node].slot), int64(0)
    seen = tree.seen[node, : tree.counts[CLASSES]]
    for q in range(first, tree.slot[slot].candidates):
        at = tree.candidate[slot, q]
        if at.kind == NUMERIC:
            for k in range(len(seen)):
                for field in range(tree.moments.shape[2]):
                    moment = tree.moments[slot, k, field, place(at.column)]
                    scratch.gathered[0, k, field, found] = moment
            found += 1
    if found > 0:
        own, gaps = impurity(rules.criterion, seen), tree.slot[slot].gaps
        gaussian_merits(
            scratch.gathered, int64(0), gaps, seen, own, rules, scratch, int64(0), found
        )


@inner
def _worst(tree: Tree, layout: Layout, rules: Rules, node: int, first: int) -> int:
    """The last candidate in order, from place ``first`` on; NOWHERE = none."""
    slot = int64(tree.node[node].slot)
    worst, least = int64(NOWHERE), np.inf
    for q in range(first, tree.slot[slot].candidates):
        gain = candidate_gain(tree, rules, node, q)
        if worst == NOWHERE or _comes_first(tree, layout, slot, least, worst, gain, q):
            worst, least = int64(q), gain
    return worst


@inner
def _remember_spread(tree: Tree, layout: Layout, rules: Rules, scratch: Scratch, node: int) -> None:
    """Spread and bias of the two that the trigger compares, for the normal test."""
    if rules.split_test == HOEFFDING:
        return
    slot = int64(tree.node[node].slot)
    inner_node = keeps_installed(tree, rules, node)
    best, second = two_best(tree, layout, rules, node, int64(inner_node))
    if inner_node:
        second = int64(0)
    elif rules.policy != COMMIT_ONCE or (
        second != NOWHERE and null_merit(rules) > candidate_gain(tree, rules, node, second)
    ):
        second = int64(NOWHERE)
    s_a, s_b, b_a, b_b = 0.0, 0.0, 0.0, 0.0
    if best != NOWHERE:
        branches = candidate_counts(tree, layout, rules, scratch, node, best)
        s_a, b_a = spread_of_branches(tree, rules, scratch, node, branches)
    if second != NOWHERE:
        branches = candidate_counts(tree, layout, rules, scratch, node, second)
        s_b, b_b = spread_of_branches(tree, rules, scratch, node, branches)
    watch = tree.slot[slot]
    watch.spread, watch.bias = joint_spread(rules, s_a, s_b), b_a - b_b
