"""One learner a checkpoint folder: a second one is refused, and the place is free after a kill."""

from __future__ import annotations

import errno
import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest

from app import wiring
from app.checkpoint import CheckpointFolder
from app.errors import CheckpointUnwritable
from tests.app.conftest import events
from tests.app.test_wiring import learn_to, model_of
from tests.faults.conftest import given, settings_on
from tests.faults.served import Served
from tests.kafka.broker import Kafka


def test_a_second_learner_is_refused_and_the_first_is_unharmed(
    kafka: Kafka, serve: Callable[..., Served], tmp_path: Path
) -> None:
    topic, folder = kafka.topic(), tmp_path / "checkpoints"
    settings = given(kafka, topic, folder, checkpoint={"every_events": 100})
    kafka.send(topic, *events(300))
    first = serve(settings)
    first.wait_until_ready()

    second = serve(settings)
    assert second.ended() == 4, second.log
    (end,) = second.said("the learner failed")
    assert end["kind"] == "CheckpointLocked"
    assert "in use by another learner" in end["error"]

    kafka.send(topic, *events(300, seed=2))
    first.wait_until_learned(600)
    assert first.predicts()
    first.wait_for("checkpoint written")
    first.kill()

    third = serve(settings)  # no lock outlives its process
    third.wait_until_ready()
    kafka.send(topic, *events(300, seed=3))
    third.wait(lambda: b'"events":900' in third.get("/model")[1])
    assert third.terminate() == 0, third.log
    straight = settings_on(kafka, topic, tmp_path / "straight")
    learn_to(wiring.build(straight), 900)
    assert model_of(folder) == model_of(straight.checkpoint.folder)


def test_a_file_system_without_locks_is_named_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)

    with pytest.raises(CheckpointUnwritable, match="refuses a lock: No locks available"):
        CheckpointFolder(tmp_path).acquire()
