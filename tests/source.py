"""A Kafka source without a service, read by hand."""

from __future__ import annotations

from typing import Any

from app.kafka_source import KafkaSource
from app.settings import KafkaSettings
from app.source import Record, Start
from tests.brokers import Broker


def opened(broker: Broker, topic: str, at: Start = Start(), **more: Any) -> KafkaSource:  # noqa: B008
    given = {"bootstrap_servers": broker.bootstrap_servers, "topic": topic, "fetch_wait_ms": 10}
    source = KafkaSource(KafkaSettings(**given, **more))
    source.open(at)
    return source


def take(source: KafkaSource, expected: int, limit: int = 1000) -> list[Record]:
    """Poll until so many records came; a few hundred empty polls are a failure."""
    records: list[Record] = []
    for _ in range(300):
        records += source.poll(limit)
        if len(records) >= expected:
            return records
    raise AssertionError(f"{len(records)} records came; expected {expected}")
