"""The broker of the tests is the real one, and does what the tests ask of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka import conftest
from tests.kafka.broker import VERSION, Kafka, Unavailable


def test_records_outlive_a_stopped_broker(kafka_there: Path, tmp_path: Path) -> None:
    with Kafka(tmp_path / "own") as own:
        topic = own.topic(partitions=2)
        own.send(topic, b"a", b"b", partition=1)
        own.stop()
        own.start()
        assert [message.value() for message in own.read(topic, 2, partition=1)] == [b"a", b"b"]
        assert own.admin.list_topics(timeout=10).cluster_id == own.cluster_id


def test_it_is_apache_kafka_four(kafka: Kafka) -> None:
    assert VERSION.startswith("4.")
    described = kafka.admin.describe_cluster().result(30)
    assert described.cluster_id == kafka.cluster_id


@pytest.mark.parametrize(("required", "outcome"), [("1", "Failed"), ("", "Skipped")])
def test_a_missing_kafka_is_skipped_with_its_reason_or_fails_where_it_is_required(
    required: str, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise Unavailable("there is no `java`")

    monkeypatch.setattr(conftest, "libraries", missing)
    monkeypatch.setenv(conftest.REQUIRED, required)
    with pytest.raises(BaseException, match="there is no `java`") as caught:
        conftest.kafka_there.__wrapped__()
    assert type(caught.value).__name__ == outcome
