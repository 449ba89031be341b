"""What a leaf predicts: majority, naive Bayes, or whichever of the two was right more often."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.batch import Batch
from learner.kernels.jit import inlined, inner, kernel, place
from learner.kernels.posterior import bayes_scores
from learner.kernels.rules import ADAPTIVE, EMPTY, MAJORITY, Rules, Scratch
from learner.kernels.tree import CLASSES, LEAF, NOWHERE, Layout, Records, Tree

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


@kernel
def best_of(scores: Floats, classes: int) -> int:
    """The class with the highest score; ties to the smallest index."""
    best = 0
    for k in range(1, classes):
        if scores[k] > scores[best]:
            best = k
    return best


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
    classes, at = tree.counts[CLASSES], tree.node[node]
    adapts = rules.predictor == ADAPTIVE and at.slot != NOWHERE and at.n > 0.0
    if adapts or (len(predicted) > 0 and uses_bayes(tree, rules.predictor, node)):
        bayes_scores(tree, layout, scratch, batch, row, node)
        bayes = best_of(scratch.classes[1], classes)
        choose(tree.node, node, rules.predictor, bayes, k, weight, predicted, row)
    elif len(predicted) > 0:
        predicted[row] = at.majority if classes > 0 else -1


@inlined
def choose(
    nodes: Records,
    node: int,
    predictor: int,
    bayes: int,
    k: int,
    weight: float,
    predicted: Codes,
    row: int,
) -> None:
    """Answer by naive Bayes or by majority; an adaptive leaf remembers which of them was right."""
    at = nodes[place(node)]
    if len(predicted) > 0:
        trusts = predictor != ADAPTIVE or at.nb_right >= at.mc_right
        predicted[place(row)] = bayes if trusts else at.majority
    if predictor == ADAPTIVE:
        at.mc_right += weight if at.majority == k else 0.0
        at.nb_right += weight if bayes == k else 0.0


@inner
def majority_above(tree: Tree, rules: Rules, scratch: Scratch, node: int) -> int:
    """What a split node says to a value that it has no branch for."""
    classes = tree.counts[CLASSES]
    if classes == 0:
        return -1
    return vote(tree, classes, node, rules.new_leaf != EMPTY, scratch.classes[3])
