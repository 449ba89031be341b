"""Compiles the kernels ahead of the first event, by a short made-up stream through a tree.

The first run on a machine takes many seconds, later ones load the compiled kernels from their
cache. Readiness waits for it, so that no request and no event pays for it.

`python -m app.warmup [VARIANT ...]` does so for the variants named, or all, and for the
generators, ahead of any start: images and machines are made ready with it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from app.distributed.threads import Threads
from app.evaluation import Prequential
from app.format import JsonFormat
from app.intake import warm_up_intake
from app.json_reader import JsonReader
from app.log import configure, get_logger
from app.reader import PlainReader
from app.settings import EventSettings, Settings
from learner import (
    VARIANTS,
    Batch,
    Encoder,
    Feature,
    InProcess,
    Kind,
    ParamsError,
    Schema,
    StreamingTree,
    Vertical,
    VerticalTree,
)
from streams import STREAMS, open_stream

ROWS = 64

# Enough of a hurry for the short stream to split, with both kinds of predictors.
HASTE = {"n_min": 16.0, "n_first": 16.0, "tau": 1.0, "leaf_predictor": "nba"}


def warm_up(variant: str = "vfdt", params: Mapping[str, Any] | None = None) -> float:
    """Learn, split, predict and ask why once with every kind of feature; return the seconds.

    Which kernels a tree needs depends on its parameters. The first tree has exactly these.
    """
    started = time.perf_counter()
    _read()
    _exercise(StreamingTree(_encoder(), variant, **(params or {})))
    with suppress(ParamsError):  # what does not go with naive Bayes needs none of its kernels
        _exercise(StreamingTree(_encoder(), variant, **{**(params or {}), **HASTE}))
    return time.perf_counter() - started


def warm_up_workers() -> float:
    """Do the same for a tree that spreads its statistics over workers; return the seconds."""
    started = time.perf_counter()
    haste = {name: HASTE[name] for name in ("n_min", "n_first", "tau")}
    threads = Threads()
    for workers in (InProcess(), threads):
        tree = StreamingTree(_encoder(), "vht", **haste)
        _exercise(VerticalTree(tree, workers, Vertical(workers=2)))
    threads.close()
    return time.perf_counter() - started


def warm_up_answers() -> float:
    """Do the same for a process that only answers, from trees of any kind; return the seconds."""
    started = time.perf_counter()
    for leaves in ("mc", "nba"):
        tree = StreamingTree(_encoder(), leaf_predictor=leaves)
        tree.encoder.encode_labels([0, 1])
        _answer(tree, tree.encoder.encode_records(_records()))
    return time.perf_counter() - started


def _read() -> None:
    """Take records, read a new value and a known one, and score."""
    encoder = Encoder(Schema((Feature("number", Kind.NUMERIC), Feature("choice", Kind.NOMINAL))))
    careful = PlainReader(encoder, Settings(), JsonFormat(100))
    reader = JsonReader(encoder, EventSettings(), careful)
    for _ in range(2):
        rows = reader.read([b'{"number": 1, "choice": "a", "label": 2}'])
    Prequential().update(rows.labels, rows.labels)
    warm_up_intake()


def _encoder() -> Encoder:
    return Encoder(
        Schema(
            (
                Feature("number", Kind.NUMERIC),
                Feature("choice", Kind.NOMINAL),
                Feature("words", Kind.SPARSE),
            )
        )
    )


def _records() -> list[dict[str, Any]]:
    return [
        {"number": float(row), "choice": "ab"[row % 2], "words": ["cd"[row // 2 % 2]]}
        for row in range(ROWS)
    ]


def _exercise(tree: StreamingTree) -> None:
    labels = tree.encoder.encode_labels([row % 2 for row in range(ROWS)])
    batch = tree.encoder.encode_records(_records())
    tree.learn(batch, labels, predicted=labels.copy())
    _answer(tree, batch)


def _answer(tree: StreamingTree, batch: Batch) -> None:
    """Few rows, many rows, an explanation and a walk."""
    snapshot = tree.snapshot()
    snapshot.evaluate(batch.part(0, 1))
    snapshot.votes_at(0)
    snapshot.evaluate(batch)
    snapshot.settle(batch)
    snapshot.path(batch, 0)
    snapshot.explanation.evidence(batch)
    snapshot.explanation.counterfactual(_records()[0], snapshot.classes)
    for node in snapshot.walk():
        if node.kind == "leaf":
            tree.copy_leaf(node.id).prospect()


def main(names: Sequence[str]) -> int:
    """Compile for these variants, or for all, and for the generators; return the exit code."""
    configure()
    log = get_logger("app.warmup")
    unknown = sorted(set(names) - set(VARIANTS))
    if unknown:
        log.error("unknown variants", given=unknown, expected=list(VARIANTS))
        return 2
    for name in names or VARIANTS:
        seconds = warm_up(name) + (warm_up_workers() if name == "vht" else 0.0)
        log.info("kernels ready", variant=name, seconds=round(seconds, 1))
    for name in STREAMS:
        open_stream(name).take(1)
    log.info("generators ready")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
