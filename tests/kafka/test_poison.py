"""Poison: whatever is in a record, it costs only itself, and nothing of it is lost.

One service reads everything below between good events, on Apache Kafka.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Message

from app.errors import REJECTIONS
from app.header import UNREADABLE_HEADERS
from app.settings import Settings
from app.settings_file import declared_schema
from app.source import Record
from app.training import Training, new_tree
from app.wiring import Service
from tests.app.conftest import FEATURES, events
from tests.kafka.broker import Kafka
from tests.kafka.raw_producer import send_raw
from tests.kafka.running import passed, running, wait_until

GOOD_BETWEEN = 10
MEGABYTE = 1_000_000
EVENT = '{"age": 41, "car": "c1", "label": "old"}'
DEEP = 100_000
BAD_NAME = [(b"caf\xe9", b"1"), (b"plain", None)]

# name: (bytes, reason)
POISON: dict[str, tuple[bytes, str]] = {
    "cut off": (b'{"age": 41, "lab', "not_json"),
    "two objects": (EVENT.encode() * 2, "not_json"),
    "empty value": (b"", "not_json"),
    "empty object": (b"{}", "bad_label"),
    "only white space": (b" \n\t", "not_json"),
    "null byte": (b"\x00", "not_json"),
    "null byte behind": (EVENT.encode() + b"\x00", "not_json"),
    "list": (b"[1, 2]", "not_an_object"),
    "null": (b"null", "not_an_object"),
    "number": (b"17", "not_an_object"),
    "text for a number": (b'{"age": "41", "label": "old"}', "bad_feature"),
    "truth value for a number": (b'{"age": true, "label": "old"}', "bad_feature"),
    "list for a nominal": (b'{"age": 41, "car": ["c1"], "label": "old"}', "bad_feature"),
    "object for a nominal": (b'{"age": 41, "car": {"c1": 1}, "label": "old"}', "bad_feature"),
    "number for a set": (b'{"age": 41, "words": 5, "label": "old"}', "bad_feature"),
    "lists in a set": (b'{"age": 41, "words": [["good"]], "label": "old"}', "bad_feature"),
    "missing label": (b'{"age": 41, "car": "c1"}', "bad_label"),
    "null label": (b'{"age": 41, "label": null}', "bad_label"),
    "list as a label": (b'{"age": 41, "label": ["old"]}', "bad_label"),
    "object as a label": (b'{"age": 41, "label": {"old": 1}}', "bad_label"),
    "long new label": (json.dumps({"age": 41, "label": "x" * 5000}).encode(), "too_many_classes"),
    "NaN": (b'{"age": NaN, "label": "old"}', "not_json"),
    "Infinity": (b'{"age": Infinity, "label": "old"}', "not_json"),
    "minus Infinity": (b'{"age": -Infinity, "label": "old"}', "not_json"),
    "1e999": (b'{"age": 1e999, "label": "old"}', "bad_feature"),
    "1e999 as a value": (b'{"car": 1e999, "label": "old"}', "bad_feature"),
    "1e999 as a label": (b'{"age": 41, "label": 1e999}', "bad_label"),
    "NaN as text": (b'{"age": "NaN", "label": "old"}', "bad_feature"),
    "Infinity as text": (b'{"age": "Infinity", "label": "old"}', "bad_feature"),
    "1e999 as text": (b'{"age": "1e999", "label": "old"}', "bad_feature"),
    "huge integer": (b'{"age": ' + b"9" * 400 + b', "label": "old"}', "bad_feature"),
    "integer of 5,000 digits": (b'{"age": 41, "label": ' + b"9" * 5000 + b"}", "bad_label"),
    "integer of 500,000 digits": (b'{"car": ' + b"9" * 500_000 + b', "label": 1}', "bad_feature"),
    "ten megabytes": (b'{"age": 41, "car": "' + b"x" * 10 * MEGABYTE + b'"}', "too_large"),
    "ten megabytes of nothing": (b"\x00" * 10 * MEGABYTE, "too_large"),
    "UTF-16": (EVENT.encode("utf-16"), "not_utf8"),
    "UTF-16 without a mark": (EVENT.encode("utf-16-le"), "not_json"),
    "latin-1": (EVENT.replace("old", "\xe4lter").encode("latin-1"), "not_utf8"),
    "byte order mark": (b"\xef\xbb\xbf" + EVENT.encode(), "not_json"),
    "half a surrogate": (b'{"age": 41, "label": "\\ud800"}', "not_json"),
    "deep lists": (b'{"age": 41, "car": ' + b"[" * DEEP + b"]" * DEEP + b"}", "not_json"),
    "deep objects": (b'{"a": ' * DEEP + b"1" + b"}" * DEEP, "not_json"),
    "deep and not closed": (b"[" * DEEP, "not_json"),
}  # fmt: skip

# What is odd and yet an event: as it is sent, and the plain event that it equals.
ODD: dict[str, tuple[bytes, bytes]] = {
    "unknown features": (
        b'{"age": 30, "label": "young", "planet": "mars", "deep": [[{"a": [1]}]]}',
        b'{"age": 30, "label": "young"}',
    ),
    "a key twice": (b'{"age": 1, "age": 30, "label": "young"}', b'{"age": 30, "label": "young"}'),
    "a label twice": (b'{"age": 30, "label": 1, "label": "old"}', b'{"age": 30, "label": "old"}'),
    "a null byte in a text": (
        b'{"age": 30, "car": "a\\u0000b", "label": "young"}',
        '{"age": 30, "car": "a\x00b", "label": "young"}'.replace("\x00", "\\u0000").encode(),
    ),
    "a value that is too long": (
        json.dumps({"age": 30, "car": "x" * 5000, "label": "young"}).encode(),
        b'{"age": 30, "label": "young"}',
    ),
    "an empty name": (b'{"": 1, "age": 30, "label": "young"}', b'{"age": 30, "label": "young"}'),
}

# Keys and headers that arrive with a poisoned value, and must be kept.
LUGGAGE: list[dict[str, Any]] = [
    {"key": b"k\xff\x00", "headers": [("trace", b"\x01\xff"), ("none", None), ("", b"")]},
    {"key": b"k" * MEGABYTE, "headers": []},
    {"headers": [("long", b"h" * 500_000), ("n" * 30_000, b"1")]},
    {"key": b"", "headers": [(f"h{i}", str(i).encode()) for i in range(2000)]},
    {"headers": [("twice", b"1"), ("twice", b"2"), ("umlaut-ä", "ö".encode())]},
]


class Poisoned(NamedTuple):
    """What was sent, what the dead letters hold, and the service that still runs."""

    service: Service
    good: list[bytes]
    letters: dict[bytes, list[Message]]
    sent: dict[str, dict[str, Any]]


def settings_of(kafka: Kafka, topic: str, folder: Path, **more: Any) -> Settings:
    return Settings.load(
        environ={},
        kafka={"bootstrap_servers": kafka.bootstrap_servers, "topic": topic},
        checkpoint={"folder": folder},
        publish={"every_seconds": 0.05},
        **more,
    )


@pytest.fixture(scope="module")
def poisoned(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Poisoned]:
    """Send good events with poison between them to one running service."""
    topic = kafka.topic(max_message_bytes="15000000")
    kafka.delete_topic(f"{topic}.dlq")
    # Dead letters keep the time of their records: by it these are years too old to be retained.
    kafka.create_topic(f"{topic}.dlq", max_message_bytes="16000000", retention_ms="-1")
    plain = iter(events(GOOD_BETWEEN * (len(POISON) + len(ODD) + 3)))
    good: list[bytes] = []
    sent: dict[str, dict[str, Any]] = {}
    folder = tmp_path_factory.mktemp("poison")
    settings = settings_of(kafka, topic, folder, schema={"features": FEATURES}, tree={"n_min": 50})

    def send_good() -> None:
        batch = [next(plain) for _ in range(GOOD_BETWEEN)]
        kafka.send(topic, *batch)
        good.extend(batch)

    with running(settings) as service:
        for place, (name, (value, _)) in enumerate(POISON.items()):
            send_good()
            sent[name] = {
                "timestamp": 1_700_000_000_000 + place,
                "key": None,
                **LUGGAGE[place % len(LUGGAGE)],
            }
            kafka.send(topic, value, **sent[name])
        for odd, equal in ODD.values():
            send_good()
            kafka.send(topic, odd, key=b"k" * 100_000, headers=[("none", None)])
            good.append(equal)
        send_good()
        send_raw(kafka.bootstrap_servers, topic, EVENT.encode(), BAD_NAME)
        good.append(EVENT.encode())
        send_raw(kafka.bootstrap_servers, topic, b"raw poison", BAD_NAME)
        send_good()
        wait_until(lambda: passed(service, {0: kafka.end(topic)}), service)
        wait_until(lambda: kafka.end(f"{topic}.dlq") >= len(POISON) + 1, service)
        letters: dict[bytes, list[Message]] = {}
        for message in kafka.read(f"{topic}.dlq", len(POISON) + 1):
            letters.setdefault(message.value() or b"", []).append(message)
        yield Poisoned(service, good, letters, sent)


@pytest.mark.parametrize("name", POISON)
def test_a_poisoned_record_is_put_aside_whole_and_with_the_right_reason(
    name: str, poisoned: Poisoned
) -> None:
    value, reason = POISON[name]
    sent = poisoned.sent[name]

    (letter,) = poisoned.letters[value]

    headers: list[Any] = letter.headers() or []
    kept = [(key, held) for key, held in headers if not key.startswith("__livetree.")]
    assert (letter.value(), letter.key()) == (value, sent["key"])
    assert kept == sent["headers"]
    said = dict(headers)
    assert said["__livetree.errors.record_timestamp"] == str(sent["timestamp"]).encode()
    rejected = poisoned.service.metrics.events_rejected.labels(reason)
    assert rejected._value.get() >= 1
    assert REJECTIONS[said["__livetree.errors.exception"].decode()] == reason
    assert len(said["__livetree.errors.message"]) <= 1000


def test_every_reason_is_counted(poisoned: Poisoned) -> None:
    counted = {
        reason: poisoned.service.metrics.events_rejected.labels(reason)._value.get()
        for reason in {reason for _, reason in POISON.values()}
    }
    expected = dict.fromkeys(counted, 0)
    for _, reason in POISON.values():
        expected[reason] += 1
    expected["not_json"] += 1  # the one with a broken header
    assert counted == expected


def test_the_model_is_that_of_the_good_events_alone(poisoned: Poisoned) -> None:
    settings = poisoned.service.settings
    schema = declared_schema(settings.schema_)
    assert schema is not None
    alone = Training(settings, new_tree(settings, schema))
    alone.learn([Record("t", 0, i, None, value, 1) for i, value in enumerate(poisoned.good)])
    learned = poisoned.service.consumer.training.tree

    assert learned is not None
    assert alone.tree is not None
    assert learned.counters().events == len(poisoned.good)
    # One value was too long to be taken up, which the encoder counts; nothing else differs.
    alone.tree.encoder.overflowed_values += 1
    assert learned.hash() == alone.tree.hash()


def test_a_header_whose_name_is_not_utf8_does_not_stop_the_service(poisoned: Poisoned) -> None:
    (letter,) = poisoned.letters[b"raw poison"]

    assert (letter.headers() or [])[0] == UNREADABLE_HEADERS


def test_the_service_is_alive_and_ready_after_all_this(poisoned: Poisoned) -> None:
    assert poisoned.service.alive()
    assert poisoned.service.ready() == (True, "ready")
    assert poisoned.service.failure is None
