"""What a record carries beside its value, values that are none, and values that are large."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME

from app import wiring
from app.source import Record
from tests.app.conftest import events
from tests.kafka.broker import Kafka
from tests.service import Make, kept, learn_to, model_of, running, settings_for, wait
from tests.source import opened, take

MEGABYTE = 1_000_000


def test_keys_headers_and_timestamps_do_not_shape_the_model(
    kafka: Kafka, make_settings: Make, tmp_path: Any
) -> None:
    plain, adorned = kafka.topic(), kafka.topic()
    values = events(300)
    kafka.send(plain, *values)
    for place, value in enumerate(values):
        kafka.send(
            adorned, value, key=b"\xff%d" % place, timestamp=1_000 + place, partition=0,
            headers=[("h", b"\x00\xff"), ("h", None), ("empty", b""), ("é", "é".encode())],
        )  # fmt: skip
    hashes = []
    for topic in (plain, adorned):
        settings = settings_for(
            make_settings, kafka, topic, checkpoint={"folder": tmp_path / topic}
        )
        learn_to(wiring.build(settings), 300)
        hashes.append(model_of(settings.checkpoint.folder))

    assert hashes[0] == hashes[1]


@pytest.mark.parametrize(
    ("policy", "kind"),
    [("CreateTime", TIMESTAMP_CREATE_TIME), ("LogAppendTime", TIMESTAMP_LOG_APPEND_TIME)],
)
def test_the_time_of_a_record_is_the_producers_or_the_brokers(
    kafka: Kafka, make_settings: Make, learned: list[Record], policy: str, kind: int
) -> None:
    topic = kafka.topic(message_timestamp_type=policy)
    before = int(time.time() * 1000)
    kafka.send(topic, *events(20), timestamp=1_700_000_000_123)
    assert kafka.read(topic, 20)[0].timestamp()[0] == kind
    with running(settings_for(make_settings, kafka, topic)) as service:
        wait(lambda: len(learned) == 20, service)

    shown = service.metrics.registry.get_sample_value("livetree_last_event_timestamp_seconds")
    assert shown is not None
    if kind == TIMESTAMP_CREATE_TIME:
        assert {record.timestamp_ms for record in learned} == {1_700_000_000_123}
        assert shown == 1_700_000_000.123
    else:
        assert all((record.timestamp_ms or 0) >= before - 1000 for record in learned)
        assert shown * 1000 >= before - 1000


def test_a_tombstone_is_passed_over_and_an_empty_value_is_poison(
    kafka: Kafka, make_settings: Make, learned: list[Record]
) -> None:
    topic = kafka.topic()
    kafka.send(topic, *events(10))
    kafka.send(topic, None, key=b"k")
    kafka.send(topic, b"", key=b"k")
    kafka.send(topic, *events(10, seed=2))
    settings = settings_for(make_settings, kafka, topic)
    with running(settings) as service:
        wait(lambda: len(learned) == 22, service)

    value = service.metrics.registry.get_sample_value
    assert kept(settings).events == 20
    assert value("livetree_tombstones_skipped_total") == 1
    assert value("livetree_events_rejected_total", {"reason": "not_json"}) == 1
    (letter,) = kafka.read(f"{topic}.dlq", 1)
    assert (letter.key(), letter.value()) == (b"k", b"")


@pytest.mark.parametrize("limit", ["fetch.message.max.bytes", "fetch.max.bytes"])
def test_a_record_beyond_the_fetch_limit_comes_through_in_its_place(
    kafka: Kafka, limit: str
) -> None:
    topic = kafka.topic(partitions=2, max_message_bytes=str(20 * MEGABYTE))
    sizes = [1, 999_999, 1_000_000, 1_048_576, 1_048_577, 2, 10 * MEGABYTE, 3]
    for size in sizes:
        kafka.send(topic, b"x" * size, partition=0)
    kafka.send(topic, b"other", partition=1)
    extra = {limit: "1000", **({"message.max.bytes": "1000"} if limit == "fetch.max.bytes" else {})}
    source = opened(kafka, topic, extra=extra)

    records = take(source, len(sizes) + 1)

    source.close()
    assert [len(r.value or b"") for r in records if r.partition == 0] == sizes
    assert source.positions() == {0: len(sizes), 1: 1}


@pytest.mark.parametrize(("max_bytes", "learns"), [(MEGABYTE, 40), (20 * MEGABYTE, 41)])
def test_a_large_value_among_small_ones_is_learned_or_put_aside_whole(
    kafka: Kafka, make_settings: Make, learned: list[Record], max_bytes: int, learns: int
) -> None:
    topic = kafka.topic(max_message_bytes=str(20 * MEGABYTE))
    large = json.loads(events(1)[0]) | {"note": "n" * 10 * MEGABYTE}
    value = json.dumps(large).encode()
    kafka.send(topic, *events(20))
    kafka.send(topic, value)
    kafka.send(topic, *events(20, seed=2))
    settings = settings_for(make_settings, kafka, topic, event={"max_bytes": max_bytes})
    with running(settings) as service:
        wait(lambda: len(learned) == 41, service)

    assert kept(settings).events == learns
    letters = kafka.read(f"{topic}.dlq", 41 - learns)
    assert [letter.value() for letter in letters] == [value] * (41 - learns)
