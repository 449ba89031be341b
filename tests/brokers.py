"""Short words for producing to a broker and reading from it, whichever broker it is."""

from __future__ import annotations

import os
from itertools import count
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition

from app.embedded import EmbeddedBroker

numbers = count()


class Broker:
    """A broker that runs already."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "log_level": 0,
                "message.max.bytes": 20_000_000,
            }
        )

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        """Create a topic; a broker with properties of topics takes them as well."""
        raise NotImplementedError

    def topic(self, partitions: int = 1, **config: str) -> str:
        """Create a topic of a name not used before, and its dead letters' topic."""
        name = f"events-{os.getpid()}-{next(numbers)}"
        self.create_topic(name, partitions, **config)
        self.create_topic(f"{name}.dlq")
        return name

    def send(self, topic: str, *values: bytes | None, **more: Any) -> None:
        """Produce records and wait until the broker has them."""
        for value in values:
            while True:
                try:
                    self.producer.produce(topic, value, **more)
                    break
                except BufferError:
                    self.producer.poll(0.1)
        assert self.producer.flush(60) == 0

    def consumer(self, group: str = "test") -> Consumer:
        """Return a consumer of a group."""
        return Consumer(
            {"bootstrap.servers": self.bootstrap_servers, "group.id": group, "log_level": 0}
        )

    def read(self, topic: str, expected: int, partition: int = 0) -> list[Message]:
        """Return the first records of a partition; fails where there are more than expected."""
        consumer = self.consumer()
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        found: list[Message] = []
        while len(found) < expected and (message := consumer.poll(60)) is not None:
            found.append(message)
        extra = consumer.poll(0.3)
        consumer.close()
        assert (len(found), extra) == (expected, None)
        return found

    def range(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """Return the first offset of a partition and the one after its last record."""
        consumer = self.consumer()
        found = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=20)
        consumer.close()
        assert found is not None
        return found

    def end(self, topic: str, partition: int = 0) -> int:
        """Return the offset after the last record of a partition."""
        return self.range(topic, partition)[1]

    def committed(self, topic: str, group: str) -> int:
        """Return the offset that a group has committed for partition 0."""
        consumer = self.consumer(group)
        (place,) = consumer.committed([TopicPartition(topic, 0)], timeout=20)
        consumer.close()
        return int(place.offset)


class Embedded(Broker):
    """The broker in memory that the demo uses."""

    def __init__(self, embedded: EmbeddedBroker) -> None:
        super().__init__(embedded.bootstrap_servers)
        self._embedded = embedded

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic."""
        self._embedded.create_topic(name, partitions)
