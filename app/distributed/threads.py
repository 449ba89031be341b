"""Workers in threads of this process: compiled kernels run without the interpreter's lock.

Every worker has a thread and a queue. Nothing is copied or serialised: all read the same events,
each its own columns of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from queue import SimpleQueue
from typing import Any

import numpy.typing as npt

from app.distributed.load import Load
from learner import Beginning, LearnerError, LocalResult, LocalStatistics, Message, WorkerLost

Array = npt.NDArray[Any]
Order = tuple[int, Message] | threading.Event | None  # a message, "say when you are here", the end


class Threads:
    """One thread a worker."""

    def __init__(self, timeout_seconds: float = 0.0) -> None:
        self._timeout_seconds = timeout_seconds or None
        self._workers: list[LocalStatistics] = []
        self._queues: list[SimpleQueue[Order]] = []
        self._threads: list[threading.Thread] = []
        self._answered = threading.Condition()
        self._results: dict[int, list[LocalResult]] = {}
        self._decided = -1  # the last question that was asked after
        self._failure: BaseException | None = None
        self._waited_seconds = 0.0
        self._busy_seconds: list[float] = []

    def begin(self, beginnings: Sequence[Beginning]) -> None:
        """Make the workers, and start their threads."""
        for worker, beginning in enumerate(beginnings):
            self._workers.append(LocalStatistics(beginning))
            self._queues.append(SimpleQueue())
            self._busy_seconds.append(0.0)
            thread = threading.Thread(
                target=self._run, args=(worker,), name=f"worker-{worker}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def post(self, number: int, message: Message) -> None:
        """Queue a message for every worker."""
        for queue in self._queues:
            queue.put((number, message))

    def answers(self, split_id: int) -> Sequence[LocalResult]:
        """Wait until every worker has answered, or for as long as it may take."""
        started = time.perf_counter()
        with self._answered:
            self._answered.wait_for(lambda: self._has_all(split_id), self._timeout_seconds)
            self._waited_seconds += time.perf_counter() - started
            self._raise_failure()
            self._decided = split_id
            return self._results.pop(split_id, [])

    def _has_all(self, split_id: int) -> bool:
        found = len(self._results.get(split_id, ()))
        return self._failure is not None or found == len(self._workers)

    def settle(self) -> None:
        """Wait until every queue is empty and every thread idle."""
        waiting = [threading.Event() for _ in self._queues]
        for queue, reached in zip(self._queues, waiting, strict=True):
            queue.put(reached)
        for reached in waiting:
            reached.wait()
        self._raise_failure()

    def states(self) -> Sequence[Mapping[str, Array]]:
        """Return what the workers hold once all is done."""
        self.settle()
        return [worker.state() for worker in self._workers]

    def load(self) -> Load:
        """Return the totals so far."""
        return Load(self._waited_seconds, 0, tuple(self._busy_seconds))

    def close(self) -> None:
        """End the threads."""
        for queue in self._queues:
            queue.put(None)
        for thread in self._threads:
            thread.join()
        self._queues, self._threads, self._workers = [], [], []

    def _raise_failure(self) -> None:
        if isinstance(self._failure, LearnerError):
            raise self._failure
        if self._failure is not None:
            raise WorkerLost(
                f"a worker's thread failed: {type(self._failure).__name__}: {self._failure}"
            ) from self._failure

    def _run(self, worker: int) -> None:
        """Take one order after the other; after a failure only say that one is here."""
        statistics, queue = self._workers[worker], self._queues[worker]
        while (order := queue.get()) is not None:
            if isinstance(order, threading.Event):
                order.set()
            elif self._failure is None:
                started = time.perf_counter()
                try:
                    results = statistics.take(*order)
                except BaseException as failure:
                    results = []
                    with self._answered:
                        self._failure = failure
                        self._answered.notify_all()
                self._busy_seconds[worker] += time.perf_counter() - started
                if results:
                    self._deliver(results)

    def _deliver(self, results: Sequence[LocalResult]) -> None:
        with self._answered:
            for result in results:
                if result.split_id > self._decided:  # later nobody asks for it
                    self._results.setdefault(result.split_id, []).append(result)
            self._answered.notify_all()
