"""In what form an event's bytes are; JSON here, Avro in app/avro.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from app.errors import DecodeError, NotJson
from app.event import read_object


class EventFormat(Protocol):
    """Reads one event; what it may have to fetch for that, it fetches for a batch at once."""

    name: str  # as an error message says it
    fault: type[DecodeError]  # what a record is that is not of this form

    def accepts(self, content_type: str) -> bool:
        """Return whether content of this type, in small letters, is of this form."""

    def prepare(self, values: Sequence[bytes | None]) -> None:
        """Fetch what reading these events takes; raises RegistryUnreachable to be asked again."""

    def read(self, value: bytes) -> dict[str, Any]:
        """Read an event as a plain object; raises a DecodeError that says what it is instead."""

    def typed(self, struct: type[msgspec.Struct]) -> Callable[[bytes], Any]:
        """Return the quick way: bytes to the Struct; raises ValueError, DecodeError or the like."""


class JsonFormat:
    """One JSON object in UTF-8."""

    name = "JSON"
    fault: type[DecodeError] = NotJson

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes

    def accepts(self, content_type: str) -> bool:
        """Accept application/json, text/json and whatever is written as JSON (+json)."""
        return content_type.endswith(("/json", "+json"))

    def prepare(self, values: Sequence[bytes | None]) -> None:
        """Do nothing: JSON is read with nothing but itself."""

    def read(self, value: bytes) -> dict[str, Any]:
        """Read an event as a plain object; raises a DecodeError."""
        return read_object(value, self._max_bytes)

    def typed(self, struct: type[msgspec.Struct]) -> Callable[[bytes], Any]:
        """Return msgspec's decoder of the Struct."""
        return msgspec.json.Decoder(struct).decode
