"""Events onto a Kafka topic at a steady rate; used by `livetree produce` and by the demo.

Runs in one thread: the caller's. Deliveries are counted by the client's callbacks, so that the
report says what arrived, not what was handed over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from app.errors import SettingsError, SourceError
from learner import Schema

# With no rate given, events go out in chunks of this size, as fast as the client takes them.
FREE_CHUNK = 1000
# A paced chunk is what is due after this long: short for an even flow, long enough to batch.
TICK_SECONDS = 0.02
CONNECT_SECONDS = 10.0
FLUSH_SECONDS = 30.0


class Events(Protocol):
    """Whatever yields events as JSON-ready mappings: a generator stream or a file."""

    def events(self, n: int) -> list[dict[str, Any]]:
        """Return the next n events; fewer when there are no more."""


class Relabelled:
    """Events whose label moves to another field."""

    def __init__(self, events: Events, schema: Schema, label: str, label_field: str) -> None:
        if label_field in {feature.name for feature in schema.features}:
            raise SettingsError(
                [
                    f"the label belongs into the field '{label_field}', which is also a feature; "
                    "expected another event.label_field (LIVETREE_EVENT__LABEL_FIELD)"
                ]
            )
        self._events, self._label, self._label_field = events, label, label_field

    def events(self, n: int) -> list[dict[str, Any]]:
        """Return the next n events."""
        chunk = self._events.events(n)
        if self._label != self._label_field:
            for event in chunk:
                event[self._label_field] = event.pop(self._label)
        return chunk


@dataclass
class Delivery:
    """What became of the events."""

    delivered: int = 0
    failed: int = 0
    last_error: str = ""
    seconds: float = 0.0


@dataclass
class Pace:
    """How many events are due by now; a rate of 0 means as many as the client takes."""

    rate: float
    now: Callable[[], float] = time.monotonic
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.now()

    def due(self, sent: int) -> int:
        """Return how many events to send now, given how many were sent before."""
        if self.rate <= 0:
            return FREE_CHUNK
        return min(int((self.now() - self.started) * self.rate) - sent, FREE_CHUNK)


class EventProducer:
    """Sends events to one topic and counts their deliveries."""

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str,
        encode: Callable[[list[dict[str, Any]]], Iterable[bytes]] | None = None,
    ) -> None:
        self.delivery = Delivery()
        self._topic = topic
        self._brokers = config.get("bootstrap.servers")
        self._encode = encode or as_json
        self._started = time.monotonic()
        try:
            self._producer = Producer({"linger.ms": 20, **_quiet(config)})
        except KafkaException as exc:
            raise SourceError(f"the Kafka settings are refused: {_words(exc)}") from exc

    def connect(self, timeout_seconds: float = CONNECT_SECONDS) -> None:
        """Raise SourceError unless a broker answers; without this, silence would look like work."""
        try:
            self._producer.list_topics(self._topic, timeout=timeout_seconds)
        except KafkaException as exc:
            raise SourceError(
                f"no broker answered at {self._brokers} within {timeout_seconds:g} s: "
                f"{_words(exc)}; expected Kafka there (--bootstrap-servers)"
            ) from exc

    def run(
        self,
        events: Events,
        *,
        rate: float = 0.0,
        limit: int = 0,
        stop: threading.Event | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Delivery:
        """Send until the limit (0 = none), the end of the events, or stop; then flush."""
        stop = stop or threading.Event()
        self._started = time.monotonic()
        pace = Pace(rate)
        sent = 0
        while not stop.is_set() and not (limit and sent >= limit):
            due = pace.due(sent)
            if limit:
                due = min(due, limit - sent)
            if due > 0:
                chunk = events.events(due)
                if not chunk:
                    break
                for value in self._encode(chunk):
                    self._send(value)
                sent += len(chunk)
                if progress is not None:
                    progress(sent)
            self._producer.poll(0)
            if rate > 0 and due < FREE_CHUNK:  # otherwise more is due already
                stop.wait(TICK_SECONDS)
        return self.finish()

    def _send(self, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(self._topic, value, on_delivery=self._count)
                return
            except BufferError:  # the client's queue is full: let it work
                self._producer.poll(0.1)

    def _count(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.delivery.delivered += 1
        else:
            self.delivery.failed += 1
            self.delivery.last_error = error.str()

    def finish(self) -> Delivery:
        """Wait for what is under way and return the final count."""
        left = self._producer.flush(FLUSH_SECONDS)
        if left:
            self.delivery.failed += left
            self.delivery.last_error = f"{left} events were not acknowledged"
        self.delivery.seconds = time.monotonic() - self._started
        return self.delivery


def as_json(events: list[dict[str, Any]]) -> Iterable[bytes]:
    """Return each event as JSON."""
    return map(msgspec.json.Encoder().encode, events)


def _quiet(config: Mapping[str, Any]) -> dict[str, Any]:
    # The client would print its own lines to stderr over the progress bar.
    return {"log_level": 2, **config}


def _words(exc: KafkaException) -> str:
    error = exc.args[0] if exc.args else exc
    return error.str() if isinstance(error, KafkaError) else str(error)
