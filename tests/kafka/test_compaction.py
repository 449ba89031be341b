"""Compacted topics: offsets with holes, tombstones, and checkpoints that point into a hole."""

from __future__ import annotations

import time

import pytest

from app.source import Record, Start
from tests.app.conftest import events
from tests.kafka.broker import Kafka
from tests.service import Make, kept, lag, running, settings_for, wait
from tests.source import opened

QUICK = {
    "cleanup_policy": "compact",
    "segment_ms": "100",
    "min_cleanable_dirty_ratio": "0.01",
    "delete_retention_ms": "0",
    "max_compaction_lag_ms": "100",
}


def offsets(kafka: Kafka, topic: str, start: int = 0) -> list[int]:
    """Return the offsets that still have a record, read from an offset on."""
    source = opened(kafka, topic, Start({0: start}))
    found: list[int] = []
    while source.positions() != {0: kafka.end(topic)}:
        found += [record.offset for record in source.poll(1000)]
    source.close()
    return found


def compacted(kafka: Kafka, topic: str, gone: set[int]) -> list[int]:
    """Write on until the cleaner has removed these offsets; returns those that are left.

    The segment that is being written is never cleaned, and a new one begins with a record only.
    """
    deadline = time.monotonic() + 120
    while gone & set(left := offsets(kafka, topic)):
        assert time.monotonic() < deadline, f"the cleaner does not come: {left}"
        time.sleep(0.2)
        kafka.send(topic, events(1, seed=7)[0], key=b"roll")
    return left


@pytest.fixture(scope="module")
def holes(kafka: Kafka) -> tuple[str, list[int]]:
    """Return a topic of which only every tenth event of the first hundred is left, and more."""
    topic = kafka.topic(**QUICK)
    for place, value in enumerate(events(100)):
        kafka.send(topic, value, key=b"unique-%d" % place if place % 10 == 0 else b"same")
    kafka.send(topic, None, key=b"unique-50")
    return topic, compacted(kafka, topic, {50, *(p for p in range(99) if p % 10)})


def test_the_cleaner_left_holes(holes: tuple[str, list[int]]) -> None:
    left = holes[1]
    assert left[:10] == [0, 10, 20, 30, 40, 60, 70, 80, 90, 99]


@pytest.mark.parametrize("offset", [0, 1, 9, 45, 50, 59, 100])
def test_a_checkpoint_that_points_into_a_hole_goes_on_behind_it(
    kafka: Kafka, holes: tuple[str, list[int]], offset: int
) -> None:
    topic, left = holes

    found = offsets(kafka, topic, offset)

    # What was written to make the cleaner come may be cleaned itself by now.
    assert [place for place in found if place < 100] == [
        place for place in left if offset <= place < 100
    ]


def test_compaction_between_two_runs_costs_nothing_that_was_learned(
    kafka: Kafka, make_settings: Make, learned: list[Record]
) -> None:
    topic = kafka.topic(**QUICK)
    settings = settings_for(make_settings, kafka, topic)
    first = events(60)
    kafka.send(topic, *first, key=b"same")
    with running(settings) as service:
        wait(lambda: len(learned) == 60, service)
    assert kept(settings).offsets == {0: 60}

    second = events(20, seed=2)
    kafka.send(topic, *second[:10], key=b"same")
    kafka.send(topic, None, key=b"same")
    for place, value in enumerate(second[10:]):
        kafka.send(topic, value, key=b"unique-%d" % place)
    left = compacted(kafka, topic, set(range(71)))
    assert left[:10] == list(range(71, 81))
    with running(settings) as service:
        wait(lambda: lag(service) == {0: 0}, service)

    assert kept(settings).offsets == {0: kafka.end(topic)}
    assert [record.value for record in learned[:70]] == first + second[10:]
    seen = [record.offset for record in learned]
    assert seen == sorted(set(seen))


def test_a_partition_emptied_by_retention_has_no_lag_and_is_remembered_at_its_end(
    kafka: Kafka, make_settings: Make, learned: list[Record]
) -> None:
    topic = kafka.topic(partitions=2, segment_ms="100", retention_ms="3600000")
    kafka.send(topic, *[b"old"] * 50, partition=0, timestamp=1_700_000_000_000)
    deadline = time.monotonic() + 120
    while kafka.range(topic) != (50, 50):
        assert time.monotonic() < deadline, f"retention does not come: {kafka.range(topic)}"
        time.sleep(0.2)
    settings = settings_for(make_settings, kafka, topic)
    with running(settings) as service:
        kafka.send(topic, *events(10), partition=1)
        wait(lambda: len(learned) == 10 and lag(service) == {0: 0, 1: 0}, service)

    assert kept(settings).offsets == {0: 50, 1: 10}
