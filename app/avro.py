"""Events in Avro, each with the id of its schema before it; needs the extra `avro`.

    0               1 byte
    schema's id     4 bytes   big endian
    the event       Avro, as that schema says

The schemas come from a registry, each once. Reading an event itself asks nobody: `prepare` has
fetched all schemas of the batch before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from io import BytesIO
from typing import Any, Protocol
from uuid import UUID

import msgspec
from fastavro import parse_schema, schemaless_reader
from fastavro.read import LOGICAL_READERS

from app.avro_schema import OURS, readable
from app.errors import DecodeError, NotAnObject, NotAvro, RegistryUnreachable, UnusableSchema
from app.event import short, too_large
from app.registry import Fetched

PREFIX = 5  # bytes before the event
LARGEST_ID = 2**31 - 1
ASK_AGAIN_SECONDS = 60.0  # for a schema that is not there: it may be only late
TURN_SECONDS = 10.0  # longest time to fetch before the caller may do something else
DAY_SECONDS = timedelta(days=1).total_seconds()


class Schemas(Protocol):
    """Where schemas come from."""

    def fetch(self, schema_id: int) -> Fetched:
        """Return a schema; raises UnusableSchema, RegistryUnreachable or RegistryRefused."""


class AvroFormat:
    """Avro after its schema's id."""

    name = "Avro"
    fault: type[DecodeError] = NotAvro

    def __init__(
        self, schemas: Schemas, max_bytes: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._schemas, self._max_bytes, self._clock = schemas, max_bytes, clock
        self._known: dict[bytes, Any] = {}  # the id's bytes -> its schema
        self._unusable: dict[bytes, str] = {}  # the id's bytes -> why not
        self._ask_again_at = 0.0
        self._halfway = False  # a batch is waiting for more schemas

    def accepts(self, content_type: str) -> bool:
        """Accept application/avro and its many other names, and bytes of no special kind."""
        binary = "avro" in content_type and not content_type.endswith("json")
        return binary or content_type == "application/octet-stream"

    def prepare(self, values: Sequence[bytes | None]) -> None:
        """Fetch the schemas that are not known yet."""
        ids = {value[1:PREFIX] for value in values if value and value[0] == 0}
        started = self._clock()
        if started >= self._ask_again_at and not self._halfway:
            self._unusable.clear()
            self._ask_again_at = started + ASK_AGAIN_SECONDS
        self._halfway = True
        for key in sorted(ids):
            if key in self._known or key in self._unusable:
                continue
            if self._clock() >= started + TURN_SECONDS:
                raise RegistryUnreachable("more schemas are to be fetched", 0.0)
            self._fetch(key)
        self._halfway = False

    def _fetch(self, key: bytes) -> None:
        schema_id = int.from_bytes(key, "big")
        if len(key) + 1 < PREFIX or schema_id > LARGEST_ID:
            return
        try:
            fetched = self._schemas.fetch(schema_id)
            self._known[key] = _compiled(fetched)
        except UnusableSchema as exc:
            self._unusable[key] = str(exc)

    def read(self, value: bytes) -> dict[str, Any]:
        """Read an event as a plain object; raises a DecodeError."""
        if len(value) > self._max_bytes:
            raise too_large(value, self._max_bytes)
        schema = self._known.get(value[1:PREFIX])
        if schema is None or value[0] != 0:
            raise self._without_schema(value)
        stream = BytesIO(value)
        stream.seek(PREFIX)
        try:
            found = schemaless_reader(stream, schema, None)
        except Exception as exc:  # whatever strange bytes make the library say
            raise NotAvro(
                f"record cannot be read with schema {_id(value)} ({_words(exc)}); expected Avro "
                "that was written with it"
            ) from exc
        if stream.tell() != len(value):
            raise NotAvro(
                f"record has {len(value) - stream.tell()} bytes more than schema {_id(value)} "
                "says; expected Avro that was written with it"
            )
        if not isinstance(found, dict):
            raise NotAnObject(f"record is {short(found)}; expected an Avro record")
        _leave_out_infinities(found)
        return found

    def typed(self, struct: type[msgspec.Struct]) -> Callable[[bytes], Any]:
        """Return a reader that also checks the types."""
        read, convert = self.read, msgspec.convert
        return lambda value: convert(read(value), struct)

    def _without_schema(self, value: bytes) -> NotAvro | UnusableSchema:
        """Return why a record has no schema to be read with."""
        if len(value) < PREFIX or value[0] != 0:
            return NotAvro(
                f"record is {short(value)}; expected a byte 0, the id of a schema in 4 bytes, "
                "and Avro"
            )
        why = self._unusable.get(value[1:PREFIX], f"expected an id up to {LARGEST_ID}")
        return UnusableSchema(
            f"record is written with schema {_id(value)}, which cannot be used: {why}"
        )


def _compiled(fetched: Fetched) -> Any:
    schema = readable(*fetched)
    try:
        return parse_schema(schema)
    except Exception as exc:  # a registry may hold what the library does not take
        raise UnusableSchema(f"schema is not Avro ({_words(exc)})") from exc


def _leave_out_infinities(found: Any) -> None:
    """Put None for numbers that are infinite or none at all, which JSON does not have either."""
    for place, value in found.items() if isinstance(found, dict) else enumerate(found):
        kind = type(value)
        if kind is float:
            if value - value:  # 0 for every other number
                found[place] = None
        elif kind is list or kind is dict:
            _leave_out_infinities(value)


def _id(value: bytes) -> int:
    return int.from_bytes(value[1:PREFIX], "big")


def _words(exc: Exception) -> str:
    return " ".join(str(exc).split())[:80] or type(exc).__name__


# What becomes of the types that app/avro_schema.py has marked; fastavro calls these while reading.


def _decimal(data: bytes, schema: dict[str, Any], _: Any = None) -> float:
    unscaled = int.from_bytes(data, "big", signed=True)
    return float(unscaled / 10 ** int(schema["scale"]))


def _text(data: bytes, *_: Any) -> str:
    return data.decode("latin-1")


def _uuid(data: bytes, *_: Any) -> str:
    return str(UUID(bytes=data))


def _days(data: int, *_: Any) -> float:
    return data * DAY_SECONDS


def _millis(data: int, *_: Any) -> float:
    return data / 1e3


def _micros(data: int, *_: Any) -> float:
    return data / 1e6


def _nanos(data: int, *_: Any) -> float:
    return data / 1e9


OWN_READERS: dict[str, Callable[..., object]] = {
    f"bytes-{OURS}decimal": _decimal,
    f"fixed-{OURS}decimal": _decimal,
    f"bytes-{OURS}text": _text,
    f"fixed-{OURS}text": _text,
    f"fixed-{OURS}uuid": _uuid,
    f"int-{OURS}days": _days,
    f"int-{OURS}millis": _millis,
    f"long-{OURS}millis": _millis,
    f"long-{OURS}micros": _micros,
    f"long-{OURS}nanos": _nanos,
}
LOGICAL_READERS.update(OWN_READERS)
