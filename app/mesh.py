"""A source that another process reads: an ingest actor on Ray (`vht.ray.ingest`).

The actor polls Kafka and decodes, as the learner does otherwise, cuts the events into columns and
leaves these for the workers. The learner still decides what counts: it takes the batches in their
order, and its checkpoint holds the offsets behind the last one that it has learned. So the actor
may be ahead, or die: another one reads from the checkpoint's offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from app.binary import BinaryReader
from app.kafka_source import KafkaSource
from app.reader import Floats
from app.settings import Settings
from app.settings_file import declared_schema
from app.source import Record, Start
from app.training import Outcome, ReadElsewhere, Training, new_tree, times_of
from learner import Events, VerticalTree

if TYPE_CHECKING:
    from app.distributed.ray_mesh import MeshBatch, RayMesh


class Note(NamedTuple):
    """What the actor tells of a batch, and of the source behind it."""

    records: int
    last: Record | None  # without its value
    outcome: Outcome
    infinite: int  # numbers that count as missing
    positions: dict[int, int]
    identity: str | None
    topic_id: str | None
    lag: dict[int, int]
    connected: bool
    resets: int


class Reading(Training):
    """Decodes records, and learns nothing: this is what the actor runs."""

    def __init__(self, settings: Settings, start: Start) -> None:
        schema = declared_schema(settings.schema_)
        assert schema is not None  # the settings have made sure of it
        alone = settings.model_copy(update={"execution": "local", "variant": "vfdt"})
        super().__init__(alone, new_tree(alone, schema))
        self._source = KafkaSource(settings.kafka)
        self._source.open(start)

    def __iter__(self) -> Iterator[tuple[Events, Note]]:
        return self

    def __next__(self) -> tuple[Events, Note]:
        """Poll once; there may be nothing."""
        records = self._source.poll(self.settings.kafka.poll_batch)
        outcome, opened = self._opened(records)
        rows = self._read(opened, outcome)
        outcome.learned = len(rows.labels)
        if outcome.learned:
            outcome.times, outcome.timed = times_of(opened, rows)
        weights = rows.weights if rows.weights is not None else np.zeros(0)
        return Events.of(rows.batch, rows.labels, weights), self._note(records, outcome)

    def write_into(self, empty: Callable[[tuple[int, int]], Floats]) -> None:
        """Have numbers read into memory that others share."""
        assert isinstance(self._reader, BinaryReader)
        self._reader.empty = empty

    def hear(self, offsets: Mapping[int, int]) -> None:
        """Tell lag tools how far a durable checkpoint is."""
        self._source.commit(offsets)

    def _note(self, records: Sequence[Record], outcome: Outcome) -> Note:
        source, tree = self._source, self.tree
        assert tree is not None
        infinite, tree.encoder.rejected_values = tree.encoder.rejected_values, 0
        last = records[-1]._replace(key=None, value=None, headers=None) if records else None
        return Note(
            len(records), last, outcome, infinite, source.positions(), source.identity(),
            source.topic_id, source.lag(), source.connected, source.resets,
        )  # fmt: skip


class MeshSource:
    """Batches of an ingest actor, as a source whose records are read already."""

    def __init__(self, settings: Settings) -> None:
        self.topic = settings.kafka.topic
        self.resets = 0
        self.connected = False
        self.topic_id: str | None = None
        self._settings = settings
        self._identity: str | None = None
        self._positions: dict[int, int] = {}
        self._lag: dict[int, int] = {}
        self._tree: VerticalTree | None = None
        self._nodes: tuple[str, ...] = ()  # that its workers run on
        self._mesh: RayMesh | None = None
        self._batches: Iterator[MeshBatch] = iter(())

    def serve(self, training: Training) -> None:
        """Bring the columns that its tree tests, and cut all for its workers."""
        assert isinstance(training.tree, VerticalTree)
        assert training.executor is not None
        self._tree, self._nodes = training.tree, training.executor.load().nodes

    def open(self, start: Start) -> None:
        """Have an actor begin there."""
        from app.distributed.ray_mesh import RayMesh  # needs the extra

        assert self._tree is not None
        self._positions, self._identity = dict(start.offsets), start.identity
        self.topic_id = start.topic_id
        reading: Any = partial(Reading, self._settings, start)
        ray, shares = self._settings.vht.ray, self._tree.shares
        self._mesh = RayMesh(ray, reading, shares, self._nodes)
        self._batches = self._mesh.batches(self._tree)

    def poll(self, limit: int) -> Sequence[Record]:  # noqa: ARG002 (the actor's own setting)
        """Return the next batch; the one before is learned."""
        batch = next(self._batches)
        note: Note = batch.note
        self._positions, self._identity, self.topic_id = note.positions, *note[5:7]
        self._lag, self.connected, self.resets = note.lag, note.connected, note.resets
        if note.last is None:
            return []
        assert self._tree is not None
        self._tree.encoder.rejected_values += note.infinite
        return ReadElsewhere([note.last] * note.records, batch, note.outcome)

    def positions(self) -> dict[int, int]:
        """Return for each partition the offset behind the last batch that was polled here."""
        return dict(self._positions)

    def identity(self) -> str | None:
        """Return the cluster's id."""
        return self._identity

    def lag(self) -> dict[int, int]:
        """Return how much waits behind the position."""
        return dict(self._lag)

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Have the actor tell lag tools."""
        if self._mesh is not None:
            self._mesh.word = dict(offsets)

    def close(self) -> None:
        """End the actor."""
        if self._mesh is not None:
            self._mesh.close()
            self._mesh = None
