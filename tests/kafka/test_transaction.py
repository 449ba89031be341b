"""Transactions: what is committed counts, what is aborted never does, what is open waits."""

from __future__ import annotations

import itertools
import json

import pytest
from confluent_kafka import Producer

from app.checkpoint import CheckpointFolder
from app.settings import Settings
from app.source import Record, Start
from tests.app.conftest import events
from tests.kafka.broker import Kafka
from tests.service import Make, kept, lag, running, settings_for, wait
from tests.source import opened, take

names = itertools.count()


@pytest.fixture
def writer(kafka: Kafka) -> Producer:
    return kafka.transactional(f"writer-{next(names)}")


def write(writer: Producer, topic: str, values: list[bytes], *, commit: bool = True) -> None:
    """Write one whole transaction; the broker has its records before it ends."""
    begin(writer, topic, values)
    if commit:
        writer.commit_transaction()
    else:
        writer.abort_transaction()


def begin(writer: Producer, topic: str, values: list[bytes]) -> None:
    writer.begin_transaction()
    for value in values:
        writer.produce(topic, value, partition=0)
    assert writer.flush(60) == 0


def values_of(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def test_committed_events_are_learned_and_aborted_ones_never(
    kafka: Kafka, make_settings: Make, learned: list[Record], writer: Producer
) -> None:
    topic, good, bad = kafka.topic(), events(60), events(60, seed=2)
    settings = settings_for(make_settings, kafka, topic)
    write(writer, topic, good[:20])
    write(writer, topic, bad[:30], commit=False)
    kafka.send(topic, *good[20:40])
    write(writer, topic, bad[30:], commit=False)
    write(writer, topic, good[40:])

    with running(settings) as service:
        wait(lambda: len(learned) >= 60 and lag(service) == {0: 0}, service)

    assert values_of(learned) == good
    assert kept(settings).events == 60


@pytest.mark.parametrize("aborted", [0, 20_000])
def test_marks_and_aborted_records_at_the_end_are_no_lag_and_a_restart_goes_on_behind_them(
    kafka: Kafka, make_settings: Make, learned: list[Record], writer: Producer, aborted: int
) -> None:
    topic, good = kafka.topic(), events(50)
    settings = settings_for(make_settings, kafka, topic)
    write(writer, topic, good[:40])
    if aborted:
        write(writer, topic, [b"x" * 100] * aborted, commit=False)

    with running(settings) as service:
        end = kafka.end(topic)
        wait(lambda: len(learned) == 40 and lag(service) == {0: 0}, service)
        assert service.consumer.source.positions() == {0: end}

    write(writer, topic, good[40:])
    with running(settings) as service:
        wait(lambda: len(learned) >= 50 and lag(service) == {0: 0}, service)

    assert values_of(learned) == good
    assert kept(settings).offsets == {0: kafka.end(topic)}


def test_a_checkpoint_follows_offsets_that_no_record_has(
    kafka: Kafka, make_settings: Make, learned: list[Record], writer: Producer
) -> None:
    topic = kafka.topic()
    settings = settings_for(make_settings, kafka, topic, checkpoint={"every_seconds": 0.1})
    with running(settings) as service:
        kafka.send(topic, *events(10))
        wait(lambda: kept_offset(settings) == 10, service)
        write(writer, topic, [b"x"] * 100, commit=False)
        wait(lambda: kept_offset(settings) == 111, service)
        wait(lambda: kafka.committed(topic, "livetree") == 111, service)


def kept_offset(settings: Settings) -> int | None:
    found = CheckpointFolder(settings.checkpoint.folder).load()
    return found.offsets[0] if found is not None else None


def test_an_open_transaction_is_lag_until_it_ends(
    kafka: Kafka, make_settings: Make, learned: list[Record], writer: Producer
) -> None:
    topic, good = kafka.topic(), events(50)
    settings = settings_for(make_settings, kafka, topic)
    write(writer, topic, good[:10])
    with running(settings) as service:
        wait(lambda: len(learned) == 10 and lag(service) == {0: 0}, service)
        begin(writer, topic, good[20:])
        kafka.send(topic, *good[10:20])  # complete, but behind the open one
        wait(lambda: lag(service) == {0: 40}, service)
        assert len(learned) == 10
        writer.commit_transaction()
        wait(lambda: len(learned) >= 50 and lag(service) == {0: 0}, service)

    assert values_of(learned) == [*good[:10], *good[20:], *good[10:20]]


def test_latest_begins_before_a_transaction_that_is_still_open(
    kafka: Kafka, writer: Producer
) -> None:
    topic = kafka.topic()
    kafka.send(topic, b"before")
    begin(writer, topic, [b"open"])
    source = opened(kafka, topic, start="latest")
    assert source.poll(10) == []
    assert source.positions() == {0: 1}

    writer.commit_transaction()

    assert values_of(take(source, 1)) == [b"open"]
    source.close()


def test_a_checkpoint_may_point_anywhere_into_marks_and_aborted_records(
    kafka: Kafka, writer: Producer
) -> None:
    topic = kafka.topic()
    write(writer, topic, [b"a", b"b"])  # offsets 0 and 1, mark 2
    write(writer, topic, [b"x", b"y", b"z"], commit=False)  # 3 to 5, mark 6
    write(writer, topic, [b"c"])  # 7, mark 8
    expected = {0: b"abc", 1: b"bc", **dict.fromkeys(range(2, 8), b"c")}
    for offset, rest in expected.items():
        source = opened(kafka, topic, Start({0: offset}))
        assert b"".join(value or b"" for value in values_of(take(source, len(rest)))) == rest
        source.close()

    for offset in (8, 9):
        source = opened(kafka, topic, Start({0: offset}))
        while source.positions() != {0: 9} or source.lag() != {0: 0}:
            assert source.poll(10) == []
        source.close()


def test_an_event_of_an_aborted_transaction_leaves_no_trace_in_the_model(
    kafka: Kafka, make_settings: Make, learned: list[Record], writer: Producer
) -> None:
    topic, good = kafka.topic(), events(20)
    write(writer, topic, [json.dumps({"age": 1, "label": "never"}).encode()], commit=False)
    write(writer, topic, good)
    write(writer, topic, [b"\xff poison"], commit=False)
    with running(settings_for(make_settings, kafka, topic)) as service:
        wait(lambda: len(learned) >= 20 and lag(service) == {0: 0}, service)

    published = service.serving.current()
    assert published is not None
    assert sorted(published.snapshot.classes) == ["old", "young"]
    assert kafka.end(f"{topic}.dlq") == 0
