"""Records handed to a broker, and the certainty that it has them.

`send` is cheap and waits only when the client's queue is full; `flush` returns when the broker has
confirmed everything that was sent, and raises otherwise.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from app.errors import AppError, SettingsError
from app.settings import KafkaSettings

MOST_BYTES = 100_000_000  # a rejected record may be the one that was too large
BY_KEY = -1  # the partition that the client chooses

Headers = Sequence[tuple[str, str | bytes | None]]


class Sender:
    """A producer that loses nothing in silence; `lost` makes the error out of what went wrong."""

    def __init__(
        self, kafka: KafkaSettings, timeout_seconds: float, lost: Callable[[str], AppError]
    ) -> None:
        self._timeout_seconds, self._lost = timeout_seconds, lost
        self._failed: KafkaError | None = None
        properties: dict[str, Any] = {
            "log_level": 4,
            "message.max.bytes": MOST_BYTES,
            "linger.ms": 5,
            **kafka.client_properties(),
            "enable.idempotence": True,
            "delivery.timeout.ms": int(timeout_seconds * 1000),
            "logger": logging.getLogger("librdkafka"),
        }
        try:
            self._producer = Producer(properties)
        except KafkaException as exc:
            raise SettingsError([f"kafka (LIVETREE_KAFKA__...): {exc.args[0].str()}"]) from exc

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
                self._producer.poll(0.1)
                self._raise_failure()
            except KafkaException as exc:
                raise self._lost(exc.args[0].str()) from exc
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until the broker has confirmed every record."""
        waiting = self._producer.flush(self._timeout_seconds)
        self._raise_failure()
        if waiting:
            raise self._lost(f"{waiting} not confirmed within {self._timeout_seconds:g} seconds")

    def close(self) -> None:
        """Deliver what can still be delivered."""
        self._producer.flush(1.0)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failed = error

    def _raise_failure(self) -> None:
        if self._failed is not None:
            raise self._lost(self._failed.str())
