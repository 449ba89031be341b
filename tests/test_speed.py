"""Learning and reading stay as fast as they were, told by work of the same run.

No time is asserted. What an event costs is set against a compiled loop that only adds its numbers
up, and against msgspec reading the same JSON into dictionaries. The ratios below were measured;
twice as much is a slide that somebody should look at.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from time import thread_time

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from app.format import JsonFormat
from app.json_reader import JsonReader
from app.settings import Settings
from app.training import new_tree, reader_for
from benchmarks.workload import rows_of
from learner import Encoder, StreamingTree
from learner.kernels.jit import JIT_DISABLED, kernel
from streams import open_stream

EVENTS, BATCH, ROUNDS = 60_000, 1000, 7
SLIDE = 2.0
LEARNING = {("agrawal", "mc"): 11.0, ("led", "mc"): 3.5, ("agrawal", "nba"): 22.0}
READING = 0.5

pytestmark = pytest.mark.skipif(JIT_DISABLED, reason="plain Python has no speed to lose")


@kernel
def add_up(
    x: npt.NDArray[np.float64], y: npt.NDArray[np.int32], sums: npt.NDArray[np.float64]
) -> None:
    """The least that learning could cost: every number of an event, added to its class."""
    for row in range(len(y)):
        for j in range(x.shape[1]):
            sums[y[row], j] += x[row, j] * x[row, j]


def ratio(work: Callable[[], float], floor: Callable[[], float]) -> float:
    """The best of interleaved rounds, one over the other; the first round compiles."""
    rounds = [(work(), floor()) for _ in range(ROUNDS)][1:]
    return min(each for each, _ in rounds) / min(each for _, each in rounds)


@pytest.mark.parametrize(("stream", "leaves"), LEARNING)
def test_learning_costs_no_more_than_it_did(stream: str, leaves: str) -> None:
    rows = rows_of(stream, EVENTS)
    x = np.column_stack([rows.batch.numeric, rows.batch.nominal.astype(np.float64)])
    starts = range(0, EVENTS, BATCH)
    parts = [(rows.batch.part(at, at + BATCH), rows.labels[at : at + BATCH]) for at in starts]
    blocks = [(x[at : at + BATCH].copy(), rows.labels[at : at + BATCH]) for at in starts]
    sums = np.zeros((len(rows.schema.classes), x.shape[1]))

    def learn() -> float:
        tree = StreamingTree(Encoder(rows.schema), leaf_predictor=leaves)
        began = thread_time()
        for batch, labels in parts:
            tree.learn(batch, labels)
        return thread_time() - began

    def floor() -> float:
        began = thread_time()
        for block, labels in blocks:
            add_up(block, labels, sums)
        return thread_time() - began

    assert ratio(learn, floor) < SLIDE * LEARNING[stream, leaves]


def test_reading_json_costs_no_more_than_it_did() -> None:
    stream = open_stream("agrawal")
    values = [json.dumps(event).encode() for event in stream.events(20_000)]
    settings = Settings.load(environ={})
    tree = new_tree(settings, stream.schema)
    reader = reader_for(tree.encoder, settings, JsonFormat(settings.event.max_bytes))
    assert isinstance(reader, JsonReader)
    parts = [values[at : at + BATCH] for at in range(0, len(values), BATCH)]
    decode = msgspec.json.Decoder().decode

    def read() -> float:
        began = thread_time()
        for part in parts:
            reader.read(part)
        return thread_time() - began

    def floor() -> float:
        began = thread_time()
        for part in parts:
            for value in part:
                decode(value)
        return thread_time() - began

    assert ratio(read, floor) < SLIDE * READING
