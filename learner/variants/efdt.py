"""EFDT: split as soon as splitting is better than not, and look at every split again.

Paper
    [MWS18] C. Manapragada, G. I. Webb, M. Salehi: Extremely Fast Decision Tree. KDD 2018; the
    algorithm is HATT, the Hoeffding Anytime Tree.
Idea
    VFDT waits until the best attribute beats the second best. HATT splits once the best attribute
    beats the null split, keeps statistics at every node, and replaces a split when another
    attribute has come to beat it. In the end both have the same tree; HATT is useful earlier.
Differs from VFDT
    The rival of a leaf's best attribute is X_0. Inner nodes count events and are re-evaluated every
    R events; a better attribute takes over, and what was below is removed.
Symbols
    G_cur the gain of the installed test on the node's statistics; R_eval the re-evaluation period.
Departures
    - Periods are per node: a node is due after its own R_eval events, not the stream's.
    - Plain gains on all events of the node, where the authors' program averages past attempts.
    - Ties: a re-evaluation also needs a lead of tau / 2, otherwise equal attributes swap for ever.
    - X_0 never beats an exact gain, which is at least 0; collapse_after removes useless splits.
    - The same attribute with another cut changes nothing, unless refine_threshold moves the cut.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.kernels.attribute import position_of
from learner.kernels.bound import lead_passes, radius
from learner.kernels.branches import branch_counts, subset_counts
from learner.kernels.criterion import branch_impurity, cell, impurity
from learner.kernels.history import log_change, note_split
from learner.kernels.jit import flag, inner, int64
from learner.kernels.nodes import has_room_below
from learner.kernels.ranking import (
    bound_weight,
    evaluate,
    is_pure,
    joint_spread,
    range_of_gain,
    spread_of_branches,
    tie_breaks,
)
from learner.kernels.rules import (
    BEST,
    BEST_COLUMN,
    BEST_CUT,
    BEST_KIND,
    BIAS,
    BY_BOUND,
    BY_TIE,
    EPSILON,
    EVALUATED,
    FOLLOWED,
    HOEFFDING,
    NO_SPLIT_YET,
    SECOND,
    SECOND_COLUMN,
    SECOND_CUT,
    SECOND_KIND,
    SPREAD,
    Rules,
    Scratch,
)
from learner.kernels.splitting import install_split, remove_below
from learner.kernels.tree import (
    CLASSES,
    COLLAPSE,
    COLLAPSED,
    CONTAINS,
    EVALUATIONS,
    LEAF,
    MOVE,
    MOVED,
    NUMERIC,
    PENDING,
    PENDING_BRANCHES,
    REEVALUATIONS,
    REPLACE,
    REPLACED,
    SUBSET,
    Layout,
    Tree,
)
from learner.variants.imac import choose_candidates
from learner.variants.vfdt import best_branches

Floats = npt.NDArray[np.float64]


@inner
def reevaluate(tree: Tree, layout: Layout, rules: Rules, scratch: Scratch, node: int) -> int:
    """Keep, replace or remove the split of an inner node; returns where the node is now.

    [MWS18] Alg. 3. Waits for room by setting PENDING, and is then called again.
    """
    at, counts, ranking = tree.node[node], tree.counts, scratch.ranking
    at.n_last = at.n
    if is_pure(tree, rules, node):
        return node
    evaluate(tree, layout, rules, scratch, node, flag(True), flag(True))
    current = _compare_with_installed(tree, layout, rules, scratch, node)
    gap, epsilon = ranking[BEST] - current, ranking[EPSILON]
    R, n = range_of_gain(tree, rules), bound_weight(tree, rules, node)
    leads = lead_passes(rules, R, n, gap, ranking[SPREAD], ranking[BIAS])
    attribute_wins = ranking[BEST_KIND] != LEAF and ranking[BEST] > rules.min_merit
    same = attribute_wins and _is_installed(layout, scratch, at.kind, at.column)
    useless = _is_useless(tree, rules, scratch, node, current, epsilon)
    replaces = attribute_wins and not same and not useless
    if replaces and not leads:
        replaces = tie_breaks(rules, n, epsilon) and gap > rules.tau / 2.0
    if replaces:
        branches = best_branches(tree, layout, rules, scratch, node)
        if not has_room_below(tree, branches):
            counts[PENDING] = node + 1
            counts[PENDING_BRANCHES] = branches
            return node
    counts[REEVALUATIONS] += 1
    counts[EVALUATIONS] += int(ranking[EVALUATED])
    if useless:
        counts[COLLAPSED] += 1
        ranking[BEST_KIND], ranking[BEST_COLUMN], ranking[BEST_CUT] = at.kind, at.column, at.cut
        log_change(tree, scratch, node, int64(COLLAPSE), int64(NO_SPLIT_YET), -1.0)
        node = remove_below(tree, layout, scratch, node)
        tree.node[node].wait = rules.n_min
        watch = tree.slot[tree.node[node].slot]
        watch.audit_first = -1.0
        watch.quiet_since = -1.0
        watch.candidates = 0
    elif replaces:
        counts[REPLACED] += 1
        reason = int64(BY_BOUND if leads else BY_TIE)
        log_change(tree, scratch, node, int64(REPLACE), reason, -1.0)
        node = remove_below(tree, layout, scratch, node)
        install_split(tree, layout, rules, scratch, node, branches, reason)
    elif same and rules.refine_threshold and at.kind == NUMERIC and leads:
        counts[MOVED] += 1
        log_change(tree, scratch, node, int64(MOVE), int64(BY_BOUND), -1.0)
        note_split(tree, scratch, node, int64(BY_BOUND))
        at.cut = ranking[BEST_CUT]
    if rules.timing == FOLLOWED and not useless:
        choose_candidates(tree, layout, rules, scratch, node)
    return node


@inner
def _compare_with_installed(
    tree: Tree, layout: Layout, rules: Rules, scratch: Scratch, node: int
) -> float:
    """G_cur; in scratch.ranking the installed test becomes the rival, with spread and radius."""
    ranking, counts, classes = scratch.ranking, scratch.branch_counts, tree.counts[CLASSES]
    own, criterion, margin = tree.node[node].n, rules.criterion, scratch.classes[2]
    branches = _installed_counts(tree, layout, rules, scratch, node)
    current = table_gain(criterion, counts, branches, classes, own, margin)
    ranking[SPREAD], ranking[BIAS] = 0.0, 0.0
    if rules.split_test != HOEFFDING:
        s_cur, b_cur = spread_of_branches(tree, rules, scratch, node, branches)
        s_a, b_a = 0.0, 0.0
        if ranking[BEST_KIND] != LEAF:
            branches = best_branches(tree, layout, rules, scratch, node)
            s_a, b_a = spread_of_branches(tree, rules, scratch, node, branches)
        ranking[SPREAD], ranking[BIAS] = joint_spread(rules, s_a, s_cur), b_a - b_cur
    at = tree.node[node]
    ranking[SECOND], ranking[SECOND_KIND] = current, at.kind
    ranking[SECOND_COLUMN], ranking[SECOND_CUT] = at.column, at.cut
    R, n = range_of_gain(tree, rules), bound_weight(tree, rules, node)
    ranking[EPSILON] = radius(rules, R, n, ranking[SPREAD])
    return current


@inner
def _installed_counts(tree: Tree, layout: Layout, rules: Rules, scratch: Scratch, node: int) -> int:
    """Class weights of the branches of the installed test; returns how many."""
    at = tree.node[node]
    kind, column = int64(at.kind), int64(at.column)
    if kind != SUBSET:
        return branch_counts(tree, layout, rules, scratch, node, kind, column, at.cut)
    for v in range(layout.value_start[column + 1] - layout.value_start[column]):
        inside = v < at.table_length and tree.tables[at.table_start + v] == 1
        scratch.branch_value[v] = 1 if inside else 0
    return subset_counts(tree, layout, scratch, int64(at.slot), column)


@inner
def table_gain(
    criterion: int,
    counts: Floats,
    branches: int,
    classes: int,
    n: float,
    margin: Floats,
) -> float:
    """The gain of a split from the class weights of its branches; n counts the unknown too."""
    after = 0.0
    for k in range(classes):
        margin[k] = 0.0
    for j in range(branches):
        total, cells = 0.0, 0.0
        for k in range(classes):
            total += counts[j, k]
            cells += cell(criterion, counts[j, k])
            margin[k] += counts[j, k]
        after += branch_impurity(criterion, total, cells)
    return (impurity(criterion, margin[:classes]) - after) / n


@inner
def _is_installed(layout: Layout, scratch: Scratch, kind: int, column: int) -> bool:
    """Whether the best attribute is the one that the node tests already."""
    best, best_column = int64(scratch.ranking[BEST_KIND]), int64(scratch.ranking[BEST_COLUMN])
    if position_of(layout, best, best_column) != position_of(layout, int64(kind), int64(column)):
        return False
    return best != CONTAINS or best_column == column


@inner
def _is_useless(
    tree: Tree, rules: Rules, scratch: Scratch, node: int, current: float, epsilon: float
) -> bool:
    """X_0 beats the installed test, or nothing has beaten the radius for collapse_after events."""
    ranking = scratch.ranking
    if ranking[BEST_KIND] == LEAF and -current > epsilon:
        return True
    if rules.collapse_after <= 0.0:
        return False
    at = tree.node[node]
    watch = tree.slot[at.slot]
    if ranking[BEST_KIND] != LEAF and ranking[BEST] > epsilon:
        watch.quiet_since = -1.0
        return False
    if watch.quiet_since < 0.0:
        watch.quiet_since = at.n
    return at.n - watch.quiet_since >= rules.collapse_after
