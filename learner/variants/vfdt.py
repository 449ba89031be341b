"""VFDT: a leaf splits when enough events have shown which attribute is best.

Paper
    [DH00] P. Domingos, G. Hulten: Mining High-Speed Data Streams. KDD 2000.
Idea
    A leaf collects counts n_ijk. Every n_min events it compares the gains of its two best
    attributes; when they differ by more than the Hoeffding bound, the better one is with
    probability 1 - delta the one that infinitely many events would choose, and the leaf splits.
Differs from VFDT
    Nothing: this is the root of the family. The walk of an event, [DH00] Table 1, is the loop in
    learner/loop.py; what happens at a check is here, and the other variants change parts of it.
Symbols
    n_min, delta, tau as in the paper; X_a, X_b the best and second best candidate; G their gains;
    epsilon the Hoeffding bound; X_0 the null split; votes = prior + counts, for prediction only.
Departures
    - "n mod n_min" becomes "n - n_last >= n_min", since weights need not be integers.
    - A tie splits only on a gain above g_min: without it a tie may split on nothing at all.
    - Numeric attributes, missing and unseen values, weights, bounded memory, naive Bayes leaves:
      the paper leaves them open; see docs/variants/vfdt.md.
"""

from __future__ import annotations

from learner.kernels.branches import branch_counts
from learner.kernels.forecast import UNKNOWN, split_weight
from learner.kernels.history import log_change
from learner.kernels.jit import inner, int64
from learner.kernels.nodes import give_back_slot, has_room_below
from learner.kernels.numeric.intervals import prune
from learner.kernels.ranking import (
    bar_poor,
    evaluate,
    hoeffding_radius,
    is_pure,
    split_test,
)
from learner.kernels.rules import (
    BEST,
    BEST_COLUMN,
    BEST_CUT,
    BEST_KIND,
    BY_TIE,
    COMMIT_ONCE,
    EVALUATED,
    FOLLOWED,
    INTERVALS,
    NO_SPLIT_YET,
    PREDICTED_GAP,
    PREDICTED_PURITY,
    SECOND,
    SECOND_KIND,
    Rules,
    Scratch,
)
from learner.kernels.splitting import install_split
from learner.kernels.tree import (
    ATTEMPTS,
    AUDITED_SPLITS,
    AUDITS,
    BOUND,
    CLASSES,
    EVALUATIONS,
    LEAF,
    NO_SPLIT,
    NOWHERE,
    PENDING,
    PENDING_BRANCHES,
    PURE_CHECKS,
    SPLITS_BOUND,
    SPLITS_TIE,
    TIE,
    Layout,
    Tree,
)
from learner.variants.cgd import wait_by_gap
from learner.variants.imac import choose_candidates
from learner.variants.osm import wait_by_purity


@inner
def consider(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    scratch: Scratch,
    node: int,
    due: bool,
    audits: bool,
    extras: bool | None,
) -> None:
    """Split the leaf if X_a beats X_b, and beats it by enough.   [DH00] Table 1, the inner if.

    The split-delay audit asks in between, and remembers the first n at which the test passes; the
    tree does not notice. Without ``extras`` (None) only what VFDT needs is compiled.
    """
    at, counts = tree.node[node], tree.counts
    if due:
        at.n_last = at.n
        at.wait = rules.n_min
    if is_pure(tree, rules, node):
        counts[PURE_CHECKS] += due
        return
    evaluate(tree, layout, rules, scratch, node, due, extras)
    outcome = split_test(tree, layout, rules, scratch, node, extras)
    if audits:
        counts[AUDITS] += 1
        if outcome != NO_SPLIT_YET:
            tree.slot[at.slot].audit_first = at.n
    if not due:
        return
    if outcome == NO_SPLIT_YET:
        count_attempt(tree, scratch)
        after_failure(tree, layout, rules, scratch, node, extras)
        return
    branches = best_branches(tree, layout, rules, scratch, node)
    if not has_room_below(tree, branches):
        counts[PENDING] = node + 1
        counts[PENDING_BRANCHES] = branches
        return
    split_leaf(tree, layout, rules, scratch, node, outcome, branches)
    if extras is not None and rules.policy != COMMIT_ONCE and rules.timing == FOLLOWED:
        choose_candidates(tree, layout, rules, scratch, node)


@inner
def split_leaf(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    scratch: Scratch,
    node: int,
    outcome: int,
    branches: int,
) -> None:
    """Replace the leaf by the test of X_a; scratch has its branches, and there is room for them."""
    count_attempt(tree, scratch)
    tree.counts[SPLITS_TIE if outcome == BY_TIE else SPLITS_BOUND] += 1
    kind = int64(TIE if outcome == BY_TIE else BOUND)
    log_change(tree, scratch, node, kind, outcome, audited_delay(tree, node))
    tree.slot[tree.node[node].slot].forecast = UNKNOWN
    if rules.policy == COMMIT_ONCE:
        give_back_slot(tree, layout, node)
    install_split(tree, layout, rules, scratch, node, branches, outcome)


@inner
def best_branches(tree: Tree, layout: Layout, rules: Rules, scratch: Scratch, node: int) -> int:
    """Class weights of the branches of X_a; returns how many."""
    ranking = scratch.ranking
    kind, column = int64(ranking[BEST_KIND]), int64(ranking[BEST_COLUMN])
    return branch_counts(tree, layout, rules, scratch, node, kind, column, ranking[BEST_CUT])


@inner
def count_attempt(tree: Tree, scratch: Scratch) -> None:
    """One attempt, with all its attributes."""
    tree.counts[ATTEMPTS] += 1
    tree.counts[EVALUATIONS] += int(scratch.ranking[EVALUATED])


@inner
def after_failure(
    tree: Tree, layout: Layout, rules: Rules, scratch: Scratch, node: int, extras: bool | None
) -> None:
    """When to look again, and at what: the part in which the variants differ."""
    at, ranking = tree.node[node], scratch.ranking
    slot = int64(at.slot)
    tree.counts[NO_SPLIT] += 1
    tree.slot[slot].forecast = split_weight(tree, rules, scratch, node)
    if rules.remove_poor:
        bar_poor(tree, layout, scratch, slot)
    if extras is None:
        return
    if rules.observer == INTERVALS:
        best = ranking[BEST] if ranking[BEST_KIND] != LEAF else ranking[SECOND]
        if ranking[BEST_KIND] != LEAF or ranking[SECOND_KIND] != LEAF:
            seen = tree.seen[node, : tree.counts[CLASSES]]
            epsilon = hoeffding_radius(tree, rules, node)
            prune(tree, slot, seen, rules, scratch, best, epsilon, at.n)
    if rules.timing == PREDICTED_GAP:
        at.wait = wait_by_gap(tree, rules, scratch, node)
    elif rules.timing == PREDICTED_PURITY:
        at.wait = wait_by_purity(tree, layout, rules, scratch, node)
    elif rules.timing == FOLLOWED:
        choose_candidates(tree, layout, rules, scratch, node)


@inner
def audited_delay(tree: Tree, node: int) -> float:
    """Weight since the test would first have passed here; -1 where nobody watched."""
    at = tree.node[node]
    if at.slot == NOWHERE or tree.slot[at.slot].audited == 0:
        return -1.0
    tree.counts[AUDITED_SPLITS] += 1
    passed = tree.slot[at.slot].audit_first
    return at.n - passed if passed >= 0.0 else 0.0
