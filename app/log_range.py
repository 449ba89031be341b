"""A topic read between two offsets, once, and never beyond: for commands, not for the learner.

It belongs to no group and commits nothing. The records of one partition come in their order.
Between partitions the broker keeps no order, so one is chosen that is the same at every reading:
the partition whose next record has the lowest timestamp goes first, among equals the lowest
partition.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from app.connection import READING, Connection, refused
from app.errors import OffsetOutOfRange, SourceError
from app.message import Messages
from app.settings import KafkaSettings
from app.source import Record

BATCH = 1000
ANSWER_SECONDS = 10.0  # of a broker that is there
POLL_SECONDS = 0.5
STALLED_SECONDS = 60.0  # without a record, or word that there is none
QUEUED_KBYTES = 16_384  # fetched ahead, a partition


class Span(NamedTuple):
    """Offsets from `start` up to, not including, `end`."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """How many offsets that are; there may be fewer records."""
        return max(0, self.end - self.start)


class LogRange:
    """All partitions of one topic, as far as they reach now."""

    def __init__(self, kafka: KafkaSettings, topic: str) -> None:
        self.topic = topic
        self.reached: dict[int, int] = {}  # partition -> offset after all that was read
        self._kafka = kafka
        self._asking = self._consumer()
        try:
            self.identity, partitions = self._look()
            self.held = {partition: self._held(partition) for partition in partitions}
        except BaseException:
            self._asking.close()
            raise

    def _consumer(self) -> Consumer:
        properties: dict[str, Any] = {
            "log_level": 2,
            "queued.max.messages.kbytes": QUEUED_KBYTES,
            **Connection(self._kafka).properties(),
            # A name of its own that is never joined and never committed to.
            "group.id": f"{self._kafka.group_id}.reader",
            **READING,
        }
        try:
            return Consumer(properties)
        except KafkaException as exc:
            raise refused(exc) from exc

    def _look(self) -> tuple[str | None, list[int]]:
        servers = self._kafka.bootstrap_servers
        try:
            metadata = self._asking.list_topics(self.topic, timeout=ANSWER_SECONDS)
        except KafkaException as exc:
            raise SourceError(
                f"no broker answered at {servers} within {ANSWER_SECONDS:g} s: "
                f"{exc.args[0].str()}; expected Kafka there (LIVETREE_KAFKA__BOOTSTRAP_SERVERS)"
            ) from exc
        topic = metadata.topics[self.topic]
        if topic.error is not None:
            raise SourceError(
                f"topic '{self.topic}' at {servers} cannot be read: {topic.error.str()}; expected "
                "a topic that exists and that these settings may read"
            )
        return metadata.cluster_id, sorted(topic.partitions)

    def _held(self, partition: int) -> Span:
        try:
            found = self._asking.get_watermark_offsets(
                TopicPartition(self.topic, partition), timeout=ANSWER_SECONDS
            )
        except KafkaException as exc:
            raise self._failed(exc.args[0], partition) from exc
        if found is None:
            raise SourceError(f"topic '{self.topic}' partition {partition}: no range of offsets")
        return Span(*found)

    def at_time(self, milliseconds: int) -> dict[int, int]:
        """Return for each partition the first offset not older than a time; its end if none."""
        places = [TopicPartition(self.topic, p, milliseconds) for p in self.held]
        try:
            found = self._asking.offsets_for_times(places, timeout=ANSWER_SECONDS)
        except KafkaException as exc:
            raise SourceError(
                f"topic '{self.topic}': offsets of a time cannot be had: {exc.args[0].str()}"
            ) from exc
        return {
            place.partition: place.offset if place.offset >= 0 else self.held[place.partition].end
            for place in found
        }

    def check(self, spans: Mapping[int, Span]) -> None:
        """Raise OffsetOutOfRange unless the broker holds all of these, with the numbers."""
        for partition, span in sorted(spans.items()):
            held = self.held.get(partition)
            if held is None:
                raise OffsetOutOfRange(
                    f"topic '{self.topic}' has no partition {partition}; expected one of "
                    f"{', '.join(map(str, self.held))}"
                )
            if span.length and not held.start <= span.start <= span.end <= held.end:
                raise OffsetOutOfRange(
                    f"topic '{self.topic}' partition {partition}: offsets {span.start} to "
                    f"{span.end} are asked for, the broker holds {held.start} to {held.end}"
                )

    def read(self, spans: Mapping[int, Span]) -> Iterator[Sequence[Record]]:
        """Yield the records of these offsets in batches; ends with them, not later."""
        self.check(spans)
        self.reached = {partition: span.start for partition, span in spans.items()}
        wanted = {partition: span for partition, span in spans.items() if span.length}
        if len(wanted) <= 1:
            for partition, span in wanted.items():
                yield from self._partition(partition, span)
            return
        streams = [_flat(self._partition(partition, span)) for partition, span in wanted.items()]
        merged = heapq.merge(*streams, key=lambda record: (record.timestamp_ms, record.partition))
        while batch := list(islice(merged, BATCH)):
            yield batch

    def _partition(self, partition: int, span: Span) -> Iterator[Sequence[Record]]:
        """Read one partition with a consumer of its own, so that no partition holds up another."""
        consumer = self._consumer()
        try:
            consumer.assign([TopicPartition(self.topic, partition, span.start)])
            heard = time.monotonic()
            while self.reached[partition] < span.end:
                first = consumer.poll(POLL_SECONDS)
                if first is None:
                    if time.monotonic() - heard > STALLED_SECONDS:
                        raise self._stalled(partition)
                    continue
                messages = [first, *consumer.consume(BATCH - 1, 0)]
                good = [message for message in messages if message.error() is None]
                if good:
                    heard = time.monotonic()
                    yield self._records(partition, good, span)
                for message in messages:
                    error = message.error()
                    if error is None:
                        continue
                    if error.code() == KafkaError._PARTITION_EOF:
                        # The end of what is committed: nothing else will come of this span.
                        self.reached[partition] = max(
                            self.reached[partition], min(span.end, message.offset() or 0)
                        )
                        return
                    self._raise_if_final(error, partition, span)
        finally:
            consumer.close()

    def _records(self, partition: int, messages: list[Any], span: Span) -> Sequence[Record]:
        inside = [message for message in messages if message.offset() < span.end]
        last = messages[-1].offset()
        # A record beyond the end tells that all before it has been seen, gaps included.
        self.reached[partition] = min(span.end, last + 1)
        return Messages(self.topic, inside)

    def _raise_if_final(self, error: KafkaError, partition: int, span: Span) -> None:
        """Raise for what no waiting mends; the rest mends itself, or ends as a stall."""
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            self.held[partition] = held = self._held(partition)
            raise OffsetOutOfRange(
                f"topic '{self.topic}' partition {partition}: offset {self.reached[partition]} of "
                f"{span.start} to {span.end} went away while reading; the broker holds "
                f"{held.start} to {held.end}"
            )
        if error.fatal() or error.code() in FINAL:
            raise self._failed(error, partition)

    def _failed(self, error: KafkaError, partition: int) -> SourceError:
        return SourceError(f"topic '{self.topic}' partition {partition} failed: {error.str()}")

    def _stalled(self, partition: int) -> SourceError:
        return SourceError(
            f"topic '{self.topic}' partition {partition}: nothing came within "
            f"{STALLED_SECONDS:g} s at offset {self.reached[partition]}; expected the broker to "
            "answer"
        )

    def close(self) -> None:
        """Let go of the broker."""
        self._asking.close()

    def __enter__(self) -> LogRange:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


FINAL = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
)


def _flat(batches: Iterable[Sequence[Record]]) -> Iterator[Record]:
    for batch in batches:
        yield from batch
