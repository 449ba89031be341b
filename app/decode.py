"""Bytes to rows: every record is an event or is set aside with its reason. Pure.

The quick way is one compiled msgspec decoder of a Struct made from the schema (0.6 us a record);
in Avro, one conversion to that Struct.
Where it refuses a record, the record is read again as a plain object, only to say what is wrong
with it by name and value. A growing schema has no fixed Struct and always takes the plain way, and
so does one with a name that a Struct cannot have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec.structs import astuple

from app.errors import DecodeError
from app.event import (
    NEEDS_ESCAPE,
    TYPES,
    JsonValue,
    bad_weight,
    check_features,
    features_of,
    label_of,
    seconds_of,
    short,
    too_large,
    weight_of,
)
from app.format import EventFormat, JsonFormat
from app.settings import EventSettings
from learner import (
    HEAVIEST,
    LONGEST_TEXT,
    Encoder,
    Feature,
    Kind,
    Schema,
    UnknownLabel,
    Value,
)


class Rejected(NamedTuple):
    """A record that cannot be learned: its place in the batch, why, and its id where known."""

    place: int
    error: DecodeError | UnknownLabel
    id: object = None
    stage: str = "decode"


@dataclass
class Decoded:
    """A batch of records as columns; a row's place in the batch is in `places`."""

    places: list[int] = field(default_factory=list)
    rows: list[Sequence[Any]] = field(default_factory=list)  # features in schema order
    labels: list[Value] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)  # empty without a weight field
    times: list[float | None] = field(default_factory=list)  # empty without a time field
    rejected: list[Rejected] = field(default_factory=list)
    tombstones: int = 0


class Decoder(Protocol):
    """What turns values of records into a Decoded batch."""

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode every value; never raises for what is in one."""


def decoder_for(
    encoder: Encoder, event: EventSettings, max_features: int, form: EventFormat | None = None
) -> Decoder:
    """Return the quickest decoder for what the encoder knows."""
    if needs_care(encoder, event):
        return GrowingDecoder(encoder, event, max_features, form)
    return StructDecoder(encoder.schema, event, form)


def needs_care(encoder: Encoder, event: EventSettings) -> bool:
    """Whether fields may appear, or are written in JSON otherwise than they are named."""
    names = [feature.name for feature in encoder.schema.features]
    names += [*event.reserved, *([event.features_field] if event.features_field else [])]
    return encoder.growing or any(NEEDS_ESCAPE.search(name) for name in names)


class StructDecoder:
    """Events of a fixed schema."""

    def __init__(
        self, schema: Schema, event: EventSettings, form: EventFormat | None = None
    ) -> None:
        self._event = event
        self._form = form or JsonFormat(event.max_bytes)
        self._features = schema.features
        self._decode = self._form.typed(_struct(schema, event))

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode every value; a bad one costs only itself."""
        out = Decoded()
        decode, limit, width = self._decode, self._event.max_bytes, len(self._features)
        nested = self._event.features_field is not None
        weighted = self._event.weight_field is not None
        timed = self._event.time_field is not None
        add_place, add_row, add_label = out.places.append, out.rows.append, out.labels.append
        for place, value in enumerate(values):
            if value is None:
                out.tombstones += 1
                continue
            try:
                if len(value) > limit:
                    raise too_large(value, limit)
                event: Any = decode(value)
                if weighted and not 0 < event.weight <= HEAVIEST:
                    raise bad_weight(self._event, event.weight)
            except (ValueError, RecursionError, DecodeError) as exc:
                out.rejected.append(self._rejected(place, value, exc))
                continue
            add_place(place)
            add_row(astuple(event.features) if nested else astuple(event)[:width])
            add_label(event.label)
            if weighted:
                out.weights.append(event.weight)
            if timed:
                out.times.append(seconds_of(event.time))
        return out

    def _rejected(self, place: int, value: bytes, exc: Exception) -> Rejected:
        return _rejected(place, value, self._features, self._event, self._form, exc)


class GrowingDecoder:
    """Events read plainly; where the schema grows, new features are told to the encoder.

    There is a bound to their number.
    """

    def __init__(
        self,
        encoder: Encoder,
        event: EventSettings,
        max_features: int,
        form: EventFormat | None = None,
    ) -> None:
        self._event = event
        self._form = form or JsonFormat(event.max_bytes)
        self._encoder = encoder
        self._max_features = max_features
        self._known = {feature.name: feature for feature in encoder.schema.features}

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode every value; rows have the features known after the whole batch."""
        out = Decoded()
        records: list[Mapping[str, Any]] = []
        for place, value in enumerate(values):
            if value is None:
                out.tombstones += 1
                continue
            try:
                event = self._form.read(value)
                label, weight = label_of(event, self._event), weight_of(event, self._event)
                features = features_of(event, self._event)
                check_features(features, self._present(features))
                new = self._new(features)
                check_features(new, _sets(new))
            except DecodeError as exc:
                known = tuple(self._known.values())
                out.rejected.append(_rejected(place, value, known, self._event, self._form, exc))
                continue
            if new:
                self._admit(new)
            records.append(features)
            out.places.append(place)
            out.labels.append(label)
            if self._event.weight_field is not None:
                out.weights.append(weight)
            if self._event.time_field is not None:
                out.times.append(seconds_of(event.get(self._event.time_field)))
        out.rows = [[record.get(name) for name in self._known] for record in records]
        return out

    def _present(self, features: Mapping[str, Any]) -> list[Feature]:
        """Return the known features that an event has: not all that are known, which are many."""
        known = self._known
        return [known[name] for name in features if name in known]

    def _new(self, features: Mapping[str, Any]) -> dict[str, Any]:
        """Return what an event has beside the known features."""
        if not self._encoder.growing:
            return {}
        known = self._known
        return {
            name: value
            for name, value in features.items()
            if name and value is not None and name not in known
        }

    def _admit(self, new: Mapping[str, Any]) -> None:
        """Take up new features while there is room; the rest is ignored, and counted."""
        room = max(0, self._max_features - len(self._known))
        fitting = [name for name in new if len(name) <= LONGEST_TEXT][:room]
        self._encoder.overflowed_values += len(new) - len(fitting)
        if not fitting or not self._encoder.admit({name: new[name] for name in fitting}):
            return
        kinds = {at: kind for kind in Kind for at in self._encoder.positions(kind)}
        for position in range(len(self._known), self._encoder.feature_count):
            name = self._encoder.feature_name(position)
            self._known[name] = Feature(name, kinds[position])


def _sets(features: Mapping[str, Any]) -> list[Feature]:
    """Return the set-valued features among unknown ones: their tokens must be checked too."""
    return [
        Feature(name, Kind.SPARSE)
        for name, value in features.items()
        if isinstance(value, list | dict)
    ]


def _struct(schema: Schema, event: EventSettings) -> type[msgspec.Struct]:
    """Make the Struct of an event: feature i is the attribute f<i>, whatever its real name is."""
    names = [f"f{i}" for i in range(len(schema.features))]
    features: list[tuple[str, Any, Any]] = [
        (name, TYPES[feature.kind], None)
        for name, feature in zip(names, schema.features, strict=True)
    ]
    rename = {name: feature.name for name, feature in zip(names, schema.features, strict=True)}
    own: list[Any] = [("label", JsonValue)]
    own_names = {"label": event.label_field}
    if event.weight_field is not None:
        own.append(("weight", float))
        own_names["weight"] = event.weight_field
    if event.time_field is not None:
        own.append(("time", Any, None))
        own_names["time"] = event.time_field
    if event.features_field is None:
        return msgspec.defstruct(
            "Event", [*features, *own], rename=rename | own_names, gc=False, kw_only=True
        )
    inner = msgspec.defstruct("Features", features, rename=rename, gc=False, kw_only=True)
    own_names["features"] = event.features_field
    return msgspec.defstruct(
        "Event", [("features", inner), *own], rename=own_names, gc=False, kw_only=True
    )


def _rejected(
    place: int,
    value: bytes,
    known: Sequence[Feature],
    fields: EventSettings,
    form: EventFormat,
    exc: Exception,
) -> Rejected:
    """Read the record again to name what is wrong with it, and its id."""
    try:
        event = form.read(value)
    except DecodeError as precise:
        return Rejected(place, precise)
    event_id = event.get(fields.id_field) if fields.id_field else None
    try:
        label_of(event, fields)
        weight_of(event, fields)
        check_features(features_of(event, fields), known)
    except DecodeError as precise:
        return Rejected(place, precise, event_id)
    if not isinstance(exc, DecodeError):
        exc = form.fault(f"record is {short(value)}; {exc}")
    return Rejected(place, exc, event_id)
