"""Rank all candidates of a leaf with the null split, and test the best against the second."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.kernels.bound import gain_range, hoeffding_bound
from learner.kernels.criterion import impurity
from learner.kernels.jit import inner, kernel
from learner.kernels.nominal import nominal_merits, token_merits
from learner.kernels.numeric.gaussian import gaussian_merits
from learner.kernels.rules import (
    BEFORE,
    BEST,
    BEST_COLUMN,
    BEST_CUT,
    BEST_KIND,
    BY_BOUND,
    BY_TIE,
    CUT,
    EPSILON,
    EVALUATED,
    INHERIT,
    KNOWN,
    MERIT,
    NO_SPLIT_YET,
    SECOND,
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
    TOKENS,
    Layout,
    Tree,
)

Floats = npt.NDArray[np.float64]


@kernel
def is_pure(counts: Floats) -> bool:
    """Fewer than two classes have weight."""
    alive = 0
    for k in range(len(counts)):
        alive += counts[k] > 0.0
    return alive < 2


@inner
def evaluate(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    scratch: Scratch,
    node: int,
) -> None:
    """Gains of all attributes of a leaf, and their ranking in scratch.ranking.

    An attribute that is missing in part gains on its known part only, scaled by the share of the
    leaf's weight that is known: G_i = (n_i / n) gain, which is (before - after) / n. Under
    ``inherit`` H(D) is that of the inherited votes, as MOA has it.
    """
    slot = tree.node[node].slot
    classes = tree.counts[CLASSES]
    seen = tree.seen[node, :classes]
    own = impurity(rules.criterion, seen)
    if tree.moments.shape[3] > 0:
        gaussian_merits(tree, slot, seen, own, rules, scratch)
    if len(layout.nominal_position) > 0:
        nominal_merits(tree, layout, slot, seen, own, rules, scratch)
    if tree.counts[TOKENS] > 0:
        token_merits(tree, slot, seen, own, rules, scratch)
    _to_gains(tree, layout, rules, scratch, node)
    _rank(tree, layout, rules, scratch)


@inner
def _to_gains(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    scratch: Scratch,
    node: int,
) -> None:
    """Divide merits by the weight; NaN marks an attribute that is not considered."""
    slot = tree.node[node].slot
    classes = tree.counts[CLASSES]
    n = tree.node[node].n
    inherit = rules.new_leaf == INHERIT
    votes = tree.votes[node, :classes]
    own = impurity(rules.criterion, tree.seen[node, :classes])
    prior = impurity(rules.criterion, votes) / votes.sum() if inherit else 0.0
    known, start = scratch.numeric[KNOWN], scratch.numeric[BEFORE]
    for j in range(len(layout.numeric_position)):
        if known[j] <= 0.0 or tree.barred[slot, layout.numeric_position[j]]:
            scratch.numeric[MERIT, j] = np.nan
        elif inherit:
            scratch.numeric[MERIT, j] = prior - (start[j] - scratch.numeric[MERIT, j]) / known[j]
        else:
            scratch.numeric[MERIT, j] /= n
    for a in range(len(layout.nominal_position)):
        of = scratch.nominal[KNOWN, a]
        if of <= 0.0 or tree.barred[slot, layout.nominal_position[a]]:
            scratch.nominal[MERIT, a] = np.nan
        elif inherit:
            after = scratch.nominal[BEFORE, a] - scratch.nominal[MERIT, a]
            scratch.nominal[MERIT, a] = prior - after / of
        else:
            scratch.nominal[MERIT, a] /= n
    for t in range(tree.counts[TOKENS]):
        if tree.barred_tokens[slot, t]:
            scratch.tokens[TOKEN_MERIT, t] = np.nan
        elif inherit:
            scratch.tokens[TOKEN_MERIT, t] = prior - (own - scratch.tokens[TOKEN_MERIT, t]) / n
        else:
            scratch.tokens[TOKEN_MERIT, t] /= n


@inner
def _rank(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    scratch: Scratch,
) -> None:
    """Higher gain first, then the earlier feature, then the lower token; X_0 after its equals."""
    ranking = scratch.ranking
    ranking[BEST] = -np.inf
    ranking[SECOND] = -np.inf
    ranking[BEST_KIND] = LEAF
    ranking[EVALUATED] = 0.0
    place = np.inf
    for j in range(len(layout.numeric_position)):
        place = _offer(
            ranking, scratch.numeric[MERIT, j], layout.numeric_position[j], place,
            NUMERIC, j, scratch.numeric[CUT, j],
        )  # fmt: skip
    kind = EQUALS if rules.binary_nominal else MULTIWAY
    for a in range(len(layout.nominal_position)):
        place = _offer(
            ranking, scratch.nominal[MERIT, a], layout.nominal_position[a], place,
            kind, a, scratch.nominal[CUT, a],
        )  # fmt: skip
    for t in range(tree.counts[TOKENS]):
        place = _offer(
            ranking,
            scratch.tokens[TOKEN_MERIT, t],
            layout.token_position[t],
            place,
            CONTAINS,
            t,
            0.0,
        )
    null = 0.0 if rules.null_competes else -np.inf
    if null > ranking[BEST]:
        ranking[SECOND] = ranking[BEST]
        ranking[BEST] = null
        ranking[BEST_KIND] = LEAF
    elif null > ranking[SECOND]:
        ranking[SECOND] = null


@kernel
def _offer(
    ranking: Floats, merit: float, position: int, best_place: float, kind: int, column: int,
    cut: float,
) -> float:  # fmt: skip
    """Take a candidate into the best two; returns the schema position of the best."""
    if np.isnan(merit):
        return best_place
    ranking[EVALUATED] += 1.0
    if merit > ranking[BEST] or (merit == ranking[BEST] and position < best_place):
        ranking[SECOND] = ranking[BEST]
        ranking[BEST] = merit
        ranking[BEST_KIND] = kind
        ranking[BEST_COLUMN] = column
        ranking[BEST_CUT] = cut
        return position
    if merit > ranking[SECOND]:
        ranking[SECOND] = merit
    return best_place


@inner
def bound_at(tree: Tree, rules: Rules, node: int) -> float:
    """epsilon(n) of a leaf: by its weight, or by (sum w)^2 / sum w^2."""
    n = tree.node[node].n
    if rules.effective_n:
        n = n * n / tree.node[node].squares
    elif rules.new_leaf == INHERIT:
        n = tree.votes[node].sum()
    R = gain_range(rules.criterion, rules.tight_range, tree.counts[CLASSES])
    return hoeffding_bound(R, rules.log_inverse_delta, n)


@inner
def split_test(tree: Tree, rules: Rules, scratch: Scratch, node: int) -> int:
    """Split iff X_a is not X_0, G_a > g_min, and G_a - G_b > epsilon or epsilon < tau."""
    ranking = scratch.ranking
    epsilon = bound_at(tree, rules, node)
    ranking[EPSILON] = epsilon
    if ranking[BEST_KIND] == LEAF or not ranking[BEST] > rules.min_merit:
        return NO_SPLIT_YET
    if ranking[BEST] - ranking[SECOND] > epsilon:
        return BY_BOUND
    return BY_TIE if epsilon < rules.tau else NO_SPLIT_YET


@inner
def bar_poor(
    tree: Tree,
    layout: Layout,
    scratch: Scratch,
    slot: int,
) -> None:
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
