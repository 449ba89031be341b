"""Both ways out of the client give the same records: as objects, and as they lie in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from app.intake import Intake, ObjectIntake, RawIntake, open_intake
from app.message import Fault
from app.source import Record, Records
from app.values import NO_VALUE, ListedValues, as_values
from tests.brokers import Embedded
from tests.kafka.raw_producer import send_raw

WAYS: tuple[Callable[[Consumer, str], Intake], ...] = (ObjectIntake, RawIntake)
PARTITIONS = 3
VALUES = [b"a", b"", None, b"\x00\xff", b"x" * 100_000, b'{"label": 1}']
HEADERS: list[Any] = [None, [("h", b"1"), ("h", b""), ("no", None), ("tsch\u00fcss", b"\xff")], []]


@contextmanager
def reading(way: Callable[..., Intake], broker: Embedded, topic: str) -> Iterator[Intake]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "intake",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    intake = way(consumer, topic)
    places = range(PARTITIONS)
    intake.listen(places)
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in places])
    try:
        yield intake
    finally:
        intake.close()
        consumer.close()


def drained(intake: Intake, limit: int) -> tuple[list[Record], list[Fault]]:
    """Read until every partition has said that this is its end."""
    records: list[Record] = []
    faults: list[Fault] = []
    for _ in range(1000):
        some, more = intake.take(limit, 0.1)
        records += some or ()
        faults += more
        if len(faults) == PARTITIONS:
            return records, faults
    raise AssertionError(f"{len(faults)} partitions ended; expected {PARTITIONS}")


def filled(broker: Embedded) -> str:
    topic = broker.topic(PARTITIONS)
    for number, value in enumerate(VALUES * 5):
        headers = HEADERS[number % len(HEADERS)]
        more: dict[str, Any] = {"headers": headers} if headers else {}
        key = (None, b"", b"k\x00")[number % 3]
        partition = number % (PARTITIONS - 1)  # the last one stays empty
        broker.send(topic, value, key=key, partition=partition, timestamp=1000 + number, **more)
    return topic


@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_the_same_records_come_out(embedded: Embedded, limit: int) -> None:
    topic, found = filled(embedded), []
    for way in WAYS:
        with reading(way, embedded, topic) as intake:
            records, faults = drained(intake, limit)
        ends = {(fault.partition, fault.offset) for fault in faults}
        assert ends == {(0, 15), (1, 15), (2, 0)}
        assert {fault.error.code() for fault in faults} == {KafkaError._PARTITION_EOF}
        assert {fault.error.str() for fault in faults if fault.partition == 2} != {""}
        found.append(sorted(records, key=lambda record: (record.partition, record.offset)))

    assert len(found[0]) == len(VALUES) * 5
    assert found[0] == found[1]


def delivered(broker: Embedded, way: Callable[..., Intake]) -> Iterator[Any]:
    """Yield a batch of several records while it holds."""
    topic = filled(broker)
    for attempt in range(20):
        with reading(way, broker, topic) as intake:
            time.sleep(0.1 * attempt)  # the client fetches meanwhile
            records = None
            while records is None:
                records, _ = intake.take(1000, 0.1)
            if len(records) > 5:
                yield records
                return
    raise AssertionError("no batch of several records came")


def columns(records: Records) -> list[Any]:
    values = records.values()
    given = list(values)
    assert [values[place] for place in range(len(values))] == given
    assert values.lengths().tolist() == [NO_VALUE if v is None else len(v) for v in given]
    listed = ListedValues(given)
    for gap, room in ((0, 0), (1, 16)):
        np.testing.assert_array_equal(values.joined(gap, room), listed.joined(gap, room))
    some = np.array([0, 2])
    assert list(values.chosen(some)) == list(listed.chosen(some))
    assert as_values(values) is values
    return [
        given,
        list(records.headers()),
        records.has_headers(),
        records.timestamps_ms(2).tolist(),
    ]


@pytest.mark.parametrize("way", WAYS)
def test_columns_say_what_the_records_say(embedded: Embedded, way: Any) -> None:
    for batch in delivered(embedded, way):
        for records in (batch, batch[1:], batch[:4][1:]):
            made = list(records)
            assert [records[place] for place in range(len(records))] == made
            assert records[-1] == made[-1]
            assert columns(records) == [
                [record.value for record in made],
                [record.headers for record in made],
                any(record.headers for record in made),
                [float(record.timestamp_ms or 0) for record in made[::2]],
            ]
        first, last = batch.ends()
        made = list(batch)
        assert last == {record.partition: record.offset for record in made}
        assert first == {record.partition: record.offset for record in reversed(made)}
        beyond = {partition: offset + 1 for partition, offset in first.items()}
        assert list(batch.since(beyond)) == [
            record for record in made if record.offset > first[record.partition]
        ]


def test_a_batch_cannot_be_read_after_the_next_one_was_taken(embedded: Embedded) -> None:
    topic = filled(embedded)
    with reading(RawIntake, embedded, topic) as intake:
        records = None
        while records is None:
            records, _ = intake.take(3, 0.1)
        values = records.values()
        intake.take(3, 0.1)

        for read in (lambda: records[0], lambda: values[0], lambda: values.joined(0, 0)):
            with pytest.raises(RuntimeError, match="after the next ones were taken"):
                read()


def test_a_name_of_a_header_that_is_no_text_costs_only_the_headers(embedded: Embedded) -> None:
    topic = embedded.topic(PARTITIONS)
    send_raw(embedded.bootstrap_servers, topic, b"value", [(b"\xff", b"1")])
    for way in WAYS:
        with reading(way, embedded, topic) as intake:
            (record,), _ = drained(intake, 10)
        assert record.value == b"value"
        assert [name for name, _ in record.headers or ()] == ["__livetree.headers"]


def test_partitions_assigned_again_are_read_again(embedded: Embedded) -> None:
    topic = filled(embedded)
    with reading(RawIntake, embedded, topic) as intake:
        before, _ = drained(intake, 1000)
        consumer = intake._consumer  # type: ignore[attr-defined]
        for _ in range(3):
            intake.listen(range(PARTITIONS))
            consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
            again, _ = drained(intake, 1000)
            assert sorted(again) == sorted(before)


def test_without_the_library_the_objects_do(
    embedded: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = embedded.consumer()
    raw = open_intake(consumer, "t")
    assert isinstance(raw, RawIntake)
    raw.close()

    def missing(_: object) -> None:
        raise AttributeError("no such function")

    monkeypatch.setattr("app.intake.functions", missing)

    assert isinstance(open_intake(consumer, "t"), ObjectIntake)
    consumer.close()
