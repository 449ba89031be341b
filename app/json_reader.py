"""JSON events of a fixed schema, a whole batch at a time: a compiled reader, and a careful one.

The compiled one reads what it can be sure of, which is nearly everything; what it refuses goes to
the careful one, in its order. So a value or class that is new is always met by the careful one,
and codes are given as if it had read everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from app.event import MILLISECONDS_FROM, seconds_of
from app.kernels.json_rows import (
    FEATURES,
    LABEL,
    NAMES,
    NOMINAL,
    NUMERIC,
    TIME,
    VALUES,
    WEIGHT,
    Fields,
    Read,
    read_rows,
)
from app.kernels.lookup import PAD, Entry, Lookup
from app.reader import Floats, Places, Reader, Rows, no_tokens
from app.settings import EventSettings
from app.values import Bytes, as_values
from learner import Batch, Encoder, Kind, Value

WRITTEN_OTHERWISE = re.compile(r'["\\\x00-\x1f\ud800-\udfff]')  # JSON has escapes for these


class JsonReader:
    """Reads for an encoder without sets that takes up no further features."""

    def __init__(self, encoder: Encoder, event: EventSettings, careful: Reader) -> None:
        self._encoder, self._event, self._careful = encoder, event, careful
        self._lookup = Lookup()
        self._fields = self._named_fields()
        self._label = len(encoder.schema.features)
        self._known_values = [0] * len(encoder.positions(Kind.NOMINAL))
        self._known_classes = 0
        self._revision = -1
        self._out = self._room(0)

    def _named_fields(self) -> Fields:
        event, names, kinds, columns = self._event, [], [], []
        inside = event.features_field is not None
        of_kind = {Kind.NUMERIC: NUMERIC, Kind.NOMINAL: NOMINAL}
        for position, feature in enumerate(self._encoder.schema.features):
            names.append((NAMES + inside, feature.name))
            kinds.append(of_kind[feature.kind])
            columns.append(self._encoder.positions(feature.kind).index(position))
        own = {
            LABEL: event.label_field,
            WEIGHT: event.weight_field,
            TIME: event.time_field,
            FEATURES: event.features_field,
        }
        for kind, name in own.items():
            if name is not None:
                names.append((NAMES, name))
                kinds.append(kind)
                columns.append(0)
        starts = self._lookup.add((space, name, at) for at, (space, name) in enumerate(names))
        lengths = [len(name.encode()) for _, name in names]
        unknown, first = [-1] * len(names), [0] * (len(names) + 2)
        return Fields(*(np.array(c) for c in (kinds, columns, starts, lengths, first, unknown)))

    def _room(self, rows: int) -> Read:
        numeric, nominal = (len(self._encoder.positions(k)) for k in (Kind.NUMERIC, Kind.NOMINAL))
        weighted = rows if self._event.weight_field is not None else 0
        return Read(
            np.empty((rows, numeric)),
            np.empty((rows, nominal), np.int32),
            np.empty(rows, np.int32),
            np.empty(weighted),
            np.empty(rows),
            np.empty(rows, np.int64),
            np.empty(rows, np.int64),
            np.empty(rows, np.bool_),
        )

    def _follow(self) -> None:
        """Take up the values and classes that the encoder has met since."""
        self._revision = self._encoder.revision
        self._lookup.add(self._news())

    def _news(self) -> Iterator[Entry]:
        encoder = self._encoder
        counts, positions = encoder.value_counts(), encoder.positions(Kind.NOMINAL)
        for column, (position, count) in enumerate(zip(positions, counts, strict=True)):
            for code in range(self._known_values[column], count):
                yield from _entry(VALUES + position, encoder.value_name(position, code), code)
        self._known_values = counts
        classes = encoder.classes
        for code in range(self._known_classes, len(classes)):
            yield from _entry(VALUES + self._label, classes[code], code)
        self._known_classes = len(classes)

    def read(self, values: Sequence[bytes | None]) -> Rows:
        """Read every value."""
        if self._encoder.revision != self._revision:
            self._follow()
        count = len(values)
        if count > len(self._out.known):
            self._out = self._room(count)
        out = self._out
        if count < len(out.known):
            out = _of_rows(out, slice(count))
        # A zero behind each, which is no part of any JSON.
        text = as_values(values).joined(1, PAD)
        found = read_rows(
            text,
            len(text) - PAD,
            self._event.max_bytes,
            self._fields,
            self._lookup.table,
            self._lookup.pool,
            out,
        )
        if found < 0:  # a zero inside of a value
            return self._careful.read(values)
        times = self._times(text, out) if self._event.time_field is not None else None
        if found < count:
            return self._completed(values, out, times)
        return self._rows(out, times, np.arange(count))

    def _completed(self, values: Sequence[bytes | None], out: Read, times: Floats | None) -> Rows:
        """Have what was refused read carefully, and put it in its places."""
        refused = np.flatnonzero(~out.known)
        more = self._careful.read([values[place] for place in refused.tolist()])
        places = refused[more.places]
        out.numeric[places], out.nominal[places] = more.batch.numeric, more.batch.nominal
        out.label[places], out.known[places] = more.labels, True
        if more.weights is not None:
            out.weight[places] = more.weights
        if times is not None and more.times is not None:
            times[places] = more.times
        kept = np.flatnonzero(out.known)
        rows = self._rows(out, times, kept)
        if len(kept) < len(values):
            kept_times = None if times is None else times[kept]
            rows = self._rows(_of_rows(out, kept), kept_times, kept)
        rejected = [bad._replace(place=int(refused[bad.place])) for bad in more.rejected]
        return rows._replace(rejected=rejected, tombstones=more.tombstones)

    def _rows(self, out: Read, times: Floats | None, places: Places) -> Rows:
        weights = out.weight if self._event.weight_field is not None else None
        batch = Batch(out.numeric, out.nominal, *no_tokens(len(places)))
        return Rows(places, batch, out.label, weights, times, [])

    def _times(self, text: Bytes, out: Read) -> Floats:
        """Return the events' own times, as app.event.seconds_of reads them."""
        told = out.time
        times = np.where(np.abs(told) >= MILLISECONDS_FROM, told / 1000, told)
        for row in np.flatnonzero(out.time_from * out.known):
            told_as = text[out.time_from[row] : out.time_to[row]].tobytes()
            seconds = seconds_of(told_as.decode())
            times[row] = np.nan if seconds is None else seconds
        return times


def _of_rows(out: Read, rows: Any) -> Read:
    """Return some rows of all columns; without a field for weights there are none."""
    columns: Any = (column[rows] if len(column) else column for column in out)
    return Read(*columns)


def _entry(space: int, value: Value, code: int) -> Iterator[Entry]:
    """Yield a value as the compiled reader can find it; nothing where it cannot."""
    if isinstance(value, str):
        if not WRITTEN_OTHERWISE.search(value):
            yield space, value, code
        return
    try:
        number = float(value)
    except OverflowError:
        return
    if number == value:
        yield space, number, code
