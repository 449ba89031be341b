"""Predictions for many rows. Only reads: no node is created, nothing is counted."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.batch import Batch
from learner.kernels.bayes import best_class, find_places, make_current
from learner.kernels.jit import inner, int64, kernel, place
from learner.kernels.leaves import Codes, bayes_vote, best_of, uses_bayes, vote
from learner.kernels.posterior import bayes_scores
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
    TOKENS,
    Layout,
    Tree,
    heavier_branch,
    holds_token,
    outside_subset,
)
from learner.kernels.walk import BY_BAYES, Plan, walk_together


@inner
def next_node(tree: Tree, batch: Batch, row: int, node: int) -> int:
    """The child that the row's value leads to; NOWHERE when there is none for it."""
    column = int64(tree.node[node].column)
    kind = tree.node[node].kind
    first = int64(tree.node[node].child)
    if kind == NUMERIC:
        x = batch.numeric[row, column]
        if x <= tree.node[node].cut:
            return first
        return first + 1 if x > tree.node[node].cut else heavier_branch(tree, node)
    if kind == MULTIWAY:
        value = batch.nominal[row, column]
        child = int64(NOWHERE)
        if 0 <= value < tree.node[node].table_length:
            child = int64(tree.tables[tree.node[node].table_start + value])
        return child if child != NOWHERE else int64(tree.node[node].other)
    if kind == EQUALS:
        return first + (0 if batch.nominal[row, column] == int(tree.node[node].cut) else 1)
    if kind == SUBSET:
        return first + outside_subset(tree, node, int64(batch.nominal[row, column]))
    return first + int(holds_token(batch, row, column))


@inner
def leaf_of(tree: Tree, batch: Batch, row: int) -> int:
    """Where the row ends: a leaf, or the split node that has no branch for its value."""
    node = int64(0)
    while tree.node[node].kind != LEAF:
        child = next_node(tree, batch, row, node)
        if child == NOWHERE:
            return node
        node = child
    return node


@inner
def answer_at(
    tree: Tree,
    layout: Layout,
    predictor: int,
    new_leaf: int,
    scratch: Scratch,
    batch: Batch,
    row: int,
    node: int,
    probabilities: npt.NDArray[np.float64],
) -> int:
    """Class and class probabilities of a row that ends at a node; -1 when no class is known."""
    classes = tree.counts[CLASSES]
    if classes == 0:
        return -1
    if uses_bayes(tree, predictor, node):
        bayes_scores(tree, layout, scratch, batch, row, node)
        return bayes_vote(classes, scratch.classes[1], probabilities)
    return vote(tree, classes, node, new_leaf != EMPTY, probabilities)


@kernel
def predict_few(
    tree: Tree,
    layout: Layout,
    predictor: int,
    new_leaf: int,
    scratch: Scratch,
    batch: Batch,
    codes: Codes,
    probabilities: npt.NDArray[np.float64],
    leaves: npt.NDArray[np.int64],
) -> None:
    """Class, class probabilities and node id of every row."""
    for row in range(len(codes)):
        node = leaf_of(tree, batch, row)
        leaves[row] = tree.node[node].id
        codes[row] = answer_at(
            tree, layout, predictor, new_leaf, scratch, batch, row, node, probabilities[row]
        )


@kernel
def answer_by_votes(
    tree: Tree, new_leaf: int, node: int, probabilities: npt.NDArray[np.float64]
) -> int:
    """The same where only votes answer; -1 when no class is known."""
    classes = tree.counts[CLASSES]
    return vote(tree, classes, node, new_leaf != EMPTY, probabilities) if classes > 0 else -1


@inner
def likeliest(
    tree: Tree, layout: Layout, scratch: Scratch, batch: Batch, row: int, node: int
) -> int:
    """The class of the highest score; from the tables alone, where they say all of it.

    With tables, labels of the agrawal stream take 56 ns a row instead of 270.
    """
    if len(tree.bayes) > 0 and len(tree.bin_shape) == 0 and tree.counts[TOKENS] == 0:
        places, slot = scratch.places, int64(tree.node[node].slot)
        first = 1 + 2 * tree.moments.shape[3] + len(places)
        room, starts, classes = layout.value_room, layout.value_start, tree.counts[CLASSES]
        if find_places(room, starts, first, batch.nominal, place(row), places):
            best = best_class(tree.bayes, tree.moments, slot, classes, batch.numeric, row, places)
            if best != NOWHERE:  # no number was missing
                return best
    bayes_scores(tree, layout, scratch, batch, row, node)
    return best_of(scratch.classes[1], tree.counts[CLASSES])


@kernel
def predict_many(
    tree: Tree,
    layout: Layout,
    predictor: int,
    new_leaf: int,
    scratch: Scratch,
    plan: Plan,
    levels: int,
    batch: Batch,
    codes: Codes,
    probabilities: npt.NDArray[np.float64],
    leaves: npt.NDArray[np.int64],
) -> None:
    """The same by a plan of the tree; probabilities only where there is room for them.

    Labels of a tree with ten numbers and a mean depth of six: 27 ns a row instead of 281.
    """
    walk_together(plan, levels, batch, leaves)
    with_probabilities = len(probabilities) == len(codes)
    for row in range(len(codes)):
        at = leaves[row]
        leaves[row] = plan.leaf[at]
        codes[row] = plan.answer[at]
        node = int64(plan.node[at])
        if with_probabilities:
            codes[row] = answer_at(
                tree, layout, predictor, new_leaf, scratch, batch, row, node, probabilities[row]
            )
        elif plan.answer[at] == BY_BAYES:
            codes[row] = likeliest(tree, layout, scratch, batch, row, node)


@kernel
def settle_nodes(
    tree: Tree,
    predictor: int,
    new_leaf: int,
    codes: Codes,
    probabilities: npt.NDArray[np.float64],
    by_bayes: npt.NDArray[np.int8],
) -> None:
    """For every node its class by votes, -1 without classes, and 1 where naive Bayes answers."""
    classes = tree.counts[CLASSES]
    for node in range(len(codes)):
        codes[node] = -1
        if classes > 0:
            codes[node] = vote(tree, classes, node, new_leaf != EMPTY, probabilities[node])
        by_bayes[node] = classes > 0 and uses_bayes(tree, predictor, node)


@kernel
def lay_tables(tree: Tree, layout: Layout, predictor: int, scratch: Scratch) -> None:
    """The rows of naive Bayes of all leaves that answer by it; the tree has room for them."""
    for node in range(tree.counts[NODES]):
        if uses_bayes(tree, predictor, int64(node)):
            make_current(tree, layout, scratch, int64(node))
