"""A learner that dies or hangs is never served by a process that looks well."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.app.conftest import events
from tests.faults.conftest import given
from tests.faults.injection import raising, waiting
from tests.faults.served import Served
from tests.kafka.broker import Kafka

OFTEN = {"every_events": 50}

WHILE_LEARNING = [
    ("app.training:Training", "learn", "RuntimeError('a bug')"),
    ("app.training:Training", "learn", "MemoryError('no memory')"),
    ("app.training:Training", "learn", "SystemExit(0)"),
    ("app.serving:Serving", "publish", "RuntimeError('a bug')"),
    ("app.checkpoint:CheckpointFolder", "save", "RuntimeError('a bug')"),
    ("app.telemetry:Telemetry", "tick", "KeyboardInterrupt()"),
]


@pytest.mark.parametrize(("owner", "method", "fault"), WHILE_LEARNING)
def test_a_learner_that_dies_takes_the_process_with_it(
    kafka: Kafka,
    serve: Callable[..., Served],
    tmp_path: Path,
    owner: str,
    method: str,
    fault: str,
) -> None:
    topic, trigger = kafka.topic(), tmp_path / "trigger"
    settings = given(kafka, topic, tmp_path / "checkpoints", checkpoint=OFTEN)
    served = serve(settings, before=raising(owner, method, fault, trigger))
    kafka.send(topic, *events(100))
    served.wait_until_ready()

    trigger.touch()
    kafka.send(topic, *events(100, seed=2))

    assert served.ended() == 1, served.log
    kind = fault.partition("(")[0]
    (stopped,) = served.said("consumer stopped")
    assert stopped["kind"] == "Unexpected"
    assert kind in stopped["reason"]
    (failed,) = served.said("consumer failed")
    assert "Traceback" in failed["exception"]
    assert served.said("the learner failed")


AT_THE_START = [
    ("app.warmup", "warm_up", "RuntimeError('no compiler')"),
    ("app.warmup", "warm_up", "SystemExit(0)"),
    ("app.wiring:Learner", "_restored", "MemoryError('no memory')"),
    ("app.kafka_source:KafkaSource", "open", "SystemExit(0)"),
]


@pytest.mark.parametrize(("owner", "method", "fault"), AT_THE_START)
def test_a_learner_that_dies_at_its_start_takes_the_process_with_it(
    kafka: Kafka,
    serve: Callable[..., Served],
    tmp_path: Path,
    owner: str,
    method: str,
    fault: str,
) -> None:
    trigger = tmp_path / "trigger"
    trigger.touch()

    settings = given(kafka, kafka.topic(), tmp_path / "checkpoints")
    served = serve(settings, before=raising(owner, method, fault, trigger))

    assert served.ended() == 1, served.log
    assert served.said("the learner failed")


def test_requests_in_flight_are_answered_before_the_process_ends(
    kafka: Kafka, serve: Callable[..., Served], tmp_path: Path
) -> None:
    topic, trigger, hold = kafka.topic(), tmp_path / "trigger", tmp_path / "hold"
    fault = raising("app.training:Training", "learn", "RuntimeError('a bug')", trigger)
    served = serve(
        given(kafka, topic, tmp_path / "checkpoints"),
        before=fault + waiting("learner:Snapshot", "evaluate", hold),
    )
    kafka.send(topic, *events(100))
    served.wait_until_ready()
    hold.touch()
    rows = [{"age": float(age), "car": "c1", "words": []} for age in range(300)]
    answers: list[tuple[int, bytes]] = []
    request = threading.Thread(
        target=lambda: answers.append(served.post("/predict", {"instances": rows}))
    )
    request.start()
    served.wait(hold.with_suffix(".met").exists)

    trigger.touch()
    kafka.send(topic, *events(10, seed=2))
    served.wait_for("consumer stopped")
    hold.unlink()
    request.join()

    ((status, body),) = answers
    assert status == 200, body
    assert len(json.loads(body)["predictions"]) == 300
    assert served.ended() == 1, served.log


def test_a_learner_that_hangs_is_not_alive_but_still_answers(
    kafka: Kafka, serve: Callable[..., Served], tmp_path: Path
) -> None:
    topic, hold = kafka.topic(), tmp_path / "hold"
    served = serve(
        given(
            kafka,
            topic,
            tmp_path / "checkpoints",
            http={"stalled_after_seconds": 10, "shutdown_seconds": 2},
        ),
        before=waiting("app.training:Training", "learn", hold),
    )
    kafka.send(topic, *events(100))
    served.wait_until_ready()
    assert served.get("/livez")[0] == 200

    hold.touch()
    kafka.send(topic, *events(100, seed=2))
    served.wait(lambda: served.get("/livez")[0] == 503)
    assert served.predicts()
    assert served.process.poll() is None

    served.process.send_signal(signal.SIGTERM)
    assert served.ended() == 1, served.log
    assert served.said("consumer did not stop")
    assert served.said("leaving threads behind")[0]["threads"] == ["consumer"]


def test_a_learner_that_hung_for_a_while_is_alive_again(
    kafka: Kafka, serve: Callable[..., Served], tmp_path: Path
) -> None:
    topic, hold = kafka.topic(), tmp_path / "hold"
    served = serve(
        given(kafka, topic, tmp_path / "checkpoints", http={"stalled_after_seconds": 10}),
        before=waiting("app.training:Training", "learn", hold),
    )
    hold.touch()
    kafka.send(topic, *events(100))
    served.wait(lambda: served.get("/livez")[0] == 503)

    hold.unlink()

    served.wait(lambda: served.get("/livez")[0] == 200)
    served.wait_until_learned(100)
    assert served.terminate() == 0, served.log
