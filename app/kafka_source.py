"""A Kafka topic as a source: all its partitions, assigned by hand, from the checkpoint's offsets.

One thread only: confluent-kafka's Consumer blocks calls from other threads while one polls.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from app.connection import READING, Connection, refused
from app.errors import OffsetOutOfRange, SourceChanged, SourceError
from app.intake import open_intake
from app.log import get_logger
from app.message import Delivery, Fault
from app.settings import KafkaSettings
from app.source import Record, Start
from app.topic_id import TopicId

log = get_logger(__name__)

METADATA_SECONDS = 1.0  # short: the stop flag is only looked at between polls
WATERMARK_SECONDS = 10.0
ANSWER_SECONDS = 5.0  # for the topic's id, where the next step depends on it
RETRY_SECONDS = 5.0
QUEUE_PAUSE_MS = 20
QUIET_SECONDS = 5.0  # without records: ask whether the broker is still there

# The topic or a partition is out of sight: deleted, or not known yet to a broker that came back.
GONE = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
)


class KafkaSource:
    """All partitions of one topic, assigned by hand, from the checkpoint's offsets."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.topic = settings.topic
        self.resets = 0
        self._settings = settings
        self._connection = Connection(settings)
        self._consumer = self._new_consumer()
        self._intake = open_intake(self._consumer, settings.topic)
        self._start = Start()  # what the positions belong to
        self._cluster: str | None = None
        self._topic_id = TopicId(settings)
        self._assigned: set[int] = set()
        self._awaited = False  # the topic was not there when it was first asked for
        self._positions: dict[int, int] = {}
        self._failure: SourceError | None = None
        self._look_again_at = 0.0
        self._heard_at = -math.inf  # never
        self._away_since: float | None = None
        self._lost: set[int] = set()  # partitions whose position the broker refuses
        self._in_doubt = False  # whether the topic must be looked at and assigned anew
        self._may_commit = True

    def _new_consumer(self) -> Consumer:
        properties: dict[str, Any] = {
            "fetch.wait.max.ms": self._settings.fetch_wait_ms,
            # With a full queue the client pauses, by default for a second; a tree that has
            # learned the queue by then would wait for it.
            "fetch.queue.backoff.ms": QUEUE_PAUSE_MS,
            "log_level": 4,
            # There is no session, since partitions are assigned by hand; but a commit that finds
            # no coordinator holds up the close for so long.
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 2000,
            **self._connection.properties(),
            "group.id": self._settings.group_id,
            **READING,  # the checkpoint alone decides where to go on
            "on_commit": self._on_commit,
        }
        try:
            return Consumer(properties)
        except KafkaException as exc:
            raise refused(exc) from exc

    def open(self, start: Start) -> None:
        """Remember where to begin; the partitions are assigned once the topic is there."""
        self._start = start

    def poll(self, limit: int) -> Sequence[Record]:
        """Return up to ``limit`` records; a failure is raised once its predecessors are out."""
        if self._failure is not None:
            raise self._failure
        if self._connection.fatal is not None:
            raise SourceError(f"Kafka client failed: {self._connection.fatal}")
        self._connection.renew(self._consumer)
        if self._topic_id.answered:
            self._check_topic_id()
        if time.monotonic() >= self._look_again_at and not self._look():
            self._consumer.poll(self._settings.poll_timeout_seconds)
            return []
        records, faults = self._intake.take(limit, self._settings.poll_timeout_seconds)
        if records is None and not faults:
            if self._away_since is None:
                self._look_again_at = min(self._look_again_at, self._heard_at + QUIET_SECONDS)
            return []
        self._heard()
        return self._advanced(records, faults)

    def _advanced(self, records: Delivery | None, faults: Sequence[Fault]) -> Sequence[Record]:
        """Move the positions behind what came; returns what of it is new."""
        if records is not None:
            first, last = records.ends()
            positions = self._positions
            if any(offset < positions.get(partition, 0) for partition, offset in first.items()):
                # Delivered again after a new assignment; learned already.
                records = records.since(positions)
                _, last = records.ends()
            positions |= {partition: offset + 1 for partition, offset in last.items()}
        for fault in faults:
            self._on_fault(fault)
        return records if records else []

    def _look(self) -> bool:
        """Look after the topic, and after positions in it; False while there is nothing to poll."""
        try:
            found = self._partitions()
            if found is not None:
                self._check_identity(found)
                self._look_for_lost_positions()
                self._assign(found)
        except KafkaException as exc:
            self._unreachable("broker unreachable, waiting", error=exc.args[0].str())
            found = None
        wait = self._settings.partition_refresh_seconds
        if found is None:
            # Records may still flow while the question fails: do not ask before each poll.
            wait = RETRY_SECONDS if self._assigned else 0.0
        self._look_again_at = time.monotonic() + wait
        return bool(self._assigned)

    def _partitions(self) -> set[int] | None:
        """Ask the broker for the topic's partitions; None, with a log line, to ask again."""
        metadata = self._consumer.list_topics(self.topic, timeout=METADATA_SECONDS)
        topic = metadata.topics[self.topic]
        if topic.error is not None:
            if topic.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise SourceError(f"topic '{self.topic}' may not be read: {topic.error.str()}")
            self._awaited |= topic.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
            self._in_doubt = True
            error = topic.error.str()
            self._unreachable("topic is not there, waiting", topic=self.topic, error=error)
            return None
        self._heard()
        self._cluster = metadata.cluster_id
        return set(topic.partitions) or None

    def _check_identity(self, found: set[int]) -> None:
        """Refuse, or forget, offsets that belong to another cluster or another topic."""
        known = self._start
        if known.identity and self._cluster and known.identity != self._cluster:
            self._source_changed(f"cluster id is '{self._cluster}'; expected '{known.identity}'")
        self._topic_id.ask(self._cluster)
        if self._in_doubt or not self._assigned:
            self._check_topic_id(ANSWER_SECONDS)
        missing = sorted((self._start.offsets.keys() | self._assigned) - found)
        if missing:
            self._source_changed(f"topic '{self.topic}' has no partition {missing[0]}; expected it")
        self._start = self._start._replace(identity=self._cluster)

    def _check_topic_id(self, wait_seconds: float = 0.0) -> None:
        """Compare the topic's id with the one that was learned from, or take note of the first."""
        answer, known = self._topic_id.answer(wait_seconds), self._start.topic_id
        if answer is None:
            return
        if known and answer != known:
            self._source_changed(
                f"topic '{self.topic}' has the id '{answer}'; expected '{known}': it was deleted "
                "and created anew"
            )
        self._start = self._start._replace(topic_id=answer)

    def _source_changed(self, what: str) -> None:
        if self._settings.offset_reset == "error":
            raise SourceChanged(
                f"{what}. The model was fed from another log: point "
                "LIVETREE_KAFKA__BOOTSTRAP_SERVERS at that one, move the checkpoints away to start "
                "anew, or set LIVETREE_KAFKA__OFFSET_RESET to earliest or latest to go on here"
            )
        self.resets += 1
        log.warning(
            "source changed, offsets given up",
            reason=what,
            topic=self.topic,
            policy=self._settings.offset_reset,
            given_up=self._positions or dict(self._start.offsets),
        )
        self._start = Start()
        self._positions.clear()
        self._assigned.clear()
        self._lost.clear()
        self._in_doubt = False
        self._look_again_at = 0.0

    def _assign(self, found: set[int]) -> None:
        """Find a position for each new partition, and assign all.

        Only partitions that are there at the first start may begin at their end. What appears
        later is read from its beginning: its records were written while we listened.
        """
        new = found - self._assigned
        if not new and not self._in_doubt:
            return
        first_time, policy = not self._assigned, self._settings.start
        if self.resets and self._settings.offset_reset != "error":
            policy = self._settings.offset_reset
        if first_time and policy == "latest" and not self._start.offsets and not self._awaited:
            self._positions |= self._ends(found)
        for partition in new:
            if partition in self._start.offsets:
                self._positions[partition] = self._start.offsets[partition]
        self._assigned |= found
        self._in_doubt = False
        self._intake.listen(sorted(self._assigned))
        self._consumer.assign(
            [
                TopicPartition(self.topic, p, self._positions.get(p, OFFSET_BEGINNING))
                for p in sorted(self._assigned)
            ]
        )
        log.info("partitions assigned", topic=self.topic, offsets=self._positions.copy())

    def _ends(self, partitions: set[int]) -> dict[int, int]:
        """Ask the broker where partitions end; raises KafkaException where it does not say."""
        places = [TopicPartition(self.topic, p, OFFSET_END) for p in sorted(partitions)]
        ends = self._consumer.offsets_for_times(places, timeout=METADATA_SECONDS)
        for end in ends:
            if end.error is not None or end.offset < 0:
                raise KafkaException(end.error or KafkaError(KafkaError._NO_OFFSET))
        return {end.partition: end.offset for end in ends}

    def _on_fault(self, fault: Fault) -> None:
        error, partition, _ = fault
        if error.code() == KafkaError._PARTITION_EOF:
            self._at_end(fault)
        elif error.code() == KafkaError._AUTO_OFFSET_RESET and partition is not None:
            self._lost.add(partition)
            self._doubt()
        elif error.code() in GONE:
            self._doubt()
        elif error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            # A commit would wait for the group's coordinator, and closing for the commit.
            self._may_commit = False
            self._connection.say(
                "group may not be used, lag tools will not see progress", error=error.str()
            )
        elif error.fatal() or error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            self._failure = SourceError(f"topic '{self.topic}' failed: {error.str()}")
        else:
            self._connection.say("source reports a problem", topic=self.topic, error=error.str())

    def _at_end(self, fault: Fault) -> None:
        """Move to the end of a partition that is read to its end.

        The last offsets may belong to no record that is ever delivered: to the marks that end a
        transaction, to an aborted one, to records that compaction or retention took. Without this
        they would count as lag for ever.
        """
        _, partition, end = fault
        if partition is not None and end is not None:
            self._positions[partition] = max(self._positions.get(partition, 0), end)

    def _doubt(self) -> None:
        """Look at the topic before the next records are taken: it may be another one by now."""
        self._in_doubt = True
        self._look_again_at = 0.0

    def _look_for_lost_positions(self) -> None:
        """Stop, or jump, where the broker does not hold the position any more, or not yet."""
        for partition in sorted(self._lost):
            self._out_of_range(partition)
        self._lost.clear()

    def _out_of_range(self, partition: int) -> None:
        wanted = self._positions.get(partition, 0)
        low, high = self._watermarks(partition)
        if low <= wanted <= high:
            return  # it was out of sight for a moment only
        policy = self._settings.offset_reset
        to = high if policy == "latest" else low
        lost = f"up to {to - wanted} events were lost" if wanted < low else "it was cut or replaced"
        what = (
            f"topic '{self.topic}' partition {partition}: the next offset to learn is {wanted}, "
            f"the broker holds {low} to {high}: {lost}"
        )
        if policy == "error":
            raise OffsetOutOfRange(
                f"{what}. Set LIVETREE_KAFKA__OFFSET_RESET to earliest or latest to go on without "
                "them, or move the checkpoints away to start anew"
            )
        self.resets += 1
        if policy == "latest":
            self._positions[partition] = high
        else:
            self._positions.pop(partition, None)  # wherever the beginning is by then
        log.warning("offset out of range, position reset", reason=what, policy=policy)

    def _watermarks(self, partition: int) -> tuple[int, int]:
        """Ask the broker for the range of a partition; raises KafkaException to ask again."""
        place = TopicPartition(self.topic, partition)
        found = self._consumer.get_watermark_offsets(place, timeout=WATERMARK_SECONDS)
        if found is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return found

    def positions(self) -> dict[int, int]:
        """Return the next offset of each partition; none for one not read yet."""
        return dict(self._positions)

    def identity(self) -> str | None:
        """Return the cluster's id."""
        return self._cluster

    @property
    def topic_id(self) -> str | None:
        """Return the id that the cluster gave the topic; None: not known."""
        return self._start.topic_id

    @property
    def connected(self) -> bool:
        """Whether the broker answers and the topic is there."""
        return self._away_since is None and self._heard_at > 0

    def lag(self) -> dict[int, int]:
        """Return how many offsets lie ahead, by what the last fetch told; asks nobody.

        Up to the high watermark: records of an open transaction count, as in lag tools.
        """
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
            if places and self._may_commit:
                self._consumer.commit(offsets=places, asynchronous=True)
        except KafkaException as exc:
            self._connection.say("group offsets not committed", error=exc.args[0].str())

    def _on_commit(self, error: KafkaError | None, _places: list[TopicPartition]) -> None:
        if error is not None:
            self._connection.say("group offsets not committed", error=error.str())

    def close(self) -> None:
        """Leave the broker."""
        self._intake.close()
        self._consumer.close()

    def _heard(self) -> None:
        """Note that the broker is there."""
        self._heard_at = time.monotonic()
        if self._away_since is not None:
            away_seconds = round(self._heard_at - self._away_since, 1)
            self._away_since = None
            log.info("source is there again", topic=self.topic, away_seconds=away_seconds)

    def _unreachable(self, event: str, **more: Any) -> None:
        """Note that the broker or the topic is away."""
        if self._away_since is None:
            self._away_since = max(self._heard_at, 0.0) or time.monotonic()
        self._connection.say(event, **more)
