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

from app.deadletter import Reason
from app.decode import Decoded, Decoder, Rejected, decoder_for
from app.envelope import NO_STAMP, Opened, open_all
from app.errors import DecodeError
from app.evaluation import Prequential
from app.event import features_of, label_of, short, weight_of
from app.format import EventFormat, JsonFormat
from app.log import get_logger
from app.registry import Registry
from app.settings import EventSettings, Settings
from app.source import Record
from learner import LONGEST_TEXT, Encoder, Schema, StreamingTree, UnknownLabel

log = get_logger(__name__)

Floats = npt.NDArray[np.float64]

BATCH = 1000  # beyond this, decoding holds up the API's thread for too long
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


class Training:
    """The only writer of the tree; runs in the consumer's thread."""

    def __init__(
        self,
        settings: Settings,
        tree: StreamingTree | None = None,
        evaluation: Prequential | None = None,
        form: EventFormat | None = None,
    ) -> None:
        self.settings = settings
        self._form = form or event_format(settings.event)
        self.evaluation = evaluation or Prequential(settings.evaluation.window)
        self._held_back: list[Record] = []
        self._examples: list[dict[str, Any]] = []
        self._decoder: Decoder | None = None
        self.tree: StreamingTree | None = None
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
        outcome, opened = self._opened(records)
        if self.tree is None:
            opened = self._open(self._infer(opened, outcome))
        for part in opened.parts(BATCH):
            self._learn_batch(part, outcome)
        return outcome

    def check(self, records: Sequence[Record]) -> list[SetAside]:
        """Return the records that would be rejected now; nothing is learned.

        What a record brings along that is new (a class, a feature) is taken up by the encoder, as
        learning would: a training that checks is not one to learn with.
        """
        outcome, opened = self._opened(records)
        for part in opened.parts(BATCH):
            if self.tree is not None:
                self._decode(part, outcome)
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
        decoded, labels = self._decode(opened, outcome)
        if not labels.size:
            return
        predicted = np.empty(len(labels), np.int32)
        batch = self.tree.encoder.encode(decoded.rows)
        weights = np.array(decoded.weights) if decoded.weights else None
        self.tree.learn(batch, labels, weights, predicted)
        self.evaluation.update(labels, predicted)
        outcome.learned += len(labels)
        outcome.times = np.concatenate((outcome.times, _times(opened, decoded)))

    def _decode(self, opened: Opened, outcome: Outcome) -> tuple[Decoded, npt.NDArray[np.int32]]:
        """Return the events among the records, and their classes."""
        assert self.tree is not None
        assert self._decoder is not None
        records = opened.records
        decoded = self._decoder.decode(opened.values)
        outcome.tombstones += decoded.tombstones
        outcome.rejected += [
            SetAside(records[bad.place], Reason("decode", bad.error), _id_of(bad, opened))
            for bad in decoded.rejected
        ]
        labels = self.tree.encoder.encode_labels(decoded.labels)
        if labels.size and labels.min() < 0:
            labels = self._refuse_labels(records, decoded, labels, outcome)
        return decoded, labels

    def _refuse_labels(
        self,
        records: Sequence[Record],
        decoded: Decoded,
        labels: npt.NDArray[np.int32],
        outcome: Outcome,
    ) -> npt.NDArray[np.int32]:
        """Take the events out whose class would be one too many."""
        name, most = self.settings.event.label_field, self.settings.schema_.max_classes
        keep = [row for row, code in enumerate(labels) if code >= 0]
        for row in np.flatnonzero(labels < 0):
            label = decoded.labels[row]
            expected = (
                f"one of the {most} known classes, as many as LIVETREE_SCHEMA__MAX_CLASSES allows"
            )
            if isinstance(label, str) and len(label) > LONGEST_TEXT:
                expected = f"a known class, or a new one of at most {LONGEST_TEXT} characters"
            error = UnknownLabel(f"label '{name}' is {short(label)}; expected {expected}")
            outcome.rejected.append(SetAside(records[decoded.places[row]], Reason("learn", error)))
        decoded.places = [decoded.places[row] for row in keep]
        decoded.rows = [decoded.rows[row] for row in keep]
        decoded.weights = [decoded.weights[row] for row in keep] if decoded.weights else []
        decoded.times = [decoded.times[row] for row in keep] if decoded.times else []
        return labels[keep]

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
        self.tree = tree
        most = self.settings.schema_.max_features
        self._decoder = decoder_for(tree.encoder, self.settings.event, most, self._form)


def event_format(event: EventSettings) -> EventFormat:
    """Return what reads an event's bytes."""
    if event.format == "json":
        return JsonFormat(event.max_bytes)
    from app.avro import AvroFormat  # needs the extra; the settings have made sure of it

    return AvroFormat(Registry(event.registry), event.max_bytes)


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


def _times(opened: Opened, decoded: Decoded) -> Floats:
    """Return when the learned events happened: their own time, their envelope's, the broker's."""
    stamps = [opened.records[place].timestamp_ms for place in decoded.places]
    times = np.array(stamps, np.float64) / 1000  # None becomes NaN
    if opened.stamps:
        told = [opened.stamps.get(place, NO_STAMP).time for place in decoded.places]
        enveloped = np.array(told, np.float64)
        times = np.where(np.isnan(enveloped), times, enveloped)
    if decoded.times:
        own = np.array(decoded.times, np.float64)
        times = np.where(np.isnan(own), times, own)
    return times[times > 0]
