"""A fixed test whose measure follows the events one by one, at O(1) each.

    entropy   S = sum_j L(n_j) - sum_jk L(n_jk)          H(D|X) = S / n
    Gini      T = sum_j (sum_k n_jk^2) / n_j             Q(D|X) = T / n

Both are sums over branches, so an event changes the terms of one branch only, [SJH20] Theorems 1
and 2. Written with L(0) = 0 they are exact for first events, zero counts and any weights.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.batch import Batch
from learner.kernels.bound import INFO_GAIN
from learner.kernels.branches import branch_counts
from learner.kernels.criterion import branch_impurity, cell, impurity
from learner.kernels.elementary import xlog2x
from learner.kernels.jit import inner, int64, kernel
from learner.kernels.rules import Rules, Scratch
from learner.kernels.tree import (
    CLASSES,
    EQUALS,
    MULTIWAY,
    NOWHERE,
    NUMERIC,
    Layout,
    Tree,
    holds_token,
)

Floats = npt.NDArray[np.float64]


@inner
def follow(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    batch: Batch,
    row: int,
    slot: int,
    k: int,
    weight: float,
) -> None:
    """Take an event into the measure of every candidate, before it is counted.   [SJH20] Thm 1, 2.

    An event that does not know the attribute leaves the candidate as it is.
    """
    criterion = rules.criterion
    for q in range(tree.slot[slot].candidates):
        at = tree.candidate[slot, q]
        classes = tree.candidate_classes[slot, q]
        if at.kind == MULTIWAY:
            value = int64(batch.nominal[row, at.column])
            if value < 0:
                continue
            place = layout.value_start[at.column] + value
            counts = tree.values[slot, :, place]
            at.after += increment(criterion, tree.value_weight[slot, place], counts, k, weight)
        else:
            r = _branch_of(tree, batch, row, slot, q)
            if r == NOWHERE:
                continue
            sides = tree.sides[slot, q, r]
            n_r = at.second if r else at.first
            at.after += increment(criterion, n_r, sides, k, weight)
            sides[k] += weight
            if r:
                at.second += weight
            else:
                at.first += weight
        at.before += increment(criterion, at.known, classes, k, weight)
        classes[k] += weight
        at.known += weight


@kernel
def increment(criterion: int, n_r: float, counts: Floats, m: int, w: float) -> float:
    """What an event of class m adds to the impurity of a branch, times its weight.

    Entropy: [L(n_r + w) - L(n_r)] - [L(n_rm + w) - L(n_rm)]. Gini: w minus the growth of
    sum_k n_rk^2 / n_r. With L(0) = 0 the first event of a branch or class is no special case.
    """
    n_rm = counts[m]
    if criterion == INFO_GAIN:
        return xlog2x(n_r + w) - xlog2x(n_r) - (xlog2x(n_rm + w) - xlog2x(n_rm))
    squares = 0.0
    for k in range(len(counts)):
        squares += counts[k] * counts[k]
    old = squares / n_r if n_r > 0.0 else 0.0
    return w - ((squares + 2.0 * w * n_rm + w * w) / (n_r + w) - old)


@inner
def _branch_of(tree: Tree, batch: Batch, row: int, slot: int, q: int) -> int:
    """The branch of a two-way candidate that the row takes; NOWHERE when it cannot know."""
    at = tree.candidate[slot, q]
    column = int64(at.column)
    if at.kind == NUMERIC:
        x = batch.numeric[row, column]
        return int64(x > at.cut) if x == x else int64(NOWHERE)
    if at.kind == EQUALS:
        value = int64(batch.nominal[row, column])
        return int64(value != int64(at.cut)) if value >= 0 else int64(NOWHERE)
    return int64(holds_token(batch, row, column))


@inner
def load_candidate(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    scratch: Scratch,
    node: int,
    q: int,
    kind: int,
    column: int,
    cut: float,
) -> None:
    """A candidate starts from the branch counts that the observers give now."""
    slot, classes = int64(tree.node[node].slot), tree.counts[CLASSES]
    branches = branch_counts(tree, layout, rules, scratch, node, kind, column, cut)
    at, counts = tree.candidate[slot, q], scratch.branch_counts
    at.kind = kind
    at.column = column
    at.cut = cut
    at.after = 0.0
    tree.candidate_classes[slot, q] = 0.0
    tree.sides[slot, q] = 0.0
    at.first, at.second = 0.0, 0.0
    for j in range(branches):
        total, cells = 0.0, 0.0
        for k in range(classes):
            total += counts[j, k]
            cells += cell(rules.criterion, counts[j, k])
            tree.candidate_classes[slot, q, k] += counts[j, k]
            if kind != MULTIWAY:
                tree.sides[slot, q, j, k] = counts[j, k]
        at.after += branch_impurity(rules.criterion, total, cells)
        if kind != MULTIWAY:
            if j:
                at.second = total
            else:
                at.first = total
    known = tree.candidate_classes[slot, q, :classes]
    at.before = impurity(rules.criterion, known)
    at.known = known.sum()


@inner
def candidate_counts(
    tree: Tree, layout: Layout, rules: Rules, scratch: Scratch, node: int, q: int
) -> int:
    """Branches of a candidate as it has followed them; returns how many are in scratch."""
    slot, counts = int64(tree.node[node].slot), scratch.branch_counts
    at = tree.candidate[slot, q]
    if at.kind == MULTIWAY:
        column = int64(at.column)
        return branch_counts(tree, layout, rules, scratch, node, int64(MULTIWAY), column, at.cut)
    for j in range(2):
        for k in range(tree.counts[CLASSES]):
            counts[j, k] = tree.sides[slot, q, j, k]
    return 2
