"""The tables of naive Bayes follow the counts, and events that are walked ahead follow the tree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from learner import Encoder, StreamingTree
from learner.kernels.bayes import BASE, CURRENT, make_current
from learner.kernels.jit import kernel
from learner.kernels.rules import Scratch
from learner.kernels.tree import CLASSES, LEAF, Layout, Tree
from learner.state import keeping_nodes
from streams import open_stream
from tests.learner.concepts import Concept

GROWING = {"n_min": 20.0, "delta": 0.05, "tau": 0.3}


@kernel
def remake(tree: Tree, layout: Layout, scratch: Scratch, node: int) -> None:
    make_current(tree, layout, scratch, node)


def taught(concept: Concept, events: int, **params: Any) -> StreamingTree:
    """A tree that has learned the concept in batches of different sizes, predicting first."""
    tree = StreamingTree(Encoder(concept.schema()), "vfdt", **GROWING, **params)
    rows = list(concept.events(events))
    start, size = 0, 1
    while start < events:
        part = rows[start : start + size]
        batch = tree.encoder.encode([row for row, _, _ in part])
        y = tree.encoder.encode_labels([label for _, label, _ in part])
        weights = np.array([w for _, _, w in part])
        tree.learn(batch, y, weights, np.empty(len(part), np.int32))
        start, size = start + size, size % 7 + 1
    return tree


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize(("weights", "nominal"), [("one", 3), ("quarters", 3), ("real", 0)])
@pytest.mark.parametrize("new_leaf", ["separate", "empty"])
@pytest.mark.parametrize("policy", ["commit_once", "anytime"])
def test_tables_are_what_the_counts_say(
    missing: float, weights: str, nominal: int, new_leaf: str, policy: str
) -> None:
    concept = Concept(
        seed=3, numeric=3, nominal=nominal, classes=3, missing=missing, weights=weights,
        declared=False,
    )  # fmt: skip
    tree = taught(concept, 1500, leaf_predictor="nba", new_leaf=new_leaf, policy=policy)
    arrays, (handle, layout, _, scratch) = tree._tree, tree._handles
    compared = 0
    for node in np.flatnonzero(keeping_nodes(arrays)):
        slot, classes = int(arrays.node["slot"][node]), int(arrays.counts[CLASSES])
        rows, of_slot = arrays.bayes[slot, :classes], arrays.bayes_slot[slot]
        if arrays.node["kind"][node] != LEAF or of_slot[CURRENT] == 0.0:
            continue
        kept, kept_of_slot = rows.copy(), of_slot.copy()
        of_slot[CURRENT] = 0.0
        remake(handle, layout, scratch, int(node))
        alive = rows[:, BASE] > -np.inf
        np.testing.assert_array_equal(kept[alive], rows[alive])
        np.testing.assert_array_equal(kept_of_slot, of_slot)
        compared += 1
    assert compared > 0 or weights == "quarters"  # broken counts are summed anew each time


@pytest.mark.parametrize("predictor", ["mc", "nba"])
@pytest.mark.parametrize("name", ["rtg", "sea", "agrawal", "led"])
@pytest.mark.parametrize("weighted", [False, True])
def test_walking_ahead_leaves_no_trace(name: str, predictor: str, weighted: bool) -> None:
    """Leaves split while later events of the same batch are on their way to them."""
    batch, y = open_stream(name, 1).take(4000)
    weights = np.random.default_rng(1).uniform(0.2, 2.0, len(y)) if weighted else None
    hashes = []
    for size in (1, 7, 4000):
        tree = StreamingTree(
            Encoder(open_stream(name, 1).schema), "vfdt", leaf_predictor=predictor, **GROWING
        )
        for start in range(0, len(y), size):
            end = min(start + size, len(y))
            tree.learn(
                batch.part(start, end), y[start:end],
                None if weights is None else weights[start:end],
            )  # fmt: skip
        assert tree.shape().nodes > 20
        hashes.append(tree.hash())
    assert len(set(hashes)) == 1
