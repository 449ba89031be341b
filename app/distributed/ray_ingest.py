"""What runs inside an ingest actor: it reads events, and cuts them into the workers' columns.

So the wide columns of events never pass the learner: it gets labels, weights, tokens and the few
columns that its tree tests, and hands the workers only the word where their columns are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import ray

from app.distributed.ray_actor import Place, place
from app.distributed.shared_rows import IS_POSSIBLE, SharedRows
from learner import Block, Events, Share

Codes = npt.NDArray[np.int32]


class Columns(NamedTuple):
    """Some dense columns of a batch, each a row of the arrays."""

    numeric_ids: Codes
    numeric: npt.NDArray[np.float64]
    nominal_ids: Codes
    nominal: Codes


class Prepared(NamedTuple):
    """A batch as the learner gets it."""

    number: int
    parts: list[Any]  # where each worker's columns are: here, or with Ray its own ones
    lean: Events  # without dense columns
    columns: Columns
    sent_bytes: int  # of the parts
    note: Any  # what the reader tells of it


Batches = Any  # an iterator over events and what is to be told of them; may hear a word


@runtime_checkable
class Writer(Protocol):
    """Batches whose numbers can be written where they are wanted."""

    def write_into(self, empty: Callable[[tuple[int, int]], npt.NDArray[np.float64]]) -> None:
        """Take room for the numbers of every batch from here."""


class RayIngest:
    """Reads batches in their order; holds each until the learner is done with it."""

    def __init__(self, opened: Callable[[], Batches], shares: Sequence[Share]) -> None:
        self._batches, self._shares = opened(), shares
        self._rows = SharedRows()
        self._held: dict[int, Events] = {}
        self._number = 0
        self._are_here: list[bool] = []

    def begin(self, nodes: Sequence[str]) -> Place:
        """Prepare for workers on these nodes; those of this one read batches where they lie."""
        here = place()
        self._are_here = [IS_POSSIBLE and node == here.node for node in nodes]
        if any(self._are_here) and isinstance(self._batches, Writer):
            self._batches.write_into(self._rows.empty)
        return here

    def prepare(
        self, numeric: Codes, nominal: Codes, done: Sequence[int], word: Any = None
    ) -> Prepared | None:
        """Return the next batch with these columns of it; None: there are no more.

        Nobody reads the batches any more that are done; a word is handed on to the reader.
        """
        for number in done:
            del self._held[number]
            if any(self._are_here):
                self._rows.give_back(number)
        if word is not None:
            self._batches.hear(word)
        found = next(self._batches, None)
        if found is None:
            return None
        events, note = found
        empty = events.numeric[:, :0].copy(), events.nominal[:, :0].copy()
        lean = events._replace(numeric=empty[0], nominal=empty[1])
        if not len(events.y):
            return Prepared(0, [], lean, _picked(events, numeric, nominal), 0, note)
        self._number += 1
        parts, sent = self._parts(events)
        columns = _picked(self._held[self._number], numeric, nominal)
        return Prepared(self._number, parts, lean, columns, sent, note)

    def _parts(self, events: Events) -> tuple[list[Any], int]:
        """Leave the columns where workers find them; returns where, and how many bytes."""
        laid, sent = None, 0
        parts: list[Any] = []
        if any(self._are_here):
            laid, events = self._rows.lay(self._number, events)
            sent += laid.nbytes
        self._held[self._number] = events
        for share, is_here in zip(self._shares, self._are_here, strict=True):
            if is_here:
                parts.append(laid)
                continue
            own = share.slice(Block(0, events)).events
            parts.append(ray.put(own))
            sent += sum(array.nbytes for array in own)
        return parts, sent

    @ray.method(concurrency_group="ask")
    def columns(self, number: int, numeric: Codes, nominal: Codes) -> Columns:
        """Return more columns of a batch that is not done yet."""
        return _picked(self._held[number], numeric, nominal)


def _picked(events: Events, numeric: Codes, nominal: Codes) -> Columns:
    return Columns(
        numeric,
        np.ascontiguousarray(events.numeric[:, numeric].T),
        nominal,
        np.ascontiguousarray(events.nominal[:, nominal].T),
    )
