"""CloudEvents on Kafka: the event out of its envelope, and what stands on it. Pure.

    binary       headers ce_specversion, ce_id, ce_time, ...; the value is the event
    structured   header content-type: application/cloudevents+json; the value is the envelope, a
                 JSON object, and the event is its `data` or `data_base64`

Anything else is a plain record, whose value is the event. Envelopes are told by their headers
alone: an event may well have fields named `data` and `specversion`. After the Kafka Protocol
Binding for CloudEvents, version 1.0, which allows no batches.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from app.errors import BadEnvelope, DecodeError
from app.event import seconds_of, short, too_large
from app.format import EventFormat
from app.source import Listed, Record, Records
from app.values import ListedValues, Values

VERSION = "1.0"
STRUCTURED = "application/cloudevents"


class Stamp(NamedTuple):
    """What an envelope says of its event."""

    id: str | None
    time: float | None  # Unix time


NO_STAMP = Stamp(None, None)


class Refused(NamedTuple):
    """A record whose envelope cannot be opened."""

    record: Record
    error: DecodeError
    id: object


@dataclass
class Opened:
    """A batch of records and the bytes of the event in each, in the same order."""

    records: Records
    values: Values
    stamps: dict[int, Stamp] = field(default_factory=dict)  # by place; plain records have none
    refused: list[Refused] = field(default_factory=list)  # not among the records

    def parts(self, size: int) -> Iterator[Opened]:
        """Yield the records in batches of at most so many."""
        if len(self.records) <= size:
            yield self
            return
        for start in range(0, len(self.records), size):
            stop = start + size
            stamps = {p - start: stamp for p, stamp in self.stamps.items() if start <= p < stop}
            yield Opened(self.records[start:stop], self.values[start:stop], stamps)


class _Envelope(NamedTuple):
    version: str | None
    id: str | None
    time: object
    content_type: str | None
    data: bytes | None


class _Structured(msgspec.Struct):
    """The JSON form of a CloudEvent, as far as we read it; `data` stays as it is written."""

    specversion: Any = None
    id: Any = None
    time: Any = None
    datacontenttype: str | None = None
    data: msgspec.Raw = msgspec.Raw()
    data_base64: str | None = None


_structured = msgspec.json.Decoder(_Structured)


def open_all(records: Sequence[Record], form: EventFormat, max_bytes: int) -> Opened:
    """Take every event out of its envelope; a bad envelope costs only its own record."""
    given = records if isinstance(records, Records) else Listed(records)
    if not given.has_headers():  # the usual case must cost nothing
        return Opened(given, given.values())
    kept: list[Record] = []
    values: list[bytes | None] = []
    opened = Opened(given, ListedValues(values))
    for record in given:
        envelope = None
        try:
            headers = dict(record.headers or ())
            if "ce_specversion" in headers or "content-type" in headers:
                envelope = _envelope(headers, record.value, max_bytes)
            value = record.value if envelope is None else _event(envelope, form)
        except DecodeError as exc:
            opened.refused.append(Refused(record, exc, envelope.id if envelope else None))
            continue
        if envelope is not None:
            opened.stamps[len(kept)] = Stamp(envelope.id, seconds_of(envelope.time))
        kept.append(record)
        values.append(value)
    opened.records = Listed(kept)
    return opened


def _envelope(
    headers: Mapping[str, str | bytes | None], value: bytes | None, max_bytes: int
) -> _Envelope | None:
    """Return what a record is wrapped in; None for a plain one."""
    content_type = _text(headers.get("content-type"))
    kind = _media_type(content_type)
    if kind.startswith(STRUCTURED):
        return _unfolded(kind, value, max_bytes)
    if "ce_specversion" not in headers:
        return None
    return _Envelope(
        _text(headers["ce_specversion"]),
        _text(headers.get("ce_id")),
        _text(headers.get("ce_time")),
        content_type,
        value,
    )


def _unfolded(kind: str, value: bytes | None, max_bytes: int) -> _Envelope | None:
    """Read an envelope of the structured mode."""
    if kind.startswith(f"{STRUCTURED}-batch"):
        raise BadEnvelope(
            f"content-type is '{kind}'; expected one event a record: CloudEvents on Kafka have "
            "no batches"
        )
    if kind != f"{STRUCTURED}+json":
        raise BadEnvelope(f"content-type is '{kind}'; expected {STRUCTURED}+json")
    if value is None:
        return None  # a tombstone is one in any clothes
    if len(value) > max_bytes:
        raise too_large(value, max_bytes)
    try:
        found = _structured.decode(value)
    except (ValueError, RecursionError) as exc:
        raise BadEnvelope(
            f"CloudEvent is {short(value)}; expected a JSON object with specversion and data "
            f"({exc})"
        ) from exc
    event_id = found.id if isinstance(found.id, str) else None
    return _Envelope(found.specversion, event_id, found.time, found.datacontenttype, _data(found))


def _data(found: _Structured) -> bytes:
    """Return the event's bytes, b"" where there are none."""
    data = bytes(found.data)
    if found.data_base64 is None:
        return b"" if data == b"null" else data
    if data:
        raise BadEnvelope("CloudEvent has data and data_base64; expected one of them")
    try:
        return base64.b64decode(found.data_base64, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise BadEnvelope(
            f"data_base64 of the CloudEvent is {short(found.data_base64)}; expected base64 ({exc})"
        ) from exc


def _event(envelope: _Envelope, form: EventFormat) -> bytes | None:
    """Return the event's bytes, None for a tombstone; raises BadEnvelope."""
    if envelope.version != VERSION:
        raise BadEnvelope(
            f"specversion of the CloudEvent is {short(envelope.version)}; expected '{VERSION}'"
        )
    kind = _media_type(envelope.content_type)
    if kind and not form.accepts(kind):
        raise BadEnvelope(
            f"content type of the CloudEvent's data is {short(kind)}; expected {form.name}, as "
            "LIVETREE_EVENT__FORMAT says"
        )
    if envelope.data == b"":
        raise BadEnvelope(f"CloudEvent has no data; expected an event in {form.name}")
    return envelope.data


def _media_type(content_type: str | None) -> str:
    """Return `application/json` of `Application/JSON; charset=utf-8`."""
    return (content_type or "").partition(";")[0].strip().lower()


def _text(header: str | bytes | None) -> str | None:
    return header.decode("utf-8", "replace") if isinstance(header, bytes) else header
