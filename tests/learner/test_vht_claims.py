"""What [KDBM16] claims of its modes and of sharding, on its own streams; V1 to V4.

Tables of longer runs are in docs/variants/vht.md. Speed is not asserted anywhere.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from learner import (
    Encoder,
    InProcess,
    ShardedTrees,
    StreamingTree,
    Vertical,
    VerticalCounters,
    VerticalTree,
)
from streams import Stream, open_stream

EVENTS, LONG = 30_000, 100_000
LAG = 1000
POINT = 0.01
STREAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "dense 10-10": ("dense", {"attributes": 10}),
    "tweets 1k": ("tweets", {"words": 1000}),
}


def opened(name: str) -> Stream:
    stream, options = STREAMS[name]
    return open_stream(stream, **options)


@cache
def accuracy(
    name: str, mode: str, keep: int = 0, events: int = EVENTS
) -> tuple[float, VerticalCounters | None]:
    """Share of events predicted right before they were learned; mode "" is one thread."""
    stream = opened(name)
    tree = StreamingTree(Encoder(stream.schema), "vht")
    if mode:
        tree = VerticalTree(tree, InProcess(), Vertical(2, mode, LAG, keep))
    right = 0
    for _ in range(0, events, 1000):
        batch, y = stream.take(1000)
        predicted = np.empty(1000, np.int32)
        tree.learn(batch, y, None, predicted)
        right += int((predicted == y).sum())
    counters = tree.vertical_counters() if isinstance(tree, VerticalTree) else None
    return right / events, counters


@cache
def sharded(name: str, shards: int) -> float:
    stream = opened(name)
    trees, right = ShardedTrees(Encoder(stream.schema), "vht", shards), 0
    for _ in range(0, EVENTS, 1000):
        batch, y = stream.take(1000)
        predicted = np.empty(1000, np.int32)
        trees.learn(batch, y, predicted)
        right += int((predicted == y).sum())
    return right / EVENTS


@pytest.mark.parametrize("name", STREAMS)
def test_v1_in_sync_it_is_as_accurate_as_vfdt_because_it_is_the_same_tree(name: str) -> None:
    stream, answers = opened(name), []
    batch, y = stream.take(EVENTS // 2)
    plain = StreamingTree(Encoder(stream.schema), "vfdt", audit_fraction=0.0)
    alone = StreamingTree(Encoder(stream.schema), "vht")
    together = VerticalTree(alone, InProcess(), Vertical(4))
    for tree in (plain, together):
        predicted = np.empty(len(y), np.int32)
        tree.learn(batch, y, None, predicted)
        answers.append(predicted)

    np.testing.assert_array_equal(*answers)
    assert list(plain.snapshot().walk()) == list(together.snapshot().walk())


@pytest.mark.parametrize("name", STREAMS)
def test_v2_of_the_late_modes_those_that_keep_events_are_best(name: str) -> None:
    (wok, lost), (wk, _) = accuracy(name, "wok"), accuracy(name, "wk")
    kept, told = accuracy(name, "wk", EVENTS)

    assert kept >= wk - POINT
    assert wk >= wok - POINT
    assert lost is not None
    assert told is not None
    assert lost.lost > told.lost == 0


def test_v3_sharding_loses_accuracy_and_the_more_the_more_shards_there_are() -> None:
    whole, _ = accuracy("dense 10-10", "")

    two, four = sharded("dense 10-10", 2), sharded("dense 10-10", 4)

    assert whole - two > POINT
    assert whole - four >= 4 * POINT
    assert two > four


def test_v4_on_sparse_events_late_decisions_cost_little_and_left_out_events_more() -> None:
    whole, _ = accuracy("tweets 1k", "", events=LONG)

    assert abs(accuracy("tweets 1k", "wk", 1000, LONG)[0] - whole) <= POINT
    assert accuracy("tweets 1k", "wok", events=LONG)[0] <= whole
