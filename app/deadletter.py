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
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from app.connection import Connection, refused
from app.errors import DeadLetterLost, policy_of
from app.settings import KafkaSettings
from app.source import Record

PREFIX = "__livetree.errors."
SLICE_SECONDS = 0.5  # of a wait, between two looks at whether it may go on
MOST_BYTES = 100_000_000  # a rejected record may be the one that was too large


class Reason(NamedTuple):
    """Why a record was put aside."""

    stage: str  # decode or learn
    error: Exception

    @property
    def label(self) -> str:
        """Return the reason's short name, as in metrics."""
        return policy_of(self.error).reason


def patiently() -> bool:
    """Wait as long as it takes."""
    return True


class DeadLetters(Protocol):
    """Where rejected records go."""

    def send(self, record: Record, reason: Reason) -> None:
        """Take over a record."""

    def flush(self, may_wait: Callable[[], bool] = patiently) -> None:
        """Return when every record sent is durable; raises DeadLetterLost.

        While it waits it asks `may_wait` again and again, and gives up when that says no.
        """

    def close(self) -> None:
        """Let go of everything."""


class NoDeadLetters:
    """Switched off: records are counted and logged by the consumer, and are gone."""

    def send(self, record: Record, reason: Reason) -> None:
        """Do nothing."""

    def flush(self, may_wait: Callable[[], bool] = patiently) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class KafkaDeadLetters:
    """A topic with the records as they came: key, value, timestamp, headers, and error headers."""

    def __init__(self, kafka: KafkaSettings, topic: str, timeout_seconds: float) -> None:
        self.topic = topic
        self._timeout_seconds = timeout_seconds
        self._failed: KafkaError | None = None
        self._connection = Connection(kafka)
        properties: dict[str, Any] = {
            "log_level": 4,
            "message.max.bytes": MOST_BYTES,
            "linger.ms": 5,
            **self._connection.properties(),
            "enable.idempotence": True,
            "delivery.timeout.ms": int(timeout_seconds * 1000),
        }
        try:
            self._producer = Producer(properties)
        except KafkaException as exc:
            raise refused(exc) from exc

    def send(self, record: Record, reason: Reason) -> None:
        """Hand the record to the producer; waits when its queue is full."""
        headers = [*(record.headers or []), *error_headers(record, reason).items()]
        while True:
            try:
                self._producer.produce(
                    self.topic,
                    record.value,
                    record.key,
                    headers=headers,
                    timestamp=record.timestamp_ms or 0,  # 0: now
                    on_delivery=self._delivered,
                )
                break
            except BufferError:
                self._work(self._producer.poll, 0.1)
                self._raise_failure()
            except KafkaException as exc:
                self._work(self._producer.poll, 0)  # which tells of a fatal error what it is
                self._raise_failure()
                raise self._lost(exc.args[0].str()) from exc
        self._work(self._producer.poll, 0)

    def flush(self, may_wait: Callable[[], bool] = patiently) -> None:
        """Wait until the broker has confirmed every record."""
        began = time.monotonic()
        slice_seconds = min(SLICE_SECONDS, self._timeout_seconds)
        while waiting := self._work(self._producer.flush, slice_seconds):
            self._raise_failure()
            passed = time.monotonic() - began
            if passed >= self._timeout_seconds or not may_wait():
                raise self._lost(f"{waiting} not confirmed within {passed:.1f} seconds")
            self._connection.renew(self._producer)
        self._raise_failure()

    def close(self) -> None:
        """Deliver what can still be delivered."""
        self._work(self._producer.flush, 1.0)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failed = error

    def _work(self, step: Callable[[float], int], seconds: float) -> int:
        """Let the producer work, and take note when it is broken for good."""
        try:
            return step(seconds)
        except KafkaException as exc:
            self._failed = exc.args[0]
            return 0

    def _raise_failure(self) -> None:
        why = self._failed.str() if self._failed is not None else self._connection.fatal
        if why is not None:
            raise self._lost(why)

    def _lost(self, why: str) -> DeadLetterLost:
        return DeadLetterLost(
            f"dead letters could not be delivered to topic '{self.topic}': {why}; expected it to "
            "exist, to be open to us, and to take records as large as the events' topic does, or "
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
            "message": str(reason.error),
            "timestamp": _now(),
            "value_base64": base64.b64encode(record.value or b"").decode(),
        }
        try:
            if self._file is None:
                self._file = self.path.open("ab")
            self._file.write(json.dumps(line).encode() + b"\n")
        except OSError as exc:
            raise self._lost(exc) from exc

    def flush(self, may_wait: Callable[[], bool] = patiently) -> None:  # noqa: ARG002
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
        "message": str(reason.error),
        "timestamp": _now(),
    }
    return {PREFIX + name: text.encode("utf-8", "replace") for name, text in texts.items()}


def _now() -> str:
    return datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
