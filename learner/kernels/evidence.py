"""What each attribute says to naive Bayes: log2 P(x_i | k), one by one.

The sums of these are the scores of posterior.py, up to rounding and to a number that all classes
share.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.batch import Batch
from learner.kernels.bayes import describe
from learner.kernels.elementary import log2
from learner.kernels.jit import inner, int64, kernel
from learner.kernels.numeric.bins import bin_log2_p
from learner.kernels.rules import Scratch
from learner.kernels.tree import BIN_COUNT, CLASSES, MEAN, TOKENS, Layout, Tree

Floats = npt.NDArray[np.float64]


@kernel
def weigh_evidence(
    tree: Tree,
    layout: Layout,
    scratch: Scratch,
    batch: Batch,
    row: int,
    node: int,
    prior: Floats,
    numeric: Floats,
    nominal: Floats,
    tokens: Floats,
) -> None:
    """log2 P(k) into prior[class], log2 P(x_i | k) into [attribute, class]; NaN = says nothing."""
    classes, total = tree.counts[CLASSES], 0.0
    for k in range(classes):
        total += tree.votes[node, k]
    for k in range(classes):
        prior[k] = log2(tree.votes[node, k] / total) if tree.votes[node, k] > 0.0 else -np.inf
    describe(tree, layout, scratch, scratch.bayes, scratch.bayes_slot, int64(0), node)
    for j in range(len(numeric)):
        _weigh_number(tree, scratch, batch.numeric[row, j], node, j, numeric)
    for a in range(len(nominal)):
        _weigh_value(tree, layout, scratch, int64(batch.nominal[row, a]), node, a, nominal)
    _weigh_tokens(tree, batch, row, node, tokens)


@inner
def _weigh_number(tree: Tree, scratch: Scratch, x: float, node: int, j: int, said: Floats) -> None:
    slot, rows, columns = int64(tree.node[node].slot), scratch.bayes, tree.moments.shape[3]
    for k in range(tree.counts[CLASSES]):
        said[j, k] = np.nan
        if x != x:
            continue
        if len(tree.bin_shape) == 0:
            away = x - tree.moments[slot, k, MEAN, j]
            said[j, k] = rows[0, k, 1 + columns + j] - away * rows[0, k, 1 + j] * away
        elif tree.bin_shape[slot, j, BIN_COUNT] > 0.0:
            bins = log2(tree.bin_shape[slot, j, BIN_COUNT])
            said[j, k] = bin_log2_p(tree, slot, j, k, x) - bins


@inner
def _weigh_value(
    tree: Tree, layout: Layout, scratch: Scratch, code: int, node: int, a: int, said: Floats
) -> None:
    slot, columns = int64(tree.node[node].slot), tree.moments.shape[3]
    different = scratch.bayes_slot[0, 2 + 4 * columns + a]
    for k in range(tree.counts[CLASSES]):
        said[a, k] = np.nan
        if code >= 0 and different > 0.0:
            count = 0.0
            if code < layout.value_room[a]:
                count = tree.values[slot, k, layout.value_start[a] + code]
            known = scratch.bayes[0, k, 1 + 2 * columns + a]
            said[a, k] = log2(count + 1.0) - log2(known + different)


@inner
def _weigh_tokens(tree: Tree, batch: Batch, row: int, node: int, said: Floats) -> None:
    """A token that is absent says something too, once the leaf has met it."""
    slot, classes = int64(tree.node[node].slot), tree.counts[CLASSES]
    place, end = batch.sparse_start[row], batch.sparse_start[row + 1]
    for t in range(len(said)):
        for k in range(classes):
            said[t, k] = np.nan
        if t >= tree.counts[TOKENS]:
            continue
        while place < end and batch.sparse_index[place] < t:
            place += 1
        present = place < end and batch.sparse_index[place] == t
        met = 0.0
        for k in range(classes):
            met += tree.tokens[slot, k, t]
        if met <= 0.0:
            continue
        for k in range(classes):
            count, n_k = tree.tokens[slot, k, t], tree.seen[node, k]
            count = count if present else n_k - count
            said[t, k] = log2((count + 1.0) / (n_k + 2.0))
