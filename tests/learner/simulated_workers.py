"""Workers whose messages take their time: any schedule that keeps the order of each channel."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from learner import Beginning, LocalResult, LocalStatistics, Message


class Simulated:
    """Every worker reads its messages when chance says so; answers may come late or twice.

    `silent` workers read and count, but never answer.
    """

    def __init__(
        self, seed: int, *, haste: float = 0.3, repeats: float = 0.0, silent: Sequence[int] = ()
    ) -> None:
        self._chance = random.Random(seed)
        self._haste, self._repeats, self._silent = haste, repeats, set(silent)
        self.workers: list[LocalStatistics] = []
        self._inboxes: list[deque[tuple[int, Message]]] = []
        self._delivered: list[LocalResult] = []
        self._on_the_way: list[LocalResult] = []

    def begin(self, beginnings: Sequence[Beginning]) -> None:
        self.workers = [LocalStatistics(beginning) for beginning in beginnings]
        self._inboxes = [deque() for _ in self.workers]

    def post(self, number: int, message: Message) -> None:
        for inbox in self._inboxes:
            inbox.append((number, message))
            if self._chance.random() < self._repeats:
                inbox.append((number, message))
        while self._chance.random() < self._haste:
            self._step()

    def answers(self, split_id: int) -> Sequence[LocalResult]:
        """Hands over whatever has arrived, old and double answers too, once all can have."""
        while not self._has_all(split_id) and (any(self._inboxes) or self._on_the_way):
            self._step()
        found, self._delivered = self._delivered, []
        self._delivered = [result for result in found if result.split_id > split_id]
        late = [result for result in found if self._chance.random() < self._repeats]
        self._delivered += late
        return found

    def settle(self) -> None:
        while any(self._inboxes):
            self._step()

    def states(self) -> Sequence[Mapping[str, npt.NDArray[Any]]]:
        self.settle()
        return [worker.state() for worker in self.workers]

    def _has_all(self, split_id: int) -> bool:
        answered = {r.worker for r in self._delivered if r.split_id == split_id}
        return len(answered) == len(self.workers) - len(self._silent)

    def _step(self) -> None:
        """One worker reads one message, or one answer arrives: of those on the way, any."""
        busy = [worker for worker, inbox in enumerate(self._inboxes) if inbox]
        if self._on_the_way and (not busy or self._chance.random() < 0.5):
            place = self._chance.randrange(len(self._on_the_way))
            self._delivered.append(self._on_the_way.pop(place))
        elif busy:
            worker = self._chance.choice(busy)
            results = self.workers[worker].take(*self._inboxes[worker].popleft())
            if worker not in self._silent:
                again = 2 if self._chance.random() < self._repeats else 1
                self._on_the_way += results * again


class Faulty(Simulated):
    """One message to one worker is lost, comes twice, or comes after the one behind it."""

    def __init__(self, seed: int, fault: str, number: int, worker: int) -> None:
        super().__init__(seed)
        self._fault, self._number, self._worker = fault, number, worker
        self._held: tuple[int, Message] | None = None
        self.happened = False

    def post(self, number: int, message: Message) -> None:
        super().post(number, message)
        inbox = self._inboxes[self._worker]
        if self._held is not None:
            inbox.append(self._held)
            self._held = None
        if number == self._number and inbox and inbox[-1][0] == number:
            self.happened = True
            if self._fault == "twice":
                inbox.append(inbox[-1])
            elif self._fault == "lost":
                inbox.pop()
            else:
                self._held = inbox.pop()
