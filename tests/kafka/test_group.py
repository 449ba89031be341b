"""The consumer group: a board for lag tools, on which others may write as well."""

from __future__ import annotations

import socket
import threading

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions

from app.source import Record
from tests.app.conftest import events
from tests.kafka.broker import Kafka
from tests.service import Make, kept, lag, running, settings_for, wait
from tests.source import opened


def offsets_of(kafka: Kafka, group: str, topic: str) -> dict[int, int]:
    """Return what lag tools read."""
    asked = kafka.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    found = asked[group].result(30).topic_partitions
    return {place.partition: place.offset for place in found if place.topic == topic}


def test_commits_equal_the_checkpoints_offsets(
    kafka: Kafka, make_settings: Make, learned: list[Record]
) -> None:
    topic, group = kafka.topic(partitions=3), "board-of-one"
    settings = settings_for(
        make_settings, kafka, topic, kafka={"group_id": group}, checkpoint={"every_seconds": 0.2}
    )
    with running(settings) as service:
        for part in range(1, 4):
            for partition in range(3):
                kafka.send(topic, *events(10 * part), partition=partition)
            expected = {partition: kafka.end(topic, partition) for partition in range(3)}
            wait(lambda: offsets_of(kafka, group, topic) == expected, service)  # noqa: B023
            assert kept(settings).offsets == expected
        for partition in range(3):
            kafka.send(topic, *events(5), partition=partition)
        wait(lambda: len(learned) == 195, service)

    # The last commit is sent by the final checkpoint, right before the client is closed.
    assert offsets_of(kafka, group, topic) == kept(settings).offsets == {0: 65, 1: 65, 2: 65}


def test_another_program_in_the_same_group_neither_takes_nor_moves_anything(
    kafka: Kafka,
    make_settings: Make,
    learned: list[Record],
    capsys: pytest.CaptureFixture[str],
) -> None:
    from app import log

    log.configure("info", "json")
    topic, group = kafka.topic(partitions=2), "board-of-two"
    settings = settings_for(
        make_settings, kafka, topic, kafka={"group_id": group}, checkpoint={"every_seconds": 0.2}
    )
    for partition in range(2):
        kafka.send(topic, *events(50), partition=partition)
    other = member(kafka, group, topic)
    with running(settings) as service:
        wait(lambda: len(learned) == 100, service)
        for partition in range(2):
            kafka.send(topic, *events(50, seed=2), partition=partition)
        assert len(other.consume(200, 20)) == 200
        other.commit(asynchronous=False)
        wait(lambda: len(learned) == 200 and lag(service) == {0: 0, 1: 0}, service)
        wait(lambda: "group offsets not committed" in capsys.readouterr().out, service)

    with running(settings) as service:
        for partition in range(2):
            kafka.send(topic, *events(10, seed=3), partition=partition)
        wait(lambda: len(learned) == 220, service)
    other.close()
    assert kept(settings).offsets == {0: 110, 1: 110}
    for partition in range(2):
        assert [r.offset for r in learned if r.partition == partition] == list(range(110))


def member(kafka: Kafka, group: str, topic: str) -> Consumer:
    """Return a consumer that has joined the group and owns partitions."""
    other = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    joined = threading.Event()
    other.subscribe([topic], on_assign=lambda *_: joined.set())
    while not joined.is_set():
        assert other.poll(0) is None
    return other


def test_offsets_that_others_committed_are_not_where_we_go_on(
    kafka: Kafka, make_settings: Make, learned: list[Record]
) -> None:
    topic, group = kafka.topic(), "board-of-others"
    kafka.send(topic, *events(40))
    other = member(kafka, group, topic)
    assert len(other.consume(30, 20)) == 30
    other.commit(asynchronous=False)
    other.close()
    assert offsets_of(kafka, group, topic) == {0: 30}

    with running(settings_for(make_settings, kafka, topic, kafka={"group_id": group})) as service:
        wait(lambda: len(learned) == 40, service)

    assert offsets_of(kafka, group, topic) == {0: 40}


def test_further_properties_reach_the_broker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        broker = Address(f"127.0.0.1:{listener.getsockname()[1]}")
        source = opened(broker, "t", extra={"client.id": "tree-of-the-tests"})
        listener.settimeout(60)
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(60)
            asked = connection.recv(1000)
        source.close()

    assert b"tree-of-the-tests" in asked


class Address:
    """Only an address."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
