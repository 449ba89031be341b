"""Events onto a topic: pace, counts, and a broker that is not there."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from app.errors import SettingsError, SourceError
from app.producer import FREE_CHUNK, EventProducer, Pace, Relabelled
from learner import Feature, Kind, Schema
from tests.brokers import Broker

TOPIC = "events"


class Numbers:
    """So many events, then no more."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.asked: list[int] = []

    def events(self, n: int) -> list[dict[str, Any]]:
        """Return the next n."""
        self.asked.append(n)
        given = min(n, self.left)
        self.left -= given
        return [{"x": self.left + i, "label": "a"} for i in range(given)]


def end_of_topic(broker: Broker, topic: str) -> int:
    """Return how many events the topic has taken."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "test"})
    try:
        high: int = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1]
        return high
    finally:
        consumer.close()


def producer_of(broker: Broker, topic: str | None = None) -> EventProducer:
    """Return a producer for a topic of its own."""
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    return EventProducer(servers, topic or broker.topic())


def test_every_event_arrives_and_is_counted(broker: Broker) -> None:
    topic = broker.topic()
    seen: list[int] = []

    delivery = producer_of(broker, topic).run(Numbers(2500), progress=seen.append)

    assert (delivery.delivered, delivery.failed) == (2500, 0)
    assert seen[-1] == 2500
    assert end_of_topic(broker, topic) == 2500


def test_the_limit_is_kept_exactly(broker: Broker) -> None:
    numbers = Numbers(10_000)

    delivery = producer_of(broker).run(numbers, limit=FREE_CHUNK + 7)

    assert delivery.delivered == FREE_CHUNK + 7
    assert sum(numbers.asked) == FREE_CHUNK + 7


def test_events_are_flat_json(broker: Broker) -> None:
    topic = broker.topic()

    producer_of(broker, topic).run(Numbers(1))

    (message,) = broker.read(topic, 1)
    assert json.loads(message.value() or b"") == {"x": 0, "label": "a"}


def test_a_paced_run_can_be_stopped(broker: Broker) -> None:
    stop = threading.Event()
    seen: list[int] = []

    def stop_after_some(sent: int) -> None:
        seen.append(sent)
        if sent >= 20:
            stop.set()

    delivery = producer_of(broker).run(
        Numbers(10**9), rate=2000, stop=stop, progress=stop_after_some
    )

    assert delivery.delivered == seen[-1]
    assert delivery.delivered < 10**6


def test_the_pace_asks_for_what_is_due() -> None:
    clock = [100.0]
    pace = Pace(50.0, now=lambda: clock[0])
    clock[0] += 0.5

    assert pace.due(sent=0) == 25
    assert pace.due(sent=20) == 5
    assert pace.due(sent=30) < 0
    clock[0] += 1000.0
    assert pace.due(sent=0) == FREE_CHUNK


def test_without_a_rate_chunks_are_full() -> None:
    assert Pace(0.0).due(sent=123_456) == FREE_CHUNK


def test_a_broker_that_is_not_there_is_an_error_in_words() -> None:
    producer = EventProducer({"bootstrap.servers": "127.0.0.1:1"}, TOPIC)

    with pytest.raises(SourceError, match=r"no broker answered at .* within 0\.3 s"):
        producer.connect(timeout_seconds=0.3)


def test_a_wrong_property_is_an_error_in_words() -> None:
    with pytest.raises(SourceError, match="the Kafka settings are refused"):
        EventProducer({"bootstrap.servers": "x:1", "no.such.property": "1"}, TOPIC)


def test_the_label_goes_where_the_service_reads_it() -> None:
    schema = Schema((Feature("x", Kind.NUMERIC),))

    relabelled = Relabelled(Numbers(1), schema, "label", "class")

    assert relabelled.events(1) == [{"x": 0, "class": "a"}]


def test_a_label_cannot_take_the_place_of_a_feature() -> None:
    schema = Schema((Feature("x", Kind.NUMERIC),))

    with pytest.raises(SettingsError, match="field 'x', which is also a feature"):
        Relabelled(Numbers(1), schema, "label", "x")


def test_a_rate_beyond_a_chunk_a_tick_is_not_held_back(broker: Broker) -> None:
    waits: list[float] = []

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout or 0.0)
            return super().wait(timeout)

    delivery = producer_of(broker).run(Numbers(10**9), rate=1e9, limit=30_000, stop=Stop())

    assert delivery.delivered == 30_000
    assert len(waits) <= 1  # behind its time from the first chunk on, it waits for nothing
