"""What the tests of the service share: a broker in memory, events, and factories."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition

from app.embedded import EmbeddedBroker
from app.settings import Settings

numbers = count()


class Broker:
    """An embedded broker with short words for producing and reading."""

    def __init__(self, embedded: EmbeddedBroker) -> None:
        self.embedded = embedded
        self.bootstrap_servers = embedded.bootstrap_servers
        self.producer = Producer({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

    def topic(self, partitions: int = 1) -> str:
        """Create a topic of a name not used before, and its dead letters' topic."""
        name = f"events-{next(numbers)}"
        self.embedded.create_topic(name, partitions)
        self.embedded.create_topic(f"{name}.dlq")
        return name

    def send(self, topic: str, *values: bytes | None, **more: Any) -> None:
        """Produce records and wait until the broker has them."""
        for value in values:
            self.producer.produce(topic, value, **more)
        assert self.producer.flush(30) == 0

    def read(self, topic: str, expected: int) -> list[Message]:
        """Return the first records of partition 0."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap_servers, "group.id": "test", "log_level": 0}
        )
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        found = [consumer.poll(20) for _ in range(expected)]
        extra = consumer.poll(0.3)
        consumer.close()
        assert extra is None
        return [message for message in found if message is not None]

    def end(self, topic: str) -> int:
        """Return the offset after the last record of partition 0."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap_servers, "group.id": "test", "log_level": 0}
        )
        found = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)
        consumer.close()
        assert found is not None
        return int(found[1])

    def committed(self, topic: str, group: str) -> int:
        """Return the offset that a group has committed for partition 0."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap_servers, "group.id": group, "log_level": 0}
        )
        (place,) = consumer.committed([TopicPartition(topic, 0)], timeout=20)
        consumer.close()
        return int(place.offset)


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """One broker for all tests; each makes topics of its own."""
    with EmbeddedBroker() as embedded:
        yield Broker(embedded)


def events(number: int, seed: int = 1) -> list[bytes]:
    """Return events whose class depends on `age`, with features of all three kinds."""
    source = random.Random(seed)
    return [json.dumps(_event(source)).encode() for _ in range(number)]


def _event(source: random.Random) -> dict[str, Any]:
    age = round(source.uniform(18, 90), 3)
    return {
        "age": age,
        "car": source.choice(["c1", "c2", "c3"]),
        "words": source.sample(["good", "bad", "film"], 2),
        "label": "old" if age > 50 else "young",
    }


FEATURES = [
    {"name": "age", "kind": "numeric"},
    {"name": "car", "kind": "nominal"},
    {"name": "words", "kind": "sparse_binary"},
]


@pytest.fixture
def make_settings(tmp_path: Path) -> Callable[..., Settings]:
    """Return a factory of settings with a checkpoint folder of the test's own."""

    def make(**overrides: Any) -> Settings:
        checkpoint = {"folder": tmp_path / "checkpoints", **overrides.pop("checkpoint", {})}
        return Settings.load(environ={}, checkpoint=checkpoint, **overrides)

    return make
