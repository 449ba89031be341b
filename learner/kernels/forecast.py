"""How much a leaf must still see before its split test passes, if its two best stay as they are."""

from __future__ import annotations

import math

from learner.kernels.bound import FEW, hoeffding_count
from learner.kernels.jit import flag, inner, kernel
from learner.kernels.ranking import bound_weight, evaluate, range_of_gain, split_test
from learner.kernels.rules import (
    BEST,
    BEST_KIND,
    BIAS,
    HOEFFDING,
    NORMAL_STRICT,
    SECOND,
    SPREAD,
    Rules,
    Scratch,
)
from learner.kernels.tree import LEAF, Floats, Layout, Tree

UNKNOWN = -1.0


@inner
def split_weight(tree: Tree, rules: Rules, scratch: Scratch, node: int) -> float:
    """The n of the node at which its lead, or tau, reaches the radius; UNKNOWN: no end in sight.

    N(g) = R^2 ln(1/delta) / 2 g^2 turned round, and for the normal test (spread / g)^2.
    """
    ranking, own = scratch.ranking, tree.node[node].n
    if ranking[BEST_KIND] == LEAF or not ranking[BEST] > rules.min_merit:
        return UNKNOWN
    n = bound_weight(tree, rules, node)
    lead = ranking[BEST] - ranking[SECOND]
    needed = math.inf
    if rules.split_test != NORMAL_STRICT and max(lead, rules.tau) > 0.0:
        R = range_of_gain(tree, rules)
        needed = hoeffding_count(R, rules.log_inverse_delta, max(lead, rules.tau))
    if rules.split_test != HOEFFDING:
        unbiased = max(lead - ranking[BIAS] / n, rules.tau)
        if unbiased > 0.0:
            by_normal = (ranking[SPREAD] / unbiased) * (ranking[SPREAD] / unbiased)
            needed = min(needed, max(by_normal, FEW))
    return UNKNOWN if math.isinf(needed) else own + max(0.0, needed - n)


@kernel
def examine(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    scratch: Scratch,
    node: int,
    ranking: Floats,
    extras: bool | None,
) -> tuple[int, float]:
    """What an attempt at a leaf would say now, and the n at which it would say yes.

    ``ranking`` takes the two best, the radius, and the bias of the gap. Meant for a copy of the
    leaf: values that are kept one by one are put in order for it.
    """
    evaluate(tree, layout, rules, scratch, node, flag(False), extras)
    outcome = split_test(tree, layout, rules, scratch, node, extras)
    for i in range(len(ranking)):
        ranking[i] = scratch.ranking[i]
    ranking[BIAS] /= bound_weight(tree, rules, node)
    return outcome, split_weight(tree, rules, scratch, node)
