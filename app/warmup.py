"""Compiles the kernels ahead of the first event, by a short made-up stream through a tree.

The first run on a machine takes many seconds, later ones load the compiled kernels from their
cache. Readiness waits for it, so that no request and no event pays for it.
"""

from __future__ import annotations

import time

from learner import Encoder, Feature, Kind, Schema, StreamingTree

ROWS = 64


def warm_up(variant: str = "vfdt") -> float:
    """Learn, split, predict and explain once with every kind of feature; return the seconds."""
    started = time.perf_counter()
    schema = Schema(
        (
            Feature("number", Kind.NUMERIC),
            Feature("choice", Kind.NOMINAL),
            Feature("words", Kind.SPARSE),
        )
    )
    encoder = Encoder(schema)
    tree = StreamingTree(encoder, variant, n_min=16.0, tau=1.0, leaf_predictor="nba")
    records = [
        {"number": float(row), "choice": "ab"[row % 2], "words": ["cd"[row // 2 % 2]]}
        for row in range(ROWS)
    ]
    labels = encoder.encode_labels([row % 2 for row in range(ROWS)])
    batch = encoder.encode_records(records)
    tree.learn(batch, labels, predicted=labels.copy())
    snapshot = tree.snapshot()
    snapshot.evaluate(batch)
    snapshot.path(batch, 0)
    for _ in snapshot.walk():
        pass
    return time.perf_counter() - started
