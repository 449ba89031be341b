"""Builds the service once, from Settings, and is what the API and the commands hold on to."""

from __future__ import annotations

import importlib.metadata
import math
import time
from pathlib import Path

from app.checkpoint import Checkpoint, CheckpointFolder, require_fit
from app.consumer import Consumer
from app.deadletter import DeadLetters, FileDeadLetters, KafkaDeadLetters, NoDeadLetters
from app.errors import AppError, CheckpointMismatch, Unexpected
from app.evaluation import Prequential
from app.file_source import FileSource
from app.format import EventFormat
from app.history import NO_CHANGES, Changes
from app.kafka_source import KafkaSource
from app.log import get_logger
from app.metrics import Metrics
from app.serving import Serving
from app.settings import Settings
from app.settings_file import declared_schema
from app.source import Source, Start
from app.timeline import Timeline
from app.training import Training, event_format, new_tree
from learner import LearnerError, StreamingTree

log = get_logger(__name__)


class Service:
    """One learner with everything round it."""

    def __init__(
        self,
        settings: Settings,
        serving: Serving,
        metrics: Metrics,
        consumer: Consumer,
        dead_letters: DeadLetters,
        checkpoints: CheckpointFolder | None,
        form: EventFormat | None = None,
    ) -> None:
        self.settings = settings
        self._form = form
        self.serving = serving
        self.metrics = metrics
        self.consumer = consumer
        self.questions = consumer.questions
        self._dead_letters = dead_letters
        self._checkpoints = checkpoints
        self._started = False
        self._shutting_down = False
        self._overdue: AppError | None = None

    def start(self) -> None:
        """Take the checkpoint folder, load what it holds, and begin to learn."""
        log.info("starting", settings=self.settings.shown())
        if self._checkpoints is not None:
            self._checkpoints.acquire()
        restored = self._restored()
        self._started = True
        self.consumer.start(*restored)

    def _restored(self) -> tuple[Training, Start, Changes]:
        """Return the state of the newest checkpoint, or that of a new beginning."""
        settings, folder = self.settings, self._checkpoints
        restored = folder.restore(self._training_of) if folder is not None else None
        if folder is not None:
            self.metrics.checkpoints.labels("unreadable").inc(folder.unreadable)
        if restored is None:
            schema = declared_schema(settings.schema_)
            tree = new_tree(settings, schema) if schema is not None else None
            return Training(settings, tree, form=self._form), Start(), NO_CHANGES
        return restored

    def _training_of(self, checkpoint: Checkpoint) -> tuple[Training, Start, Changes]:
        settings = self.settings
        before = settings.shaping_before(checkpoint.shaping)
        require_fit(checkpoint, self.consumer.shaping, self.consumer.source.topic, before)
        tree = StreamingTree.from_bytes(checkpoint.model)
        if tree.variant != settings.variant:
            raise CheckpointMismatch(
                f"the model in the checkpoint is of variant '{tree.variant}'; "
                f"expected '{settings.variant}', as the checkpoint itself says"
            )
        training = Training(
            settings,
            tree,
            Prequential.from_dict(checkpoint.evaluation, settings.evaluation.window),
            self._form,
        )
        start_at = Start(checkpoint.offsets, checkpoint.identity, checkpoint.topic_id)
        return training, start_at, checkpoint.changes

    def begin_shutdown(self) -> None:
        """Stop being ready, so that no new requests are sent here; learning goes on."""
        self._shutting_down = True

    def stop(self) -> None:
        """Stop learning, with a final checkpoint, and let go of everything."""
        self._shutting_down = True
        patience = self.settings.http.shutdown_seconds
        if not self.consumer.stop(patience):
            self._overdue = Unexpected(f"the consumer did not stop within {patience:g} seconds")
            log.error("consumer did not stop", seconds=patience)
            return
        self._dead_letters.close()
        if self._checkpoints is not None:
            self._checkpoints.release()

    def ready(self) -> tuple[bool, str]:
        """Return whether predictions can be answered, and why not."""
        if self._shutting_down:
            return False, "shutting down"
        if self.failure is not None:
            return False, f"the learner failed: {self.failure}"
        if self.serving.current() is not None:
            return True, "ready"
        if not self._started:
            return False, "starting"
        return False, self.consumer.waiting_for() or "waiting for the first event"

    def alive(self) -> bool:
        """Return whether the consumer makes progress, or has not been started yet."""
        if self.failure is not None:
            return False
        if not self._started or self._shutting_down:
            return True
        silent = time.monotonic() - self.consumer.heartbeat
        return self.consumer.running and silent < self.settings.http.stalled_after_seconds

    @property
    def failure(self) -> AppError | LearnerError | None:
        """Return what ended the consumer; its policy has the exit code."""
        return self.consumer.failure or self._overdue


def build(
    settings: Settings, *, source: Source | None = None, metrics: Metrics | None = None
) -> Service:
    """Return a service that is ready to start; touches neither broker nor disk."""
    metrics = metrics or Metrics()
    look_back = settings.timeline
    serving = Serving(Timeline(look_back.keep, look_back.every_seconds, look_back.max_bytes))
    folder = settings.checkpoint
    checkpoints = CheckpointFolder(folder.folder, folder.keep) if folder.enabled else None
    own_source = source or _source(settings)
    dead_letters = _dead_letters(settings, own_source)
    consumer = Consumer(settings, own_source, dead_letters, serving, metrics, checkpoints)
    metrics.build_info.labels(_version(), settings.variant, settings.name).set(1)
    metrics.watch_snapshot_age(lambda: _age_seconds(serving))
    form = event_format(settings)
    return Service(settings, serving, metrics, consumer, dead_letters, checkpoints, form)


def _source(settings: Settings) -> Source:
    return FileSource(settings.file) if settings.source == "file" else KafkaSource(settings.kafka)


def _dead_letters(settings: Settings, source: Source) -> DeadLetters:
    wanted = settings.dead_letter
    if not wanted.enabled:
        return NoDeadLetters()
    if isinstance(source, KafkaSource):
        topic = settings.dead_letter_topic()
        return KafkaDeadLetters(settings.kafka, topic, wanted.timeout_seconds)
    if isinstance(source, FileSource):
        return FileDeadLetters(Path(f"{source.path}.dlq"))
    return NoDeadLetters()


def _age_seconds(serving: Serving) -> float:
    published = serving.current()
    return math.nan if published is None else max(0.0, time.time() - published.published_at)


def _version() -> str:
    try:
        return importlib.metadata.version("livetree")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
