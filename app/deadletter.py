"""Records that cannot be learned, put aside with their bytes and the reason.

`send` is cheap; `flush` returns only when everything sent is durable, and raises otherwise. The
consumer flushes before each checkpoint: a checkpoint never passes a record that is not safe. After
a crash records may be put aside a second time; topic, partition and offset identify them.
"""

from __future__ import annotations

import base64
import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from app.errors import DeadLetterLost, policy_of
from app.sender import Sender
from app.settings import KafkaSettings
from app.source import Record

PREFIX = "__livetree.errors."
LONGEST_MESSAGE = 1_000  # characters: a name inside it may be as long as the record


class Reason(NamedTuple):
    """Why a record was put aside."""

    stage: str  # decode or learn
    error: Exception

    @property
    def label(self) -> str:
        """Return the reason's short name, as in metrics."""
        return policy_of(self.error).reason


class DeadLetters(Protocol):
    """Where rejected records go."""

    def send(self, record: Record, reason: Reason) -> None:
        """Take over a record."""

    def flush(self) -> None:
        """Return when every record sent is durable; raises DeadLetterLost."""

    def close(self) -> None:
        """Let go of everything."""


class NoDeadLetters:
    """Switched off: records are counted and logged by the consumer, and are gone."""

    def send(self, record: Record, reason: Reason) -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class KafkaDeadLetters:
    """A topic with the records as they came: key, value, timestamp, headers, and error headers."""

    def __init__(self, kafka: KafkaSettings, topic: str, timeout_seconds: float) -> None:
        self.topic = topic
        self._sender = Sender(kafka, timeout_seconds, self._lost)

    def send(self, record: Record, reason: Reason) -> None:
        """Hand the record to the producer; waits when its queue is full."""
        headers = [*(record.headers or []), *error_headers(record, reason).items()]
        self._sender.send(self.topic, record.value, record.key, headers, record.timestamp_ms)

    def flush(self) -> None:
        """Wait until the broker has confirmed every record."""
        self._sender.flush()

    def close(self) -> None:
        """Deliver what can still be delivered."""
        self._sender.close()

    def _lost(self, why: str) -> DeadLetterLost:
        return DeadLetterLost(
            f"dead letters could not be delivered to topic '{self.topic}': {why}; expected it to "
            "exist and to take records as large as the events' topic does, or "
            "LIVETREE_DEAD_LETTER__ENABLED=false"
        )


class FileDeadLetters:
    """JSON lines beside a file source; the bytes as base64, because they may be anything."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None

    def send(self, record: Record, reason: Reason) -> None:
        """Append the record."""
        line = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "stage": reason.stage,
            "exception": type(reason.error).__name__,
            "message": message_of(reason),
            "timestamp": _now(),
            "value_base64": base64.b64encode(record.value or b"").decode(),
        }
        try:
            if self._file is None:
                self._file = self._opened()
            self._file.write(json.dumps(line).encode() + b"\n")
        except OSError as exc:
            raise self._lost(exc) from exc

    def _opened(self) -> BinaryIO:
        """Open the file; what a crash has cut off must not swallow the next line."""
        file = self.path.open("ab")
        if file.tell():
            with self.path.open("rb") as written:
                written.seek(-1, os.SEEK_END)
                if written.read() != b"\n":
                    file.write(b"\n")
        return file

    def flush(self) -> None:
        """Wait until the lines are on the disk."""
        if self._file is None:
            return
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as exc:
            raise self._lost(exc) from exc

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _lost(self, exc: OSError) -> DeadLetterLost:
        return DeadLetterLost(
            f"dead letters could not be written to '{self.path}': {exc.strerror}; expected a "
            "writable file, or LIVETREE_DEAD_LETTER__ENABLED=false"
        )


def error_headers(record: Record, reason: Reason) -> dict[str, bytes]:
    """Return the headers that say where a record came from and why it was put aside."""
    texts = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "stage": reason.stage,
        "exception": type(reason.error).__name__,
        "message": message_of(reason),
        "timestamp": _now(),
    }
    if record.timestamp_ms is not None and record.timestamp_ms > 0:
        # A topic whose timestamps are the broker's would lose it.
        texts["record_timestamp"] = str(record.timestamp_ms)
    return {PREFIX + name: text.encode("utf-8", "replace") for name, text in texts.items()}


def message_of(reason: Reason) -> str:
    """Return the error's words, cut where they would make the dead letter much larger."""
    text = str(reason.error)
    return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE - 3]}..."


def _now() -> str:
    return datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
