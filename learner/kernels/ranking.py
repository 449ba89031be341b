"""Rank all candidates of a node with the null split, and test the best against its rival."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from learner.kernels.best_two import clear_ranking, offer, offer_null
from learner.kernels.bound import FEW, gain_range, hoeffding_bound, lead_passes, radius
from learner.kernels.branches import branch_counts
from learner.kernels.criterion import impurity
from learner.kernels.jit import inlined, inner, int64, kernel
from learner.kernels.nominal import nominal_merits, token_merits
from learner.kernels.normal import deviation, gain_bias
from learner.kernels.numeric.gaussian import gaussian_merits
from learner.kernels.numeric.intervals import entry_merits, look_again
from learner.kernels.rules import (
    ANYTIME_EAGER,
    BEFORE,
    BEST,
    BEST_COLUMN,
    BEST_CUT,
    BEST_KIND,
    BIAS,
    BY_BOUND,
    BY_SUBSET,
    BY_TIE,
    BY_VALUE,
    CUT,
    EPSILON,
    GAUSSIAN,
    HOEFFDING,
    INHERIT,
    INTERVALS,
    KNOWN,
    MERIT,
    NO_SPLIT_YET,
    NORMAL_STRICT,
    SECOND,
    SECOND_COLUMN,
    SECOND_CUT,
    SECOND_KIND,
    SPREAD,
    TOKEN_MERIT,
    Rules,
    Scratch,
)
from learner.kernels.tree import (
    CLASSES,
    CONTAINS,
    EQUALS,
    LEAF,
    MULTIWAY,
    NUMERIC,
    POOR,
    SUBSET,
    TOKENS,
    Layout,
    Tree,
)

Floats = npt.NDArray[np.float64]


@inner
def is_pure(tree: Tree, rules: Rules, node: int) -> bool:
    """Fewer than two classes have weight, of those that gains and bounds are about."""
    alive = 0
    for k in range(tree.seen.shape[1]):
        weight = tree.votes[node, k] if rules.new_leaf == INHERIT else tree.seen[node, k]
        alive += weight > 0.0
    return alive < 2


@inner
def evaluate(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    scratch: Scratch,
    node: int,
    settles: bool,
    extras: bool | None,
) -> None:
    """Gains of all attributes of a node, and their ranking in scratch.ranking.

    It ``settles`` in an attempt or a re-evaluation; an audit leaves no trace in the statistics.

    An attribute that is missing in part gains on its known part only, scaled by the share of the
    node's weight that is known: G_i = (n_i / n) gain, which is (before - after) / n. Under
    ``inherit`` H(D) is that of the inherited votes, as MOA has it.
    """
    numeric, nominal = len(layout.numeric_position), len(layout.nominal_position)
    tokens = tree.counts[TOKENS]
    merits(
        tree,
        layout,
        rules,
        scratch,
        node,
        int64(NUMERIC),
        int64(0),
        int64(numeric),
        settles,
        extras,
    )
    merits(
        tree,
        layout,
        rules,
        scratch,
        node,
        int64(MULTIWAY),
        int64(0),
        int64(nominal),
        settles,
        extras,
    )
    merits(
        tree,
        layout,
        rules,
        scratch,
        node,
        int64(CONTAINS),
        int64(0),
        int64(tokens),
        settles,
        extras,
    )
    if extras is not None and rules.observer == INTERVALS:
        _look_into_intervals(tree, layout, rules, scratch, node, settles)
    gains(tree, layout, rules, scratch, node, int64(NUMERIC), int64(0), int64(numeric))
    gains(tree, layout, rules, scratch, node, int64(MULTIWAY), int64(0), int64(nominal))
    gains(tree, layout, rules, scratch, node, int64(CONTAINS), int64(0), int64(tokens))
    _rank(tree, layout, rules, scratch)


@inner
def merits(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    scratch: Scratch,
    node: int,
    kind: int,
    first: int,
    end: int,
    settles: bool,
    extras: bool | None,
) -> None:
    """Impurity before minus after, times weight, of columns first..end-1 of one kind."""
    if first >= end:
        return
    slot = int64(tree.node[node].slot)
    seen = tree.seen[node, : tree.counts[CLASSES]]
    own = impurity(rules.criterion, seen)
    if kind == NUMERIC:
        if extras is not None and rules.observer != GAUSSIAN:
            entry_merits(tree, slot, seen, own, rules, scratch, first, end, settles)
        else:
            gaps = tree.slot[slot].gaps
            gaussian_merits(tree.moments, slot, gaps, seen, own, rules, scratch, first, end)
    elif kind == CONTAINS:
        token_merits(tree, slot, seen, own, rules, scratch, first, end)
    else:
        nominal_merits(tree, layout, slot, seen, own, rules, scratch, first, end)


@inner
def _look_into_intervals(
    tree: Tree, layout: Layout, rules: Rules, scratch: Scratch, node: int, settles: bool
) -> None:
    """Look again into pruned intervals that might hold the best cut.   [JA03] Sec. 4, step 2."""
    slot, n = int64(tree.node[node].slot), tree.node[node].n
    best = -np.inf
    for j in range(len(layout.numeric_position)):
        if not tree.barred[slot, layout.numeric_position[j]]:
            best = max(best, scratch.numeric[MERIT, j])
    for a in range(len(layout.nominal_position)):
        if not tree.barred[slot, layout.nominal_position[a]]:
            best = max(best, scratch.nominal[MERIT, a])
    for t in range(tree.counts[TOKENS]):
        merit = scratch.tokens[TOKEN_MERIT, t]
        if merit > best and not tree.barred_tokens[slot, t]:
            best = merit
    seen = tree.seen[node, : tree.counts[CLASSES]]
    epsilon = hoeffding_radius(tree, rules, node)
    look_again(tree, slot, seen, rules, scratch, best / n, epsilon, n, settles)


@inner
def gains(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    scratch: Scratch,
    node: int,
    kind: int,
    first: int,
    end: int,
) -> None:
    """Merits of columns first..end-1 as gains; NaN marks an attribute that is not considered."""
    if first >= end:
        return
    slot, n = int64(tree.node[node].slot), tree.node[node].n
    inherit = rules.new_leaf == INHERIT
    prior, own = 0.0, 0.0
    if inherit:
        prior = impurity_per_weight(rules.criterion, tree.votes[node, : tree.counts[CLASSES]])
        own = impurity(rules.criterion, tree.seen[node, : tree.counts[CLASSES]])
    if kind == NUMERIC:
        rows = scratch.numeric
        for j in range(first, end):
            barred = tree.barred[slot, layout.numeric_position[j]]
            rows[MERIT, j] = _gain(rows, j, n, inherit, prior, barred)
    elif kind == CONTAINS:
        merit = scratch.tokens[TOKEN_MERIT]
        for t in range(first, end):
            if tree.barred_tokens[slot, t]:
                merit[t] = np.nan
            elif inherit:
                merit[t] = prior - (own - merit[t]) / n
            else:
                merit[t] /= n
    else:
        rows = scratch.nominal
        for a in range(first, end):
            barred = tree.barred[slot, layout.nominal_position[a]]
            rows[MERIT, a] = _gain(rows, a, n, inherit, prior, barred)


@inlined
def _gain(rows: Floats, j: int, n: float, inherit: bool, prior: float, barred: int) -> float:
    """Gain of one column from its merit; NaN when it is barred or never known."""
    if rows[KNOWN, j] <= 0.0 or barred:
        return np.nan
    if inherit:
        return prior - (rows[BEFORE, j] - rows[MERIT, j]) / rows[KNOWN, j]
    return rows[MERIT, j] / n


@kernel
def impurity_per_weight(criterion: int, counts: Floats) -> float:
    """Entropy in bits, or 1 - Q."""
    total = 0.0
    for k in range(len(counts)):
        total += counts[k]
    return impurity(criterion, counts) / total if total > 0.0 else 0.0


@inner
def nominal_kind(tree: Tree, rules: Rules) -> int:
    """The kind of test that a nominal attribute makes in this tree, by now."""
    if rules.nominal_split == BY_VALUE:
        return int64(MULTIWAY)
    if rules.nominal_split == BY_SUBSET and tree.counts[CLASSES] <= 2:
        return int64(SUBSET)
    return int64(EQUALS)


@inner
def _rank(tree: Tree, layout: Layout, rules: Rules, scratch: Scratch) -> None:
    """Higher gain first, then the earlier feature, then the lower token; X_0 after its equals."""
    ranking = scratch.ranking
    clear_ranking(ranking)
    for j in range(len(layout.numeric_position)):
        offer(
            ranking, scratch.numeric[MERIT, j], int64(layout.numeric_position[j]),
            int64(NUMERIC), int64(j), scratch.numeric[CUT, j],
        )  # fmt: skip
    kind = nominal_kind(tree, rules)
    for a in range(len(layout.nominal_position)):
        offer(
            ranking, scratch.nominal[MERIT, a], int64(layout.nominal_position[a]),
            kind, int64(a), scratch.nominal[CUT, a],
        )  # fmt: skip
    for t in range(tree.counts[TOKENS]):
        offer(
            ranking, scratch.tokens[TOKEN_MERIT, t], int64(layout.token_position[t]),
            int64(CONTAINS), int64(t), 0.0,
        )  # fmt: skip
    offer_null(rules, ranking)


@inner
def bound_weight(tree: Tree, rules: Rules, node: int) -> float:
    """The n of the bound: the node's weight, or (sum w)^2 / sum w^2, or inherited votes too."""
    n = tree.node[node].n
    if rules.effective_n:
        return n * n / tree.node[node].squares
    if rules.new_leaf == INHERIT:
        return tree.votes[node].sum()
    return n


@inner
def range_of_gain(tree: Tree, rules: Rules) -> float:
    """R for the classes known by now."""
    return gain_range(rules.criterion, rules.tight_range, tree.counts[CLASSES])


@inner
def hoeffding_radius(tree: Tree, rules: Rules, node: int) -> float:
    """Hoeffding's epsilon at a node."""
    n = bound_weight(tree, rules, node)
    return hoeffding_bound(range_of_gain(tree, rules), rules.log_inverse_delta, n)


@inner
def spread_of_branches(
    tree: Tree, rules: Rules, scratch: Scratch, node: int, branches: int
) -> tuple[float, float]:
    """Deviation and bias (times n) of the gain of the split in scratch.branch_counts."""
    counts, classes = scratch.branch_counts, tree.counts[CLASSES]
    n, margin = tree.node[node].n, scratch.classes[2]
    sigma = deviation(rules.criterion, counts, branches, classes, n, margin)
    return sigma, gain_bias(rules.criterion, counts, branches, classes)


@inner
def joint_spread(rules: Rules, s_a: float, s_b: float) -> float:
    """The deviation of the difference of two gains, times z."""
    joint = s_a + s_b if rules.worst_covariance else math.sqrt(s_a * s_a + s_b * s_b)
    return rules.quantile * joint


@inner
def _measure_best_two(
    tree: Tree, layout: Layout, rules: Rules, scratch: Scratch, node: int
) -> None:
    """SPREAD and BIAS of the two best; the null split, kind LEAF, has neither."""
    ranking = scratch.ranking
    s_a, s_b, b_a, b_b = 0.0, 0.0, 0.0, 0.0
    if ranking[SECOND_KIND] != LEAF:
        kind, column = int64(ranking[SECOND_KIND]), int64(ranking[SECOND_COLUMN])
        cut = ranking[SECOND_CUT]
        branches = branch_counts(tree, layout, rules, scratch, node, kind, column, cut)
        s_b, b_b = spread_of_branches(tree, rules, scratch, node, branches)
    if ranking[BEST_KIND] != LEAF:
        kind, column = int64(ranking[BEST_KIND]), int64(ranking[BEST_COLUMN])
        cut = ranking[BEST_CUT]
        branches = branch_counts(tree, layout, rules, scratch, node, kind, column, cut)
        s_a, b_a = spread_of_branches(tree, rules, scratch, node, branches)
    ranking[SPREAD], ranking[BIAS] = joint_spread(rules, s_a, s_b), b_a - b_b


@inner
def split_test(
    tree: Tree, layout: Layout, rules: Rules, scratch: Scratch, node: int, extras: bool | None
) -> int:
    """Split iff X_a is not X_0, G_a > g_min, and G_a leads G_b beyond doubt or epsilon < tau."""
    ranking = scratch.ranking
    ranking[SPREAD], ranking[BIAS] = 0.0, 0.0
    if extras is not None and rules.split_test != HOEFFDING:
        _measure_best_two(tree, layout, rules, scratch, node)
    return test_ranking(rules, ranking, range_of_gain(tree, rules), bound_weight(tree, rules, node))


@inner
def test_ranking(rules: Rules, ranking: Floats, R: float, n: float) -> int:
    """The same for a ranking alone, with the range of the gain and the n of the bound."""
    ranking[EPSILON] = radius(rules, R, n, ranking[SPREAD])
    if ranking[BEST_KIND] == LEAF or not ranking[BEST] > rules.min_merit:
        return NO_SPLIT_YET
    gap = ranking[BEST] - ranking[SECOND]
    if rules.policy == ANYTIME_EAGER:
        return BY_BOUND
    if lead_passes(rules, R, n, gap, ranking[SPREAD], ranking[BIAS]):
        return BY_BOUND
    return BY_TIE if tie_breaks(rules, n, ranking[EPSILON]) else NO_SPLIT_YET


@inlined
def tie_breaks(rules: Rules, n: float, epsilon: float) -> bool:
    """Whether the radius is so small that the difference does not matter."""
    return epsilon < rules.tau and (rules.split_test != NORMAL_STRICT or n >= FEW)


@inner
def bar_poor(tree: Tree, layout: Layout, scratch: Scratch, slot: int) -> None:
    """After a failed attempt drop every attribute with G_a - G_i > epsilon.

    One without an admissible split (-inf) has no gain to judge it by and stays.
    """
    least = scratch.ranking[BEST] - scratch.ranking[EPSILON]
    for j in range(len(layout.numeric_position)):
        if -np.inf < scratch.numeric[MERIT, j] < least:
            tree.barred[slot, layout.numeric_position[j]] |= POOR
    for a in range(len(layout.nominal_position)):
        if -np.inf < scratch.nominal[MERIT, a] < least:
            tree.barred[slot, layout.nominal_position[a]] |= POOR
    for t in range(tree.counts[TOKENS]):
        if -np.inf < scratch.tokens[TOKEN_MERIT, t] < least:
            tree.barred_tokens[slot, t] |= POOR
