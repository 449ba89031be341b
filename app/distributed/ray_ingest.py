"""What runs inside an ingest actor: it reads events, and cuts them into the workers' columns.

So the wide columns of events never pass the learner: it gets labels, weights, tokens and the few
columns that its tree tests, and hands the workers only the word where their columns are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import ray

from app.distributed.ray_actor import Place, place
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
    parts: list[Any]  # where each worker's own columns are
    is_slice: bool  # these are the worker's columns only
    lean: Events  # without dense columns
    columns: Columns
    sent_bytes: int  # of the parts
    note: Any  # what the reader tells of it


Batches = Any  # an iterator over events and what is to be told of them; may hear a word


class RayIngest:
    """Reads batches in their order; holds each until the learner is done with it."""

    def __init__(self, opened: Callable[[], Batches], shares: Sequence[Share]) -> None:
        self._batches, self._shares = opened(), shares
        self._held: dict[int, Events] = {}
        self._number = 0
        self._shared = False

    def begin(self, nodes: Sequence[str]) -> Place:
        """Prepare for workers on these nodes: if all are here, they share the memory of batches."""
        here = place()
        self._shared = set(nodes) == {here.node}
        return here

    def prepare(
        self, numeric: Codes, nominal: Codes, done: Sequence[int], word: Any = None
    ) -> Prepared | None:
        """Return the next batch with these columns of it; None: there are no more.

        Others are done; a word is handed on to the reader.
        """
        for number in done:
            self._held.pop(number, None)
        if word is not None:
            self._batches.hear(word)
        found = next(self._batches, None)
        if found is None:
            return None
        events, note = found
        self._number += 1
        self._held[self._number] = events
        parts, sent = self._parts(events)
        empty = events.numeric[:, :0].copy(), events.nominal[:, :0].copy()
        lean = events._replace(numeric=empty[0], nominal=empty[1])
        columns = _picked(events, numeric, nominal)
        return Prepared(
            self._number, parts, not self._shared, lean, columns, sent, note
        )  # fmt: skip

    def _parts(self, events: Events) -> tuple[list[Any], int]:
        """Leave the columns where workers find them; returns where, and how many bytes."""
        if not len(events.y):
            return [], 0
        if self._shared:
            return [ray.put(events)] * len(self._shares), sum(array.nbytes for array in events)
        slices = [share.slice(Block(0, events)).events for share in self._shares]
        sent = sum(array.nbytes for own in slices for array in own)
        return [ray.put(own) for own in slices], sent

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
