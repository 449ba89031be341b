"""Builds the service once, from Settings, and is what the API and the commands hold on to."""

from __future__ import annotations

import importlib.metadata
import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from app.checkpoint import Checkpoint, CheckpointFolder, require_fit
from app.consumer import Consumer
from app.deadletter import DeadLetters, FileDeadLetters, KafkaDeadLetters, NoDeadLetters
from app.distributed.load import Executor
from app.errors import AppError, CheckpointMismatch, Unexpected
from app.evaluation import Prequential
from app.file_source import FileSource
from app.format import EventFormat
from app.history import NO_CHANGES, Changes
from app.kafka_source import KafkaSource
from app.log import get_logger
from app.mesh import MeshSource
from app.metrics import Metrics
from app.publisher import Broadcasting, Outlet, Publisher
from app.question import Questions
from app.replica import build_replica, timeline_of
from app.service import Loop, Service
from app.serving import Serving
from app.settings import Settings
from app.settings_file import declared_schema
from app.snapshot_folder import FolderOutlet
from app.snapshot_topic import TopicOutlet
from app.source import Source, Start
from app.training import Training, event_format, new_tree
from learner import LearnerError, StreamingTree

__all__ = ["Learner", "Service", "announce", "build"]

log = get_logger(__name__)


class Learner(Service):
    """One learner with everything round it: the roles `all` and `learner`."""

    def __init__(
        self,
        settings: Settings,
        serving: Serving,
        metrics: Metrics,
        consumer: Consumer,
        dead_letters: DeadLetters,
        checkpoints: CheckpointFolder | None,
        form: EventFormat | None = None,
        publisher: Publisher | None = None,
        new_source: Callable[[], Source] | None = None,
    ) -> None:
        super().__init__(settings, serving, metrics)
        self.consumer = consumer
        self._form = form
        self._dead_letters = dead_letters
        self._checkpoints = checkpoints
        self._publisher = publisher
        self._overdue: AppError | None = None
        self._new_source = new_source
        if new_source is not None and checkpoints is not None and settings.execution == "ray":
            consumer.restore = self._restored_again

    def start(self) -> None:
        """Take the checkpoint folder, load what it holds, and begin to learn."""
        log.info("starting", settings=self.settings.shown())
        if self._checkpoints is not None:
            self._checkpoints.acquire()
        restored = self._restored()
        if self._publisher is not None:
            self._publisher.start()
        self._started = True
        self.consumer.start(*restored)

    def _restored_again(self, executor: Executor | None) -> tuple[Source, Training, Start, Changes]:
        """Return the same for a learner that goes back, with a source to read it from."""
        assert self._new_source is not None
        training, start_at, before = self._restored(executor)
        return self._new_source(), training, start_at, before

    def _restored(self, executor: Executor | None = None) -> tuple[Training, Start, Changes]:
        """Return the state of the newest checkpoint, or that of a new beginning."""
        settings, folder = self.settings, self._checkpoints
        build = partial(self._training_of, executor=executor)
        restored = folder.restore(build) if folder is not None else None
        if folder is not None:
            self.metrics.checkpoints.labels("unreadable").inc(folder.unreadable)
        if restored is None:
            schema = declared_schema(settings.schema_)
            tree = new_tree(settings, schema) if schema is not None else None
            training = Training(settings, tree, form=self._form, executor=executor)
            return training, Start(), NO_CHANGES
        return restored

    def _training_of(
        self, checkpoint: Checkpoint, executor: Executor | None = None
    ) -> tuple[Training, Start, Changes]:
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
            executor,
        )
        start_at = Start(checkpoint.offsets, checkpoint.identity, checkpoint.topic_id)
        return training, start_at, checkpoint.changes

    def stop(self) -> None:
        """Stop learning, with a final checkpoint, and let go of everything."""
        self._shutting_down = True
        patience = self.settings.http.shutdown_seconds
        if not self.consumer.stop(patience):
            self._overdue = Unexpected(f"the consumer did not stop within {patience:g} seconds")
            log.error("consumer did not stop", seconds=patience)
            return
        if self._publisher is not None:
            self._publisher.stop(patience)
        self._dead_letters.close()
        if self._checkpoints is not None:
            self._checkpoints.release()

    def waiting_for(self) -> str:
        """Return what is missing before predictions can be answered."""
        return self.consumer.waiting_for() or "waiting for the first event"

    @property
    def questions(self) -> Questions:
        """What is asked of the tree that learns."""
        return self.consumer.questions

    @property
    def loop(self) -> Loop:
        """The thread that learns."""
        return self.consumer

    @property
    def failure(self) -> AppError | LearnerError | None:
        """Return what ended the consumer or the publisher; its policy has the exit code."""
        sending = self._publisher.failure if self._publisher is not None else None
        return self.consumer.failure or sending or self._overdue


def build(
    settings: Settings, *, source: Source | None = None, metrics: Metrics | None = None
) -> Service:
    """Return the service of a role, ready to start; touches neither broker nor disk."""
    metrics = metrics or Metrics()
    service = (
        build_replica(settings, metrics)
        if settings.role == "api"
        else _learner(settings, metrics, source)
    )
    announce(service)
    return service


def announce(service: Service) -> None:
    """Let the metrics of a service say what runs, and which snapshot answers."""
    metrics, settings = service.metrics, service.settings
    metrics.build_info.labels(_version(), settings.variant, settings.name).set(1)
    metrics.watch_snapshot(
        settings.name,
        lambda: _age_seconds(service.serving),
        lambda: _events(service.serving),
    )


def _learner(settings: Settings, metrics: Metrics, given: Source | None) -> Learner:
    source = given or _source(settings)
    new_source = None if given else partial(_source, settings)
    folder = settings.checkpoint
    checkpoints = CheckpointFolder(folder.folder, folder.keep) if folder.enabled else None
    dead_letters = _dead_letters(settings, source)
    publisher = _publisher(settings, metrics)
    timeline = timeline_of(settings)
    serving = Serving(timeline) if publisher is None else Broadcasting(publisher, timeline)
    consumer = Consumer(settings, source, dead_letters, serving, metrics, checkpoints)
    form = event_format(settings)
    return Learner(
        settings, serving, metrics, consumer, dead_letters, checkpoints, form, publisher, new_source
    )


def _publisher(settings: Settings, metrics: Metrics) -> Publisher | None:
    """Return what sends snapshots to replicas, where somebody wants them."""
    wanted = settings.snapshots
    if settings.role != "learner" and not wanted.publish:
        return None
    outlets: list[Outlet] = []
    if wanted.by_topic:
        outlets.append(TopicOutlet(settings))
    if wanted.by_folder:
        outlets.append(FolderOutlet(wanted.folder, settings.name))
    return Publisher(settings.name, outlets, wanted.every_seconds, metrics)


def _source(settings: Settings) -> Source:
    if settings.vht.ray.ingest:
        return MeshSource(settings)
    return FileSource(settings.file) if settings.source == "file" else KafkaSource(settings.kafka)


def _dead_letters(settings: Settings, source: Source) -> DeadLetters:
    wanted = settings.dead_letter
    if not wanted.enabled:
        return NoDeadLetters()
    if isinstance(source, KafkaSource | MeshSource):
        topic = settings.dead_letter_topic()
        return KafkaDeadLetters(settings.kafka, topic, wanted.timeout_seconds)
    if isinstance(source, FileSource):
        return FileDeadLetters(Path(f"{source.path}.dlq"))
    return NoDeadLetters()


def _age_seconds(serving: Serving) -> float:
    published = serving.current()
    return math.nan if published is None else max(0.0, time.time() - published.published_at)


def _events(serving: Serving) -> float:
    published = serving.current()
    return math.nan if published is None else float(published.snapshot.events)


def _version() -> str:
    try:
        return importlib.metadata.version("livetree")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
