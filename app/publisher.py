"""The thread that sends snapshots to the replicas, so that learning never waits for a broker.

It sends the newest one there is; those that come while it sends are passed over. What cannot be
sent is tried again as long as nothing newer has come, after a pause that grows.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence
from typing import Protocol

from app.errors import AppError, SnapshotUnwritable, Unexpected
from app.log import Seldom, get_logger
from app.metrics import Metrics
from app.serving import Published, Serving
from app.snapshot_message import about, message_pieces
from app.timeline import Timeline
from learner import Piece

log = get_logger(__name__)

RETRY_FIRST_SECONDS = 0.5
RETRY_MOST_SECONDS = 4.0


class Outlet(Protocol):
    """A way to the replicas."""

    name: str

    def send(self, message: Sequence[Piece], publication: str) -> None:
        """Send a message as a whole; raises SnapshotUnwritable when it is not certain to be."""

    def close(self) -> None:
        """Let go of everything."""


class Publisher:
    """Sends what it is offered to all outlets, in a thread of its own."""

    def __init__(
        self, model: str, outlets: Sequence[Outlet], every_seconds: float, metrics: Metrics
    ) -> None:
        self.failure: AppError | None = None
        self._model, self._outlets, self._every_seconds = model, outlets, every_seconds
        self._metrics = metrics
        self._seldom = Seldom()
        self._offered: Published | None = None
        self._change = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
        for outlet in outlets:
            for outcome in ("sent", "failed"):
                metrics.snapshots_sent.labels(outlet.name, outcome)

    def start(self) -> None:
        """Begin in a thread."""
        self._thread.start()

    def offer(self, published: Published) -> None:
        """Have this sent, unless a newer one comes first. Never blocks."""
        with self._change:
            self._offered = published
            self._change.notify()

    def stop(self, timeout_seconds: float) -> None:
        """Send the last one, if there is time, and end."""
        with self._change:
            self._stopping = True
            self._change.notify()
        if self._thread.ident is not None:
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        try:
            while (published := self._next()) is not None:
                began = time.monotonic()
                self._send(published)
                self._pause(self._every_seconds - (time.monotonic() - began))
        except AppError as exc:
            self._fail(exc)
        except BaseException as exc:
            log.exception("publisher failed")
            self._fail(Unexpected(f"{type(exc).__name__}: {exc}"))
        finally:
            for outlet in self._outlets:
                outlet.close()

    def _fail(self, exc: AppError) -> None:
        self.failure = exc
        log.error(
            "publisher stopped, replicas get no more snapshots",
            kind=type(exc).__name__,
            reason=str(exc),
        )

    def _next(self) -> Published | None:
        """Return the newest that was offered and not sent; None at the end."""
        with self._change:
            while self._offered is None and not self._stopping:
                self._change.wait()
            published, self._offered = self._offered, None
            return published

    def _pause(self, seconds: float) -> None:
        """Wait, unless the end has come: the last one is to be sent at once."""
        deadline = time.monotonic() + seconds
        with self._change:
            while not self._stopping and (left := deadline - time.monotonic()) > 0:
                self._change.wait(left)

    def _send(self, published: Published) -> None:
        began = time.perf_counter()
        publication = uuid.uuid4().hex
        message = message_pieces(published, about(published, self._model, publication))
        waiting, patience = list(self._outlets), RETRY_FIRST_SECONDS
        while waiting:
            waiting = [outlet for outlet in waiting if not self._sent(outlet, message, publication)]
            if waiting and (self._offered is not None or self._stopping):
                return
            if waiting:
                self._pause(patience)
                patience = min(2 * patience, RETRY_MOST_SECONDS)
        self._metrics.snapshot_sent_bytes.set(sum(map(len, message)))
        self._metrics.snapshot_send_duration.observe(time.perf_counter() - began)

    def _sent(self, outlet: Outlet, message: Sequence[Piece], publication: str) -> bool:
        try:
            outlet.send(message, publication)
        except SnapshotUnwritable as exc:
            self._metrics.snapshots_sent.labels(outlet.name, "failed").inc()
            if self._seldom.due(outlet.name):
                log.error("snapshot not sent, trying again", outlet=outlet.name, reason=str(exc))
            return False
        self._metrics.snapshots_sent.labels(outlet.name, "sent").inc()
        return True


class Broadcasting(Serving):
    """A Serving that offers every snapshot to a Publisher too."""

    def __init__(self, publisher: Publisher, timeline: Timeline | None = None) -> None:
        super().__init__(timeline)
        self._publisher = publisher

    def publish(self, published: Published) -> None:
        """Make this the snapshot that every later request reads, here and at the replicas."""
        super().publish(published)
        self._publisher.offer(published)
