"""A service whose topic is read by an ingest actor: the same model, also when the actor dies."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
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
