"""A fixed test whose measure follows the events one by one, at O(1) each.

    entropy   S = sum_j L(n_j) - sum_jk L(n_jk)          H(D|X) = S / n
    Gini      T = sum_j (sum_k n_jk^2) / n_j             Q(D|X) = T / n

Both are sums over branches, so an event changes the terms of one branch only, [SJH20] Theorems 1
and 2. Written with L(0) = 0 they are exact for first events, zero counts and any weights.

The counts of a numeric cut begin as estimates, whose logarithms are in no table: eight of them an
event cost more than all else. So where the trigger is Hoeffding's (``Rules.measured_late``), an
event only moves the counts of tests with two branches, and learner/kernels/quiet.py says how long
nobody needs to know their measures; when that is over, they are taken from the counts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.batch import Batch
from learner.kernels.bound import INFO_GAIN
from learner.kernels.branches import branch_counts
from learner.kernels.criterion import branch_impurity, cell, impurity
from learner.kernels.elementary import xlog2x
from learner.kernels.jit import inlined, inner, int64, kernel, place
from learner.kernels.rules import Rules, Scratch
from learner.kernels.tree import (
    CLASSES,
    EQUALS,
    MULTIWAY,
    NOWHERE,
    NUMERIC,
    Layout,
    Records,
    Tree,
    holds_token,
)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]


@inlined
def follow(
    candidate: Records,
    sides: Floats,
    known_classes: Floats,
    values: Floats,
    value_weight: Floats,
    value_start: Ints,
    L: Floats,
    criterion: int,
    late: bool,
    batch: Batch,
    row: int,
    slot: int,
    count: int,
    k: int,
    weight: float,
) -> None:
    """Take an event into the measure of every candidate, before it is counted.   [SJH20] Thm 1, 2.

    An event that does not know the attribute leaves the candidate as it is. The arrays are the
    tree's: taken out of it for every event, they would cost more than the measures. ``L`` is
    looked up where weights are whole.
    """
    own, here, numeric = place(slot), place(row), batch.numeric
    last_known, last_of_class, last_growth = -1.0, -1.0, 0.0
    for q in range(count):
        at = candidate[own, q]
        column = place(at.column)
        if late and at.kind == NUMERIC:
            x = numeric[here, column]  # both sides are as likely: a jump would often go wrong
            sides[own, q, place(x > at.cut), place(k)] += weight if x == x else 0.0
            continue
        if at.kind == MULTIWAY:
            value = batch.nominal[here, column]
            if value < 0:
                continue
            spot = place(value_start[column] + value)
            n_r = value_weight[own, spot]
            value_weight[own, spot] = n_r + weight
            if criterion == INFO_GAIN:
                at.after += entropy_growth(L, n_r, values[own, place(k), spot], weight)
            else:
                at.after += gini_growth(n_r, values[own, :, spot], k, weight)
        else:
            r = _branch_of(at, batch, row)
            if late and r != NOWHERE:
                sides[own, q, place(r), place(k)] += weight
            if late or r == NOWHERE:
                continue
            n_r = at.second if r else at.first
            if criterion == INFO_GAIN:
                at.after += entropy_growth(L, n_r, sides[own, q, r, place(k)], weight)
            else:
                at.after += gini_growth(n_r, sides[own, q, r], k, weight)
            sides[own, q, r, place(k)] += weight
            if r:
                at.second = n_r + weight
            else:
                at.first = n_r + weight
        known, of_class = at.known, known_classes[own, q, place(k)]
        if criterion != INFO_GAIN:
            at.before += gini_growth(known, known_classes[own, q], k, weight)
        else:
            if known != last_known or of_class != last_of_class:  # mostly the same for all
                last_known, last_of_class = known, of_class
                last_growth = entropy_growth(L, known, of_class, weight)
            at.before += last_growth
        known_classes[own, q, place(k)] = of_class + weight
        at.known = known + weight


@inlined
def entropy_growth(L: Floats, n_r: float, n_rm: float, w: float) -> float:
    """What an event of class m adds to the impurity of a branch, times its weight.

    [L(n_r + w) - L(n_r)] - [L(n_rm + w) - L(n_rm)]. With L(0) = 0 the first event of a branch or
    class is no special case.
    """
    i, j = int64(n_r), int64(n_rm)
    if w == 1.0 and i == n_r and j == n_rm and max(i, j) + 1 < len(L):
        return (L[place(i + 1)] - L[place(i)]) - (L[place(j + 1)] - L[place(j)])
    return xlog2x(n_r + w) - xlog2x(n_r) - (xlog2x(n_rm + w) - xlog2x(n_rm))


@kernel
def gini_growth(n_r: float, counts: Floats, m: int, w: float) -> float:
    """What an event of class m adds to n_r - sum_k n_rk^2 / n_r."""
    n_rm, squares = counts[m], 0.0
    for k in range(len(counts)):
        squares += counts[k] * counts[k]
    old = squares / n_r if n_r > 0.0 else 0.0
    return w - ((squares + 2.0 * w * n_rm + w * w) / (n_r + w) - old)


@inlined
def _branch_of(at: Records, batch: Batch, row: int) -> int:
    """The branch of a two-way candidate that the row takes; NOWHERE when it cannot know."""
    here, column = place(row), place(at.column)
    if at.kind == NUMERIC:
        x = batch.numeric[here, column]
        return int64(x > at.cut) if x == x else int64(NOWHERE)
    if at.kind == EQUALS:
        value = int64(batch.nominal[here, column])
        return int64(value != int64(at.cut)) if value >= 0 else int64(NOWHERE)
    return int64(holds_token(batch, row, int64(at.column)))


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
    """A candidate starts from the branch counts that the observers give now.

    Its measure is left to who asks for it, where it is taken late.
    """
    slot, classes = int64(tree.node[node].slot), tree.counts[CLASSES]
    measures = kind == MULTIWAY or not rules.measured_late
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
            if measures:
                cells += cell(rules.criterion, counts[j, k])
            tree.candidate_classes[slot, q, k] += counts[j, k]
            if kind != MULTIWAY:
                tree.sides[slot, q, j, k] = counts[j, k]
        if measures:
            at.after += branch_impurity(rules.criterion, total, cells)
        if kind != MULTIWAY:
            if j:
                at.second = total
            else:
                at.first = total
    if kind == MULTIWAY:
        for spot in range(layout.value_start[column], layout.value_start[column + 1]):
            tree.value_weight[slot, spot] = 0.0
            for k in range(classes):
                tree.value_weight[slot, spot] += tree.values[slot, k, spot]
    known = tree.candidate_classes[slot, q, :classes]
    if measures:
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
