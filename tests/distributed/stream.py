"""A small stream of all kinds of features, learned alone, and on workers."""

from __future__ import annotations

from typing import Any

from learner import Encoder, InProcess, StreamingTree, Vertical, VerticalTree
from tests.learner.concepts import Concept

EAGER: dict[str, Any] = {"n_min": 20.0, "delta": 0.05, "tau": 0.2}
MIXED = Concept(seed=3, numeric=3, nominal=3, sparse=2, classes=3, missing=0.1, declared=False)
EVENTS, BATCH = 1200, 100
ROWS, LABELS, _ = zip(*MIXED.events(EVENTS), strict=True)


def fresh() -> StreamingTree:
    return StreamingTree(Encoder(MIXED.schema()), "vht", **EAGER)


def learn(tree: StreamingTree, start: int = 0, stop: int = EVENTS) -> StreamingTree:
    for at in range(start, stop, BATCH):
        batch = tree.encoder.encode(ROWS[at : at + BATCH])
        tree.learn(batch, tree.encoder.encode_labels(LABELS[at : at + BATCH]))
    return tree


def in_process(vertical: Vertical) -> str:
    """The hash of the model that workers in this thread learn."""
    return learn(VerticalTree(fresh(), InProcess(), vertical)).hash()
