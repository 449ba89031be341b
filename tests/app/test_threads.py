"""Workers at the board: whatever goes over it or beside it, the tree is that of one thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.distributed.threads import Threads
from learner import (
    Block,
    Encoder,
    Feature,
    InProcess,
    Kind,
    Led,
    LocalStatistics,
    Message,
    Schema,
    StreamingTree,
    Stretch,
    Vertical,
    VerticalTree,
    WorkerLost,
)
from learner.board import LONGEST, PATIENCE
from learner.message import Done, Known
from streams import open_stream

EVENTS = 12_000
FEW = 3000  # where there are many runs


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


class Noted(Threads):
    """Threads that tell what went to them, and in how many goes."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[Message] = []
        self.goes: list[Led | None] = []

    def post(self, number: int, message: Message) -> None:
        self.messages.append(message)
        super().post(number, message)

    def lead(self, stretch: Stretch) -> Led | None:
        self.goes.append(super().lead(stretch))
        return self.goes[-1]


def in_batches(tree: StreamingTree, stream: str, sizes: list[int]) -> list[int]:
    """Learn a few events in batches of these sizes, in turn; returns the predictions."""
    rows, y = open_stream(stream).take(FEW)
    predicted, start = np.empty(FEW, np.int32), 0
    while start < FEW:
        end = min(FEW, start + sizes[start % len(sizes)])
        tree.learn(rows.part(start, end), y[start:end], None, predicted[start:end])
        start = end
    return predicted.tolist()


@settings(max_examples=12, deadline=None)
@given(
    stream=st.sampled_from(["dense", "tweets", "agrawal"]),
    workers=st.integers(1, 4),
    n_min=st.sampled_from([15.0, 50.0, 400.0]),
    sizes=st.lists(st.sampled_from([70, 200, 1000, FEW]), min_size=1, max_size=3),
    patience=st.sampled_from([0, 1, 1000, PATIENCE]),
    wakeful=st.sampled_from([1, 1000, PATIENCE]),
)
def test_at_the_board_the_tree_is_that_of_one_thread_however_long_anybody_waits(
    stream: str, workers: int, n_min: float, sizes: list[int], patience: int, wakeful: int
) -> None:
    schema, told = open_stream(stream).schema, []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("learner.leading.PATIENCE", 1)
        patch.setattr("learner.leading.FOR_ANSWERS", patience)
        patch.setattr("learner.following.PATIENCE", wakeful)
        threads = Threads()
        for executor in (None, InProcess(), threads):
            tree = StreamingTree(Encoder(schema), "vht", n_min=n_min, tau=0.3)
            if executor is not None:
                tree = VerticalTree(tree, executor, Vertical(workers))
            predicted = in_batches(tree, stream, sizes)
            told.append((tree.hash(), predicted, tree.take_splits(), tree.counters()))
        threads.close()
    assert told[1] == told[0]
    assert told[2] == told[0]
    assert isinstance(tree, VerticalTree)
    counters = tree.vertical_counters()
    assert counters.rows == FEW
    assert counters.questions == tree.counters().split_attempts
    assert counters.unanswered == counters.waiting == 0


@pytest.mark.parametrize("workers", [1, 3])
def test_a_batch_is_led_without_messages_but_for_its_beginning_and_its_end(workers: int) -> None:
    threads = Noted()
    tree = VerticalTree(fresh("dense"), threads, Vertical(workers))
    in_batches(tree, "dense", [1000])

    assert tree.shape().nodes > 5
    assert tree.vertical_counters().questions > 50
    if workers == 1:  # nobody can be late
        assert {type(message) for message in threads.messages} <= {Block, Done, Known}
        assert len(threads.goes) == 3
        assert sum(led.splits for led in threads.goes if led is not None) > 0
    assert sum(led.questions for led in threads.goes if led is not None) > 50
    threads.close()


@pytest.mark.parametrize("workers", [1, 3])
def test_arrays_that_fill_up_in_mid_batch_grow(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("learner.state.FIRST_BYTES", 1)
    threads = Noted()
    expected, found = fresh("dense"), VerticalTree(fresh("dense"), threads, Vertical(workers))
    slots = expected._sizes.slots
    for tree in (expected, found):
        in_batches(tree, "dense", [FEW])

    assert found.hash() == expected.hash()
    assert found.shape().leaves > 2 * slots
    assert len(threads.goes) > 1
    threads.close()


def test_a_worker_that_finds_no_memory_in_mid_batch_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Poor(LocalStatistics):
        def _fit(self, leaves: int = 0) -> None:
            if leaves and self.share.worker:
                raise MemoryError("no room")
            super()._fit(leaves)

    monkeypatch.setattr("learner.state.FIRST_BYTES", 1)
    monkeypatch.setattr("app.distributed.threads.LocalStatistics", Poor)
    threads = Threads()
    tree = VerticalTree(fresh("dense"), threads, Vertical(3))

    with pytest.raises(WorkerLost, match="MemoryError: no room"):
        in_batches(tree, "dense", [FEW])
    threads.close()
