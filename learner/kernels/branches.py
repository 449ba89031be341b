"""Class weights of the branches of a test, from what a node has counted."""

from __future__ import annotations

from learner.kernels.jit import inner, int64
from learner.kernels.nominal import order_by_share
from learner.kernels.numeric.gaussian import weight_below
from learner.kernels.numeric.ordered import weight_at_most
from learner.kernels.rules import GAUSSIAN, Rules, Scratch
from learner.kernels.tree import (
    CLASSES,
    EQUALS,
    MISSING,
    MULTIWAY,
    NUMERIC,
    SUBSET,
    Layout,
    Tree,
)


@inner
def branch_counts(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    scratch: Scratch,
    node: int,
    kind: int,
    column: int,
    cut: float,
) -> int:
    """Class weights of every branch of a candidate in scratch.branch_counts; returns how many.

    Two branches: x <= cut and the rest; x == value and the rest; without the token and with it;
    the first ``cut`` values in the order of class shares and the rest (scratch.branch_value marks
    them). Multiway: one for every value that has weight here, in the order of the codes.
    """
    slot = int64(tree.node[node].slot)
    classes = tree.counts[CLASSES]
    counts = scratch.branch_counts
    if kind == MULTIWAY:
        return _multiway_counts(tree, layout, scratch, slot, column)
    if kind == SUBSET:
        first = layout.value_start[column]
        found = order_by_share(
            tree.values, slot, first, layout.value_start[column + 1], scratch.order
        )
        for v in range(layout.value_start[column + 1] - first):
            scratch.branch_value[v] = 0
        for m in range(min(found, int(cut))):
            scratch.branch_value[scratch.order[m]] = 1
        return subset_counts(tree, layout, scratch, slot, column)
    if kind == NUMERIC:
        _numeric_sides(tree, rules, scratch, node, column, cut)
        return 2
    for k in range(classes):
        if kind == EQUALS:
            first = layout.value_start[column]
            known = 0.0
            for place in range(first, layout.value_start[column + 1]):
                known += tree.values[slot, k, place]
            counts[0, k] = tree.values[slot, k, first + int(cut)]
            counts[1, k] = max(0.0, known - counts[0, k])
        else:
            counts[1, k] = tree.tokens[slot, k, column]
            counts[0, k] = max(0.0, tree.seen[node, k] - counts[1, k])
    return 2


@inner
def _numeric_sides(
    tree: Tree, rules: Rules, scratch: Scratch, node: int, column: int, cut: float
) -> None:
    """Known weights of x <= cut and x > cut; an estimate where only moments are kept."""
    slot = int64(tree.node[node].slot)
    classes, counts = tree.counts[CLASSES], scratch.branch_counts
    if rules.observer != GAUSSIAN:
        weight_at_most(tree, slot, column, cut, classes, counts[0])
    for k in range(classes):
        known = max(0.0, tree.seen[node, k] - tree.moments[slot, k, MISSING, column])
        if rules.observer == GAUSSIAN:
            counts[0, k] = weight_below(tree.moments, slot, k, column, known, cut)
        counts[1, k] = max(0.0, known - counts[0, k])


@inner
def subset_counts(tree: Tree, layout: Layout, scratch: Scratch, slot: int, column: int) -> int:
    """Branch 0: values marked in scratch.branch_value; branch 1: the others."""
    first, classes = layout.value_start[column], tree.counts[CLASSES]
    for k in range(classes):
        scratch.branch_counts[0, k] = 0.0
        scratch.branch_counts[1, k] = 0.0
        for place in range(first, layout.value_start[column + 1]):
            side = 1 - scratch.branch_value[place - first]
            scratch.branch_counts[side, k] += tree.values[slot, k, place]
    return 2


@inner
def _multiway_counts(tree: Tree, layout: Layout, scratch: Scratch, slot: int, column: int) -> int:
    """Counts of the values with weight; scratch.branch_value keeps the value of each."""
    classes = tree.counts[CLASSES]
    first = layout.value_start[column]
    branch = 0
    for place in range(first, layout.value_start[column + 1]):
        weight = 0.0
        for k in range(classes):
            scratch.branch_counts[branch, k] = tree.values[slot, k, place]
            weight += scratch.branch_counts[branch, k]
        if weight > 0.0:
            scratch.branch_value[branch] = place - first
            branch += 1
    return branch
