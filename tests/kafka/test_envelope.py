"""Events in envelopes and in Avro, on Apache Kafka: the same tree as from plain JSON.

The registry is one in this process, in the shape of Confluent's; see tests/app/registry_server.py.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app import wiring
from app.checkpoint import CheckpointFolder
from app.errors import RegistryRefused
from app.settings import Settings
from app.wiring import Service
from tests.app.conftest import FEATURES, events
from tests.app.registry_server import RegistryServer, framed
from tests.kafka.broker import Kafka

Make = Callable[..., Settings]

BINARY: list[tuple[str, bytes]] = [
    ("ce_specversion", b"1.0"),
    ("ce_id", b"e-1"),
    ("ce_source", b"/tests"),
    ("ce_type", b"com.example.seen"),
    ("content-type", b"application/json"),
]
STRUCTURED = [("content-type", b"application/cloudevents+json; charset=UTF-8")]
SCHEMA = {
    "type": "record",
    "name": "Seen",
    "namespace": "com.example",
    "fields": [
        {"name": "age", "type": ["null", "double"]},
        {"name": "car", "type": {"type": "enum", "name": "Car", "symbols": ["c1", "c2", "c3"]}},
        {"name": "words", "type": {"type": "array", "items": "string"}},
        {"name": "label", "type": "string"},
    ],
}


def wait(until: Callable[[], bool], service: Service, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not until():
        assert service.failure is None, f"the service failed: {service.failure}"
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def seen(service: Service) -> float:
    """Return how many records are done with: learned or put aside."""
    topic = service.settings.kafka.topic
    found = service.metrics.registry.get_sample_value(
        "livetree_events_consumed_total", {"topic": topic}
    )
    return found or 0.0


def learned(settings: Settings, records: int) -> tuple[str, int]:
    """Run a service until it is done with so many records; return the model's hash and events."""
    service = wiring.build(settings)
    service.start()
    wait(lambda: seen(service) >= records, service)
    service.stop()
    assert service.failure is None
    return model_of(settings)


def model_of(settings: Settings) -> tuple[str, int]:
    found = CheckpointFolder(settings.checkpoint.folder).load()
    assert found is not None
    return found.model_hash, found.events


@pytest.fixture
def settings_for(kafka: Kafka, make_settings: Make, tmp_path: Path) -> Callable[..., Settings]:
    def make(topic: str, **more: Any) -> Settings:
        return make_settings(
            kafka={"bootstrap_servers": kafka.bootstrap_servers, "topic": topic},
            checkpoint={"folder": tmp_path / topic},
            tree={"n_min": 50},
            **more,
        )

    return make


@pytest.mark.parametrize("schema", [{"features": FEATURES}, {}], ids=["declared", "inferred"])
def test_mixed_envelopes_learn_the_tree_of_the_plain_events(
    kafka: Kafka, settings_for: Make, schema: dict[str, Any]
) -> None:
    plain, mixed = kafka.topic(), kafka.topic()
    values = events(1500)
    kafka.send(plain, *values)
    for place, value in enumerate(values):
        data = {"data": json.loads(value)}
        if place % 4 == 3:
            data = {"data_base64": base64.b64encode(value).decode()}
        envelope = {"specversion": "1.0", "id": str(place), "source": "/t", "type": "t", **data}
        if place % 4 == 0:
            kafka.producer.produce(mixed, value)
        elif place % 4 == 1:
            kafka.producer.produce(mixed, value, headers=BINARY)
        else:
            kafka.producer.produce(mixed, json.dumps(envelope), headers=STRUCTURED)
    assert kafka.producer.flush(60) == 0

    expected = learned(settings_for(plain, schema=schema), 1500)

    assert learned(settings_for(mixed, schema=schema), 1500) == expected
    assert expected[1] == 1500


def test_rejected_envelopes_arrive_at_the_dead_letters_as_they_came(
    kafka: Kafka, settings_for: Make
) -> None:
    topic = kafka.topic()
    kafka.send(topic, *events(20))
    batch = [("content-type", b"application/cloudevents-batch+json")]
    old = [("ce_specversion", b"0.3"), ("trace", b"\x00\xff"), ("trace", b"2")]
    envelope = b'{"specversion": "1.0", "id": "e", "data": {"age": "abc", "label": 1}}'
    kafka.send(topic, b"[{}, {}]", headers=batch)
    kafka.send(topic, b'{"label": "old"}', key=b"k", headers=old, timestamp=1_700_000_000_000)
    kafka.send(topic, envelope, headers=STRUCTURED)

    learned(settings_for(topic, schema={"features": FEATURES}), 23)

    letters = kafka.read(f"{topic}.dlq", 3)
    came = [(b"[{}, {}]", batch), (b'{"label": "old"}', old), (envelope, STRUCTURED)]
    assert [(x.value(), (x.headers() or [])[:-8]) for x in letters] == came
    said = [dict(letter.headers() or []) for letter in letters]
    assert letters[1].key() == b"k"
    assert said[1]["__livetree.errors.record_timestamp"] == b"1700000000000"
    assert [headers["__livetree.errors.exception"] for headers in said] == [
        b"BadEnvelope",
        b"BadEnvelope",
        b"BadFeature",
    ]
    assert said[1]["__livetree.errors.message"] == (
        b"specversion of the CloudEvent is '0.3'; expected '1.0'"
    )
    assert said[2]["__livetree.errors.message"] == b"feature 'age' is 'abc'; expected a number"


def avro(server: RegistryServer, **more: Any) -> dict[str, Any]:
    registry = {"url": server.url, "timeout_seconds": 30, **more}
    return {"format": "avro", "registry": registry}


@pytest.mark.parametrize("schema", [{"features": FEATURES}, {}], ids=["declared", "inferred"])
def test_events_in_avro_learn_the_tree_of_the_same_events_in_json(
    kafka: Kafka, settings_for: Make, schema: dict[str, Any]
) -> None:
    plain, topic = kafka.topic(), kafka.topic()
    values = events(1500)
    kafka.send(plain, *values)
    kafka.send(topic, *(framed(7, SCHEMA, json.loads(value)) for value in values[:1000]))
    headers = [*BINARY[:-1], ("content-type", b"application/avro")]
    others = (framed(8, SCHEMA, json.loads(value)) for value in values[1000:])
    kafka.send(topic, *others, headers=headers)
    server = RegistryServer()
    server.add(7, SCHEMA)
    car = {"name": "com.example.Car", "subject": "car", "version": 1}
    fields: list[Any] = SCHEMA["fields"]  # type: ignore[assignment]
    by_name = [fields[0], {"name": "car", "type": "Car"}, *fields[2:]]
    server.add(8, {**SCHEMA, "fields": by_name}, references=[car])
    server.add_version("car", 1, {**fields[1]["type"], "namespace": "com.example"})

    expected = learned(settings_for(plain, schema=schema), 1500)
    with server.running():
        found = learned(settings_for(topic, schema=schema, event=avro(server)), 1500)

    assert found == expected
    assert server.asked == [
        "/schemas/ids/7",
        "/schemas/ids/8",
        "/subjects/car/versions/1?deleted=true",
    ]


def test_a_registry_that_is_away_is_waited_for_and_costs_no_event(
    kafka: Kafka, settings_for: Make
) -> None:
    topic = kafka.topic()
    values = [json.loads(value) for value in events(300)]
    kafka.send(topic, *(framed(1, SCHEMA, value) for value in values[:200]))
    kafka.send(topic, *(framed(2, SCHEMA, value) for value in values[200:]))
    server = RegistryServer()
    server.add(1, SCHEMA)
    server.add(2, SCHEMA)
    settings = settings_for(topic, schema={"features": FEATURES}, event=avro(server))
    service = wiring.build(settings)
    service.start()
    wait(lambda: service.ready()[1] == "waiting for the schema registry", service)
    assert service.alive()

    server.instead = (502, b"<html>Bad Gateway</html>", {})
    with server.running():
        wait(lambda: len(server.asked) >= 2, service)
        server.instead = None
        wait(lambda: seen(service) >= 300, service)
    service.stop()

    assert service.failure is None
    assert model_of(settings)[1] == 300
    assert kafka.read(f"{topic}.dlq", 0) == []


def test_a_stop_while_the_registry_is_away_loses_nothing(kafka: Kafka, settings_for: Make) -> None:
    topic, plain = kafka.topic(), kafka.topic()
    values = events(300)
    kafka.send(plain, *values)
    kafka.send(topic, *(framed(1, SCHEMA, json.loads(value)) for value in values[:200]))
    server = RegistryServer()
    server.add(1, SCHEMA)
    settings = settings_for(topic, schema={"features": FEATURES}, event=avro(server))
    with server.running():
        learned(settings, 200)
    kafka.send(topic, *(framed(2, SCHEMA, json.loads(value)) for value in values[200:]))

    service = wiring.build(settings)  # knows no schema, and nobody answers
    service.start()
    wait(lambda: service.consumer.waiting_for() != "", service)
    service.stop()
    assert service.failure is None
    assert model_of(settings)[1] == 200

    server.add(2, SCHEMA)
    with server.running():
        found = learned(settings, 100)
    assert found == learned(settings_for(plain, schema={"features": FEATURES}), 300)


def test_avro_that_cannot_be_read_arrives_at_the_dead_letters_as_it_came(
    kafka: Kafka, settings_for: Make
) -> None:
    topic = kafka.topic()
    good = framed(1, SCHEMA, json.loads(events(1)[0]))
    unknown, cut, plain = b"\0\0\0\0\x63" + good[5:], good[:-2], b'{"age": 1, "label": "old"}'
    deep = framed(2, SCHEMA, json.loads(events(1)[0]))
    kafka.send(topic, good, unknown, cut, plain, deep, good, headers=[("trace", b"\xff")])
    server = RegistryServer()
    server.add(1, SCHEMA)
    itself = {"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]}
    server.add(2, itself)
    settings = settings_for(topic, schema={"features": FEATURES}, event=avro(server))

    with server.running():
        assert learned(settings, 6)[1] == 2

    letters = kafka.read(f"{topic}.dlq", 4)
    assert [x.value() for x in letters] == [unknown, cut, plain, deep]
    said = [dict(letter.headers() or []) for letter in letters]
    assert {headers["trace"] for headers in said} == {b"\xff"}
    assert [headers["__livetree.errors.exception"] for headers in said] == [
        b"UnusableSchema",
        b"NotAvro",
        b"NotAvro",
        b"UnusableSchema",
    ]
    assert b"schema 99 is not in the schema registry" in said[0]["__livetree.errors.message"]
    assert b"the type 'N', which holds itself" in said[3]["__livetree.errors.message"]


def test_a_registry_that_refuses_ends_the_service_with_nothing_lost(
    kafka: Kafka, settings_for: Make
) -> None:
    topic = kafka.topic()
    kafka.send(topic, framed(1, SCHEMA, json.loads(events(1)[0])))
    server = RegistryServer()
    server.add(1, SCHEMA)
    server.authorization = "Bearer t0ken"
    event = avro(server, token="wrong")
    with server.running():
        service = wiring.build(settings_for(topic, schema={"features": FEATURES}, event=event))
        service.start()
        deadline = time.monotonic() + 120
        while service.failure is None and time.monotonic() < deadline:
            time.sleep(0.02)
        service.stop()
    assert isinstance(service.failure, RegistryRefused)
    assert kafka.read(f"{topic}.dlq", 0) == []

    with server.running():
        again = settings_for(
            topic, schema={"features": FEATURES}, event=avro(server, token="t0ken")
        )
        assert learned(again, 1)[1] == 1
