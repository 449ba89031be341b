"""Workers in the thread of their aggregator, one after the other: simple, and never late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from learner.local_statistics import Beginning, LocalStatistics
from learner.message import LocalResult, Message

Array = npt.NDArray[Any]


class InProcess:
    """Runs every worker as soon as there is a message."""

    def __init__(self) -> None:
        self._workers: list[LocalStatistics] = []
        self._results: dict[int, list[LocalResult]] = {}

    def begin(self, beginnings: Sequence[Beginning]) -> None:
        """Make the workers."""
        self._workers = [LocalStatistics(beginning) for beginning in beginnings]

    def post(self, number: int, message: Message) -> None:
        """Have every worker do what the message says."""
        for worker in self._workers:
            for result in worker.take(number, message):
                self._results.setdefault(result.split_id, []).append(result)

    def answers(self, split_id: int) -> Sequence[LocalResult]:
        """What the workers answered."""
        return self._results.pop(split_id, [])

    def settle(self) -> None:
        """Nothing is ever under way here."""

    def states(self) -> Sequence[Mapping[str, Array]]:
        """What the workers hold."""
        return [worker.state() for worker in self._workers]

    def events(self) -> npt.NDArray[np.int64]:
        """Events that each worker has counted."""
        return np.array([worker.events for worker in self._workers], np.int64)
