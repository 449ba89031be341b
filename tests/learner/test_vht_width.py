"""The aggregator does the same however wide events are, where their columns are elsewhere.

Seconds would tell of the machine. Here the calls of the tree's own code are counted, and the bytes
of its messages and of its share of the tree; what brings them is not part of it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from learner import (
    Batch,
    Beginning,
    Encoder,
    Events,
    Feature,
    InProcess,
    Kind,
    LocalResult,
    Message,
    Schema,
    StreamingTree,
    Vertical,
    VerticalTree,
)
from learner.message import Block

Array = npt.NDArray[Any]
Codes = npt.NDArray[np.int32]

TOLD = 6  # columns that say something of the class
BATCHES, ROWS = 12, 500


class Spent(NamedTuple):
    """What the aggregator has done."""

    calls: int  # of Python's functions and of those in C
    columns: int  # brought here
    bytes_sent: int
    bytes_read: int
    bytes_held: int


class Counting:
    """Calls that are made while it listens."""

    def __init__(self) -> None:
        self.calls = 0

    def _note(self, _: Any, event: str, __: Any) -> None:
        self.calls += event in ("call", "c_call")

    @contextmanager
    def listening(self) -> Iterator[None]:
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)

    @contextmanager
    def pausing(self) -> Iterator[None]:
        """While others work in this thread."""
        heard = sys.getprofile()
        sys.setprofile(None)
        try:
            yield
        finally:
            sys.setprofile(heard)


class WithColumns:
    """Workers that have the columns of every batch; what passes between is weighed."""

    def __init__(self, counting: Counting) -> None:
        self._counting, self._workers = counting, InProcess()
        self.whole: Events | None = None  # of the batch that is learned
        self.bytes_sent = self.bytes_read = 0

    def begin(self, beginnings: Sequence[Beginning]) -> None:
        self._workers.begin(beginnings)

    def post(self, number: int, message: Message) -> None:
        with self._counting.pausing():
            if isinstance(message, Block):
                assert self.whole is not None
                message = message._replace(events=self.whole)
            else:
                self.bytes_sent += size_of(message)
            self._workers.post(number, message)

    def answers(self, split_id: int) -> Sequence[LocalResult]:
        with self._counting.pausing():
            found = self._workers.answers(split_id)
            self.bytes_read += sum(map(size_of, found))
            return found

    def settle(self) -> None:
        with self._counting.pausing():
            self._workers.settle()

    def states(self) -> Sequence[Mapping[str, Array]]:
        return self._workers.states()


class Elsewhere:
    """A batch whose numbers are here only where the tree tests them."""

    def __init__(self, whole: Events, counting: Counting) -> None:
        self._whole, self._counting = whole, counting
        self.events = whole._replace(numeric=np.full_like(whole.numeric, np.nan))
        self.columns = 0

    def fill(self, numeric: Codes, nominal: Codes) -> None:
        with self._counting.pausing():
            assert not len(nominal)
            self.events.numeric[:, numeric] = self._whole.numeric[:, numeric]
            self.columns += len(numeric)


def size_of(message: NamedTuple) -> int:
    return sum(part.nbytes for part in message if isinstance(part, np.ndarray))


def told_rows(chance: np.random.Generator) -> tuple[npt.NDArray[np.float64], Codes]:
    x = chance.uniform(size=(ROWS, TOLD))
    y = (x[:, 0] > 0.5).astype(np.int32) + (x[:, 1] + x[:, 2] > 1.0)
    return x, y.astype(np.int32)


def learned(width: int) -> tuple[VerticalTree, Spent]:
    """A tree of events with so many columns, of which all but the same few are always 0."""
    features = [Feature(f"x{i:05}", Kind.NUMERIC) for i in range(width)]
    schema = Schema(features=tuple(features), classes=("a", "b", "c"))
    counting, chance = Counting(), np.random.default_rng(3)
    workers, columns = WithColumns(counting), 0
    params = {"n_min": 50.0, "delta": 0.05, "tau": 0.1}
    tree = VerticalTree(StreamingTree(Encoder(schema), "vht", **params), workers, Vertical(2))
    places = np.linspace(0, width - 1, TOLD).astype(int)
    for _ in range(BATCHES):
        told, y = told_rows(chance)
        numeric = np.zeros((ROWS, width))
        numeric[:, places] = told
        rows = Batch(
            numeric, np.zeros((ROWS, 0), np.int32), np.zeros(ROWS + 1, np.int64),
            np.zeros(0, np.int32),
        )  # fmt: skip
        workers.whole = Events.of(rows, y, np.zeros(0))
        distant, predicted = Elsewhere(workers.whole, counting), np.empty(ROWS, np.int32)
        with counting.listening():
            tree.learn_distant(distant, predicted)
        columns += distant.columns
    held = sum(array.nbytes for array in tree._tree)
    return tree, Spent(counting.calls, columns, workers.bytes_sent, workers.bytes_read, held)


@pytest.fixture(scope="module")
def narrow() -> tuple[VerticalTree, Spent]:
    learned(TOLD)  # kernels are loaded
    return learned(TOLD)


@pytest.mark.parametrize("width", [60, 6_000])
def test_the_aggregator_does_the_same_however_wide_events_are(
    narrow: tuple[VerticalTree, Spent], width: int
) -> None:
    tree, spent = learned(width)

    assert tree.shape() == narrow[0].shape()
    assert tree.shape().nodes > 20
    assert spent == narrow[1]
