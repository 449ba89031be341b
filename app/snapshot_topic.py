"""Snapshots by a compacted topic: written by a learner, followed by any number of replicas.

A message is cut into records with the keys `model/slot/index`. The slots 0 and 1 take turns, so
that the newest message that is whole is never overwritten by one that is being written: compaction
keeps it, whatever happens to the learner. Everything is in partition 0, where order is kept.

A replica begins near the end of the partition and goes back as far as it must to find a whole
message, then follows. Records of other models are passed over by their keys.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from app.connection import READING, Connection, refused
from app.errors import ForeignSnapshot, SnapshotDamaged, SnapshotRefused, SnapshotUnwritable
from app.log import get_logger
from app.sender import Sender
from app.settings import Settings
from app.snapshot_chunk import Assembly, parts_of
from learner import Piece

log = get_logger(__name__)

PARTITION = 0
SLOTS = 2
ANSWER_SECONDS = 1.0  # of a broker that is there; short: the stop flag is looked at in between
SEND_SECONDS = 10.0
FIND_SECONDS = 30.0  # for a learner to find what it published last
QUIET_SECONDS = 5.0  # without records: ask whether the broker is still there
BATCH = 64
FIRST_LOOK = 64  # records before the end; eight times as many each time nothing is found
FETCH_BYTES = 16_000_000
ROOM_BYTES = 100_000  # round the record of a longest message
KEPT_WHOLE = SLOTS  # messages of the past that a start tries, the newest last

# A broker that is back is found soon: by default the pauses grow to ten seconds.
RECONNECTING = {"reconnect.backoff.max.ms": 2000}

# The topic is not there, or not yet.
GONE = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
)

# Only records of the newest messages matter: segments are closed soon, and cleaned early.
TOPIC_CONFIG = {
    "cleanup.policy": "compact",
    "segment.ms": "3600000",
    "segment.bytes": "134217728",
    "min.cleanable.dirty.ratio": "0.1",
}


def key_of(model: str, slot: int, index: int) -> bytes:
    """Return the key of a record."""
    return f"{model}/{slot}/{index}".encode()


def slot_of(key: bytes | None, model: str) -> int | None:
    """Return the slot of a record of this model, None for any other."""
    parts = (key or b"").rsplit(b"/", 2)
    is_ours = len(parts) == 3 and parts[0] == model.encode() and parts[1] in (b"0", b"1")
    return int(parts[1]) if is_ours else None


class TopicInlet:
    """Follows the snapshots of one model; used by one thread."""

    def __init__(self, settings: Settings) -> None:
        self.connected = False
        self.is_missing = False  # the broker knows no such topic
        self.caught_up = False  # all that was there at the start is read
        self.newest_slot: int | None = None  # of the newest whole message
        self._kafka, self._model = settings.kafka, settings.name
        self._topic = settings.snapshots.topic_beside(settings.kafka.topic)
        self._max_bytes = settings.snapshots.max_bytes
        self._connection = Connection(self._kafka)
        self._consumer = self._new_consumer()
        self._assembly = Assembly(self._max_bytes)
        self._whole: deque[memoryview] = deque(maxlen=KEPT_WHOLE)
        self._refused: list[SnapshotRefused] = []
        self._low = self._begin = self._end = -1  # what is looked through; -1: not placed
        self._position = -1
        self._look = FIRST_LOOK
        self._ask_at = 0.0

    def _new_consumer(self) -> Consumer:
        properties: dict[str, Any] = {
            "fetch.wait.max.ms": self._kafka.fetch_wait_ms,
            "fetch.message.max.bytes": FETCH_BYTES,
            **RECONNECTING,
            "log_level": 4,
            **self._connection.properties(),
            # A name of its own that is never joined and never committed to.
            "group.id": f"{self._kafka.group_id}.replica",
            **READING,
        }
        try:
            return Consumer(properties)
        except KafkaException as exc:
            raise refused(exc) from exc

    def poll(self, seconds: float) -> memoryview | None:
        """Return the newest whole message since the last one, or None after so long."""
        if self.caught_up and self._whole:
            return self._whole.popleft()
        self._connection.renew(self._consumer)
        if self._connection.fatal is not None:
            self._begin_anew()
        if time.monotonic() >= self._ask_at and not self._place():
            self._consumer.poll(seconds)  # lets the client work
            return None
        first = self._consumer.poll(seconds)
        if first is None:
            return None
        self._ask_at, self.connected = time.monotonic() + QUIET_SECONDS, True
        for message in [first, *self._consumer.consume(BATCH - 1, 0)]:
            self._feed(message)
        if not self.caught_up:
            self._look_further()
        elif self._whole:
            newest = self._whole.pop()
            self._whole.clear()
            return newest
        return None

    def take_refused(self) -> list[SnapshotRefused]:
        """Return what was passed over since the last call."""
        passed_over, self._refused = self._refused, []
        return passed_over

    def close(self) -> None:
        """Let go of the broker."""
        self._consumer.close()

    def _begin_anew(self) -> None:
        """Replace a client that is broken for good."""
        log.error("Kafka client failed, making another", error=self._connection.fatal)
        self._consumer.close()
        self._connection = Connection(self._kafka)
        self._consumer = self._new_consumer()
        self._lose_place()

    def _lose_place(self) -> None:
        """Look through the topic again: it is another one, or lost what comes next."""
        self._begin, self._look, self.caught_up = -1, FIRST_LOOK, False
        self._ask_at = 0.0

    def _place(self) -> bool:
        """Ask where the topic ends, and begin near it; False while there is nobody to ask."""
        place = TopicPartition(self._topic, PARTITION)
        try:
            found = self._consumer.get_watermark_offsets(place, timeout=ANSWER_SECONDS)
        except KafkaException as exc:
            error = exc.args[0]
            self.connected, self.is_missing = False, error.code() in GONE
            said = error.str()
            self._connection.say("topic of snapshots out of reach", topic=self._topic, error=said)
            return self._begin >= 0
        self._ask_at, self.connected = time.monotonic() + QUIET_SECONDS, True
        self.is_missing = False
        low, high = found or (0, 0)
        if self._begin >= 0 and low <= self._position <= high:
            return True
        self._low, self._end = low, high
        self._start_at(max(low, high - self._look))
        return True

    def _start_at(self, offset: int) -> None:
        self._begin = self._position = offset
        self._assembly = Assembly(self._max_bytes)
        self._whole.clear()
        self._consumer.assign([TopicPartition(self._topic, PARTITION, offset)])

    def _look_further(self) -> None:
        """At the end of what was looked through: done, or begin further back."""
        if self._begin < 0 or self._position < self._end:
            return
        if self._whole or self._begin <= self._low:
            self.caught_up = True
            return
        self._look *= 8
        self._start_at(max(self._low, self._end - self._look))

    def _feed(self, message: Message) -> None:
        error, offset = message.error(), message.offset() or 0
        if error is not None:
            self._on_error(error, offset)
            return
        self._position = max(self._position, offset + 1)
        key, value = message.key(), message.value()
        slot = slot_of(key if isinstance(key, bytes) else None, self._model)
        try:
            if slot is None:
                raise ForeignSnapshot(
                    f"record {offset} of the topic '{self._topic}' has the key {key!r:.80}; "
                    f"expected one of the model '{self._model}'"
                )
            if value is None:
                return
            if not isinstance(value, bytes):
                raise SnapshotDamaged(f"record {offset} is no part of a snapshot")
            whole = self._assembly.add(value)
        except SnapshotRefused as exc:
            if self.caught_up:  # before, records of all that ever happened come by
                self._refused.append(exc)
            return
        if whole is not None:
            self.newest_slot = slot
            self._whole.append(whole)

    def _on_error(self, error: KafkaError, offset: int) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            self._position = max(self._position, offset)
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            self._lose_place()
        else:
            self.connected = False
            self._connection.say(
                "topic of snapshots reports a problem", topic=self._topic, error=error.str()
            )


class TopicOutlet:
    """Writes the snapshots of one model; used by one thread."""

    name = "topic"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._topic = settings.snapshots.topic_beside(settings.kafka.topic)
        self._sender: Sender | None = None
        self._slot: int | None = None  # that of the next message

    def send(self, message: Sequence[Piece], publication: str) -> None:
        """Write all records of a message; raises SnapshotUnwritable."""
        if self._slot is None:
            self._slot = self._free_slot()
        try:
            sender = self._sender = self._sender or self._new_sender()
            model, part_bytes = self._settings.name, self._settings.snapshots.message_bytes
            for index, part in enumerate(parts_of(message, publication, part_bytes)):
                key = key_of(model, self._slot, index)
                sender.send(self._topic, part, key, (), partition=PARTITION)
            sender.flush()
        except SnapshotUnwritable:
            self._drop_sender()  # what failed once fails for ever
            raise
        self._slot = (self._slot + 1) % SLOTS

    def close(self) -> None:
        """Let go of the broker."""
        self._drop_sender()

    def _drop_sender(self) -> None:
        if self._sender is not None:
            self._sender.close()
            self._sender = None

    def _new_sender(self) -> Sender:
        packed: dict[str, Any] = {
            "compression.type": self._settings.snapshots.compression,
            "linger.ms": 0,
        }
        packed |= RECONNECTING
        return Sender(self._settings.kafka, SEND_SECONDS, self._lost, packed)

    def _lost(self, why: str) -> SnapshotUnwritable:
        return SnapshotUnwritable(
            f"topic '{self._topic}' did not take a snapshot: {why}; expected a compacted topic "
            "that these settings may write to (LIVETREE_SNAPSHOTS__TOPIC)"
        )

    def _free_slot(self) -> int:
        """Return the slot that does not hold the newest whole message; makes sure of the topic."""
        inlet = TopicInlet(self._settings)
        try:
            deadline = time.monotonic() + FIND_SECONDS
            while not inlet.caught_up:
                if time.monotonic() > deadline:
                    raise self._lost(f"it was not read to its end within {FIND_SECONDS:g} s")
                inlet.poll(0.1)
                if inlet.is_missing and self._settings.snapshots.create_topic:
                    self._create()
            return 0 if inlet.newest_slot is None else (inlet.newest_slot + 1) % SLOTS
        finally:
            inlet.close()

    def _create(self) -> None:
        """Create the topic; somebody else may be quicker."""
        limit = {"max.message.bytes": str(self._settings.snapshots.message_bytes + ROOM_BYTES)}
        topic = NewTopic(self._topic, 1, config=TOPIC_CONFIG | limit)
        try:
            admin = AdminClient(Connection(self._settings.kafka).properties())
            admin.create_topics([topic])[self._topic].result(FIND_SECONDS)
        except KafkaException as exc:
            if exc.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self._lost(f"it is missing and was not created: {exc.args[0].str()}") from exc
        else:
            log.info("topic of snapshots created", topic=self._topic, config=topic.config)
