"""A tree, its decoder and its scores: records in, learned, the rest handed back with reasons.

No clock, no thread, no broker. Without a declared schema the first good events are held back until
there are enough to infer it from, and then take the same way as all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from app.binary import BinaryFormat, BinaryReader, RowLayout
from app.deadletter import Reason
from app.decode import Rejected, needs_care
from app.distributed.load import Executor
from app.distributed.spread import Spread
from app.envelope import NO_STAMP, Opened, open_all
from app.errors import DecodeError
from app.evaluation import Prequential
from app.event import features_of, label_of, weight_of
from app.format import EventFormat, JsonFormat
from app.json_reader import JsonReader
from app.log import get_logger
from app.reader import PlainReader, Reader, Rows
from app.registry import Registry
from app.settings import Settings
from app.source import Listed, Record
from learner import LONGEST_TEXT, Distant, Encoder, Kind, Schema, StreamingTree, VerticalTree

log = get_logger(__name__)

Floats = npt.NDArray[np.float64]

BATCH = 1000  # beyond this, decoding holds up the API's thread for too long
# Asking a message for its time takes as long as learning it: where a large batch, which has piled
# up, has but the broker's times, one in so many is asked.
LARGE = 256
STEP = 32
ROWS = 20_000  # of records that hold many, for the same reason; these are read much quicker
RARE = 0.05  # share of a feature's values below which a shape counts as an accident


class SetAside(NamedTuple):
    """A record that was not learned, and why."""

    record: Record
    reason: Reason
    id: object = None


@dataclass
class Outcome:
    """What became of a batch of records."""

    learned: int = 0
    tombstones: int = 0
    rejected: list[SetAside] = field(default_factory=list)
    times: Floats = field(default_factory=lambda: np.empty(0))  # Unix time, where known
    timed: int = 0  # events that these are the times of; more than there are: an even sample


class ReadElsewhere(Listed):
    """Records that another process has read, without their values; and what it found in them."""

    def __init__(self, records: Sequence[Record], events: Distant, outcome: Outcome) -> None:
        super().__init__(records)
        self.events, self.outcome = events, outcome


class Training:
    """The only writer of the tree; runs in the consumer's thread."""

    def __init__(
        self,
        settings: Settings,
        tree: StreamingTree | None = None,
        evaluation: Prequential | None = None,
        form: EventFormat | None = None,
        executor: Executor | None = None,
    ) -> None:
        self.settings = settings
        self._form = form or event_format(settings)
        self.evaluation = evaluation or Prequential(settings.evaluation.window)
        self._held_back: list[Record] = []
        self._examples: list[dict[str, Any]] = []
        self._reader: Reader | None = None
        self.tree: StreamingTree | None = None
        self.executor = executor  # of the tree's workers, if it has some
        if tree is not None:
            self._begin(tree)

    def waiting_for(self) -> str:
        """Return what is missing before the tree can learn, or ''."""
        if self.tree is not None:
            return ""
        wanted = self.settings.schema_.infer_from
        return f"inferring the schema: {len(self._examples)} of {wanted} events"

    def learn(self, records: Sequence[Record]) -> Outcome:
        """Learn records in their order; RegistryUnreachable comes before any is learned."""
        if isinstance(records, ReadElsewhere):
            return self._learn_elsewhere(records)
        outcome, opened = self._opened(records)
        if self.tree is None:
            opened = self._open(self._infer(opened, outcome))
        for part in opened.parts(self._records_at_once(opened)):
            self._learn_batch(part, outcome)
        return outcome

    def _records_at_once(self, opened: Opened) -> int:
        """Return how many records are read together: fewer where the first holds many events."""
        if not isinstance(self._form, BinaryFormat) or not opened.values:
            return BATCH
        width = self._form.layout.width
        return max(1, min(BATCH, ROWS * width // max(width, len(opened.values[0] or b""))))

    def check(self, records: Sequence[Record]) -> list[SetAside]:
        """Return the records that would be rejected now; nothing is learned.

        What a record brings along that is new (a class, a feature) is taken up by the encoder, as
        learning would: a training that checks is not one to learn with.
        """
        outcome, opened = self._opened(records)
        for part in opened.parts(BATCH):
            if self.tree is not None:
                self._read(part, outcome)
                continue
            for record, value in zip(part.records, part.values, strict=True):
                try:
                    self._features(self._form.read(value or b""))
                except DecodeError as exc:
                    outcome.rejected.append(SetAside(record, Reason("decode", exc)))
        return outcome.rejected

    def _opened(self, records: Sequence[Record]) -> tuple[Outcome, Opened]:
        """Take the events out of their envelopes; what cannot be opened is rejected."""
        opened = self._open(records)
        self._form.prepare(opened.values)
        rejected = [
            SetAside(record, Reason("decode", error), event_id)
            for record, error, event_id in opened.refused
        ]
        return Outcome(rejected=rejected), opened

    def _open(self, records: Sequence[Record]) -> Opened:
        return open_all(records, self._form, self.settings.event.max_bytes)

    def _learn_batch(self, opened: Opened, outcome: Outcome) -> None:
        if self.tree is None:
            return
        rows = self._read(opened, outcome)
        if not rows.labels.size:
            return
        predicted = np.empty(len(rows.labels), np.int32)
        self.tree.learn(rows.batch, rows.labels, rows.weights, predicted)
        self.evaluation.update(rows.labels, predicted)
        outcome.learned += len(rows.labels)
        times, timed = times_of(opened, rows)
        outcome.times = np.concatenate((outcome.times, times)) if outcome.timed else times
        outcome.timed += timed

    def _learn_elsewhere(self, records: ReadElsewhere) -> Outcome:
        """Learn events that were read in another process."""
        outcome = records.outcome
        if outcome.learned:
            assert isinstance(self.tree, VerticalTree)
            predicted = np.empty(outcome.learned, np.int32)
            self.tree.learn_distant(records.events, predicted)
            self.evaluation.update(records.events.events.y, predicted)
        return outcome

    def _read(self, opened: Opened, outcome: Outcome) -> Rows:
        """Return the events among the records."""
        assert self._reader is not None
        rows = self._reader.read(opened.values)
        outcome.tombstones += rows.tombstones
        outcome.rejected += [
            SetAside(opened.records[bad.place], Reason(bad.stage, bad.error), _id_of(bad, opened))
            for bad in rows.rejected
        ]
        return rows

    def _infer(self, opened: Opened, outcome: Outcome) -> Sequence[Record]:
        """Hold good events back; returns all of them, and what follows, once they suffice."""
        event, records = self.settings.event, opened.records
        for place, (record, value) in enumerate(zip(records, opened.values, strict=True)):
            if value is None:
                outcome.tombstones += 1
                continue
            found: dict[str, Any] = {}
            try:
                found = self._form.read(value)
                self._examples.append(self._features(found))
            except DecodeError as exc:
                bad = Rejected(place, exc, found.get(event.id_field) if event.id_field else None)
                aside = SetAside(record, Reason("decode", exc), _id_of(bad, opened))
                outcome.rejected.append(aside)
                continue
            self._held_back.append(record)
            if len(self._examples) >= self.settings.schema_.infer_from:
                held_back, self._held_back = self._held_back, []
                examples, self._examples = self._examples, []
                self._begin(new_tree(self.settings, infer_schema(self.settings, examples)))
                return [*held_back, *records[place + 1 :]]
        return []

    def _features(self, event: dict[str, Any]) -> dict[str, Any]:
        """Return the features of an event while no schema is known; raises DecodeError."""
        label_of(event, self.settings.event)
        weight_of(event, self.settings.event)
        return features_of(event, self.settings.event)

    def _begin(self, tree: StreamingTree) -> None:
        spread = Spread(tree, self.settings, self.executor)
        self.tree, self.executor = spread.tree, spread.executor
        self._reader = reader_for(tree.encoder, self.settings, self._form)

    def close(self) -> None:
        """End the tree's workers, if it has some; nothing can be learned any more."""
        if self.executor is not None:
            self.executor.close()


def event_format(settings: Settings) -> EventFormat:
    """Return what reads an event's bytes."""
    event = settings.event
    if event.format == "json":
        return JsonFormat(event.max_bytes)
    if event.format == "binary":
        return BinaryFormat(RowLayout.of(settings))
    from app.avro import AvroFormat  # needs the extra; the settings have made sure of it

    return AvroFormat(Registry(event.registry), event.max_bytes)


def reader_for(encoder: Encoder, settings: Settings, form: EventFormat) -> Reader:
    """Return the quickest reader of events of a form for what the encoder knows."""
    if isinstance(form, BinaryFormat):
        return BinaryReader(encoder, form.layout)
    plain = PlainReader(encoder, settings, form)
    by_record = needs_care(encoder, settings.event) or encoder.positions(Kind.SPARSE)
    if not isinstance(form, JsonFormat) or by_record:
        return plain
    return JsonReader(encoder, settings.event, plain)


def new_tree(settings: Settings, schema: Schema) -> StreamingTree:
    """Return an empty tree for a schema."""
    encoder = Encoder(
        schema,
        growing=settings.schema_.growing,
        max_values=settings.schema_.max_values,
        max_classes=settings.schema_.max_classes,
    )
    return StreamingTree(encoder, settings.variant, **settings.tree.given())


def infer_schema(settings: Settings, examples: Sequence[dict[str, Any]]) -> Schema:
    """Infer the schema; values of a shape that is rare for their feature have no say.

    Otherwise one broken event among the first ones would turn a numeric feature into a nominal
    one for good.
    """
    shapes: dict[str, Counter[str]] = {}
    for example in examples:
        for name, value in example.items():
            if value is not None:
                shapes.setdefault(name, Counter())[_shape(value)] += 1
    kept = _most_common(shapes, settings.schema_.max_features)
    usual = {name: _usual(shapes[name]) for name in kept}
    typical = [
        {name: value for name, value in example.items() if _shape(value) in usual.get(name, ())}
        for example in examples
    ]
    return Schema(Schema.infer(typical).features, tuple(settings.schema_.classes))


def _most_common(shapes: Mapping[str, Counter[str]], most: int) -> list[str]:
    """Return the features to take up: all, or the most common ones where they are too many."""
    names = [name for name in shapes if len(name) <= LONGEST_TEXT]
    if len(names) > most:
        log.warning("more features than schema.max_features", found=len(names), kept=most)
        names = sorted(names, key=lambda name: -shapes[name].total())[:most]
    return names


def _shape(value: object) -> str:
    if isinstance(value, list | dict):
        return "set"
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return "number" if number else "text"


def _usual(counts: Counter[str]) -> set[str]:
    """Return the shapes a feature really has: one that is no set, or sets alone."""
    total = counts.total()
    usual = {shape for shape, count in counts.items() if count >= RARE * total}
    if "set" in usual and len(usual) > 1:
        return {"set"} if counts["set"] * 2 > total else usual - {"set"}
    return usual


def _id_of(bad: Rejected, opened: Opened) -> object:
    """Return the event's own id, else its envelope's."""
    stamp = opened.stamps.get(bad.place)
    return stamp.id if bad.id is None and stamp is not None else bad.id


def times_of(opened: Opened, rows: Rows) -> tuple[Floats, int]:
    """Return when the learned events happened, and of how many of them this tells.

    Their own time goes before their envelope's, and that before the broker's.
    """
    own = rows.times
    if own is None and not opened.stamps and len(opened.records) >= LARGE:
        sample = opened.records.timestamps_ms(STEP) / 1000
        known = sample[sample > 0]
        return known, len(rows.labels) if known.size else 0
    times = opened.records.timestamps_ms()[rows.places] / 1000
    if opened.stamps:
        told = [opened.stamps.get(place, NO_STAMP).time for place in rows.places.tolist()]
        enveloped = np.array(told, np.float64)  # None becomes NaN
        times = np.where(np.isnan(enveloped), times, enveloped)
    if own is not None:
        times = np.where(np.isnan(own), times, own)
    known = times[times > 0]
    return known, len(known)
