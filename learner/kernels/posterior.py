"""The scores of naive Bayes for any row: with gaps, tokens, intervals, or no tables at all.

A complete row of a leaf whose tables are current is scored by best_class in bayes.py; what it
finds is the best of these scores, to the last bit.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.batch import Batch
from learner.kernels.bayes import BASE, describe, distance, find_places, make_current, sum_at
from learner.kernels.elementary import log2
from learner.kernels.jit import inner, int64, place
from learner.kernels.numeric.bins import bin_log2_p
from learner.kernels.rules import Scratch
from learner.kernels.tree import BIN_COUNT, CLASSES, MEAN, TOKENS, Layout, Tree

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


@inner
def bayes_scores(
    tree: Tree,
    layout: Layout,
    scratch: Scratch,
    batch: Batch,
    row: int,
    node: int,
) -> None:
    """log2 P(k) + sum_i log2 P(x_i | k) into scratch.classes[1]; -inf for a class without votes.

    Up to a number that all classes share. Missing attributes, and those never known at the leaf,
    are skipped. Where no class can explain the values, P(k) alone counts.
    """
    classes, scores = tree.counts[CLASSES], scratch.classes[1]
    slot, own = int64(tree.node[node].slot), int64(0)
    moments, places, rows, of_slot = tree.moments, scratch.places, scratch.bayes, scratch.bayes_slot
    columns, attributes = moments.shape[3], len(layout.value_room)
    first = 1 + 2 * columns + attributes
    bells = len(tree.bin_shape) == 0
    complete = find_places(
        layout.value_room, layout.value_start, first, batch.nominal, place(row), places
    )
    for j in range(columns):
        complete = complete and batch.numeric[row, j] == batch.numeric[row, j]
    if len(tree.bayes) > 0:
        make_current(tree, layout, scratch, node)
        rows, of_slot, own = tree.bayes, tree.bayes_slot, slot
    else:
        describe(tree, layout, scratch, rows, of_slot, own, node)
        _look_up(tree, rows, places, first, slot)
    for k in range(classes):
        if rows[own, k, BASE] == -np.inf:
            scores[k] = -np.inf
        elif complete:
            mine, label = place(own), place(k)
            scores[k] = rows[own, k, BASE]
            if bells:
                scores[k] -= distance(
                    rows, mine, moments, place(slot), label, batch.numeric, place(row)
                )
            scores[k] += sum_at(rows, mine, label, places, attributes)
        else:
            scores[k] = log2(tree.votes[node, k])
    if not complete:
        _add_known(tree, layout, scratch, batch, row, node, rows, of_slot, own)
    if not bells:
        _add_bins(tree, classes, scratch, batch, row, node)
    if tree.counts[TOKENS] > 0:
        _add_tokens(tree, classes, scratch, batch, row, node)
    if not _tell_apart(scores, classes):
        total = 0.0
        for k in range(classes):
            total += tree.votes[node, k]
        nothing = -np.inf if total > 0.0 else 0.0
        for k in range(classes):
            votes = tree.votes[node, k]
            scores[k] = log2(votes / total) if votes > 0.0 else nothing


@inner
def _look_up(tree: Tree, rows: Floats, places: Places, first: int, slot: int) -> None:
    """Of the logarithms of n_ijk only those that the event needs, where none are kept."""
    values = tree.values
    for k in range(tree.counts[CLASSES]):
        for a in range(len(places)):
            v = places[a] - first
            count = values[slot, k, v] if v < values.shape[2] else 0.0
            rows[0, k, places[a]] = log2(count + 1.0)


@inner
def _add_known(
    tree: Tree,
    layout: Layout,
    scratch: Scratch,
    batch: Batch,
    row: int,
    node: int,
    rows: Floats,
    of_slot: Floats,
    own: int,
) -> None:
    """The attributes that a row with gaps has, one by one."""
    slot, scores, moments = int64(tree.node[node].slot), scratch.classes[1], tree.moments
    columns, attributes = moments.shape[3], len(layout.value_room)
    known, distinct = 1 + 2 * columns, 2 + 4 * columns
    bells = len(tree.bin_shape) == 0
    for k in range(tree.counts[CLASSES]):
        if scores[k] == -np.inf:
            continue
        for j in range(columns):
            x = batch.numeric[row, j]
            if bells and x == x:
                away = x - moments[slot, k, MEAN, j]
                scores[k] += rows[own, k, 1 + columns + j] - away * rows[own, k, 1 + j] * away
        for a in range(attributes):
            values = of_slot[own, distinct + a]
            if batch.nominal[row, a] >= 0 and values > 0.0:
                share = rows[own, k, scratch.places[a]]
                scores[k] += share - log2(rows[own, k, known + a] + values)


@inner
def _tell_apart(scores: Floats, classes: int) -> bool:
    """Whether the scores say anything: not where values lie so far out that every density is 0."""
    known, possible = True, False
    for k in range(classes):
        known = known and scores[k] == scores[k]
        possible = possible or scores[k] > -np.inf
    return known and possible


@inner
def _add_bins(
    tree: Tree,
    classes: int,
    scratch: Scratch,
    batch: Batch,
    row: int,
    node: int,
) -> None:
    """Shares of the interval that the value falls into.   [GRM03] Sec. 3.2."""
    slot, scores = int64(tree.node[node].slot), scratch.classes[1]
    for j in range(tree.moments.shape[3]):  # a batch may have one that nobody tests
        x = batch.numeric[row, j]
        if x != x or tree.bin_shape[slot, j, BIN_COUNT] == 0.0:
            continue
        for k in range(classes):
            if scores[k] > -np.inf:
                scores[k] += bin_log2_p(tree, slot, j, k, x)


@inner
def _add_tokens(
    tree: Tree,
    classes: int,
    scratch: Scratch,
    batch: Batch,
    row: int,
    node: int,
) -> None:
    """(n_i1k + 1) / (n_k + 2) for a token held, the rest for one absent."""
    slot = tree.node[node].slot
    scores = scratch.classes[1]
    place, end = batch.sparse_start[row], batch.sparse_start[row + 1]
    for t in range(tree.counts[TOKENS]):
        while place < end and batch.sparse_index[place] < t:
            place += 1
        held = 0.0
        for k in range(classes):
            held += tree.tokens[slot, k, t]
        if held <= 0.0:
            continue
        present = place < end and batch.sparse_index[place] == t
        for k in range(classes):
            if scores[k] > -np.inf:
                count, n_k = tree.tokens[slot, k, t], tree.seen[node, k]
                count = count if present else n_k - count
                scores[k] += log2((count + 1.0) / (n_k + 2.0))
