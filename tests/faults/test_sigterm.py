"""SIGTERM ends the process with 0 in every phase, with a checkpoint where there is one to write."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from app import wiring
from app.checkpoint import CheckpointFolder
from tests.app.conftest import events
from tests.app.test_wiring import learn_to, model_of
from tests.faults.conftest import given, settings_on
from tests.faults.injection import slow
from tests.faults.served import Served
from tests.kafka.broker import Kafka


def test_while_kernels_compile(kafka: Kafka, serve: Callable[..., Served], tmp_path: Path) -> None:
    topic, folder = kafka.topic(), tmp_path / "checkpoints"
    served = serve(
        given(kafka, topic, folder), environment={"NUMBA_CACHE_DIR": str(tmp_path / "cold")}
    )
    served.wait_for("compiling kernels; many seconds on the first run of a machine")
    assert served.get("/livez")[0] == 200

    assert served.terminate() == 0, served.log
    assert served.said("leaving threads behind")[0]["threads"] == ["livetree-starter"]
    assert not served.said("kernels ready")
    assert not folder.exists()


def test_while_the_broker_is_away(serve: Callable[..., Served], tmp_path: Path) -> None:
    settings = {
        "kafka": {"bootstrap_servers": "127.0.0.1:1"},
        "checkpoint": {"folder": str(tmp_path / "checkpoints")},
    }
    served = serve(settings)
    served.wait_for("broker unreachable, waiting")

    assert served.terminate() == 0, served.log
    assert not served.said("leaving threads behind")


def test_while_the_schema_is_inferred(
    kafka: Kafka, serve: Callable[..., Served], tmp_path: Path
) -> None:
    topic, folder = kafka.topic(), tmp_path / "checkpoints"
    inferring = {"features": None, "infer_from": 150}
    served = serve(given(kafka, topic, folder, schema=inferring))
    kafka.send(topic, *events(100))
    served.wait(lambda: b"100 of 150" in served.get("/readyz")[1])

    assert served.terminate() == 0, served.log
    assert not list(folder.glob("*.checkpoint"))  # nothing is learned yet

    kafka.send(topic, *events(200, seed=2))
    learn_to(wiring.build(settings_on(kafka, topic, folder, schema=inferring)), 300)
    straight = settings_on(kafka, topic, tmp_path / "straight", schema=inferring)
    learn_to(wiring.build(straight), 300)
    assert model_of(folder) == model_of(straight.checkpoint.folder)


def test_while_it_catches_up(kafka: Kafka, serve: Callable[..., Served], tmp_path: Path) -> None:
    topic, folder = kafka.topic(), tmp_path / "checkpoints"
    kafka.send(topic, *events(3000))
    served = serve(
        given(kafka, topic, folder, kafka={"poll_batch": 20}),
        before=slow("app.training:Training", "learn", 0.2),
    )
    served.wait_until_learned(40)

    assert served.terminate() == 0, served.log
    found = CheckpointFolder(folder).load()
    assert found is not None
    assert 40 <= found.offsets[0] < 3000
    assert found.events == found.offsets[0]

    learn_to(wiring.build(settings_on(kafka, topic, folder)), 3000)
    straight = settings_on(kafka, topic, tmp_path / "straight")
    learn_to(wiring.build(straight), 3000)
    assert model_of(folder) == model_of(straight.checkpoint.folder)


def test_while_a_checkpoint_is_loaded(
    kafka: Kafka, serve: Callable[..., Served], tmp_path: Path
) -> None:
    topic, folder = kafka.topic(), tmp_path / "checkpoints"
    kafka.send(topic, *events(300))
    learn_to(wiring.build(settings_on(kafka, topic, folder)), 300)
    before = model_of(folder)
    served = serve(given(kafka, topic, folder), before=slow("app.wiring:Learner", "_restored", 2.0))
    served.wait_for("starting")

    assert served.terminate() == 0, served.log
    assert not served.said("leaving threads behind")
    assert model_of(folder) == before


def test_while_nothing_happens(kafka: Kafka, serve: Callable[..., Served], tmp_path: Path) -> None:
    topic, folder = kafka.topic(), tmp_path / "checkpoints"
    kafka.send(topic, *events(300))
    served = serve(given(kafka, topic, folder))
    served.wait_until_learned(300)
    assert json.loads(served.get("/readyz")[1]) == {"ready": True}

    assert served.terminate() == 0, served.log
    found = CheckpointFolder(folder).load()
    assert found is not None
    assert found.offsets == {0: 300}
