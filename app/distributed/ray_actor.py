"""What runs inside an actor on Ray: one worker's statistics.

Imports as little as it can: every actor is a process of its own, and starts with these imports.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import ray

from app.distributed.frame import LaidBlock, Order, Taken, orders_from, taken_bytes
from app.distributed.pipes import Ends, OtherEnd
from app.distributed.shared_rows import OthersRows
from learner import Beginning, Block, Events, LocalStatistics, Message, Wave

Array = npt.NDArray[Any]


class Elsewhere(NamedTuple):
    """A block of which Ray brings the worker's own columns from another process."""

    block: int


class Place(NamedTuple):
    """Where an actor runs."""

    process: int
    node: str  # of the cluster


class RayWorker:
    """One worker; after a failure it does nothing any more until it begins anew."""

    def __init__(self) -> None:
        self._statistics: LocalStatistics | None = None
        self._failure: BaseException | None = None
        self._rows = OthersRows()

    def begin(self, beginning: Beginning) -> Place:
        """Forget all, and hold what is given."""
        self._statistics, self._rows = None, OthersRows()  # before there is another one
        self._statistics, self._failure = LocalStatistics(beginning), None
        return place()

    def take(self, orders: Sequence[tuple[int, Order | Elsewhere]], *parts: Events) -> Taken:
        """Do what orders say; the parts are those of the blocks that did not come with them."""
        if self._failure is not None:
            raise self._failure
        assert self._statistics is not None
        started, results, brought = time.perf_counter(), [], iter(parts)
        try:
            for number, order in orders:
                if isinstance(order, Elsewhere):
                    order = Block(order.block, next(brought), is_slice=True)
                elif isinstance(order, LaidBlock):
                    order = Block(order.block, self._rows.events(order.laid))
                results += self._statistics.take(number, as_own(order))
        except BaseException as failure:
            self._failure = failure
            raise
        busy_seconds = time.perf_counter() - started
        return Taken(results, busy_seconds, self._statistics.state_bytes)

    def serve(self, ends: Ends) -> bool:
        """Take orders from a pipe until it ends; returns whether it could be reached at all."""
        try:
            pipes = OtherEnd(ends)
        except OSError:
            return False
        try:
            pipes.send(b"")  # they are open
            for frame in pipes:
                pipes.send(taken_bytes(self.take(orders_from(frame))))
        finally:
            pipes.close()
        return True

    def state(self) -> dict[str, Array]:
        """Return what it holds."""
        assert self._statistics is not None
        return self._statistics.state()


def place() -> Place:
    """Return where this process runs."""
    return Place(os.getpid(), ray.get_runtime_context().get_node_id())


def as_own(message: Message) -> Message:
    """Return a message whose arrays kernels take: Ray's are read-only, which is another type."""
    if isinstance(message, Block):
        return message._replace(events=type(message.events)._make(map(opened, message.events)))
    if isinstance(message, Wave):
        rows, leaves, asked = map(opened, (message.rows, message.leaves, message.asked))
        return message._replace(rows=rows, leaves=leaves, asked=asked)
    return message


class _Memory:
    """The memory of an array, which says that it may be written; nobody does."""

    def __init__(self, array: Array) -> None:
        self._array = array  # keeps it alive
        place, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (place, False)}


def opened(array: Any) -> Array:
    """Return the same memory as an array that counts as writable; nothing is copied."""
    own: Array = array if array.flags.writeable else np.asarray(_Memory(array))
    return own
