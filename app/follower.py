"""The loop of a replica: wait for a snapshot, check it, answer from it.

Runs in a thread of its own, the only user of the inlet. Whatever is wrong with a snapshot or with
the way it comes, the one before stays: a replica that has answered goes on answering.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from app.errors import AppError, SnapshotRefused, Unexpected, policy_of
from app.log import Seldom, get_logger
from app.metrics import Metrics
from app.serving import Published, Serving
from app.snapshot_message import MessageReader

log = get_logger(__name__)

POLL_SECONDS = 0.2
REFUSALS = ("foreign_snapshot", "snapshot_format", "snapshot_damaged", "snapshot_incomplete")


class Inlet(Protocol):
    """A way from the learner."""

    connected: bool

    def poll(self, seconds: float) -> memoryview | None:
        """Return the newest message as a whole, or None after so long; raises SnapshotRefused."""

    def take_refused(self) -> list[SnapshotRefused]:
        """Return what was passed over since the last call."""

    def close(self) -> None:
        """Let go of everything."""


class Follower:
    """Feeds one Serving from one Inlet."""

    def __init__(
        self,
        inlet: Callable[[], Inlet],
        reader: MessageReader,
        serving: Serving,
        metrics: Metrics,
        on_message: Callable[[memoryview], None] = lambda _: None,  # once it answers
    ) -> None:
        self.failure: AppError | None = None
        self.heartbeat = time.monotonic()  # when the loop last came round
        self._new_inlet, self._reader, self._serving = inlet, reader, serving
        self._metrics = metrics
        self._on_message = on_message
        self._seldom = Seldom()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        for reason in REFUSALS:
            metrics.snapshots_refused.labels(reason)

    def start(self) -> None:
        """Begin in a thread."""
        self.heartbeat = time.monotonic()
        self._thread.start()

    def look_once(self) -> None:
        """Take what is there already, before the thread begins."""
        inlet = self._new_inlet()
        self._step(inlet, 0.0)
        inlet.close()

    def stop(self, timeout_seconds: float | None = None) -> bool:
        """Ask the loop to end; False when it did not in time."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    @property
    def running(self) -> bool:
        """Whether the thread lives."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            inlet = self._new_inlet()
            try:
                while not self._stopping.is_set():
                    self.heartbeat = time.monotonic()
                    self._step(inlet, POLL_SECONDS)
            finally:
                inlet.close()
        except AppError as exc:
            self._fail(exc)
        except BaseException as exc:
            log.exception("follower failed")
            self._fail(Unexpected(f"{type(exc).__name__}: {exc}"))

    def _step(self, inlet: Inlet, seconds: float) -> None:
        """Wait for one snapshot; take it, or refuse it and say why."""
        try:
            message = inlet.poll(seconds)
            if message is not None:
                self._take(message)
        except SnapshotRefused as exc:
            self._refuse(exc)
        for passed_over in inlet.take_refused():
            self._refuse(passed_over)
        self._metrics.snapshot_source_connected.set(inlet.connected)

    def _take(self, message: memoryview) -> None:
        began = time.perf_counter()
        published = self._reader.read(message)
        before = self._serving.current()
        self._serving.publish(published)
        self._on_message(message)
        self._metrics.snapshots_received.inc()
        self._metrics.snapshot_received_bytes.inc(len(message))
        self._metrics.snapshot_read_duration.observe(time.perf_counter() - began)
        self._metrics.snapshot_delivery.observe(max(0.0, time.time() - published.published_at))
        self._tell(before, published)

    def _tell(self, before: Published | None, published: Published) -> None:
        """Log the first one, and one that has learned less: its learner began anew."""
        said = {"snapshot": published.snapshot.id, "offsets": dict(published.offsets)}
        if before is None:
            log.info("first snapshot", **said)
        elif published.snapshot.events < before.snapshot.events:
            log.warning("the learner went back", before=before.snapshot.id, **said)

    def _refuse(self, exc: SnapshotRefused) -> None:
        reason = policy_of(exc).reason
        self._metrics.snapshots_refused.labels(reason).inc()
        if self._seldom.due(reason):
            log.warning("snapshot refused, the one before stays", kind=reason, reason=str(exc))

    def _fail(self, exc: AppError) -> None:
        self.failure = exc
        log.error("follower stopped", kind=type(exc).__name__, reason=str(exc))
