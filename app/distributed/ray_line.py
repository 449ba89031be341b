"""How orders reach one worker: by calls of Ray, or by pipes where it runs on the learner's machine.

A call of Ray costs either side about half a millisecond of CPU, a large part of all work where
leaves ask often. Where both processes are on one node, orders go through pipes instead, while one
call of Ray runs as long as the pipes last: it says of what a worker has died.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn, Protocol

import ray

from app.distributed.frame import Taken, orders_bytes, taken_from
from app.distributed.pipes import OwnEnd
from learner import WorkerLost

GLANCE_SECONDS = 0.05  # between two looks whether a worker that does not open its pipes lives


class Line(Protocol):
    """To one worker; orders are obeyed in the order in which they were sent."""

    def send(self, orders: Sequence[Any], parts: Sequence[Any]) -> Any:
        """Send orders; returns what their outcome is asked for with."""

    def taken(self, call: Any, seconds: float | None) -> Taken | None:
        """Wait for the outcome, and so long at most; raises what the worker has died of."""

    def rest(self) -> None:
        """Let the worker take other calls, until the next orders."""

    def close(self) -> None:
        """Leave the worker."""


class CallLine:
    """By calls of Ray, wherever the worker runs."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def send(self, orders: Sequence[Any], parts: Sequence[Any]) -> Any:
        """Call the worker."""
        return self._actor.take.remote(orders, *parts)

    def taken(self, call: Any, seconds: float | None) -> Taken | None:
        """Wait for the call."""
        if seconds is not None and not ray.wait([call], timeout=seconds)[0]:
            return None
        taken: Taken = ray.get(call)
        return taken

    def rest(self) -> None:
        """Nothing keeps the worker."""

    def close(self) -> None:
        """Nothing is held for it."""


class PipeLine:
    """By pipes to a process of this machine."""

    def __init__(self, actor: Any, open_seconds: float) -> None:
        self._actor, self._open_seconds = actor, open_seconds
        self._pipes: OwnEnd | None = None
        self._serving: Any = None
        self._sent = self._come = 0
        self._outcomes: dict[int, Taken] = {}

    def open(self) -> bool:
        """Have the worker open the pipes; returns whether it reaches them."""
        pipes, deadline = OwnEnd(), time.monotonic() + self._open_seconds
        self._serving = self._actor.serve.remote(pipes.others)
        while pipes.receive(GLANCE_SECONDS) is None:
            if ray.wait([self._serving], timeout=0)[0]:
                pipes.close()
                return bool(ray.get(self._serving))  # raises what it has died of
            if time.monotonic() > deadline:
                raise WorkerLost(
                    f"a worker on Ray has not opened its pipes within {self._open_seconds:g} "
                    "seconds (LIVETREE_VHT__RAY__START_SECONDS)"
                )
        pipes.hand_over()
        self._pipes = pipes
        return True

    def send(self, orders: Sequence[Any], parts: Sequence[Any]) -> Any:
        """Write orders, which have all that belongs to them."""
        assert not parts
        if self._pipes is None and not self.open():
            raise WorkerLost("a worker on Ray cannot open its pipes any more")
        assert self._pipes is not None
        try:
            self._pipes.send(orders_bytes(orders))
        except (BrokenPipeError, EOFError):
            self._ended()
        self._sent += 1
        return self, self._sent

    def taken(self, call: Any, seconds: float | None) -> Taken | None:
        """Read what has come back, in the order of the orders."""
        _, number = call
        while number not in self._outcomes:
            if self._pipes is None:
                self._ended()
            try:
                frame = self._pipes.receive(seconds)
            except EOFError:
                self._ended()
            if frame is None:
                return None
            self._keep(frame)
        return self._outcomes.pop(number)

    def rest(self) -> None:
        """End the pipes; what was sent is done then."""
        if self._pipes is None:
            return
        self._pipes.finish()
        with suppress(EOFError):
            while True:
                self._keep(self._pipes.receive(None))
        self.close()
        ray.get(self._serving)  # raises what it has died of

    def close(self) -> None:
        """Leave the pipes as they are."""
        if self._pipes is not None:
            self._pipes.close()
            self._pipes = None

    def _keep(self, frame: bytes | None) -> None:
        assert frame is not None
        self._come += 1
        self._outcomes[self._come] = taken_from(frame)

    def _ended(self) -> NoReturn:
        """Tell why the worker has left the pipes."""
        self.close()
        ray.get(self._serving)
        raise WorkerLost("a worker on Ray has left its pipes")
