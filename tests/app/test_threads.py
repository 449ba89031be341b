"""Workers at the board: whatever goes over it or beside it, the tree is that of one thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from app.distributed.threads import Threads
from learner import (
    Encoder,
    Feature,
    InProcess,
    Kind,
    Schema,
    StreamingTree,
    Vertical,
    VerticalTree,
)
from learner.board import LONGEST
from streams import open_stream

EVENTS = 12_000


@pytest.fixture
def threads() -> Iterator[Threads]:
    made = Threads()
    yield made
    made.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("worker-")]


def taught(tree: StreamingTree, batch: int, stream: str, **options: Any) -> str:
    """Learn a stream in batches, with snapshots of the whole in between; the hash at the end."""
    rows, y = open_stream(stream, **options).take(EVENTS)
    for start in range(0, EVENTS, batch):
        end = min(EVENTS, start + batch)
        tree.learn(rows.part(start, end), y[start:end], None, np.empty(end - start, np.int32))
        if start % 3000 == 0:
            tree.hash()
    return tree.hash()


def fresh(stream: str, **options: Any) -> StreamingTree:
    schema = open_stream(stream, **options).schema
    return StreamingTree(Encoder(schema), "vht", n_min=20.0, tau=0.3)


@pytest.mark.parametrize("batch", [1, 37, 1000, EVENTS])
@pytest.mark.parametrize("workers", [2, 4])
def test_batches_of_any_length_give_the_tree_of_one_thread(
    batch: int, workers: int, threads: Threads
) -> None:
    assert EVENTS > 2 * LONGEST  # some waves do not fit on the board
    events = EVENTS if batch > 1 else 800
    expected, found = fresh("dense"), VerticalTree(fresh("dense"), threads, Vertical(workers))
    rows, y = open_stream("dense").take(events)
    for tree in (expected, found):
        for start in range(0, events, batch):
            tree.learn(rows.part(start, min(events, start + batch)), y[start : start + batch])

    assert found.hash() == expected.hash()
    assert found.shape().nodes > 5
    assert found.vertical_counters().unanswered == 0


@pytest.mark.parametrize("stream", ["dense", "tweets", "agrawal"])
@pytest.mark.parametrize(("mode", "lag"), [("sync", 0), ("wok", 700), ("wk", 2500)])
def test_every_kind_of_column_and_every_mode(
    stream: str, mode: str, lag: int, threads: Threads
) -> None:
    vertical = Vertical(3, mode, lag, keep=40)
    found = taught(VerticalTree(fresh(stream), threads, vertical), 500, stream)

    assert found == taught(VerticalTree(fresh(stream), InProcess(), vertical), 500, stream)


def test_more_questions_than_fit_on_the_board_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("learner.board.MOST_QUESTIONS", 1)
    asked: list[int] = []

    class Noting(InProcess):
        def post(self, number: int, message: Any) -> None:
            asked.append(len(getattr(message, "asked", ())))
            super().post(number, message)

    threads, told = Threads(), []
    for workers in (Noting(), threads):
        tree = VerticalTree(fresh("dense"), workers, Vertical(2, "wk", lag=400, keep=10))
        told.append(taught(tree, 4000, "dense"))
    threads.close()
    assert max(asked) > 1
    assert told[0] == told[1]


def test_classes_and_values_that_come_later_find_room_for_their_answers(threads: Threads) -> None:
    rows: list[dict[str, Any]] = [
        {"a": float(i % 7), "b": f"v{i % (3 + i // 200)}", "words": [f"w{i % (5 + i // 50)}"]}
        for i in range(3000)
    ]
    labels = [f"c{i % (2 + i // 700)}" for i in range(3000)]
    told = []
    for workers in (None, threads):
        encoder = Encoder(Schema((Feature("a", Kind.NUMERIC),)), growing=True)
        tree = StreamingTree(encoder, "vht", n_min=20.0, tau=0.5)
        if workers is not None:
            tree = VerticalTree(tree, workers, Vertical(3))
        for start in range(0, 3000, 150):
            part = rows[start : start + 150]
            for record in part:
                encoder.admit(record)
            y = encoder.encode_labels(labels[start : start + 150])
            tree.learn(encoder.encode_records(part), y)
        told.append((tree.hash(), tree.shape().nodes))
    assert told[0] == told[1]
    assert told[0][1] > 10
