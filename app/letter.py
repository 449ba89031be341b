"""One dead letter as it is read back: the record as it was, why it was put aside, and when. Pure.

What `app.deadletter` writes, this reads. A record in the topic that carries none of our headers is
somebody else's: it is shown, and never redriven.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from app.deadletter import PREFIX
from app.errors import POLICY
from app.source import Record

REDRIVEN = "__livetree.redriven"  # header: how often this record was sent back
NOTE = "__livetree.redriven.note"  # header of a note in the topic, which is no letter
FOREIGN = "unknown"

REASONS = {kind.__name__: policy.reason for kind, policy in POLICY.items()}


class Place(NamedTuple):
    """Where a record came from."""

    topic: str
    partition: int
    offset: int


class Letter(NamedTuple):
    """One dead letter."""

    partition: int  # its own place among the dead letters
    offset: int
    record: Record  # as it was when it was rejected, in the place where that was
    stage: str
    exception: str  # the error's class
    message: str
    time: str  # RFC 3339, when it was put aside
    ours: bool = True

    @property
    def reason(self) -> str:
        """Return the short name of the reason, as in metrics."""
        return REASONS.get(self.exception, self.exception)

    @property
    def original(self) -> Place:
        """Return where the record came from; two letters of one place are one record."""
        return Place(self.record.topic, self.record.partition, self.record.offset)

    @property
    def redriven(self) -> int:
        """Return how often the record had been sent back before it was put aside."""
        found = dict(self.record.headers or []).get(REDRIVEN)
        text = found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)
        return int(text) if text.isdecimal() else 0

    def document(self) -> dict[str, Any]:
        """Return everything as plain data; the value as text where it is some."""
        record = self.record
        return {
            "partition": self.partition,
            "offset": self.offset,
            "original": record[:3],
            "reason": self.reason,
            "exception": self.exception,
            "stage": self.stage,
            "message": self.message,
            "time": self.time,
            "record_timestamp": iso(record.timestamp_ms),
            "redriven": self.redriven,
            "headers": [[name, text_or_base64(value)] for name, value in record.headers or []],
            "key": text_or_base64(record.key),
            "value": text_or_base64(record.value),
        }


class LetterFilter(NamedTuple):
    """Which letters are meant; what is not given admits all."""

    reason: str | None = None  # a reason, or the name of an error's class
    stage: str | None = None
    since: datetime | None = None

    def admits(self, letter: Letter) -> bool:
        """Return whether a letter is meant."""
        if self.reason is not None and self.reason not in (letter.reason, letter.exception):
            return False
        if self.stage is not None and self.stage != letter.stage:
            return False
        return self.since is None or _time_of(letter) >= self.since


def letter_of(record: Record) -> Letter:
    """Read a record of the dead letters' topic."""
    headers = record.headers or []
    said = {name[len(PREFIX) :]: _text(value) for name, value in headers if name.startswith(PREFIX)}
    kept = [(name, value) for name, value in headers if not name.startswith(PREFIX)]
    partition, offset = said.get("partition", ""), said.get("offset", "")
    if "topic" not in said or not partition.isdecimal() or not offset.isdecimal():
        moment = iso(record.timestamp_ms) or ""
        return Letter(record.partition, record.offset, record, "", FOREIGN, "", moment, ours=False)
    stamp = said.get("record_timestamp", "")
    was = record._replace(
        topic=said["topic"],
        partition=int(partition),
        offset=int(offset),
        headers=kept,
        timestamp_ms=int(stamp) if stamp.isdecimal() else record.timestamp_ms,
    )
    return Letter(
        record.partition,
        record.offset,
        was,
        said.get("stage", ""),
        said.get("exception", FOREIGN),
        said.get("message", ""),
        said.get("timestamp", ""),
    )


def letter_of_line(line: bytes, offset: int) -> Letter | None:
    """Read a line of the dead letters' file; None where it is damaged."""
    try:
        said: Mapping[str, Any] = json.loads(line)
        value = base64.b64decode(said["value_base64"], validate=True)
        record = Record(
            str(said["topic"]), int(said["partition"]), int(said["offset"]), None, value
        )
        stage, exception = str(said["stage"]), str(said["exception"])
        return Letter(
            0, offset, record, stage, exception, str(said["message"]), str(said["timestamp"])
        )
    except (ValueError, KeyError, TypeError, binascii.Error):
        return None


def iso(milliseconds: int | None) -> str | None:
    """Return a record's timestamp as RFC 3339; None where it has none."""
    if milliseconds is None or milliseconds <= 0:
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return None  # a client may write any number


def text_or_base64(value: str | bytes | None) -> str | dict[str, str] | None:
    """Return bytes as JSON can hold them: text where they are UTF-8."""
    if value is None or isinstance(value, str):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _text(value: str | bytes | None) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value or ""


def _time_of(letter: Letter) -> datetime:
    try:
        moment = datetime.fromisoformat(letter.time)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
