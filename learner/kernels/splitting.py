"""Turn a leaf into a split node with fresh leaves below."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.kernels.jit import inner
from learner.kernels.leaves import best_of
from learner.kernels.numeric.gaussian import weight_below
from learner.kernels.rules import BEST_COLUMN, BEST_CUT, BEST_KIND, EMPTY, INHERIT, Rules, Scratch
from learner.kernels.tree import (
    CLASSES,
    EQUALS,
    MISSING,
    MULTIWAY,
    NOWHERE,
    NUMERIC,
    TABLE,
    Layout,
    Tree,
    bar_path,
    give_back_slot,
    new_leaf,
)

Floats = npt.NDArray[np.float64]


@inner
def branch_counts(
    tree: Tree,
    layout: Layout,
    scratch: Scratch,
    node: int,
) -> int:
    """Class weights of every branch of the best candidate; returns the number of branches.

    Two branches: x <= cut and the rest; x == value and the rest; without the token and with it.
    Multiway: one for every value that has weight here, in the order of the codes.
    """
    slot = tree.node[node].slot
    classes = tree.counts[CLASSES]
    kind, column = int(scratch.ranking[BEST_KIND]), int(scratch.ranking[BEST_COLUMN])
    cut, counts = scratch.ranking[BEST_CUT], scratch.branch_counts
    if kind == MULTIWAY:
        return _multiway_counts(tree, layout, scratch, slot, column)
    for k in range(classes):
        if kind == NUMERIC:
            known = tree.seen[node, k] - tree.moments[slot, k, MISSING, column]
            known = max(0.0, known)
            counts[0, k] = weight_below(tree.moments, slot, k, column, known, cut)
            counts[1, k] = max(0.0, known - counts[0, k])
        elif kind == EQUALS:
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


@inner
def install_split(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    scratch: Scratch,
    node: int,
    branches: int,
) -> None:
    """The best candidate becomes the node's test; one leaf a branch, with n = 0.

    A multiway attribute is constant below, so the leaves bar it. The node keeps its votes: they
    answer where a branch has none. ``branch_counts`` has filled the branches.
    """
    kind, column = int(scratch.ranking[BEST_KIND]), int(scratch.ranking[BEST_COLUMN])
    give_back_slot(tree, node)
    tree.node[node].kind = kind
    tree.node[node].column = column
    tree.node[node].cut = scratch.ranking[BEST_CUT]
    tree.node[node].branches = branches
    for branch in range(branches):
        leaf = new_leaf(tree, node, rules.audit_fraction)
        if branch == 0:
            tree.node[node].child = leaf
        bar_path(tree, layout, leaf)
        if kind == MULTIWAY:
            tree.node[leaf].value = scratch.branch_value[branch]
        start_leaf(tree, rules, scratch.branch_counts[branch], leaf)
    if kind == MULTIWAY:
        _fill_table(tree, node)


@inner
def start_leaf(tree: Tree, rules: Rules, counts: Floats, leaf: int) -> None:
    """What a new leaf starts with: the branch's distribution as prior votes, or nothing.

    separate: votes only. inherit: votes, which gains and bounds then count too. empty: nothing.
    """
    classes = tree.counts[CLASSES]
    weight = 0.0
    for k in range(classes):
        weight += counts[k]
    tree.node[leaf].routed = weight
    if rules.new_leaf == EMPTY:
        tree.node[leaf].majority = 0
        return
    for k in range(classes):
        tree.votes[leaf, k] = counts[k]
    if weight > 0.0:
        tree.node[leaf].majority = best_of(counts, classes)


@inner
def _fill_table(tree: Tree, node: int) -> None:
    """Value -> child up to the highest value that has one."""
    last = tree.node[node].child + tree.node[node].branches - 1
    length = tree.node[last].value + 1
    start = tree.counts[TABLE]
    tree.counts[TABLE] += length
    tree.node[node].table_start = start
    tree.node[node].table_length = length
    for v in range(length):
        tree.tables[start + v] = NOWHERE
    first = tree.node[node].child
    for leaf in range(first, first + tree.node[node].branches):
        tree.tables[start + tree.node[leaf].value] = leaf


@inner
def counted(tree: Tree, rules: Rules, node: int) -> Floats:
    """The class weights that gains, bounds and purity of a leaf are about."""
    return tree.votes[node] if rules.new_leaf == INHERIT else tree.seen[node]


@inner
def lost_child(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    node: int,
    value: int,
) -> int:
    """A new child of a multiway split for a missing or unseen value.

    It is the *other* branch, or with unseen=grow the child of that value. It has no votes, so it
    predicts its parent's majority until it learns.
    """
    grows = rules.grow_unseen and value >= 0
    leaf = new_leaf(tree, node, rules.audit_fraction)
    bar_path(tree, layout, leaf)
    if rules.new_leaf == EMPTY:
        tree.node[leaf].majority = 0
    if not grows:
        tree.node[node].other = leaf
        return leaf
    tree.node[leaf].value = value
    if value >= tree.node[node].table_length:
        _move_table(tree, node, max(value + 1, 2 * tree.node[node].table_length))
    tree.tables[tree.node[node].table_start + value] = leaf
    return leaf


@inner
def _move_table(tree: Tree, node: int, length: int) -> None:
    """A longer table at the end of the pool."""
    start = tree.counts[TABLE]
    tree.counts[TABLE] += length
    for v in range(length):
        inside = v < tree.node[node].table_length
        old = tree.tables[tree.node[node].table_start + v] if inside else NOWHERE
        tree.tables[start + v] = old
    tree.node[node].table_start = start
    tree.node[node].table_length = length
