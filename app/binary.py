"""Events as rows of fixed width: numbers as the machine holds them, one record one row or many.

The layout follows the declared schema and has no gaps; all little-endian:

    features in their order   numeric: float64, NaN = missing
                              nominal: int32, place among the declared values, -1 = missing
    label                     int32, place among the declared classes
    weight                    float64, with event.weight_field
    time                      float64 as in JSON, NaN = none, with event.time_field

A record is learned whole or not at all: one bad row makes it a dead letter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from app.decode import Rejected
from app.errors import BadFeature, BadLabel, DecodeError, NotBinary
from app.event import MILLISECONDS_FROM, bad_weight, too_large
from app.kernels.binary_rows import Layout, copy_rows
from app.reader import Floats, Rows, no_tokens
from app.settings import EventSettings, Settings
from app.settings_file import declared_schema
from app.values import NO_VALUE, Bytes, Longs, Values, as_values
from learner import HEAVIEST, Batch, Codes, Encoder, Kind, Schema, Value

Table = npt.NDArray[Any]  # rows of a record type
ROOM = 8  # bytes behind the rows, which are read in words


class RowLayout:
    """Where in a row what lies."""

    def __init__(self, schema: Schema, event: EventSettings) -> None:
        self.schema, self.event = schema, event
        types = {Kind.NUMERIC: "<f8", Kind.NOMINAL: "<i4"}
        fields = [(f"f{i}", types[feature.kind]) for i, feature in enumerate(schema.features)]
        fields.append(("label", "<i4"))
        fields += [("weight", "<f8")] if event.weight_field is not None else []
        fields += [("time", "<f8")] if event.time_field is not None else []
        self.dtype = np.dtype(fields)
        self.width = self.dtype.itemsize

    @classmethod
    def of(cls, settings: Settings) -> RowLayout:
        """Return the layout of the declared schema, which the settings have made sure of."""
        schema = declared_schema(settings.schema_)
        assert schema is not None
        return cls(schema, settings.event)

    def pack(self, events: Sequence[Mapping[str, Any]]) -> bytes:
        """Return events, as JSON has them, as rows; raises DecodeError for what has no place."""
        rows = np.zeros(len(events), self.dtype)
        for i, feature in enumerate(self.schema.features):
            column = [event.get(feature.name) for event in events]
            if feature.kind == Kind.NUMERIC:
                rows[f"f{i}"] = np.array(column, np.float64)  # None becomes NaN
            else:
                codes: dict[Value | None, int] = {v: k for k, v in enumerate(feature.values)}
                rows[f"f{i}"] = [_place(codes | {None: -1}, v, feature.name) for v in column]
        classes: dict[Value | None, int] = {v: k for k, v in enumerate(self.schema.classes)}
        name = self.event.label_field
        rows["label"] = [_place(classes, event.get(name), name) for event in events]
        for own in ("weight", "time"):
            field = getattr(self.event, f"{own}_field")
            if field is not None:
                rows[own] = np.array([event.get(field) for event in events], np.float64)
        return rows.tobytes()

    def records(self, events: Sequence[Mapping[str, Any]]) -> list[bytes]:
        """Return events as records of one row each."""
        packed, width = self.pack(events), self.width
        return [packed[at : at + width] for at in range(0, len(packed), width)]


def _place(places: Mapping[Value | None, int], value: Any, name: str) -> int:
    if value not in places:
        raise BadFeature(f"field '{name}' is {value!r}; expected a declared value", name)
    return places[value]


class BinaryFormat:
    """Rows of a layout; a record may hold many."""

    name = "binary"
    fault: type[DecodeError] = NotBinary

    def __init__(self, layout: RowLayout) -> None:
        self.layout = layout

    def accepts(self, content_type: str) -> bool:
        """Accept bytes that say nothing of themselves."""
        return content_type == "application/octet-stream"

    def prepare(self, values: Sequence[bytes | None]) -> None:
        """Do nothing: rows are read with the declared schema."""

    def read(self, value: bytes) -> dict[str, Any]:
        """Refuse: rows are no objects; BinaryReader reads them, the schema being declared."""
        raise NotBinary(f"record of {len(value)} bytes is read as rows only")

    def typed(self, struct: type[msgspec.Struct]) -> Callable[[bytes], Any]:  # noqa: ARG002
        """Return what refuses."""
        return self.read


class BinaryReader:
    """Reads the rows of a batch at once."""

    def __init__(self, encoder: Encoder, layout: RowLayout) -> None:
        self.empty: Callable[[tuple[int, int]], Floats] = np.empty  # where numbers go
        self._encoder, self._layout = encoder, layout
        self._event, features = layout.event, layout.schema.features
        self._nominal = list(layout.schema.of_kind(Kind.NOMINAL))
        self._counts = np.array([len(features[i].values) for i in self._nominal], np.int64)
        places: Any = layout.dtype.fields
        begin = {name: place for name, (_, place) in places.items()}
        self._places = Layout(
            np.array([begin[f"f{i}"] for i in layout.schema.of_kind(Kind.NUMERIC)], np.int64),
            np.array([begin[f"f{i}"] for i in self._nominal], np.int64),
            self._counts,
            begin["label"],
            len(layout.schema.classes),
            begin.get("weight", 0),
            layout.width,
        )

    def read(self, values: Sequence[bytes | None]) -> Rows:
        """Read every value."""
        rejected: list[Rejected] = []
        given, places = as_values(values), np.arange(len(values))
        lengths = given.lengths()
        if not (lengths == self._layout.width).all():
            counts = self._measured(given, lengths, rejected)
            given = given.chosen(np.flatnonzero(counts))
            places = np.repeat(places, counts)
        text = given.joined(0, ROOM)
        batch, labels, weights, bad = self._copied(text, len(places))
        if bad >= 0:
            good = self._good_rows(text, len(places), places, rejected)
            places, labels, weights = places[good], labels[good], weights[good]
            batch = Batch(batch.numeric[good], batch.nominal[good], *no_tokens(len(places)))
            rows = np.frombuffer(text, self._layout.dtype, len(good))[good]
            text = np.frombuffer(rows.tobytes(), np.uint8)
        infinite = np.isinf(batch.numeric)
        if infinite.any():  # as good as missing
            self._encoder.rejected_values += int(infinite.sum())
            batch.numeric[infinite] = np.nan
        times = None
        if self._event.time_field is not None:
            times = _seconds(np.frombuffer(text, self._layout.dtype, len(places))["time"])
        own = weights if self._event.weight_field is not None else None
        tombstones = int(np.count_nonzero(lengths == NO_VALUE))
        return Rows(places, batch, labels, own, times, rejected, tombstones)

    def _copied(self, text: Bytes, rows: int) -> tuple[Batch, Codes, Floats, int]:
        """Return all rows as arrays, and the first that is bad, or -1."""
        numeric = self.empty((rows, len(self._places.numeric)))
        nominal = np.empty((rows, len(self._nominal)), np.int32)
        labels, weights = np.empty(rows, np.int32), np.empty(rows)
        bad = copy_rows(text, self._places, numeric, nominal, labels, weights)
        return Batch(numeric, nominal, *no_tokens(rows)), labels, weights, bad

    def _measured(self, values: Values, lengths: Longs, rejected: list[Rejected]) -> Longs:
        """Return the number of rows in each value: 0 in what holds no rows."""
        width, most = self._layout.width, self._event.max_bytes
        is_good = (lengths > 0) & (lengths <= most) & (lengths % width == 0)
        for place in np.flatnonzero(~is_good & (lengths != NO_VALUE)).tolist():
            if lengths[place] > most:
                value = values[place]
                assert value is not None
                rejected.append(Rejected(place, too_large(value, most)))
            else:
                words = f"record is {lengths[place]} bytes long; expected rows of {width} bytes"
                rejected.append(Rejected(place, NotBinary(words)))
        return np.where(is_good, lengths // width, 0)

    def _good_rows(
        self, text: Bytes, rows: int, places: npt.NDArray[np.int64], rejected: list[Rejected]
    ) -> npt.NDArray[np.bool_]:
        """Return which rows are of records without a bad one; the other records are rejected."""
        table = np.frombuffer(text, self._layout.dtype, rows)
        labels = table["label"]
        is_bad = (labels < 0) | (labels >= self._places.classes)
        for i, count in zip(self._nominal, self._counts, strict=True):
            is_bad |= (table[f"f{i}"] < -1) | (table[f"f{i}"] >= count)
        if self._event.weight_field is not None:
            is_bad |= ~((table["weight"] > 0) & (table["weight"] <= HEAVIEST))
        bad = np.flatnonzero(is_bad)
        firsts = np.unique(places[bad], return_index=True)[1]
        rejected += [self._named(table, places, int(at)) for at in bad[firsts]]
        rejected.sort(key=lambda found: found.place)
        return ~np.isin(places, places[bad])

    def _named(self, table: Table, places: npt.NDArray[np.int64], at: int) -> Rejected:
        """Return a bad row's record with the first thing that is wrong with the row."""
        place, row = int(places[at]), table[at]
        number = at - int(np.searchsorted(places, place))
        where = f"row {number} of the record" if number else "record"
        return Rejected(place, self._fault(row, where))

    def _fault(self, row: Any, where: str) -> DecodeError:
        schema, event = self._layout.schema, self._event
        label, most = int(row["label"]), len(schema.classes) - 1
        if not 0 <= label <= most:
            words = f"label '{event.label_field}' of {where} is {label}; expected 0 to {most}"
            return BadLabel(words, event.label_field)
        for i, count in zip(self._nominal, self._counts.tolist(), strict=True):
            name, code = schema.features[i].name, int(row[f"f{i}"])
            if not -1 <= code < count:
                words = f"feature '{name}' of {where} is {code}; expected -1 to {count - 1}"
                return BadFeature(words, name)
        return bad_weight(event, float(row["weight"]))


def _seconds(told: Table) -> Floats:
    times = np.where(np.isinf(told), np.nan, told)
    return np.where(np.abs(times) >= MILLISECONDS_FROM, times / 1000, times)
