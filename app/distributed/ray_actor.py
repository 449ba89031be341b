"""What runs inside an actor on Ray: one worker's statistics.

Imports as little as it can: every actor is a process of its own, and starts with these imports.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from learner import Beginning, Block, LocalResult, LocalStatistics, Message, Wave

Array = npt.NDArray[Any]


class RayWorker:
    """One worker; after a failure it does nothing any more until it begins anew."""

    def __init__(self) -> None:
        self._statistics: LocalStatistics | None = None
        self._failure: BaseException | None = None

    def begin(self, beginning: Beginning) -> int:
        """Forget all, and hold what is given; returns the number of the process."""
        self._statistics, self._failure = LocalStatistics(beginning), None
        return os.getpid()

    def take(self, orders: Sequence[tuple[int, Message]]) -> tuple[list[LocalResult], float]:
        """Do what messages say; returns the answers and the seconds that it took."""
        if self._failure is not None:
            raise self._failure
        assert self._statistics is not None
        started, results = time.perf_counter(), []
        try:
            for number, message in orders:
                results += self._statistics.take(number, as_own(message))
        except BaseException as failure:
            self._failure = failure
            raise
        return results, time.perf_counter() - started

    def state(self) -> dict[str, Array]:
        """Return what it holds."""
        assert self._statistics is not None
        return self._statistics.state()


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
