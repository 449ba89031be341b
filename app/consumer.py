"""The loop that learns: poll, learn, set aside, publish, checkpoint.

Runs in a thread of its own, the only writer of the tree and the only user of the source. Of a
checkpoint it only takes the copy; another thread writes it while the loop learns on, until so many
events have come that the next one is due. It ends by the stop flag, with a final checkpoint, or by
a failure, which it records and announces; a dead loop never looks alive.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import NamedTuple

from app.checkpoint import Checkpoint, CheckpointFolder
from app.deadletter import DeadLetters, NoDeadLetters
from app.distributed.load import Executor
from app.errors import AppError, CheckpointUnwritable, RegistryUnreachable, Unexpected
from app.handover import Handover
from app.history import Changes, History
from app.log import Seldom, get_logger
from app.mesh import MeshSource
from app.metrics import Metrics
from app.question import Questions
from app.serving import Published, Serving
from app.settings import Settings
from app.source import Record, Source, Start
from app.telemetry import Telemetry
from app.training import Training
from learner import LearnerError, WorkerLost

log = get_logger(__name__)

# Taking snapshots may use at most about this share of the consumer's time. A snapshot costs what
# changed, so this is felt only where nearly all of a huge tree changes from one to the next.
PUBLISH_SHARE = 0.1

# A checkpoint that failed is tried again so much later, and each time twice as much later.
RETRY_FIRST_SECONDS = 1.0
RETRY_MOST_SECONDS = 60.0

# Of the time there is for the end: waiting for dead letters must leave some for saying so.
END_SHARE = 0.8


class Consumer:
    """Feeds one Training from one Source."""

    def __init__(
        self,
        settings: Settings,
        source: Source,
        dead_letters: DeadLetters,
        serving: Serving,
        metrics: Metrics,
        checkpoints: CheckpointFolder | None = None,
    ) -> None:
        self.settings = settings
        self.source = source
        self.shaping = settings.tree_shaping()  # once: it may read the schema's file
        self.training = Training(settings)
        self.questions = Questions()  # answered between two batches
        self.failure: AppError | LearnerError | None = None
        self.heartbeat = time.monotonic()  # when the loop last came round
        self.on_failure: Callable[[], None] = lambda: None
        self.restore: Restore | None = None  # how to go back to the checkpoint, where one can
        self._dead_letters = dead_letters
        self._serving = serving
        self._metrics = metrics
        self._checkpoints = checkpoints
        self._telemetry = Telemetry(metrics, settings.name)
        self._history = History(settings.history.keep)
        self._seldom = Seldom()
        self._start_at = Start()
        self._waiting: Sequence[Record] = []  # polled, but their schemas cannot be had yet
        self._kept: dict[int, int] = {}  # offsets of the newest checkpoint
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._writing: _Writing | None = None  # a checkpoint, one at a time
        self._losses = 0  # of workers, since the last checkpoint
        self._stopping = threading.Event()
        self._stop_by = math.inf  # on the monotonic clock
        self._thread = threading.Thread(target=self._run, name="consumer", daemon=True)
        publish, checkpoint = settings.publish, settings.checkpoint
        self._publish = _Due(publish.every_seconds, publish.every_events)
        self._checkpoint = _Due(checkpoint.every_seconds, checkpoint.every_events)
        self._checkpoint.done()  # the first one is due after its interval, a snapshot at once

    def start(self, training: Training, start_at: Start, before: Changes | None = None) -> None:
        """Begin in a thread, from a checkpoint's state, with the changes before, or from none."""
        self._stand_at(training, start_at, before)
        self.heartbeat = time.monotonic()
        self._thread.start()

    def _stand_at(self, training: Training, start_at: Start, before: Changes | None) -> None:
        self.training, self._start_at = training, start_at
        self._history = History(self.settings.history.keep, before)
        self._kept = dict(start_at.offsets)
        self._telemetry.resume(training)

    def stop(self, timeout_seconds: float | None = None) -> bool:
        """Ask the loop to end and wait for its final checkpoint; False when it did not in time."""
        if timeout_seconds is not None:
            self._stop_by = time.monotonic() + END_SHARE * timeout_seconds
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
            self._consume()
        except (AppError, LearnerError) as exc:
            self._fail(exc)
        except BaseException as exc:
            self._fail(Unexpected(f"{type(exc).__name__}: {exc}"))
            log.exception("consumer failed")
        finally:
            self._writer.shutdown()  # waits: the folder is let go after this thread
            self.training.close()
            self.source.close()

    def _consume(self) -> None:
        """All batches, then a last snapshot and checkpoint."""
        self._open_source()
        self._publish_now()
        while not self._stopping.is_set():
            self.heartbeat = time.monotonic()
            try:
                self._take_batch()
            except WorkerLost as exc:
                self._go_back(exc)
        self._publish_now()
        if self._writing is not None:
            self._end_checkpoint(self._writing)
        if self._checkpoint.pending:
            self._begin_checkpoint()
            if self._writing is not None:
                self._end_checkpoint(self._writing, final=True)

    def _take_batch(self) -> None:
        """Every step of a record's life, in order."""
        records = self._waiting or self.source.poll(self.settings.kafka.poll_batch)
        self._learn(records)
        self.questions.answer(self.training.tree)
        if not records and not self._checkpoint.pending and self._moved():
            self._checkpoint.add(1)
        if self._publish.due():
            self._publish_now()
        if self._writing is not None and (self._writing.written.done() or self._checkpoint.enough):
            self._end_checkpoint(self._writing)
        if self._writing is None and self._checkpoint.due():
            self._begin_checkpoint()
        self._telemetry.tick(self.source, self.training)

    def _go_back(self, lost: WorkerLost) -> None:
        """Have workers go on from the checkpoint, as a restart would; the API answers meanwhile.

        Raises what was lost where that has not helped a few times, or cannot be done.
        """
        if self._writing is not None:
            self._end_checkpoint(self._writing)
        workers, executor = self.settings.vht.ray, self.training.executor
        while True:
            self._losses += 1
            if self.restore is None or self._losses > workers.recoveries:
                raise lost
            log.error("worker lost, going back to the checkpoint", reason=str(lost))
            self._metrics.vht_recoveries.labels(self.settings.name).inc()
            self.heartbeat = time.monotonic() + workers.start_seconds
            try:
                source, training, start_at, before = self.restore(executor)
                break
            except WorkerLost as exc:
                lost, executor = exc, None  # this one is closed; the next is a new one
                self._stopping.wait(RETRY_FIRST_SECONDS)
        self.source.close()
        source.resets = self.source.resets
        self.source, self._waiting = source, []
        self._stand_at(training, start_at, before)
        self._checkpoint.begun()
        self._checkpoint.done()
        self._open_source()
        self._publish_now()

    def _open_source(self) -> None:
        if isinstance(self.source, MeshSource):
            self.source.serve(self.training)
        self.source.open(self._start_at)

    def _learn(self, records: Sequence[Record]) -> None:
        if not records:
            return
        started = time.perf_counter()
        try:
            outcome = self.training.learn(records)
        except RegistryUnreachable as exc:
            self._wait(records, exc)
            return
        self._waiting = []
        seconds = time.perf_counter() - started
        kept = not isinstance(self._dead_letters, NoDeadLetters)
        for aside in outcome.rejected:
            self._dead_letters.send(aside.record, aside.reason)
            self._telemetry.rejected(aside, kept=kept)
        self._telemetry.batch(self.source.topic, records, outcome, seconds)
        self._note_changes()
        self._publish.add(outcome.learned)
        self._checkpoint.add(len(records))

    def _note_changes(self) -> None:
        """Write down what the batch did to the tree."""
        tree = self.training.tree
        if tree is None:
            return
        changes, skipped = tree.take_splits(), tree.take_unlogged()
        if changes or skipped:
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            self._history.add(changes, self._named_positions(), now, skipped)
            self._telemetry.changes(changes)

    def _wait(self, records: Sequence[Record], exc: RegistryUnreachable) -> None:
        """Keep the records for the next round: the registry's absence is no fault of theirs."""
        self._waiting = records
        if self._seldom.due("registry"):
            log.warning("waiting for the schema registry", reason=str(exc))
        self._stopping.wait(exc.pause_seconds)

    def waiting_for(self) -> str:
        """Return what is missing before the tree can learn, or ''."""
        return "waiting for the schema registry" if self._waiting else self.training.waiting_for()

    def _positions(self) -> dict[int, int]:
        """Return the next offset to learn of each partition: that of a record that waits."""
        first = {record.partition: record.offset for record in reversed(self._waiting)}
        return self.source.positions() | first

    def _named_positions(self) -> dict[str, int]:
        """Return the same by the names of the partitions."""
        return {f"{self.source.topic}-{p}": o for p, o in self._positions().items()}

    def _moved(self) -> bool:
        """Whether offsets went by that no record had, and no checkpoint has or gets them.

        Otherwise the broker might drop them, and a restart would miss what never was an event.
        """
        tree = self.training.tree
        if self._checkpoints is None or tree is None or not tree.counters().events:
            return False
        kept = self._kept if self._writing is None else self._writing.checkpoint.offsets
        return any(at > kept.get(p, -1) for p, at in self._positions().items())

    def _publish_now(self) -> None:
        """Swap in a snapshot of what is learned; none before the first event."""
        tree = self.training.tree
        if tree is None or not tree.counters().events:
            return
        started = time.perf_counter()
        offsets, changes = self._named_positions(), self._history.changes()
        snapshot, scores = tree.snapshot(), self.training.evaluation.scores()
        window = self.settings.evaluation.window
        self._serving.publish(
            Published(snapshot, time.time(), offsets, *scores, changes, window_events=window)
        )
        seconds = time.perf_counter() - started
        self._publish.begun()
        self._publish.done(at_least_seconds=seconds / PUBLISH_SHARE)
        self._metrics.snapshots_published.labels(self.settings.name).inc()
        self._metrics.snapshot_publish_duration.observe(seconds)

    def _begin_checkpoint(self) -> None:
        """Make rejected records safe, then copy the model with its offsets and have it written."""
        tree = self.training.tree
        started = time.perf_counter()
        self._dead_letters.flush(self._may_wait)
        self._checkpoint.begun()
        if self._checkpoints is None or tree is None:
            self._checkpoint.done()
            return
        copying = time.perf_counter()
        pieces, copied = tree.to_pieces(), Handover()
        checkpoint = Checkpoint.taken(
            model=copied,
            offsets=self._positions(),
            topic=self.source.topic,
            identity=self.source.identity(),
            topic_id=self.source.topic_id,
            events=tree.counters().events,
            shaping=self.shaping,
            evaluation=self.training.evaluation.to_dict(),
            changes=self._history.changes(),
        )
        written = self._writer.submit(_write, self._checkpoints, checkpoint, started)
        self._writing = _Writing(checkpoint, written)
        copied.fill(pieces)  # the first of them are being written by now
        self._metrics.checkpoint_pause.observe(time.perf_counter() - copying)

    def _end_checkpoint(self, writing: _Writing, *, final: bool = False) -> None:
        """Wait until it is written, if it is not yet; tell the broker how far it reaches."""
        self._writing, checkpoint = None, writing.checkpoint
        try:
            size, seconds = writing.written.result()
        except CheckpointUnwritable as exc:
            # Nothing is lost: the records are still in the log, and the next attempt comes.
            self._metrics.checkpoints.labels("failed").inc()
            later = None if final else self._checkpoint.failed()
            log.error("checkpoint not written", reason=str(exc), next_attempt_seconds=later)
            if final:
                raise
            return
        self._kept, self._losses = dict(checkpoint.offsets), 0
        self._checkpoint.done()
        self.source.commit(self._kept)
        self._metrics.checkpoints.labels("written").inc()
        self._metrics.checkpoint_duration.observe(seconds)
        self._metrics.checkpoint_size.set(size)
        self._metrics.checkpoint_last_success.set(time.time())
        log.info(
            "checkpoint written", events=checkpoint.events, size_bytes=size, offsets=self._kept
        )

    def _may_wait(self) -> bool:
        """Say that the loop waits and is alive; False: the process must end."""
        self.heartbeat = time.monotonic()
        return self.heartbeat < self._stop_by

    def _fail(self, exc: AppError | LearnerError) -> None:
        self.failure = exc
        log.error("consumer stopped", kind=type(exc).__name__, reason=str(exc))
        self.on_failure()


# With the workers of before, where they still can: a source, and what is learned of it.
Restore = Callable[[Executor | None], tuple[Source, Training, Start, Changes]]


class _Writing(NamedTuple):
    """A checkpoint on its way to the disk."""

    checkpoint: Checkpoint
    written: Future[tuple[int, float]]  # bytes, seconds


def _write(folder: CheckpointFolder, checkpoint: Checkpoint, started: float) -> tuple[int, float]:
    """Return the size of the file and the seconds since the checkpoint was begun."""
    return folder.save(checkpoint), time.perf_counter() - started


class _Due:
    """Whether something is to be done again: so much later or so many events later."""

    def __init__(self, every_seconds: float, every_events: int) -> None:
        self._every_seconds, self._every_events = every_seconds, every_events
        self._next = 0.0
        self._not_before = 0.0  # after a failure, whatever the number of events
        self._patience = RETRY_FIRST_SECONDS
        self.pending = 0  # events since the last time
        self._begun = 0  # of those before, in what is being done

    def add(self, events: int) -> None:
        self.pending += events

    def due(self) -> bool:
        if not self.pending:
            return False
        now = time.monotonic()
        return (self.enough or now >= self._next) and now >= self._not_before

    @property
    def enough(self) -> bool:
        """Whether no more events may go by, whatever the time is."""
        return 0 < self._every_events <= self.pending

    def begun(self) -> None:
        """Count from here; what was counted comes back if this fails."""
        self._begun, self.pending = self.pending, 0

    def done(self, at_least_seconds: float = 0.0) -> None:
        self._begun = 0
        self._next = time.monotonic() + max(self._every_seconds, at_least_seconds)
        self._not_before, self._patience = 0.0, RETRY_FIRST_SECONDS

    def failed(self) -> float:
        """Try again soon, and later each time; returns in how many seconds."""
        self.pending, self._begun = self.pending + self._begun, 0
        seconds = self._patience
        self._next = self._not_before = time.monotonic() + seconds
        self._patience = min(2 * seconds, RETRY_MOST_SECONDS)
        return seconds
