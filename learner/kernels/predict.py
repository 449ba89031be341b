"""Predictions for many rows. Only reads: no node is created, nothing is counted."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.batch import Batch
from learner.kernels.jit import inner, int64, kernel
from learner.kernels.leaves import bayes_scores, bayes_vote, uses_bayes, vote
from learner.kernels.rules import EMPTY, Scratch
from learner.kernels.tree import (
    CLASSES,
    EQUALS,
    LEAF,
    MULTIWAY,
    NOWHERE,
    NUMERIC,
    SUBSET,
    Layout,
    Tree,
    heavier_branch,
    holds_token,
    outside_subset,
)


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


@kernel
def predict_many(
    tree: Tree,
    layout: Layout,
    predictor: int,
    new_leaf: int,
    scratch: Scratch,
    batch: Batch,
    codes: npt.NDArray[np.int32],
    probabilities: npt.NDArray[np.float64],
    leaves: npt.NDArray[np.int64],
) -> None:
    """Class, class probabilities and node id of every row; class -1 when no class is known."""
    classes = tree.counts[CLASSES]
    for row in range(len(codes)):
        node = leaf_of(tree, batch, row)
        leaves[row] = tree.node[node].id
        if classes == 0:
            codes[row] = -1
        elif uses_bayes(tree, predictor, node):
            bayes_scores(tree, layout, scratch, batch, row, node)
            codes[row] = bayes_vote(classes, scratch.classes[1], probabilities[row])
        else:
            codes[row] = vote(tree, classes, node, new_leaf != EMPTY, probabilities[row])
