"""Snapshots on a topic of Apache Kafka: whole, ordered by the broker, safe from its cleaner."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition
from confluent_kafka.admin import ConfigResource

from app.settings import Settings
from app.snapshot_chunk import parts_of
from app.snapshot_message import about, message_pieces
from app.snapshot_topic import TopicOutlet, key_of
from app.wiring import Service, build
from tests.app.snapshots import answers, published
from tests.app.test_replica import refused, served
from tests.app.test_replica import wait as wait_for
from tests.kafka.broker import Kafka

COMPACT = {"cleanup_policy": "compact"}
QUICK = {  # the cleaner comes at once
    "cleanup_policy": "compact", "segment_ms": "100", "min_cleanable_dirty_ratio": "0.001",
    "min_compaction_lag_ms": "0", "delete_retention_ms": "100",
}  # fmt: skip
ROLL = b"roll/0/0"
SMALL = 1500  # bytes a message: small trees are cut too


@pytest.fixture
def make(kafka: Kafka, make_settings: Callable[..., Settings]) -> Callable[..., Settings]:
    """Return a factory of settings for a topic of snapshots."""

    def made(topic: str, **more: Any) -> Settings:
        snapshots = {"topic": topic, "message_bytes": SMALL, **more.pop("snapshots", {})}
        servers = {"bootstrap_servers": kafka.bootstrap_servers, "fetch_wait_ms": 10}
        return make_settings(kafka=servers, snapshots=snapshots, **more)

    return made


@contextmanager
def replica(settings: Settings) -> Iterator[Service]:
    service = build(settings)
    service.start()
    try:
        yield service
    finally:
        service.stop()
    assert service.failure is None


@contextmanager
def outlet(settings: Settings) -> Iterator[TopicOutlet]:
    made = TopicOutlet(settings)
    try:
        yield made
    finally:
        made.close()


def send(to: TopicOutlet, count: int, model: str = "livetree", **more: Any) -> None:
    of = published(count, **more)
    name = f"{count:032x}"
    to.send(message_pieces(of, about(of, model, name)), name)


def records(count: int, model: str = "livetree", part_bytes: int = SMALL) -> list[bytes]:
    of, name = published(count), f"{count:032x}"
    return list(parts_of(message_pieces(of, about(of, model, name)), name, part_bytes))


def test_a_learner_creates_the_topic_compacted(kafka: Kafka, make: Any) -> None:
    topic = f"made-{time.monotonic_ns()}"
    with outlet(make(topic)) as learner, replica(make(topic, role="api")) as follower:
        send(learner, 300)
        wait_for(lambda: served(follower) == "vfdt-300")

    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    found = kafka.admin.describe_configs([resource])[resource].result(30)
    assert found["cleanup.policy"].value == "compact"
    assert kafka.end(topic) == len(records(300)) > 1  # it was cut


def test_replicas_start_ready_from_the_topic_alone(kafka: Kafka, make: Any) -> None:
    topic = kafka.topic(**COMPACT)
    with outlet(make(topic)) as learner:
        for count in (100, 300, 500):
            send(learner, count)

    with ExitStack() as running:
        settings = make(topic, role="api")
        replicas = [running.enter_context(replica(settings)) for _ in range(3)]
        for each in replicas:
            wait_for(lambda each=each: served(each) == "vfdt-500")
            assert answers(each.serving.current()) == answers(published(500))
            assert each.serving.current().offsets == {"events-0": 500}
            assert not refused(each)


def test_a_whole_snapshot_is_found_far_from_the_end(kafka: Kafka, make: Any) -> None:
    topic = kafka.topic(**COMPACT)
    with outlet(make(topic)) as learner:
        send(learner, 200)
    kafka.send(topic, *[b"of another model"] * 700, key=b"other/0/0")

    with replica(make(topic, role="api")) as follower:
        wait_for(lambda: served(follower) == "vfdt-200")
        kafka.send(topic, b"again", key=b"other/0/0")
        wait_for(lambda: refused(follower))
        assert refused(follower) == {"foreign_snapshot": 1}


def test_an_empty_topic_is_waited_at(kafka: Kafka, make: Any) -> None:
    topic = kafka.topic(**COMPACT)
    with replica(make(topic, role="api")) as follower, outlet(make(topic)) as learner:
        connected = follower.metrics.snapshot_source_connected
        wait_for(lambda: next(iter(connected.collect())).samples[0].value == 1)
        assert follower.ready() == (False, "waiting for a snapshot of the model 'livetree'")

        send(learner, 100)
        wait_for(lambda: served(follower) == "vfdt-100")


def garbage(kind: str) -> list[tuple[bytes, bytes | None]]:
    """Return records with keys, none of which is a whole snapshot of this model."""
    good = records(700)
    named = [(key_of("livetree", 0, index), part) for index, part in enumerate(good)]
    if kind == "truncated":
        return [(key, part[:-1]) for key, part in named]
    if kind == "old version":
        return [(key, part[:8] + b"\x09\0\0\0" + part[12:]) for key, part in named]
    if kind == "parts missing":
        return named[1:]
    if kind == "of another model inside":
        return [
            (key_of("livetree", 1, index), part) for index, part in enumerate(records(700, "else"))
        ]
    if kind == "of another model":
        return [(key_of("else", 0, index), part) for index, part in enumerate(good)]
    return [(b"livetree/0/0", b"\xff\x00" * 300), (b"livetree/0/1", None), (b"", b"x"),
            (b"livetree/0/0", b"")]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "reasons"),
    [
        ("garbage", {"snapshot_damaged", "foreign_snapshot"}),
        ("truncated", {"snapshot_damaged"}),
        ("old version", {"snapshot_format"}),
        ("parts missing", {"snapshot_incomplete"}),
        ("of another model inside", {"foreign_snapshot"}),
        ("of another model", {"foreign_snapshot"}),
    ],
)
def test_what_is_no_snapshot_of_this_model_is_passed_over_and_counted(
    kafka: Kafka, make: Any, kind: str, reasons: set[str]
) -> None:
    topic = kafka.topic(**COMPACT)
    with replica(make(topic, role="api")) as follower, outlet(make(topic)) as learner:
        send(learner, 300)
        wait_for(lambda: served(follower) == "vfdt-300")
        for key, value in garbage(kind):
            kafka.send(topic, value, key=key)
        wait_for(lambda: set(refused(follower)) & reasons)

        assert served(follower) == "vfdt-300"
        send(learner, 900)
        wait_for(lambda: served(follower) == "vfdt-900")
        # One refused before its first part came is missed by the parts behind it.
        assert set(refused(follower)) - {"snapshot_incomplete"} <= reasons

    with replica(make(topic, role="api")) as late:
        wait_for(lambda: served(late) == "vfdt-900")


def test_two_models_share_a_topic(kafka: Kafka, make: Any) -> None:
    topic = kafka.topic(**COMPACT)
    with ExitStack() as running:
        names = ("one", "two")
        learners = {n: running.enter_context(outlet(make(topic, name=n))) for n in names}
        replicas = {
            n: running.enter_context(replica(make(topic, name=n, role="api"))) for n in names
        }
        for count in (200, 400, 600):
            for n, more in (("one", 0), ("two", 50)):
                send(learners[n], count + more, model=n)
        for n, more in (("one", 0), ("two", 50)):
            wait_for(lambda n=n, more=more: served(replicas[n]) == f"vfdt-{600 + more}")
            assert answers(replicas[n].serving.current()) == answers(published(600 + more))
            assert set(refused(replicas[n])) <= {"foreign_snapshot"}


def test_parts_of_two_learners_of_one_name_are_never_mixed(kafka: Kafka, make: Any) -> None:
    topic = kafka.topic(**COMPACT)
    one, other = records(300), records(600)
    with replica(make(topic, role="api")) as follower, outlet(make(topic)) as learner:
        send(learner, 200)
        wait_for(lambda: served(follower) == "vfdt-200")
        for index, pair in enumerate(zip(one, other, strict=False)):
            for part in pair:
                kafka.send(topic, part, key=key_of("livetree", 0, index))
        wait_for(lambda: refused(follower).get("snapshot_incomplete", 0) >= 2)
        assert served(follower) == "vfdt-200"

        for index, part in enumerate(one):
            kafka.send(topic, part, key=key_of("livetree", 0, index))
        wait_for(lambda: served(follower) == "vfdt-300")


def test_a_learner_that_died_while_it_wrote_leaves_the_last_snapshot_alone(
    kafka: Kafka, make: Any
) -> None:
    """Compaction keeps the newest record of a key: had it the keys of the last, that were gone."""
    topic = kafka.topic(**QUICK)
    with outlet(make(topic)) as first:
        send(first, 300)
        assert first._slot == 1
    for index, part in enumerate(records(400)[:-1]):  # what the next one begins, and never ends
        kafka.send(topic, part, key=key_of("livetree", 1, index))
    cleaned(kafka, topic)

    with replica(make(topic, role="api")) as follower:
        wait_for(lambda: served(follower) == "vfdt-300")

        with outlet(make(topic)) as back:  # begins in the slot that is not the last whole one's
            send(back, 500)
            assert back._slot == 0
        wait_for(lambda: served(follower) == "vfdt-500")


def test_a_compacted_topic_holds_the_newest_snapshot_and_little_more(
    kafka: Kafka, make: Any
) -> None:
    topic = kafka.topic(**QUICK)
    with outlet(make(topic)) as learner:
        for count in range(100, 900, 50):
            send(learner, count)
    sent, parts = kafka.end(topic), len(records(850))
    cleaned(kafka, topic)

    with replica(make(topic, role="api")) as late:
        wait_for(lambda: served(late) == "vfdt-850")
        assert answers(late.serving.current()) == answers(published(850))
    ours = [key for key in left(kafka, topic) if key != ROLL]
    assert len(ours) == 2 * parts < sent


def left(kafka: Kafka, topic: str) -> list[Any]:
    """Return the keys that are left of those on a topic, in their order."""
    consumer = kafka.consumer()
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    keys, end = [], kafka.end(topic)
    while (message := consumer.poll(5)) is not None:
        keys.append(message.key())
        if (message.offset() or 0) >= end - 1:
            break
    consumer.close()
    return keys


def cleaned(kafka: Kafka, topic: str) -> None:
    """Write on, as another model, until the cleaner has been over all that was there before."""
    deadline, rolled = time.monotonic() + 120, 0
    while left(kafka, topic).count(ROLL) >= rolled:
        assert time.monotonic() < deadline, "the cleaner does not come"
        kafka.send(topic, b"roll", key=ROLL)
        rolled += 1
        time.sleep(0.2)


def test_a_topic_that_was_deleted_and_made_anew_is_followed(kafka: Kafka, make: Any) -> None:
    topic = kafka.topic(**COMPACT)
    settings = make(topic)
    with replica(make(topic, role="api")) as follower:
        with outlet(settings) as learner:
            for count in (300, 400):
                send(learner, count)
        wait_for(lambda: served(follower) == "vfdt-400")
        kafka.delete_topic(topic)
        with outlet(settings) as learner:
            send(learner, 500)
        wait_for(lambda: served(follower) == "vfdt-500")
        assert json.dumps(refused(follower)) == "{}"
