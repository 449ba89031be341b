"""A service whose topic is read by an ingest actor: the same model, also when the actor dies."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.binary import RowLayout
from app.checkpoint import CheckpointFolder
from app.errors import SettingsError
from app.settings import Settings
from app.settings_file import declared_schema
from app.training import Training, new_tree
from tests.app.conftest import events
from tests.app.test_training import records
from tests.brokers import Embedded
from tests.distributed.conftest import PATIENT
from tests.distributed.nodes import Nodes
from tests.faults.served import Served
from tests.kafka.running import passed, running, wait_until

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")

SCHEMA = {
    "features": [
        {"name": "age", "kind": "numeric"},
        {"name": "car", "kind": "nominal", "values": ["c1", "c2", "c3"]},
    ],
    "classes": ["old", "young"],
}
EAGER = {"n_min": 20, "delta": 0.05, "tau": 0.2}
ROWS = [json.loads(event) for event in events(2400)]
A_RECORD = 30


def undisturbed() -> str:
    settings = Settings(variant="vht", schema=SCHEMA, tree=EAGER)
    schema = declared_schema(settings.schema_)
    assert schema is not None
    training = Training(settings, new_tree(settings, schema))
    training.learn(records([json.dumps(row).encode() for row in ROWS]))
    assert training.tree is not None
    return training.tree.hash()


def test_an_ingest_actor_feeds_the_same_model_and_may_die(
    running_ray: None, embedded: Embedded, make_settings: Callable[..., Settings]
) -> None:
    topic = embedded.topic()
    ray = {**PATIENT.model_dump(), "ingest": True}
    settings = make_settings(
        variant="vht", execution="ray", vht={"ray": ray}, tree=EAGER, schema=SCHEMA,
        event={"format": "binary"}, checkpoint={"every_seconds": 3600, "every_events": 20},
        kafka={
            "bootstrap_servers": embedded.bootstrap_servers, "topic": topic, "poll_batch": 7,
        },
    )  # fmt: skip
    layout = RowLayout.of(settings)
    packed = [layout.pack(ROWS[at : at + A_RECORD]) for at in range(0, len(ROWS), A_RECORD)]
    poison = packed[0][:-4] + b"\xff\xff\xff\xff"  # the last of thirty labels is none
    packed.insert(10, poison)

    embedded.send(topic, *packed[:50])
    with running(settings) as service:
        wait_until(lambda: passed(service, {0: 50}), service)
        actor: Any = service.consumer.source
        os.kill(actor._mesh.pid, signal.SIGKILL)
        embedded.send(topic, *packed[50:])
        wait_until(lambda: passed(service, {0: 81}), service)
        assert service.consumer.source is not actor

    folder = settings.checkpoint.folder
    checkpoint = CheckpointFolder(folder, 1).restore(lambda found: found)
    assert checkpoint is not None
    assert checkpoint.events == len(ROWS)
    assert checkpoint.offsets == {0: 81}
    assert checkpoint.model_hash == undisturbed()
    assert {letter.value() for letter in embedded.read(f"{topic}.dlq", 1)} == {poison}


def test_an_ingest_actor_feeds_workers_of_two_nodes_one_of_which_dies(
    cluster: Nodes, embedded: Embedded, tmp_path: Path
) -> None:
    """It shares memory with the worker beside it, and Ray brings the other one its columns."""
    topic, folder = embedded.topic(), tmp_path / "checkpoints"
    settings = {
        "variant": "vht", "execution": "ray", "tree": EAGER, "schema": SCHEMA,
        "vht": {"ray": {
            "address": cluster.address, "ingest": True, "start_seconds": 600,
        }},  # three actors, and a node has room for two
        "event": {"format": "binary"},
        "checkpoint": {"folder": str(folder), "every_seconds": 3600, "every_events": 500},
        "kafka": {
            "bootstrap_servers": embedded.bootstrap_servers, "topic": topic, "poll_batch": 7,
        },
    }  # fmt: skip
    layout = RowLayout.of(Settings(schema=SCHEMA, event={"format": "binary"}))
    packed = [layout.pack(ROWS[at : at + A_RECORD]) for at in range(0, len(ROWS), A_RECORD)]
    served = Served(settings, tmp_path / "livetree.yaml", environment=cluster.environment)

    def has_learned(events: int) -> bool:
        body = served.get("/model")[1]
        return body.startswith(b"{") and json.loads(body).get("events", 0) >= events

    try:
        embedded.send(topic, *packed[:50])
        served.wait(lambda: has_learned(50 * A_RECORD))
        cluster.node_of(served.said("workers ready")[-1]["processes"][0]).kill()
        cluster.restore(2)
        embedded.send(topic, *packed[50:])
        served.wait(lambda: has_learned(len(ROWS)))
        served.wait_for("worker lost, going back to the checkpoint")
        assert served.terminate() == 0, served.log
    finally:
        served.kill()

    checkpoint = CheckpointFolder(folder, 1).restore(lambda found: found)
    assert checkpoint is not None
    assert checkpoint.events == len(ROWS)
    assert checkpoint.model_hash == undisturbed()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"execution": "threads"}, "expected execution ray, not threads"),
        ({"execution": "ray"}, "expected event.format binary"),
        (
            {"execution": "ray", "event": {"format": "binary"}, "vht": {"mode": "wk"}},
            "expected vht.keep_events 0 in mode wk",
        ),
    ],
)
def test_what_an_ingest_actor_needs_is_told(
    ray_there: None, given: dict[str, Any], named: str
) -> None:
    vht = {**given.pop("vht", {}), "ray": {"ingest": True}}
    with pytest.raises(SettingsError) as caught:
        Settings.load(environ={}, variant="vht", vht=vht, **given)

    assert named in str(caught.value)
