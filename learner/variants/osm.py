"""OSM: the next attempt comes when the most helpful future could make it succeed.

Paper
    [LWH18] V. Losing, H. Wersing, B. Hammer: Enhancing Very Fast Decision Trees with Local
    Split-Time Predictions. ICDM 2018; the formula is that of the authors' program.
Idea
    Suppose that from now on every event falls into the purest branch of X_a, with the class that is
    most frequent there, while X_b stays as it is. No real future separates the two faster, so no
    attempt before that one can succeed: "one-sided minimum".
Differs from VFDT
    Only in the wait after a failed attempt, which is never shorter than n_min.
Symbols
    D_j class weights of the branches of X_a; r the purest branch, m its majority; z future events;
    f(z) = H(D|X_b) - H_a(z) - epsilon(n + z), whose root is the wait; N_tie where epsilon = tau.
Departures
    - The root by bisection to half an event; the authors' root finder keeps a stale bracket.
    - X_b = X_0: H(D|X_0) is that of the class weights with the same z events, and the first root is
      wanted, since the lead falls again when the node itself becomes pure; the authors' program
      divides 0 by 0 there and waits 100,000 events.
    - Nothing to hope for (X_0 is best) or nothing to wait for (N_tie has passed): n_min.
    - Missing values: what is unknown keeps its share of the impurity.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from learner.kernels.bound import count_needed, expected_radius
from learner.kernels.branches import branch_counts
from learner.kernels.criterion import branch_impurity, cell, impurity
from learner.kernels.jit import inner, int64
from learner.kernels.ranking import bound_weight, impurity_per_weight, range_of_gain
from learner.kernels.rules import (
    BEST,
    BEST_COLUMN,
    BEST_CUT,
    BEST_KIND,
    INHERIT,
    SECOND,
    SECOND_KIND,
    SPREAD,
    Rules,
    Scratch,
)
from learner.kernels.tree import CLASSES, LEAF, Layout, Tree

Floats = npt.NDArray[np.float64]


@inner
def wait_by_purity(tree: Tree, layout: Layout, rules: Rules, scratch: Scratch, node: int) -> float:
    """Weight until the optimist's attempt; at least n_min, at most until the tie.   [LWH18]."""
    ranking, own = scratch.ranking, tree.node[node].n
    R, n = range_of_gain(tree, rules), bound_weight(tree, rules, node)
    until_tie = count_needed(rules, R, rules.tau, ranking[SPREAD]) - n
    if ranking[BEST_KIND] == LEAF or ranking[SECOND] == -np.inf or until_tie <= 0.0:
        return rules.n_min
    classes = tree.counts[CLASSES]
    weights, counts = tree.seen[node, :classes], scratch.branch_counts
    if rules.new_leaf == INHERIT:
        weights = tree.votes[node, :classes]
    branches = branch_counts(
        tree, layout, rules, scratch, node,
        int64(ranking[BEST_KIND]), int64(ranking[BEST_COLUMN]), ranking[BEST_CUT],
    )  # fmt: skip
    whole = impurity_per_weight(rules.criterion, weights)
    branch = counts[_purest_branch(rules.criterion, counts, branches, classes), :classes]
    # All but the purest branch, with what is unknown: H(D|X_a) = H(D) - G_a.
    others = own * (whole - ranking[BEST]) - impurity(rules.criterion, branch)
    m = int64(np.argmax(branch))
    against_null = ranking[SECOND_KIND] == LEAF
    rival = whole - ranking[SECOND]
    # Against X_0 the lead falls again once the node itself is nearly pure: begin small.
    low, high = 0.0, 1.0 if against_null else rules.max_wait
    while True:
        lead = _lead(rules, weights, branch, m, others, rival, against_null, own, high)
        if lead > expected_radius(rules, R, n + high, ranking[SPREAD]):
            break
        if high >= rules.max_wait:
            low = high
            break
        high = min(2.0 * high, rules.max_wait)
    while high - low > 0.5:
        z = (low + high) / 2.0
        lead = _lead(rules, weights, branch, m, others, rival, against_null, own, z)
        if lead > expected_radius(rules, R, n + z, ranking[SPREAD]):
            high = z
        else:
            low = z
    return max(1.0, math.ceil(min(until_tie, max(rules.n_min, high))))


@inner
def _purest_branch(criterion: int, counts: Floats, branches: int, classes: int) -> int:
    """The branch of least impurity; the first on ties."""
    purest, least = int64(0), np.inf
    for j in range(branches):
        weight = 0.0
        for k in range(classes):
            weight += counts[j, k]
        if weight <= 0.0:
            continue
        here = impurity(criterion, counts[j, :classes]) / weight
        if here < least:
            least = here
            purest = j
    return purest


@inner
def _lead(
    rules: Rules,
    weights: Floats,
    branch: Floats,
    m: int,
    others: float,
    rival: float,
    against_null: bool,
    n: float,
    z: float,
) -> float:
    """H(D|X_b) - H_a(z): the lead of X_a after z events of class m in its purest branch."""
    here = _with_more(rules.criterion, branch, m, z)
    if against_null:
        total = z
        for k in range(len(weights)):
            total += weights[k]
        rival = _with_more(rules.criterion, weights, m, z) / total
    return rival - (others + here) / (n + z)


@inner
def _with_more(criterion: int, counts: Floats, m: int, z: float) -> float:
    """Impurity times weight of a distribution with z more of class m."""
    total, cells = 0.0, 0.0
    for k in range(len(counts)):
        count = counts[k] + z if k == m else counts[k]
        total += count
        cells += cell(criterion, count)
    return branch_impurity(criterion, total, cells)
