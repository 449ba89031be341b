"""The tree laid out for many rows, of which some walk down at the same time. A derived copy.

A node's branches lie side by side, one for every value, so that a step is one addition. Where two
values share a child it is there twice, and a value without a branch ends at a leaf of its own:

    node      #0 car              #1      #1      #2     #0, no branch for other values
    place      0                   1       2       3      4
    first      1    (width 3)      .       .       .      .
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from learner.batch import Batch
from learner.kernels.jit import inlined, inner, int64, kernel, place
from learner.kernels.leaves import uses_bayes, vote
from learner.kernels.rules import EMPTY, Scratch
from learner.kernels.tree import (
    CLASSES,
    EQUALS,
    LEAF,
    MULTIWAY,
    NODES,
    NOWHERE,
    NUMERIC,
    SUBSET,
    Ints,
    Longs,
    Records,
    Tree,
    heavier_branch,
    holds_token,
    outside_subset,
)

STEP = np.dtype(
    [
        ("cut", np.float64),  # threshold, or code of the value
        ("first", np.int32),  # place of the first branch; of itself at an end
        ("column", np.int32),
        ("width", np.int32),  # values with a branch each; the one behind them is for all others
        ("kind", np.int16),
        ("missing", np.int16),  # branch of a number that is missing
    ]
)

TOGETHER = 16  # rows; the walk of each waits for memory and for its comparisons, not for the others
BY_BAYES = -2


class Plan(NamedTuple):
    """A tree laid out; a place is a branch, the first one is the root."""

    step: Records  # [place] of STEP
    node: Ints  # [place] of the tree
    leaf: Longs  # [place] id of that node
    answer: Ints  # [place] class by votes at an end; BY_BAYES where every row is told its own


@inner
def branches_laid(tree: Tree, node: int) -> int:
    """How many places the branches of a node take."""
    kind = tree.node[node].kind
    if kind == LEAF:
        return 0
    return int64(tree.node[node].table_length) + 1 if kind in (MULTIWAY, SUBSET) else 2


@inner
def child_at(tree: Tree, node: int, branch: int) -> int:
    """The child behind a branch; NOWHERE where the values of this branch have none."""
    kind, first = tree.node[node].kind, int64(tree.node[node].child)
    if kind == MULTIWAY:
        child = int64(NOWHERE)
        if branch < tree.node[node].table_length:
            child = int64(tree.tables[tree.node[node].table_start + branch])
        return child if child != NOWHERE else int64(tree.node[node].other)
    return first + (outside_subset(tree, node, branch) if kind == SUBSET else branch)


@inner
def lay_end(
    tree: Tree, predictor: int, new_leaf: int, scratch: Scratch, plan: Plan, at: int, node: int
) -> None:
    """A place that is not left any more: every number leads back to it."""
    end = plan.step[at]
    end.kind = LEAF
    end.cut = np.inf
    end.first = at
    end.column = 0
    end.width = 0
    end.missing = 0
    classes = tree.counts[CLASSES]
    plan.node[at] = node
    plan.leaf[at] = tree.node[node].id
    if classes == 0:
        plan.answer[at] = -1
    elif uses_bayes(tree, predictor, node):
        plan.answer[at] = BY_BAYES
    else:
        plan.answer[at] = vote(tree, classes, node, new_leaf != EMPTY, scratch.classes[3])


@inner
def lay_test(tree: Tree, plan: Plan, at: int, node: int, first: int) -> None:
    """A place with a test, whose branches begin at ``first``."""
    test = plan.step[at]
    kind = tree.node[node].kind
    test.kind = kind
    test.cut = tree.node[node].cut
    test.first = first
    test.column = tree.node[node].column
    test.width = tree.node[node].table_length
    test.missing = heavier_branch(tree, node) - tree.node[node].child if kind == NUMERIC else 0
    plan.node[at] = node
    plan.leaf[at] = tree.node[node].id
    plan.answer[at] = -1


@kernel
def lay_plan(
    tree: Tree, predictor: int, new_leaf: int, scratch: Scratch, first: Ints, plan: Plan
) -> int:
    """Fill a plan; returns how many steps most rows take. ``first`` is room for a place a node."""
    end, weight, steps = 1, 0.0, 0.0
    for node in range(tree.counts[NODES]):
        first[node] = end
        end += branches_laid(tree, node)
        if tree.node[node].kind == LEAF:
            weight += tree.node[node].routed
            steps += tree.node[node].routed * tree.node[node].depth
    for node in range(-1, tree.counts[NODES]):
        for branch in range(1 if node < 0 else branches_laid(tree, node)):
            at = 0 if node < 0 else first[node] + branch
            child = 0 if node < 0 else child_at(tree, node, branch)
            if child == NOWHERE:
                lay_end(tree, predictor, new_leaf, scratch, plan, at, node)
            elif tree.node[child].kind == LEAF:
                lay_end(tree, predictor, new_leaf, scratch, plan, at, child)
            else:
                lay_test(tree, plan, at, child, first[child])
    return int(steps / weight) + 2 if weight > 0.0 else 2


@inlined
def next_place(plan: Plan, batch: Batch, row: int, at: int) -> int:
    """Where the row's value leads from here; an end leads to itself.

    Numbers are compared without a jump, since nobody could guess where it goes.
    """
    kind = plan.step[at].kind
    column = place(plan.step[at].column)
    first = int64(plan.step[at].first)
    if kind <= NUMERIC:
        x = batch.numeric[place(row), column]
        return first + ((x > plan.step[at].cut) | ((x != x) & (plan.step[at].missing != 0)))
    if kind in (MULTIWAY, SUBSET):
        value, width = int64(batch.nominal[place(row), column]), int64(plan.step[at].width)
        return first + (value if 0 <= value < width else width)
    if kind == EQUALS:
        return first + int(batch.nominal[place(row), column] != int64(plan.step[at].cut))
    return first + int(holds_token(batch, row, int64(plan.step[at].column)))


@inner
def walk_together(plan: Plan, levels: int, batch: Batch, places: Longs) -> None:
    """Where every row ends.

    Rows of a block take ``levels`` steps side by side, then each goes the rest alone.
    """
    rows = len(places)
    for start in range(0, rows, TOGETHER):
        stop = min(start + TOGETHER, rows)
        for row in range(start, stop):
            places[row] = 0
        for _ in range(levels):
            for row in range(start, stop):
                places[row] = next_place(plan, batch, row, places[row])
        for row in range(start, stop):
            at = places[row]
            while plan.step[at].kind != LEAF:
                at = next_place(plan, batch, row, at)
            places[row] = at
