"""What a leaf predicts: majority, naive Bayes, or whichever of the two was right more often."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from learner.batch import Batch
from learner.kernels.elementary import log2
from learner.kernels.jit import inner, int64, kernel
from learner.kernels.numeric.bins import bin_log2_p
from learner.kernels.rules import (
    ADAPTIVE,
    EMPTY,
    HIGHEST,
    LOWEST,
    MAJORITY,
    SCALE,
    WEIGHT,
    Rules,
    Scratch,
)
from learner.kernels.tree import (
    BIN_COUNT,
    CLASSES,
    HIGH,
    LEAF,
    LOW,
    M2,
    MEAN,
    MISSING,
    NOWHERE,
    TOKENS,
    Layout,
    Tree,
)

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

_LOG2_E = 1.4426950408889634
_HALF_LOG2_2PI = 0.5 * math.log2(2.0 * math.pi)
_SPREAD_FLOOR = 1e-3 / math.sqrt(12.0)  # of the range of the values seen at the leaf
_LEAST_SPREAD = 1e-9


@kernel
def best_of(scores: Floats, classes: int) -> int:
    """The class with the highest score; ties to the smallest index."""
    best = 0
    for k in range(1, classes):
        if scores[k] > scores[best]:
            best = k
    return best


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

    Missing attributes, and those never known at the leaf, are skipped. Where no class can explain
    the values, P(k) alone counts.
    """
    classes = tree.counts[CLASSES]
    scores = scratch.classes[1]
    total = 0.0
    for k in range(classes):
        total += tree.votes[node, k]
    for k in range(classes):
        votes = tree.votes[node, k]
        scores[k] = log2(votes / total) if votes > 0.0 else -np.inf
    if len(tree.bin_shape) > 0:
        _add_bins(tree, classes, scratch, batch, row, node)
    else:
        _add_numeric(tree, classes, scratch, batch, row, node)
    _add_nominal(tree, layout, classes, scratch, batch, row, node)
    if tree.counts[TOKENS] > 0:
        _add_tokens(tree, classes, scratch, batch, row, node)
    if not _tell_apart(scores, classes):
        nothing = -np.inf if total > 0.0 else 0.0
        for k in range(classes):
            votes = tree.votes[node, k]
            scores[k] = log2(votes / total) if votes > 0.0 else nothing


@inner
def _tell_apart(scores: Floats, classes: int) -> bool:
    """Whether the scores say anything: not where values lie so far out that every density is 0."""
    known, possible = True, False
    for k in range(classes):
        known = known and scores[k] == scores[k]
        possible = possible or scores[k] > -np.inf
    return known and possible


@inner
def _add_numeric(
    tree: Tree,
    classes: int,
    scratch: Scratch,
    batch: Batch,
    row: int,
    node: int,
) -> None:
    """Normal densities, the spread floored; a class that never knew the value is uniform."""
    slot = tree.node[node].slot
    moments = tree.moments
    columns = moments.shape[3]
    low, high, term = scratch.numeric[LOWEST], scratch.numeric[HIGHEST], scratch.numeric[SCALE]
    scores = scratch.classes[1]
    for j in range(columns):
        low[j] = np.inf
        high[j] = -np.inf
    for k in range(classes):
        for j in range(columns):
            a, b = moments[slot, k, LOW, j], moments[slot, k, HIGH, j]
            low[j] = a if a < low[j] else low[j]
            high[j] = b if b > high[j] else high[j]
    for k in range(classes):
        if scores[k] == -np.inf:
            continue
        for j in range(columns):
            x = batch.numeric[row, j]
            reach = high[j] - low[j]
            floor = max(_SPREAD_FLOOR * reach, _LEAST_SPREAD)
            w = tree.seen[node, k] - moments[slot, k, MISSING, j]
            variance = moments[slot, k, M2, j] / (w - 1.0)
            variance = variance if w > 1.0 and variance > floor * floor else floor * floor
            d = x - moments[slot, k, MEAN, j]
            log_p = -0.5 * log2(variance) - _HALF_LOG2_2PI - d * d / (2.0 * variance) * _LOG2_E
            log_p = log_p if w > 0.0 else -log2(max(reach, _LEAST_SPREAD))
            known = x == x and reach >= 0.0
            term[j] = log_p if known else 0.0
        for j in range(columns):
            scores[k] += term[j]


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
    for j in range(batch.numeric.shape[1]):
        x = batch.numeric[row, j]
        if x != x or tree.bin_shape[slot, j, BIN_COUNT] == 0.0:
            continue
        for k in range(classes):
            if scores[k] > -np.inf:
                scores[k] += bin_log2_p(tree, slot, j, k, x)


@inner
def _add_nominal(
    tree: Tree,
    layout: Layout,
    classes: int,
    scratch: Scratch,
    batch: Batch,
    row: int,
    node: int,
) -> None:
    """(n_ivk + 1) / (n_ik + V_i), V_i the distinct values seen at the leaf."""
    slot = tree.node[node].slot
    scores, of_class = scratch.classes[1], scratch.classes[2]
    for a in range(len(layout.nominal_position)):
        x = batch.nominal[row, a]
        if x < 0:
            continue
        first, end = layout.value_start[a], layout.value_start[a + 1]
        of_value = scratch.values[WEIGHT]
        for place in range(first, end):
            of_value[place] = 0.0
        for k in range(classes):
            of_class[k] = 0.0
            for place in range(first, end):
                of_class[k] += tree.values[slot, k, place]
                of_value[place] += tree.values[slot, k, place]
        distinct = 0
        for place in range(first, end):
            distinct += of_value[place] > 0.0
        if distinct == 0:
            continue
        for k in range(classes):
            if scores[k] > -np.inf:
                count = tree.values[slot, k, first + x] if first + x < end else 0.0
                scores[k] += log2((count + 1.0) / (of_class[k] + distinct))


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


@inner
def uses_bayes(tree: Tree, predictor: int, node: int) -> bool:
    """Whether this node answers by naive Bayes: it needs own events and tree."""
    if predictor == MAJORITY or tree.node[node].kind != LEAF:
        return False
    if tree.node[node].slot == NOWHERE or tree.node[node].n <= 0.0:
        return False
    return predictor != ADAPTIVE or tree.node[node].nb_right >= tree.node[node].mc_right


@inner
def vote(tree: Tree, classes: int, node: int, climbs: bool, probabilities: Floats) -> int:
    """Class probabilities by votes; a node without votes asks its parents (if it climbs).

    Nobody has votes: all classes alike. Returns the class, the smallest index on ties.
    """
    total = 0.0
    while True:
        for k in range(classes):
            total += tree.votes[node, k]
        if total > 0.0 or not climbs or tree.node[node].parent == NOWHERE:
            break
        node = tree.node[node].parent
    for k in range(classes):
        probabilities[k] = tree.votes[node, k] / total if total > 0.0 else 1.0 / classes
    return best_of(probabilities, classes)


@kernel
def bayes_vote(classes: int, scores: Floats, probabilities: Floats) -> int:
    """Class probabilities from log2 scores, scaled so that nothing underflows."""
    best = best_of(scores, classes)
    total = 0.0
    for k in range(classes):
        probabilities[k] = 2.0 ** (scores[k] - scores[best])
        total += probabilities[k]
    for k in range(classes):
        probabilities[k] /= total
    return best


@inner
def answer(
    tree: Tree, layout: Layout, rules: Rules, scratch: Scratch, batch: Batch, row: int, node: int
) -> int:
    """What a snapshot would say at this node; -1 when no class is known."""
    classes = tree.counts[CLASSES]
    if classes == 0:
        return -1
    if uses_bayes(tree, rules.predictor, node):
        bayes_scores(tree, layout, scratch, batch, row, node)
        return best_of(scratch.classes[1], classes)
    return vote(tree, classes, node, rules.new_leaf != EMPTY, scratch.classes[3])


@inner
def predict_first(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    scratch: Scratch,
    batch: Batch,
    row: int,
    node: int,
    k: int,
    weight: float,
    predicted: Codes,
) -> None:
    """The answer of a leaf that may use naive Bayes, to an event that it has not learned yet.

    An adaptive leaf scores both of its predictors here.
    """
    classes = tree.counts[CLASSES]
    by_bayes = uses_bayes(tree, rules.predictor, node)
    answer = tree.node[node].majority if classes > 0 else -1
    adapts = (
        rules.predictor == ADAPTIVE and tree.node[node].slot != NOWHERE and tree.node[node].n > 0.0
    )
    if adapts or (by_bayes and len(predicted) > 0):
        bayes_scores(tree, layout, scratch, batch, row, node)
        bayes = best_of(scratch.classes[1], classes)
        if adapts:
            tree.node[node].mc_right += weight if answer == k else 0.0
            tree.node[node].nb_right += weight if bayes == k else 0.0
        if by_bayes:
            answer = bayes
    if len(predicted) > 0:
        predicted[row] = answer
