"""Records handed to a broker, and the certainty that it has them.

`send` is cheap and waits only when the client's queue is full; `flush` returns when the broker has
confirmed everything that was sent, and raises otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from app.connection import Connection, refused
from app.errors import AppError
from app.settings import KafkaSettings

MOST_BYTES = 100_000_000  # a rejected record may be the one that was too large
SLICE_SECONDS = 0.5  # of a wait, between two looks at whether it may go on
BY_KEY = -1  # the partition that the client chooses

Headers = Sequence[tuple[str, str | bytes | None]]


def patiently() -> bool:
    """Let a wait go on to its end."""
    return True


class Sender:
    """A producer that loses nothing in silence; `lost` makes the error out of what went wrong."""

    def __init__(
        self,
        kafka: KafkaSettings,
        timeout_seconds: float,
        lost: Callable[[str], AppError],
        more: Mapping[str, Any] | None = None,
    ) -> None:
        self._timeout_seconds, self._lost = timeout_seconds, lost
        self._failed: KafkaError | None = None
        self._connection = Connection(kafka)
        properties: dict[str, Any] = {
            "log_level": 4,
            "message.max.bytes": MOST_BYTES,
            "linger.ms": 5,
            **(more or {}),
            **self._connection.properties(),
            "enable.idempotence": True,
            "delivery.timeout.ms": int(timeout_seconds * 1000),
        }
        try:
            self._producer = Producer(properties)
        except KafkaException as exc:
            raise refused(exc) from exc

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        timestamp_ms: int | None = None,
        partition: int = BY_KEY,
    ) -> None:
        """Hand a record to the producer; a timestamp that is not known becomes now."""
        while True:
            try:
                self._producer.produce(
                    topic,
                    value,
                    key,
                    partition=partition,
                    headers=list(headers),
                    timestamp=max(timestamp_ms or 0, 0),  # 0: now
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
        """Wait until the broker has confirmed every record, as long as `may_wait` says so."""
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
