"""CGD: the gap between the two best attributes tells when the next attempt can succeed.

Paper
    [GM18] E. Garcia-Martin, N. Lavesson, H. Grahn, E. Casalicchio, V. Boeva: Hoeffding Trees with
    nmin adaptation. DSAA 2018; in the words of [LWH18] "constant gain difference".
Idea
    If the gap G_a - G_b stays as it is, the test passes as soon as epsilon(n) has fallen below it,
    or below tau, where a tie is broken. Attempts before that n are wasted.
Differs from VFDT
    Only in the wait after a failed attempt. The first attempt of a leaf comes after n_min.
Symbols
    gap = G_a - G_b; N(g) = R^2 ln(1/delta) / 2 g^2, the n at which epsilon equals g.
Departures
    - The wait is N - n; the authors' program waits N further events and so n too many.
    - A split refused by X_0 or g_min, not by the bound, waits n_min: N has passed already.
    - With the normal test N is the n at which its radius equals the gap.
"""

from __future__ import annotations

from learner.kernels.bound import count_needed
from learner.kernels.jit import inner
from learner.kernels.ranking import bound_weight, range_of_gain
from learner.kernels.rules import (
    BEST,
    BEST_KIND,
    BIAS,
    HOEFFDING,
    SECOND,
    SPREAD,
    Rules,
    Scratch,
)
from learner.kernels.tree import LEAF, Tree


@inner
def wait_by_gap(tree: Tree, rules: Rules, scratch: Scratch, node: int) -> float:
    """Weight until the radius reaches max(gap, tau), from 1 to max_wait.   [GM18] Alg. 1."""
    ranking, n = scratch.ranking, bound_weight(tree, rules, node)
    gap = 0.0
    if ranking[BEST_KIND] != LEAF:
        gap = ranking[BEST] - ranking[SECOND]
        if rules.split_test != HOEFFDING:
            gap -= ranking[BIAS] / n
    gap = max(gap, rules.tau)
    needed = count_needed(rules, range_of_gain(tree, rules), gap, ranking[SPREAD])
    if needed <= n:
        return rules.n_min
    return min(max(needed - n, 1.0), rules.max_wait)
