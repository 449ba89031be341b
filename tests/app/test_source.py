"""The Kafka source, on the broker in memory and on Kafka itself."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError

from app.embedded import EmbeddedBroker
from app.errors import OffsetOutOfRange, SettingsError, SourceChanged, SourceError
from app.kafka_source import KafkaSource
from app.settings import KafkaSettings
from app.source import Record, Start
from tests.brokers import Broker
from tests.source import opened, take


def test_records_come_in_order_with_all_they_carry(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, b"a", key=b"k", headers=[("h", b"\x00"), ("n", None)], timestamp=1_700_000)
    broker.send(topic, None)
    source = opened(broker, topic)

    records = take(source, 2)

    source.close()
    assert records[0] == Record(topic, 0, 0, b"k", b"a", 1_700_000, [("h", b"\x00"), ("n", None)])
    assert (records[1].offset, records[1].value) == (1, None)
    assert source.positions() == {0: 2}


def test_a_poll_takes_no_more_than_its_limit(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, *[b"%d" % i for i in range(25)])
    source = opened(broker, topic)

    sizes: list[int] = []
    values: list[bytes | None] = []
    while len(values) < 25:
        records = source.poll(10)
        sizes.append(len(records))
        values += [record.value for record in records]

    source.close()
    assert max(sizes) <= 10
    assert values == [b"%d" % i for i in range(25)]


def test_a_checkpoint_decides_where_to_go_on(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, *[b"%d" % i for i in range(10)])
    source = opened(broker, topic, Start({0: 7}))

    records = take(source, 3)

    source.close()
    assert [record.offset for record in records] == [7, 8, 9]


def test_latest_begins_at_the_end_and_remembers_where_that_was(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, b"before")
    source = opened(broker, topic, start="latest")
    assert source.poll(10) == []
    assert source.positions() == {0: 1}

    broker.send(topic, b"after")

    assert [record.value for record in take(source, 1)] == [b"after"]
    source.close()


def test_all_partitions_are_read(broker: Broker) -> None:
    topic = broker.topic(partitions=3)
    for partition in range(3):
        broker.send(topic, b"x", b"y", partition=partition)
    source = opened(broker, topic)

    take(source, 6)

    assert source.positions() == {0: 2, 1: 2, 2: 2}
    assert source.lag() == {0: 0, 1: 0, 2: 0}
    source.close()


def test_lag_is_what_waits_behind_the_position(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, *[b"x"] * 20)
    source = opened(broker, topic)

    seen = len(take(source, 1, limit=1))

    assert source.lag() == {0: 20 - seen}
    source.close()


def test_a_topic_that_is_not_there_yet_is_waited_for(broker: Broker) -> None:
    source = opened(broker, "appears-later")
    assert source.poll(10) == []
    assert source.positions() == {}

    broker.create_topic("appears-later")
    broker.send("appears-later", b"x")

    assert len(take(source, 1)) == 1
    source.close()


def test_a_broker_that_is_away_is_waited_for() -> None:
    source = KafkaSource(KafkaSettings(bootstrap_servers="127.0.0.1:1", topic="t"))
    source.open(Start())

    assert source.poll(10) == []
    source.close()


def test_an_offset_that_is_gone_stops_with_all_the_numbers(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, b"a", b"b")
    source = opened(broker, topic, Start({0: 100}))

    with pytest.raises(OffsetOutOfRange) as caught:
        take(source, 1)

    source.close()
    said = str(caught.value)
    assert f"topic '{topic}' partition 0" in said
    assert "next offset to learn is 100" in said
    assert "holds 0 to 2" in said
    assert "LIVETREE_KAFKA__OFFSET_RESET" in said


def test_records_before_a_failure_are_delivered_before_it(broker: Broker) -> None:
    topic = broker.topic(partitions=2)
    broker.send(topic, b"a", b"b", partition=0)
    source = opened(broker, topic, Start({0: 0, 1: 100}))

    records: list[Record] = []

    def poll_to_the_end() -> None:
        for _ in range(300):
            records.extend(source.poll(1000))

    with pytest.raises(OffsetOutOfRange):
        poll_to_the_end()
    source.close()
    assert source.positions()[0] == len(records)


@pytest.mark.parametrize(("policy", "first"), [("earliest", b"a"), ("latest", b"c")])
def test_a_policy_may_give_the_position_up(broker: Broker, policy: str, first: bytes) -> None:
    topic = broker.topic()
    broker.send(topic, b"a", b"b")
    source = opened(broker, topic, Start({0: 100}), offset_reset=policy)
    for _ in range(300):
        early = source.poll(1)
        if source.resets:
            break
    broker.send(topic, b"c")

    records = early or take(source, 1)

    source.close()
    assert source.resets == 1
    assert records[0].value == first


def test_another_cluster_is_refused(broker: Broker) -> None:
    topic = broker.topic()
    source = opened(broker, topic, Start({0: 0}, "another-cluster"))

    with pytest.raises(SourceChanged, match=r"cluster id is .*; expected 'another-cluster'"):
        source.poll(10)
    source.close()


def test_another_cluster_is_taken_from_its_beginning_by_policy(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, b"a", b"b")
    source = opened(broker, topic, Start({0: 1}, "another-cluster"), offset_reset="earliest")

    assert [record.value for record in take(source, 2)] == [b"a", b"b"]
    source.close()


def test_a_topic_with_fewer_partitions_than_before_is_refused(broker: Broker) -> None:
    source = opened(broker, broker.topic(), Start({0: 0, 5: 3}))

    with pytest.raises(SourceChanged, match="has no partition 5"):
        source.poll(10)
    source.close()


def test_the_identity_is_the_clusters(broker: Broker) -> None:
    topic = broker.topic()
    source = opened(broker, topic)
    assert source.identity() is None
    source.poll(1)
    known = source.identity()
    source.close()

    again = opened(broker, topic, Start({0: 0}, known))
    assert again.poll(1) == []
    again.close()


def test_a_commit_is_seen_by_lag_tools(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, b"a", b"b")
    source = opened(broker, topic, group_id="group-of-the-test")
    take(source, 2)

    source.commit({0: 2})
    source.close()

    assert broker.committed(topic, "group-of-the-test") == 2


def test_new_partitions_are_found_and_positions_kept(broker: Broker) -> None:
    topic = broker.topic(partitions=2)
    broker.send(topic, b"a", partition=0)
    source = opened(broker, topic)
    source._partitions = lambda: {0}  # type: ignore[method-assign]  # the second is to come
    take(source, 1)

    del source._partitions
    source._look_again_at = 0.0
    broker.send(topic, b"b", partition=1)
    broker.send(topic, b"c", partition=0)

    values = {record.value for record in take(source, 2)}
    source.close()
    assert values == {b"b", b"c"}
    assert source.positions() == {0: 2, 1: 1}


def test_a_record_delivered_again_is_dropped(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, b"a", b"b")
    source = opened(broker, topic)
    take(source, 2)
    source._positions[0] = 5

    source._consumer.seek(_beginning(topic))
    broker.send(topic, b"c", b"d", b"e", b"f")

    assert [record.value for record in take(source, 1)] == [b"f"]
    source.close()


def _beginning(topic: str) -> Any:
    from confluent_kafka import TopicPartition

    return TopicPartition(topic, 0, 0)


def test_a_property_that_librdkafka_does_not_know_is_a_setting_gone_wrong() -> None:
    with pytest.raises(SettingsError, match=r"no\.such\.property"):
        KafkaSource(KafkaSettings(extra={"no.such.property": "1"}))


def test_a_fatal_error_of_the_client_stops(broker: Broker) -> None:
    source = opened(broker, broker.topic())
    source.poll(1)

    source._connection.on_error(KafkaError(KafkaError._FATAL, "broken beyond repair", fatal=True))

    with pytest.raises(SourceError, match="broken beyond repair"):
        source.poll(1)
    source.close()


def test_a_broker_that_goes_away_is_waited_for_too() -> None:
    with EmbeddedBroker() as embedded:
        embedded.create_topic("t")
        settings = KafkaSettings(bootstrap_servers=embedded.bootstrap_servers, topic="t")
        source = KafkaSource(settings)
        source.open(Start())
        assert source.poll(1) == []

    assert source.poll(1) == []
    source.close()
