"""Workers with a stopwatch: how long decisions take, whoever runs the workers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from app.distributed.load import Executor, Load
from learner import AtABoard, Beginning, Led, LocalResult, Message, Stretch, Wave

Array = npt.NDArray[Any]


class Timed:
    """Hands everything on, and notes when a question was asked and when its answers were taken."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._asked: dict[int, float] = {}  # question -> when
        self._seconds = 0.0

    def begin(self, beginnings: Sequence[Beginning]) -> None:
        """Make the workers; questions to those of before are forgotten."""
        self._asked.clear()
        self._executor.begin(beginnings)

    def post(self, number: int, message: Message) -> None:
        """Hand a message on."""
        if isinstance(message, Wave) and len(message.split_ids):
            self._asked |= dict.fromkeys(message.split_ids.tolist(), time.perf_counter())
        self._executor.post(number, message)

    def answers(self, split_id: int) -> Sequence[LocalResult]:
        """Wait for the answers, with which the decision is made."""
        found, now = self._executor.answers(split_id), time.perf_counter()
        self._seconds += now - self._asked.pop(split_id, now)
        return found

    def lead(self, stretch: Stretch) -> Led | None:
        """Hand it on; each of its decisions is taken to last as long as a wave on average."""
        if not isinstance(self._executor, AtABoard):
            return None
        started = time.perf_counter()
        led = self._executor.lead(stretch)
        now = time.perf_counter()
        if led is not None and led.waves:
            self._seconds += (now - started) / led.waves * led.questions
            left = led.late.split_ids[led.decided :].tolist() if led.late is not None else []
            self._asked |= dict.fromkeys(left, now)
        return led

    def settle(self) -> None:
        """Hand it on."""
        self._executor.settle()

    def states(self) -> Sequence[Mapping[str, Array]]:
        """Return what the workers hold."""
        return self._executor.states()

    def load(self) -> Load:
        """Return the totals so far, with the time that decisions took."""
        return self._executor.load()._replace(decision_seconds=self._seconds)

    def close(self) -> None:
        """End the workers."""
        self._executor.close()
