"""A learner killed at any moment goes on as if nothing had happened."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Message

from app import wiring
from app.checkpoint import CheckpointFolder
from app.settings import Settings
from tests.app.conftest import FEATURES, Broker, events

LEARNER = """
import json, sys, time
from app import wiring
from app.settings import Settings

service = wiring.build(Settings.load(environ={}, **json.loads(sys.argv[1])))
service.start()
time.sleep(600)
"""


def given(broker: Broker, topic: str, folder: Path) -> dict[str, Any]:
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


def wait(until: Callable[[], bool]) -> None:
    for _ in range(12_000):
        if until():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def finish(settings: Settings, records: int) -> str:
    """Learn to the end in this process; return the hash of the model."""
    service = wiring.build(settings)
    service.start()
    wait(lambda: service.consumer.source.positions().get(0, 0) >= records)
    service.stop()
    assert service.failure is None
    kept = CheckpointFolder(settings.checkpoint.folder).load()
    assert kept is not None
    assert kept.offsets == {0: records}
    return kept.model_hash


def kill_after_a_checkpoint(settings: dict[str, Any], folder: CheckpointFolder) -> None:
    before = folder.files()[:1]
    child = subprocess.Popen([sys.executable, "-c", LEARNER, json.dumps(settings)])
    wait(lambda: folder.files()[:1] != before)
    child.kill()
    child.wait()


def test_a_killed_learner_continues_to_the_same_model(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    settings = given(broker, topic, tmp_path / "killed")
    sent, poison = 0, []
    for kill in range(2):
        values = [*events(1000, seed=kill), b"poison", *events(300, seed=10 + kill)]
        broker.send(topic, *values)
        poison.append(sent + 1000)
        sent += len(values)
        kill_after_a_checkpoint(settings, CheckpointFolder(tmp_path / "killed"))

    resumed = finish(Settings.load(environ={}, **settings), sent)
    straight = finish(Settings.load(environ={}, **given(broker, topic, tmp_path / "whole")), sent)

    assert resumed == straight
    letters = broker.read(f"{topic}.dlq", broker.end(f"{topic}.dlq"))
    assert {letter_offset(letter) for letter in letters} == set(poison)


def letter_offset(letter: Message) -> int:
    headers: Any = letter.headers()
    return int(dict(headers)["__livetree.errors.offset"])
