"""Turn a leaf into a split node with fresh leaves below; go down; remove what was below."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.batch import Batch
from learner.kernels.bayes import CURRENT
from learner.kernels.history import forget_split, note_split
from learner.kernels.jit import inner, int64
from learner.kernels.leaves import best_of
from learner.kernels.nodes import bar_path, give_back_slot, new_leaf
from learner.kernels.rules import BEST_COLUMN, BEST_CUT, BEST_KIND, EMPTY, Rules, Scratch
from learner.kernels.tree import (
    CLASSES,
    EQUALS,
    LEAF,
    MULTIWAY,
    NODES,
    NOWHERE,
    NUMERIC,
    SUBSET,
    TABLE,
    Layout,
    Tree,
    heavier_branch,
    holds_token,
    outside_subset,
)

Floats = npt.NDArray[np.float64]


@inner
def install_split(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    scratch: Scratch,
    node: int,
    branches: int,
    reason: int,
) -> None:
    """The best candidate becomes the node's test; one leaf a branch, with n = 0.

    A multiway attribute is constant below, so the leaves bar it. The node keeps its votes: they
    answer where a branch has none. ``branch_counts`` has filled the branches. The reason is what
    the split test said.
    """
    note_split(tree, scratch, node, reason)
    at = tree.node[node]
    kind, column = int64(scratch.ranking[BEST_KIND]), int64(scratch.ranking[BEST_COLUMN])
    at.kind = kind
    at.column = column
    at.cut = scratch.ranking[BEST_CUT]
    at.branches = branches
    at.other = NOWHERE
    for branch in range(branches):
        leaf = new_leaf(tree, rules, node)
        if branch == 0:
            at.child = leaf
        bar_path(tree, layout, leaf)
        if kind == MULTIWAY:
            tree.node[leaf].value = scratch.branch_value[branch]
        start_leaf(tree, rules, scratch.branch_counts[branch], leaf)
    if kind == MULTIWAY:
        _fill_table(tree, node)
    elif kind == SUBSET:
        at.cut = 0.0
        _fill_subset(
            tree, scratch, node, layout.value_start[column + 1] - layout.value_start[column]
        )


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
def _fill_subset(tree: Tree, scratch: Scratch, node: int, values: int) -> None:
    """Mark the values of the set up to the highest one."""
    length = 0
    for v in range(values):
        if scratch.branch_value[v]:
            length = v + 1
    start = tree.counts[TABLE]
    tree.counts[TABLE] += length
    tree.node[node].table_start = start
    tree.node[node].table_length = length
    for v in range(length):
        tree.tables[start + v] = scratch.branch_value[v]


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
    leaf = new_leaf(tree, rules, node)
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
def step_down(tree: Tree, layout: Layout, rules: Rules, batch: Batch, row: int, node: int) -> int:
    """The child that the event goes to; a missing or unseen value may make one."""
    at = tree.node[node]
    first, column = int64(at.child), int64(at.column)
    if at.kind == NUMERIC:
        x = batch.numeric[row, column]
        child = first + int64(x > at.cut) if x == x else heavier_branch(tree, node)
    elif at.kind == MULTIWAY:
        value, child = int64(batch.nominal[row, column]), int64(NOWHERE)
        if 0 <= value < at.table_length:
            child = int64(tree.tables[at.table_start + value])
        if child == NOWHERE:
            child = int64(at.other)
            if child == NOWHERE or (rules.grow_unseen and value >= 0):
                child = lost_child(tree, layout, rules, node, value)
    elif at.kind == EQUALS:
        child = first + int64(batch.nominal[row, column] != int(at.cut))
    elif at.kind == SUBSET:
        child = first + outside_subset(tree, node, int64(batch.nominal[row, column]))
    else:
        child = first + int64(holds_token(batch, row, column))
    return child


@inner
def makes_child(tree: Tree, rules: Rules, batch: Batch, row: int, node: int) -> bool:
    """Whether the event would make a child of this node: nobody is there for its value."""
    at = tree.node[node]
    if at.kind != MULTIWAY:
        return False
    value = int64(batch.nominal[row, at.column])
    if 0 <= value < at.table_length and tree.tables[at.table_start + value] != NOWHERE:
        return False
    return bool(at.other == NOWHERE or (rules.grow_unseen and value >= 0))


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


@inner
def remove_below(tree: Tree, layout: Layout, scratch: Scratch, node: int) -> int:
    """Remove all nodes below ``node`` and close the gaps; returns where the node is now.

    Parents still come before their children. Nobody below is reachable any more, and their
    statistics are free for others.
    """
    counts, moved, nodes = tree.counts, scratch.moved, tree.node
    used, kept = counts[NODES], int64(0)
    for old in range(used):
        parent = int64(nodes[old].parent)
        gone = old != node and parent != NOWHERE and (parent == node or moved[parent] == NOWHERE)
        if gone:
            moved[old] = NOWHERE
            if nodes[old].slot != NOWHERE:
                give_back_slot(tree, layout, old)
        else:
            moved[old] = kept
            kept += 1
    nodes[node].kind = LEAF
    nodes[node].child = NOWHERE
    nodes[node].branches = 0
    nodes[node].other = NOWHERE
    nodes[node].table_length = 0
    forget_split(tree, node)
    for old in range(used):
        new = int64(moved[old])
        if new == NOWHERE:
            continue
        if new != old:
            nodes[new] = nodes[old]
            tree.fact[new] = tree.fact[old]
            for k in range(tree.votes.shape[1]):
                tree.votes[new, k] = tree.votes[old, k]
                tree.seen[new, k] = tree.seen[old, k]
        at = nodes[new]
        at.parent = moved[at.parent] if at.parent != NOWHERE else NOWHERE
        at.child = moved[at.child] if at.child != NOWHERE else NOWHERE
        at.other = moved[at.other] if at.other != NOWHERE else NOWHERE
    counts[NODES] = kept
    tree.touched[:used] = 1
    if len(tree.bayes_slot) > 0 and nodes[moved[node]].slot != NOWHERE:
        tree.bayes_slot[nodes[moved[node]].slot, CURRENT] = 0.0  # not kept while it was no leaf
    _close_tables(tree, scratch)
    return int64(moved[node])


@inner
def _close_tables(tree: Tree, scratch: Scratch) -> None:
    """Tables of the nodes that are left, one behind the other, with their children's new places."""
    counts, nodes, tables, copy = tree.counts, tree.node, tree.tables, scratch.table_copy
    for place in range(counts[TABLE]):
        copy[place] = tables[place]
    end = int64(0)
    for node in range(counts[NODES]):
        at = nodes[node]
        if at.kind != MULTIWAY and at.kind != SUBSET:
            continue
        for v in range(at.table_length):
            entry = copy[at.table_start + v]
            if at.kind == MULTIWAY and entry != NOWHERE:
                entry = scratch.moved[entry]
            tables[end + v] = entry
        at.table_start = end
        end += at.table_length
    counts[TABLE] = end
