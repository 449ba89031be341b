"""No schedule of messages changes a vertical tree, and no fault of a channel goes unnoticed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learner import (
    Beginning,
    Block,
    InProcess,
    LocalStatistics,
    Message,
    Vertical,
    WorkerLost,
)
from learner.kernels.rules import (
    BEST,
    BEST_COLUMN,
    BEST_KIND,
    BEST_PLACE,
    NO_SPLIT_YET,
    RANKING,
    SECOND,
    SECOND_COLUMN,
    SECOND_KIND,
    SECOND_PLACE,
)
from learner.kernels.tree import LEAF, NODES, NUMERIC
from learner.variants.vht import decide
from tests.learner.simulated_workers import Faulty, Simulated
from tests.learner.test_vht import MIXED, Told, local, spread, teach

SHORT = 260  # events of one schedule
SCHEDULES = 300  # of each mode


@pytest.fixture
def quick() -> Iterator[None]:
    """Leaves that ask twice as often, so that few events bring many messages."""
    patch = pytest.MonkeyPatch()
    patch.setattr("tests.learner.test_vht.EAGER", {"n_min": 10.0, "delta": 0.05, "tau": 0.3})
    yield
    patch.undo()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("mode", "lag", "keep"), [("sync", 0, 0), ("wok", 25, 0), ("wk", 25, 0), ("wk", 40, 6)]
)
def test_more_than_a_thousand_schedules_lead_to_one_tree(mode: str, lag: int, keep: int) -> None:
    seen: set[tuple[Any, ...]] = set()
    for seed in range(SCHEDULES):
        workers, haste = 1 + seed % 4, 0.9 * (seed % 7) / 7
        simulated = Simulated(seed, haste=haste, repeats=0.1 * (seed % 3))
        vertical = Vertical(workers, mode, lag, keep, keep_most=20)
        tree = spread(MIXED, vertical, simulated)
        told = teach(tree, MIXED, [seed % 200 + 1], SHORT)
        counters = tree.vertical_counters()
        seen.add((told.hash, tuple(told.predicted), counters.lost, counters.kept,
                  counters.replayed, counters.unanswered))  # fmt: skip
    assert len(seen) == 1
    (one,) = seen
    assert one[2] > 0 or mode == "sync"
    if mode == "sync":
        assert one[0] == teach(local(MIXED), MIXED, events=SHORT).hash


@settings(max_examples=60)
@given(
    seed=st.integers(0, 1 << 20),
    fault=st.sampled_from(["lost", "twice", "late"]),
    number=st.integers(2, 25),
    worker=st.integers(0, 2),
    mode=st.sampled_from(["sync", "wk"]),
)
def test_a_message_that_is_lost_or_out_of_order_is_told_and_one_that_comes_twice_is_ignored(
    seed: int, fault: str, number: int, worker: int, mode: str
) -> None:
    vertical = Vertical(3, mode, lag=50, keep=20)
    told, complaint = None, ""
    faulty = Faulty(seed, fault, number, worker)
    try:
        told = teach(spread(MIXED, vertical, faulty), MIXED, [150], 600)
    except WorkerLost as lost:
        complaint = str(lost)

    if fault == "twice" or not faulty.happened:
        assert told == teach(spread(MIXED, vertical), MIXED, [150], 600)
    else:
        assert f"worker {worker} got message" in complaint


def test_what_left_out_events_are_is_those_that_met_a_waiting_leaf() -> None:
    """F 31: in wok an event is either counted or lost, and lost are those of waiting leaves."""
    tree = spread(MIXED, Vertical(2, "wok", lag=60))
    told = teach(tree, MIXED)

    lost = tree.vertical_counters().lost
    assert lost > 0
    assert told.counters.events_counted + lost == told.counters.events


def test_kept_events_are_learned_again_or_dropped_with_the_decision() -> None:
    tree = spread(MIXED, Vertical(2, "wk", lag=60, keep=10**6, keep_most=10**6))
    told = teach(tree, MIXED)

    counters = tree.vertical_counters()
    assert counters.lost == 0
    assert 0 < counters.replayed <= counters.kept - counters.buffered
    assert told.counters.events_counted == told.counters.events + counters.replayed


@settings(max_examples=20)
@given(seed=st.integers(0, 1 << 20), mode=st.sampled_from(["sync", "wok", "wk"]))
def test_workers_together_hold_the_statistics_of_the_leaves_and_no_others(
    seed: int, mode: str
) -> None:
    """F 33: one row a leaf and attribute, with as much weight as its leaf has counted."""
    simulated = Simulated(seed)
    tree = spread(MIXED, Vertical(3, mode, lag=40, keep=20), simulated)
    teach(tree, MIXED)
    nodes = tree._tree.node[: int(tree._tree.counts[NODES])]
    leaves = nodes[nodes["kind"] == LEAF]

    columns = 0
    for worker in simulated.workers:
        state = worker.state()
        columns += state["moments"].shape[3]
        used = state["node"]["slot"][: len(nodes)]
        assert sorted(used[used >= 0].tolist()) == sorted(leaves["slot"].tolist())
        np.testing.assert_array_equal(state["seen"][: len(nodes)], tree._tree.seen[: len(nodes)])
        counted = state["values"].sum(axis=1)  # of every class
        for leaf in leaves:
            assert (counted[leaf["slot"]] <= leaf["n"] + 1e-9).all()
    assert columns == MIXED.numeric


# the best two of the best two --------------------------------------------------------------------


def top_two(gains: list[tuple[float, int]]) -> np.ndarray[Any, Any]:
    """A worker's ranking: higher gain first, then the earlier attribute."""
    ranking = np.zeros(RANKING)
    ranking[[BEST_KIND, SECOND_KIND]] = LEAF
    ordered = sorted(gains, key=lambda pair: (-pair[0], pair[1]))
    places = ((BEST, BEST_KIND, BEST_COLUMN, BEST_PLACE),
              (SECOND, SECOND_KIND, SECOND_COLUMN, SECOND_PLACE))  # fmt: skip
    for (gain, attribute), (merit, kind, column, place) in zip(ordered, places, strict=False):
        ranking[[merit, kind, column, place]] = gain, NUMERIC, attribute, attribute
    return ranking


@settings(max_examples=200)
@given(
    gains=st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.9]), min_size=1, max_size=12),
    shares=st.lists(st.integers(0, 3), min_size=12, max_size=12),
    n=st.sampled_from([50.0, 1000.0]),
)
def test_the_best_two_of_all_are_among_the_best_two_of_each(
    gains: list[float], shares: list[int], n: float
) -> None:
    """F 34, whoever has which attribute."""
    tree = local(MIXED)
    tree._keep_up()
    pairs = [(gain, attribute) for attribute, gain in enumerate(gains)]
    told = []
    for workers in ([pairs], [[p for p, s in zip(pairs, shares, strict=False) if s == w]
                              for w in range(4)]):  # fmt: skip
        rankings = np.array([top_two(own) for own in workers])
        outcome = decide(tree._handles[2], tree._handles[3], rankings, n, 1.0)
        told.append((outcome, tree._scratch.ranking.tolist()))

    assert told[0] == told[1]
    if max(gains) == 0.0:
        assert told[0][0] == NO_SPLIT_YET


def test_a_tree_without_faults_is_what_the_faults_are_compared_with() -> None:
    told: Told = teach(spread(MIXED, Vertical(3, "wk", lag=50, keep=20), InProcess()), MIXED)

    assert told.counters.splits_bound + told.counters.splits_tie > 3


class Noted(InProcess):
    """Keeps what workers began with, and the messages."""

    def __init__(self) -> None:
        super().__init__()
        self.beginnings: list[Beginning] = []
        self.messages: list[tuple[int, Message]] = []

    def begin(self, beginnings: Sequence[Beginning]) -> None:
        # The arrays are taken over by the workers.
        self.beginnings = [
            b._replace(state={k: v.copy() for k, v in b.state.items()}) for b in beginnings
        ]
        super().begin(beginnings)

    def post(self, number: int, message: Message) -> None:
        self.messages.append((number, message))
        super().post(number, message)


@pytest.mark.parametrize("layout", ["strided", "read-only"])
def test_arrays_of_any_layout_are_counted_right(layout: str) -> None:
    """Where events come from elsewhere, their columns may lie one after the other."""
    noted = Noted()
    teach(spread(MIXED, Vertical(2), noted), MIXED, [500])
    worker = LocalStatistics(noted.beginnings[1])
    for number, message in noted.messages:
        if isinstance(message, Block):
            numeric = message.events.numeric
            if layout == "strided":
                wide = np.zeros((numeric.shape[1], len(numeric) + 1))
                wide[:, :-1] = numeric.T
                numeric = wide[:, :-1].T
            else:
                numeric.setflags(write=False)
            message = message._replace(events=message.events._replace(numeric=numeric))
        worker.take(number, message)

    expected = noted.states()[1]
    for name, array in worker.state().items():
        np.testing.assert_array_equal(array, expected[name], name)
    assert worker.events == noted.events()[1] > 0
