"""How records are packed on the wire is nothing to the model."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from confluent_kafka import Producer

from app import wiring
from app.settings import Settings
from tests.app.conftest import events
from tests.kafka.broker import Kafka
from tests.service import Make, learn_to, learned_alone, model_of, settings_for

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
EVENTS = events(1500)


def pack(kafka: Kafka, topic: str, values: list[bytes], **properties: str | int) -> None:
    """Send with a producer of its own; `linger_ms=5` is the property linger.ms."""
    given: Mapping[str, str | int] = {k.replace("_", "."): v for k, v in properties.items()}
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0, **given})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


def learns_the_same(settings: Settings) -> None:
    learn_to(wiring.build(settings), len(EVENTS))
    assert model_of(settings.checkpoint.folder) == learned_alone(settings, EVENTS)


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_gives_the_same_model(kafka: Kafka, make_settings: Make, codec: str) -> None:
    topic = kafka.topic()
    pack(kafka, topic, EVENTS, compression_type=codec, linger_ms=50)
    learns_the_same(settings_for(make_settings, kafka, topic))


def test_codecs_batch_sizes_and_lingers_may_change_within_a_topic(
    kafka: Kafka, make_settings: Make
) -> None:
    topic = kafka.topic()
    for place, codec in enumerate(CODECS * 3):
        pack(
            kafka, topic, EVENTS[place * 100 : place * 100 + 100],
            compression_type=codec,
            batch_num_messages=(1, 7, 1000)[place % 3],
            linger_ms=(0, 1, 100)[place % 3],
        )  # fmt: skip
    learns_the_same(settings_for(make_settings, kafka, topic))


@pytest.mark.parametrize("codec", CODECS)
def test_a_broker_may_pack_anew(kafka: Kafka, make_settings: Make, codec: str) -> None:
    topic = kafka.topic(compression_type="uncompressed" if codec == "none" else codec)
    pack(kafka, topic, EVENTS, compression_type="lz4", linger_ms=50)
    learns_the_same(settings_for(make_settings, kafka, topic))
