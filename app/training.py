"""A tree, its decoder and its scores: records in, learned, the rest handed back with reasons.

No clock, no thread, no broker. Without a declared schema the first good events are held back until
there are enough to infer it from, and then take the same way as all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from app.deadletter import Reason
from app.decode import Decoded, Decoder, decoder_for
from app.errors import DecodeError
from app.evaluation import Prequential
from app.event import features_of, label_of, read_object, weight_of
from app.settings import Settings
from app.source import Record
from learner import Encoder, Schema, StreamingTree, UnknownLabel

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
    ) -> None:
        self.settings = settings
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
        """Learn records in their order."""
        outcome = Outcome()
        rest = records if self.tree is not None else self._infer(records, outcome)
        for start in range(0, len(rest), BATCH):
            self._learn_batch(rest[start : start + BATCH], outcome)
        return outcome

    def _learn_batch(self, records: Sequence[Record], outcome: Outcome) -> None:
        assert self.tree is not None
        assert self._decoder is not None
        decoded = self._decoder.decode([record.value for record in records])
        outcome.tombstones += decoded.tombstones
        outcome.rejected += [
            SetAside(records[bad.place], Reason("decode", bad.error), bad.id)
            for bad in decoded.rejected
        ]
        labels = self.tree.encoder.encode_labels(decoded.labels)
        if labels.size and labels.min() < 0:
            labels = self._refuse_labels(records, decoded, labels, outcome)
        if not labels.size:
            return
        predicted = np.empty(len(labels), np.int32)
        batch = self.tree.encoder.encode(decoded.rows)
        weights = np.array(decoded.weights) if decoded.weights else None
        self.tree.learn(batch, labels, weights, predicted)
        self.evaluation.update(labels, predicted)
        outcome.learned += len(labels)
        outcome.times = np.concatenate((outcome.times, _times(records, decoded)))

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
            error = UnknownLabel(
                f"label '{name}' is {decoded.labels[row]!r:.80}; expected one of the {most} known "
                "classes, as many as LIVETREE_SCHEMA__MAX_CLASSES allows"
            )
            outcome.rejected.append(SetAside(records[decoded.places[row]], Reason("learn", error)))
        decoded.places = [decoded.places[row] for row in keep]
        decoded.rows = [decoded.rows[row] for row in keep]
        decoded.weights = [decoded.weights[row] for row in keep] if decoded.weights else []
        decoded.times = [decoded.times[row] for row in keep] if decoded.times else []
        return labels[keep]

    def _infer(self, records: Sequence[Record], outcome: Outcome) -> Sequence[Record]:
        """Hold good events back; returns all of them, and what follows, once they suffice."""
        event = self.settings.event
        for place, record in enumerate(records):
            if record.value is None:
                outcome.tombstones += 1
                continue
            try:
                found = read_object(record.value, event.max_bytes)
                label_of(found, event)
                weight_of(found, event)
                self._examples.append(features_of(found, event))
            except DecodeError as exc:
                outcome.rejected.append(SetAside(record, Reason("decode", exc)))
                continue
            self._held_back.append(record)
            if len(self._examples) >= self.settings.schema_.infer_from:
                held_back, self._held_back = self._held_back, []
                examples, self._examples = self._examples, []
                self._begin(new_tree(self.settings, infer_schema(self.settings, examples)))
                return [*held_back, *records[place + 1 :]]
        return []

    def _begin(self, tree: StreamingTree) -> None:
        self.tree = tree
        self._decoder = decoder_for(tree.encoder, self.settings.event)


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
    usual = {name: _usual(counts) for name, counts in shapes.items()}
    typical = [
        {name: value for name, value in example.items() if _shape(value) in usual.get(name, ())}
        for example in examples
    ]
    return Schema(Schema.infer(typical).features, tuple(settings.schema_.classes))


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


def _times(records: Sequence[Record], decoded: Decoded) -> Floats:
    """Return when the learned events happened: their own time, else the broker's."""
    stamps = [records[place].timestamp_ms for place in decoded.places]
    times = np.array(stamps, np.float64) / 1000  # None becomes NaN
    if decoded.times:
        own = np.array(decoded.times, np.float64)
        times = np.where(np.isnan(own), times, own)
    return times[times > 0]
