"""How records come out of the Kafka client: as they lie in its memory, or as objects one by one.

The client makes an object of every message and answers one question at a time, under the lock of
the interpreter; that took half the time of an event. Its C library hands out a whole batch as
addresses, which compiled code reads. For that the records of the partitions are led to a queue of
our own, so that nothing but records comes out of it; whatever else the client has to say, it says
by ``poll`` as ever. Where its library cannot be had like that, the objects do.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Iterable
from contextlib import suppress
from importlib import metadata
from typing import Any, NamedTuple, Protocol

import numpy as np
from confluent_kafka import Consumer, Message

from app.errors import SourceError
from app.kernels.messages import COMPILED, Columns
from app.librdkafka import NUMBER, POINTER, SIZE, TEXT, functions
from app.log import get_logger
from app.message import Delivery, Fault, Messages
from app.raw_message import Memory, RawMessages

log = get_logger(__name__)

TESTED = "2."  # versions of the client whose objects are known to begin with the library's handle

SETTLING_SECONDS = 10.0  # after an assignment
LEAD_AT_FIRST_SECONDS = 0.02
LEAD_SECONDS = 1.0

PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "rd_kafka_name": (TEXT, [POINTER]),
    "rd_kafka_queue_new": (POINTER, [POINTER]),
    "rd_kafka_queue_get_partition": (POINTER, [POINTER, TEXT, NUMBER]),
    "rd_kafka_queue_forward": (None, [POINTER, POINTER]),
    "rd_kafka_queue_destroy": (None, [POINTER]),
    "rd_kafka_consume_batch_queue": (ctypes.c_ssize_t, [POINTER, NUMBER, POINTER, SIZE]),
}


class Taken(NamedTuple):
    """What came: records, which hold until more is taken, and what else was said."""

    records: Delivery | None
    faults: list[Fault]


NOTHING = Taken(None, [])


class Intake(Protocol):
    """Where a source gets its records from."""

    def listen(self, partitions: Iterable[int]) -> None:
        """Prepare for partitions that are about to be assigned."""

    def take(self, limit: int, timeout_seconds: float) -> Taken:
        """Return what is there, or the first that comes; NOTHING after the timeout."""

    def close(self) -> None:
        """Let go of everything, before the client is closed."""


def open_intake(consumer: Consumer, topic: str) -> Intake:
    """Return the quickest intake that this client allows."""
    if COMPILED and metadata.version("confluent-kafka").startswith(TESTED):
        try:
            return RawIntake(consumer, topic)
        except (OSError, AttributeError) as exc:
            log.info("records are taken one by one", reason=str(exc))
    return ObjectIntake(consumer, topic)


def warm_up_intake() -> None:
    """Have what takes records compiled ahead of the first one."""
    if COMPILED:
        with suppress(OSError, AttributeError):
            Memory().rehearse()


class ObjectIntake:
    """Messages as the client's objects."""

    def __init__(self, consumer: Consumer, topic: str) -> None:
        self._consumer, self._topic = consumer, topic

    def listen(self, partitions: Iterable[int]) -> None:
        """Do nothing: the client brings what is assigned."""

    def take(self, limit: int, timeout_seconds: float) -> Taken:
        """Return what is there, or the first that comes."""
        # consume(N, t) alone would wait the whole t for N records; poll returns on the first.
        first = self._consumer.poll(timeout_seconds)
        if first is None:
            return NOTHING
        messages = [first, *self._consumer.consume(limit - 1, 0)] if limit > 1 else [first]
        return _sorted(self._topic, messages)

    def close(self) -> None:
        """Do nothing."""


class RawIntake:
    """Messages in the client's memory."""

    def __init__(self, consumer: Consumer, topic: str) -> None:
        self._consumer, self._topic = consumer, topic
        self._memory = Memory()
        self._library = functions(PROTOTYPES)
        self._client = _handle(consumer)
        self._queue = self._library.rd_kafka_queue_new(self._client)
        self._partitions: list[int] = []
        self._lead_at = self._settled_at = math.inf
        self._room = np.empty(0, np.int64)  # for the addresses of messages

    def listen(self, partitions: Iterable[int]) -> None:
        """Lead the records of partitions to the queue."""
        self._partitions = sorted(partitions)
        self._settled_at = time.monotonic() + SETTLING_SECONDS
        self._lead()

    def _lead(self) -> None:
        """Lead partitions to the queue, also those that were before.

        An assignment stops partitions that were read already, some time later and in a thread of
        the library, which then leads them nowhere: their records wait until they are led again.
        """
        library, topic = self._library, self._topic.encode()
        for partition in self._partitions:
            own = library.rd_kafka_queue_get_partition(self._client, topic, partition)
            library.rd_kafka_queue_forward(own, self._queue)
            library.rd_kafka_queue_destroy(own)
        now = time.monotonic()
        self._lead_at = now + (LEAD_SECONDS if now >= self._settled_at else LEAD_AT_FIRST_SECONDS)

    def take(self, limit: int, timeout_seconds: float) -> Taken:
        """Return what is there, or the first that comes."""
        self._memory.release()
        if time.monotonic() >= self._lead_at:
            self._lead()
        said = self._consumer.poll(0)
        if said is not None:  # a record only where the library has led it nowhere
            return _sorted(self._topic, [said])
        if len(self._room) < limit:
            self._room = np.empty(limit, np.int64)
        count = self._fill(0, limit, 0.0)
        if not count:
            count = self._fill(0, 1, self._patience(timeout_seconds))
            count += self._fill(count, limit - count, 0.0) if 0 < count < limit else 0
        if not count:
            return NOTHING
        columns = self._memory.hold(self._room[:count])
        faulty = np.flatnonzero(columns.error)
        if not faulty.size:
            return Taken(RawMessages(self._topic, self._memory, columns), [])
        faults = [self._memory.fault(columns, place) for place in faulty.tolist()]
        good = Columns(*(column[columns.error == 0] for column in columns))
        records = RawMessages(self._topic, self._memory, good) if len(good.message) else None
        return Taken(records, faults)

    def _patience(self, timeout_seconds: float) -> float:
        """Return how long to wait: no longer than until the partitions are led again."""
        return min(timeout_seconds, max(self._lead_at - time.monotonic(), LEAD_AT_FIRST_SECONDS))

    def _fill(self, place: int, count: int, timeout_seconds: float) -> int:
        """Put the addresses of messages into the room from a place on; returns how many came."""
        to = self._room.ctypes.data + place * self._room.itemsize
        wait_ms = round(1000 * timeout_seconds)
        found: int = self._library.rd_kafka_consume_batch_queue(self._queue, wait_ms, to, count)
        if found < 0:
            raise SourceError("the Kafka client failed to hand out records")
        return found

    def close(self) -> None:
        """Give the messages and the queue back."""
        self._memory.release()
        queue, self._queue = self._queue, None
        if queue:
            self._library.rd_kafka_queue_destroy(queue)


def _sorted(topic: str, messages: list[Message]) -> Taken:
    """Tell records from faults."""
    faults: list[Fault] = []
    if any(map(Message.error, messages)):  # a loop over the messages costs twice as much
        told = [(message.error(), message) for message in messages]
        faults = [Fault(e, m.partition(), m.offset()) for e, m in told if e is not None]
        messages = [message for error, message in told if error is None]
    return Taken(Messages(topic, messages) if messages else None, faults)


def _handle(consumer: Consumer) -> int:
    """Return the library's handle, which is the first thing in the client's object."""
    place = id(consumer) + object.__basicsize__
    handle = POINTER.from_address(place).value
    if not handle:
        raise AttributeError("the client has no handle of its library")
    return handle
