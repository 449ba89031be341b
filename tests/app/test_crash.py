"""A learner killed at any moment goes on as if nothing had happened."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message

from app import wiring
from app.checkpoint import CheckpointFolder
from app.history import Change
from app.settings import Settings
from learner import Encoder, Schema, StreamingTree
from streams import open_stream
from tests.app.conftest import FEATURES, events
from tests.brokers import Broker
from tests.faults.learner_process import Learners, newest, wait


@pytest.fixture
def learners() -> Iterator[Learners]:
    with Learners() as made:
        yield made


def finish(given: dict[str, Any], end: int) -> tuple[str, list[Change]]:
    """Learn to the end in this process; return the hash of the model, and all its changes."""
    settings = Settings.load(environ={}, **given)
    service = wiring.build(settings)
    service.start()
    wait(lambda: service.consumer.source.positions().get(0, 0) >= end)
    service.stop()
    assert service.failure is None
    kept = CheckpointFolder(settings.checkpoint.folder).load()
    assert kept is not None
    assert kept.offsets == {0: end}
    assert [entry.change.sequence for entry in kept.changes.kept] == list(
        range(1, kept.changes.total + 1)
    )
    return kept.model_hash, [entry.change for entry in kept.changes.kept]


def over_kafka(broker: Broker, topic: str, folder: Path) -> dict[str, Any]:
    return {
        "kafka": {
            "bootstrap_servers": broker.bootstrap_servers,
            "topic": topic,
            "fetch_wait_ms": 10,
            "poll_batch": 50,
        },
        "schema": {"features": FEATURES},
        "tree": {"n_min": 50},
        "checkpoint": {"folder": str(folder), "every_events": 200},
    }


def test_a_killed_learner_continues_to_the_same_model(
    broker: Broker, learners: Learners, tmp_path: Path
) -> None:
    topic = broker.topic()
    folder = tmp_path / "killed"
    sent, poison = 0, []
    for kill in range(3):
        values = [*events(1000, seed=kill), b"poison", *events(300, seed=10 + kill)]
        broker.send(topic, *values)
        poison.append(sent + 1000)
        sent += len(values)
        before = newest(folder)
        learners.start(over_kafka(broker, topic, folder))
        wait(lambda before=before: newest(folder) > before)  # type: ignore[misc]
        learners.kill()

    resumed = finish(over_kafka(broker, topic, folder), sent)
    straight = finish(over_kafka(broker, topic, tmp_path / "whole"), sent)

    assert resumed == straight
    letters = broker.read(f"{topic}.dlq", broker.end(f"{topic}.dlq"))
    assert {letter_offset(letter) for letter in letters} == set(poison)


def letter_offset(letter: Message) -> int:
    headers: Any = letter.headers()
    return int(dict(headers)["__livetree.errors.offset"])


def from_file(path: Path, folder: Path, poll_batch: int) -> dict[str, Any]:
    return {
        "source": "file",
        "file": {"path": str(path), "poll_timeout_seconds": 0.01},
        "kafka": {"poll_batch": poll_batch},
        "schema": {"infer_from": 150},
        "tree": {"n_min": 50, "leaf_predictor": "nba", "audit_fraction": 0.5},
        "checkpoint": {"folder": str(folder), "every_events": 100},
    }


def test_a_learner_of_a_growing_file_killed_at_random_moments_continues_to_the_same_model(
    learners: Learners, tmp_path: Path
) -> None:
    chance = random.Random(20)
    path, folder = tmp_path / "events.jsonl", tmp_path / "killed"
    rows = open_stream("agrawal", seed=3).events(8000)
    good = [json.dumps(row).encode() for row in rows]
    lines = [line for place, line in enumerate(good) for line in around(place, line)]
    content = b"\n".join(lines) + b"\n"
    written, resumed_from = 0, set()
    for _ in range(8):
        before = newest(folder)
        resumed_from.add(before)
        learners.start(from_file(path, folder, poll_batch=chance.choice([1, 7, 40])))
        # Grows in pieces that end anywhere, also within a line, also while nobody reads.
        part = content[written : written + len(content) // chance.randint(10, 20)]
        written += len(part)
        with path.open("ab") as file:
            for cut in range(0, len(part), 10_000):
                file.write(part[cut : cut + 10_000])
                file.flush()
        # Anywhere between a learner that has hardly begun and one that has nothing left to do.
        enough = before + chance.randint(0, 2)
        wait(lambda enough=enough: newest(folder) >= enough)  # type: ignore[misc]
        time.sleep(chance.uniform(0.0, 0.05))
        learners.kill()
    with path.open("ab") as file:
        file.write(content[written:])

    resumed = finish(from_file(path, folder, 50), len(content))
    straight = finish(from_file(path, tmp_path / "whole", 1000), len(content))

    assert len(resumed_from) > 3  # kills did hit learners at work
    assert resumed == straight
    assert len(straight[1]) > 1
    assert straight[0] == learned_at_once(rows)
    letters = [json.loads(line) for line in Path(f"{path}.dlq").read_bytes().splitlines()]
    assert {letter["offset"] for letter in letters} == poison_offsets(lines)


def around(place: int, line: bytes) -> list[bytes]:
    """Return the line, now and then with a bad record, an empty one or none before it."""
    return {0: [b'{"age": "old"}', line], 500: [b"", line], 700: [b"\xff", line]}.get(
        place % 1000, [line]
    )


def poison_offsets(lines: list[bytes]) -> set[int]:
    offset, found = 0, set()
    for line in lines:
        if line in (b'{"age": "old"}', b"\xff"):
            found.add(offset)
        offset += len(line) + 1
    return found


def learned_at_once(rows: list[dict[str, Any]]) -> str:
    """Return the hash of the tree that learns all events in one call, without a service."""
    records = [{name: value for name, value in row.items() if name != "label"} for row in rows]
    encoder = Encoder(Schema.infer(records[:150]))
    tree = StreamingTree(encoder, "vfdt", n_min=50, leaf_predictor="nba", audit_fraction=0.5)
    labels = encoder.encode_labels([row["label"] for row in rows])
    tree.learn(encoder.encode_records(records), labels)
    return tree.hash()
