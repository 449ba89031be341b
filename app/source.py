"""Where records come from: a Kafka topic or a growing file.

A source is opened and used by one thread only, the consumer's: confluent-kafka's Consumer blocks
calls from other threads while one polls. It stops only for what waiting cannot mend; a broker
that cannot be reached, or a topic or file that is not there yet, is waited for.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple, Protocol

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from app.errors import OffsetOutOfRange, SettingsError, SourceChanged, SourceError
from app.log import Seldom, get_logger
from app.settings import KafkaSettings

log = get_logger(__name__)

METADATA_SECONDS = 1.0  # short: the stop flag is only looked at between polls
WATERMARK_SECONDS = 10.0
RETRY_SECONDS = 5.0

# Errors on a partition that no waiting mends.
STOPPING = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
)


# Stands in for headers that the client library cannot read.
UNREADABLE_HEADERS = ("__livetree.headers", b"lost: a name among them is not UTF-8")


class Record(NamedTuple):
    """One record as the source holds it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None  # None: a tombstone
    timestamp_ms: int | None = None  # None or below 1: unknown
    headers: list[tuple[str, str | bytes | None]] | None = None


def headers_of(messages: Sequence[Message]) -> list[Any]:
    """Return the headers of each message; where a name is not UTF-8, one that says so.

    The client fails on such a name, and what it holds afterwards must not be touched: no second
    question. Without one this is a single step over the whole list.
    """
    found: list[Any] = []
    asked = map(Message.headers, messages)
    while len(found) < len(messages):
        try:
            found.extend(asked)
        except SystemError:
            found.append([UNREADABLE_HEADERS])
    return found


class Start(NamedTuple):
    """Where a checkpoint says to go on; empty at the first start."""

    offsets: Mapping[int, int] = {}  # partition -> next offset
    identity: str | None = None  # which cluster or file these offsets belong to


class Source(Protocol):
    """An endless, ordered supply of records in one or more partitions."""

    topic: str
    resets: int  # how often a position was given up by the policy

    def open(self, start: Start) -> None:
        """Begin at the checkpoint's offsets, or at the configured end for other partitions."""

    def poll(self, limit: int) -> list[Record]:
        """Return up to ``limit`` records in order; waits a moment when there are none."""

    def positions(self) -> dict[int, int]:
        """Return for each partition the offset after the last polled record."""

    def identity(self) -> str | None:
        """Return which cluster or file this is; None while that is not known."""

    def lag(self) -> dict[int, int]:
        """Return for each partition how much waits behind the position."""

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Tell lag tools how far a durable checkpoint is; best effort."""

    def close(self) -> None:
        """Let go of everything."""


class KafkaSource:
    """All partitions of one topic, assigned by hand, from the checkpoint's offsets."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.topic = settings.topic
        self.resets = 0
        self._settings = settings
        self._consumer = self._new_consumer()
        self._start = Start()
        self._identity: str | None = None
        self._assigned: set[int] = set()
        self._positions: dict[int, int] = {}
        self._failure: SourceError | None = None
        self._seldom = Seldom()
        self._look_again_at = 0.0
        self._assign_again = False

    def _new_consumer(self) -> Consumer:
        properties: dict[str, Any] = {
            "fetch.wait.max.ms": self._settings.fetch_wait_ms,
            "log_level": 4,
            **self._settings.client_properties(),
            "group.id": self._settings.group_id,
            # The checkpoint alone decides where to go on; see docs on exactly-once training.
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "allow.auto.create.topics": False,
            "error_cb": self._on_client_error,
            "logger": logging.getLogger("librdkafka"),
        }
        try:
            return Consumer(properties)
        except KafkaException as exc:
            raise SettingsError([f"kafka (LIVETREE_KAFKA__...): {exc.args[0].str()}"]) from exc

    def open(self, start: Start) -> None:
        """Remember where to begin; the partitions are assigned once the topic is there."""
        self._start = start

    def poll(self, limit: int) -> list[Record]:
        """Return up to ``limit`` records; a failure is raised once its predecessors are out."""
        if self._failure is not None:
            raise self._failure
        if time.monotonic() >= self._look_again_at and not self._look_for_partitions():
            self._consumer.poll(self._settings.poll_timeout_seconds)
            return []
        if self._assign_again:
            self._assign_at_positions()
        # consume(N, t) alone would wait the whole t for N records; poll returns on the first.
        first = self._consumer.poll(self._settings.poll_timeout_seconds)
        if first is None:
            return []
        messages = [first, *self._consumer.consume(limit - 1, 0)] if limit > 1 else [first]
        return self._records(messages)

    def _records(self, messages: list[Message]) -> list[Record]:
        # Whole-list steps: a loop over the messages costs twice as much.
        faulty = [message for message in messages if message.error() is not None]
        if faulty:
            messages = [message for message in messages if message.error() is None]
        positions = self._positions
        partitions: list[Any] = list(map(Message.partition, messages))
        offsets: list[Any] = list(map(Message.offset, messages))
        fields = zip(
            repeat(self.topic),
            partitions,
            offsets,
            map(Message.key, messages),
            map(Message.value, messages),
            [stamp for _, stamp in map(Message.timestamp, messages)],
            headers_of(messages),
            strict=False,
        )
        records: list[Record] = list(map(tuple.__new__, repeat(Record), fields))
        first = dict(zip(reversed(partitions), reversed(offsets), strict=True))
        if any(offset < positions.get(partition, 0) for partition, offset in first.items()):
            # Delivered again after a new assignment; learned already.
            records = [r for r in records if r.offset >= positions.get(r.partition, 0)]
            positions |= {record.partition: record.offset + 1 for record in records}
        else:
            last = dict(zip(partitions, offsets, strict=True))
            positions |= {partition: offset + 1 for partition, offset in last.items()}
        for message in faulty:
            self._on_message_error(message)
        return records

    def _look_for_partitions(self) -> bool:
        """Assign partitions that are not assigned yet; False while there are none at all."""
        found = self._partitions()
        if found is None:
            # Records may still flow while the question fails: do not ask before each poll.
            self._look_again_at = time.monotonic() + (RETRY_SECONDS if self._assigned else 0.0)
            return bool(self._assigned)
        self._look_again_at = time.monotonic() + self._settings.partition_refresh_seconds
        if not self._assigned:
            self._check_identity(found)
        if found - self._assigned:
            self._assign(found)
        return True

    def _partitions(self) -> set[int] | None:
        """Ask the broker for the topic's partitions; None, with a log line, to ask again."""
        try:
            metadata = self._consumer.list_topics(self.topic, timeout=METADATA_SECONDS)
        except KafkaException as exc:
            self._say("broker unreachable, waiting", error=exc.args[0].str())
            return None
        topic = metadata.topics[self.topic]
        if topic.error is not None:
            if topic.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise SourceError(f"topic '{self.topic}' may not be read: {topic.error.str()}")
            self._say("topic is not there, waiting", topic=self.topic, error=topic.error.str())
            return None
        self._identity = metadata.cluster_id
        return set(topic.partitions) or None

    def _check_identity(self, found: set[int]) -> None:
        """Refuse, or forget, offsets that belong to another cluster or another topic."""
        start, changed = self._start, ""
        if start.identity and self._identity and start.identity != self._identity:
            changed = f"cluster id is '{self._identity}'; expected '{start.identity}'"
        elif not found.issuperset(start.offsets):
            missing = sorted(set(start.offsets) - found)
            changed = f"topic '{self.topic}' has no partition {missing[0]}; expected one"
        if not changed:
            return
        if self._settings.offset_reset == "error":
            raise SourceChanged(
                f"{changed} as in the checkpoint: the model was fed from another log. Point "
                "LIVETREE_KAFKA__BOOTSTRAP_SERVERS at that one, remove the checkpoints to start "
                "anew, or set LIVETREE_KAFKA__OFFSET_RESET to earliest or latest to go on here"
            )
        self.resets += 1
        log.warning("source changed, offsets given up", reason=changed, topic=self.topic)
        self._start = Start()

    def _assign(self, found: set[int]) -> None:
        """Find a position for each new partition, and assign all."""
        first_time, policy = not self._assigned, self._settings.start
        if self.resets and self._settings.offset_reset != "error":
            policy = self._settings.offset_reset
        for partition in found - self._assigned:
            if partition in self._start.offsets:
                self._positions[partition] = self._start.offsets[partition]
            elif first_time and policy == "latest" and not self._start.offsets:
                self._positions[partition] = self._watermarks(partition)[1]
        self._assigned |= found
        self._assign_at_positions()
        log.info("partitions assigned", topic=self.topic, offsets=self._positions.copy())

    def _assign_at_positions(self) -> None:
        self._assign_again = False
        self._consumer.assign(
            [
                TopicPartition(self.topic, p, self._positions.get(p, OFFSET_BEGINNING))
                for p in sorted(self._assigned)
            ]
        )

    def _on_message_error(self, message: Message) -> None:
        error, partition = message.error(), message.partition()
        if error is None:
            return
        if error.code() == KafkaError._AUTO_OFFSET_RESET and partition is not None:
            self._out_of_range(partition)
        elif error.fatal() or error.code() in STOPPING:
            self._failure = SourceError(f"topic '{self.topic}' failed: {error.str()}")
        else:
            self._say("source reports a problem", topic=self.topic, error=error.str())

    def _out_of_range(self, partition: int) -> None:
        """Stop, or jump: the broker does not hold the position any more, or not yet."""
        wanted = self._positions.get(partition, 0)
        low, high = self._watermarks(partition)
        what = (
            f"topic '{self.topic}' partition {partition}: the next offset to learn is {wanted}, "
            f"the broker holds {low} to {high}"
        )
        policy = self._settings.offset_reset
        if policy == "error":
            self._failure = OffsetOutOfRange(
                f"{what}; events were lost, or the topic was created anew. Set "
                "LIVETREE_KAFKA__OFFSET_RESET to earliest or latest to go on without them, or "
                "remove the checkpoints to start anew"
            )
            return
        self.resets += 1
        if policy == "latest":
            self._positions[partition] = high
        else:
            self._positions.pop(partition, None)  # wherever the beginning is by then
        self._assign_again = True  # seek() is refused in this state
        log.warning("offset out of range, position reset", reason=what, policy=policy)

    def _watermarks(self, partition: int) -> tuple[int, int]:
        try:
            found = self._consumer.get_watermark_offsets(
                TopicPartition(self.topic, partition), timeout=WATERMARK_SECONDS
            )
        except KafkaException as exc:
            raise SourceError(
                f"topic '{self.topic}' partition {partition}: its range of offsets cannot be "
                f"had: {exc.args[0].str()}"
            ) from exc
        if found is None:
            raise SourceError(f"topic '{self.topic}' partition {partition}: no range of offsets")
        return found

    def positions(self) -> dict[int, int]:
        """Return the offset after the last polled record; none for a partition not read yet."""
        return dict(self._positions)

    def identity(self) -> str | None:
        """Return the cluster's id."""
        return self._identity

    def lag(self) -> dict[int, int]:
        """Return how many records wait, by what the last fetch told; asks nobody."""
        waiting = {}
        for partition in sorted(self._assigned):
            known = self._consumer.get_watermark_offsets(
                TopicPartition(self.topic, partition), cached=True
            )
            low, high = known if known is not None else (-1, -1)
            if high >= 0:
                waiting[partition] = max(0, high - max(self._positions.get(partition, 0), low, 0))
        return waiting

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commit to the group without waiting; lag tools read it, we never do."""
        places = [TopicPartition(self.topic, p, offset) for p, offset in offsets.items()]
        try:
            if places:
                self._consumer.commit(offsets=places, asynchronous=True)
        except KafkaException as exc:
            self._say("group offsets not committed", error=exc.args[0].str())

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()

    def _on_client_error(self, error: KafkaError) -> None:
        """Note what the client library reports by itself; only fatal errors end anything."""
        if error.fatal():
            self._failure = SourceError(f"Kafka client failed: {error.str()}")
        else:
            self._say("broker trouble, retrying", error=error.str())

    def _say(self, event: str, **more: Any) -> None:
        if self._seldom.due(event):
            log.warning(event, bootstrap_servers=self._settings.bootstrap_servers, **more)
