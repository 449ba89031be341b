"""Records put aside: nothing of them is lost, and failing to keep one is noticed."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from app.deadletter import FileDeadLetters, KafkaDeadLetters, Reason
from app.errors import BadFeature, DeadLetterLost
from app.settings import KafkaSettings
from app.source import Record
from tests.brokers import Broker

REASON = Reason("decode", BadFeature("feature 'age' is 'abc'; expected a number", "age"))
RAW = b'{"age": "abc"}\xff\x00'


def test_a_dead_letter_keeps_the_record_and_says_where_and_why(broker: Broker) -> None:
    topic = broker.topic()
    kafka = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
    letters = KafkaDeadLetters(kafka, f"{topic}.dlq", timeout_seconds=20)
    headers: list[tuple[str, str | bytes | None]] = [("trace", b"\x01\xff"), ("empty", None)]

    letters.send(Record(topic, 3, 41, b"k\xff", RAW, 1_700_000_000_123, headers), REASON)
    letters.send(Record(topic, 3, 42, None, b""), REASON)
    letters.flush()
    letters.close()

    first, second = broker.read(f"{topic}.dlq", 2)
    assert (first.key(), first.value()) == (b"k\xff", RAW)
    assert first.timestamp()[1] > 1_700_000_000_123  # its own is in a header
    kept: list[Any] = list(first.headers() or [])
    assert kept[:2] == headers
    said: dict[str, bytes] = dict(kept[2:])
    assert said.pop("__livetree.errors.timestamp")
    assert said == {
        "__livetree.errors.topic": topic.encode(),
        "__livetree.errors.partition": b"3",
        "__livetree.errors.offset": b"41",
        "__livetree.errors.stage": b"decode",
        "__livetree.errors.exception": b"BadFeature",
        "__livetree.errors.message": b"feature 'age' is 'abc'; expected a number",
        "__livetree.errors.record_timestamp": b"1700000000123",
    }
    assert (second.key(), second.value()) == (None, b"")


def test_a_dead_letter_that_is_not_delivered_is_noticed() -> None:
    kafka = KafkaSettings(bootstrap_servers="127.0.0.1:1")
    letters = KafkaDeadLetters(kafka, "t.dlq", timeout_seconds=0.2)

    letters.send(Record("t", 0, 0, None, RAW), REASON)

    with pytest.raises(DeadLetterLost, match=r"topic 't.dlq'.*LIVETREE_DEAD_LETTER__ENABLED"):
        letters.flush()


def test_a_record_of_a_file_is_kept_as_base64(tmp_path: Path) -> None:
    letters = FileDeadLetters(tmp_path / "events.jsonl.dlq")

    letters.send(Record("events.jsonl", 0, 7, None, RAW), REASON)
    letters.flush()
    letters.close()

    (line,) = (tmp_path / "events.jsonl.dlq").read_text().splitlines()
    found = json.loads(line)
    assert base64.b64decode(found["value_base64"]) == RAW
    assert (found["offset"], found["exception"], found["stage"]) == (7, "BadFeature", "decode")


def test_a_file_that_cannot_be_written_is_noticed(tmp_path: Path) -> None:
    letters = FileDeadLetters(tmp_path / "no" / "folder.dlq")

    with pytest.raises(DeadLetterLost, match="No such file"):
        letters.send(Record("events.jsonl", 0, 7, None, RAW), REASON)


def test_without_a_dead_letter_no_file_appears(tmp_path: Path) -> None:
    letters = FileDeadLetters(tmp_path / "events.jsonl.dlq")

    letters.flush()
    letters.close()

    assert list(tmp_path.iterdir()) == []
