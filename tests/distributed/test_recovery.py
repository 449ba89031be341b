"""`livetree serve` on a Ray cluster: deaths of all kinds, and in the end the same model."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from app.checkpoint import CheckpointFolder
from app.settings import Settings
from app.settings_file import declared_schema
from app.training import Training, new_tree
from tests.app.conftest import FEATURES, events
from tests.app.test_training import records
from tests.distributed.nodes import Nodes
from tests.faults.served import Served, wait

PART = 700
EVENTS = events(4 * PART)
CHECKPOINT_EVERY = 500
SCHEMA = {"features": FEATURES}
MODES: dict[str, dict[str, Any]] = {
    "sync": {"mode": "sync"},
    "wk": {"mode": "wk", "lag_events": 130, "keep_events": 60},
}


@pytest.fixture(scope="module")
def cluster(ray_there: None) -> Iterator[Nodes]:
    nodes = Nodes(2)
    yield nodes
    nodes.close()


def undisturbed(vht: dict[str, Any]) -> str:
    """The hash of the model of one process, which nothing happens to."""
    settings = Settings(variant="vht", vht=vht, tree={"n_min": 50}, schema=SCHEMA)
    schema = declared_schema(settings.schema_)
    assert schema is not None
    training = Training(settings, new_tree(settings, schema))
    training.learn(records(EVENTS))
    assert training.tree is not None
    assert training.tree.shape().nodes > 3
    return training.tree.hash()


class Story:
    """A learner whose file grows part by part."""

    def __init__(self, cluster: Nodes, vht: dict[str, Any], folder: Path) -> None:
        self.checkpoints = folder / "checkpoints"
        self.served: Served
        self._cluster, self._folder = cluster, folder
        self._file, self._parts = folder / "events.jsonl", 0
        self._settings = {
            "variant": "vht",
            "execution": "ray",
            "vht": {**vht, "ray": {"address": cluster.address, "start_seconds": 600}},
            "tree": {"n_min": 50},
            "schema": SCHEMA,
            "source": "file",
            "file": {"path": str(self._file)},
            "checkpoint": {
                "folder": str(self.checkpoints),
                "every_seconds": 3600,
                "every_events": CHECKPOINT_EVERY,
            },
        }

    def start(self) -> None:
        config, environment = self._folder / "livetree.yaml", self._cluster.environment
        self.served = Served(self._settings, config, environment=environment)

    def more(self) -> None:
        """Another part, which is learned beyond the last checkpoint of it."""
        with self._file.open("ab") as file:
            for event in EVENTS[self._parts * PART : (self._parts + 1) * PART]:
                file.write(event + b"\n")
        self._parts += 1
        self.served.wait(lambda: self.served.metric("livetree_consumer_lag_records") == 0)
        self.served.wait(lambda: self._events() >= self._parts * PART)

    def _events(self) -> int:
        import json

        body = self.served.get("/model")[1]
        return int(json.loads(body).get("events", 0)) if body.startswith(b"{") else 0

    def workers(self) -> list[int]:
        """Their processes."""
        return list(self.served.said("workers ready")[-1]["processes"])

    def recovered(self, times: int) -> None:
        assert len(self.served.said("worker lost, going back to the checkpoint")) >= times
        assert len(self.served.said("workers ready")) > times

    def hash(self) -> str:
        checkpoint = CheckpointFolder(self.checkpoints, 1).restore(lambda found: found)
        assert checkpoint is not None
        assert checkpoint.events == len(EVENTS)
        return checkpoint.model_hash


def is_alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False


@pytest.mark.parametrize("mode", MODES)
def test_a_learner_outlives_its_workers_and_itself(
    mode: str, cluster: Nodes, tmp_path: Path
) -> None:
    story = Story(cluster, MODES[mode], tmp_path)
    story.start()
    story.more()
    try:
        os.kill(story.workers()[0], signal.SIGKILL)
        story.more()
        story.recovered(1)
        if mode == "sync":  # the other one is needed
            cluster.nodes[-1].kill()
        else:
            os.kill(story.workers()[1], signal.SIGKILL)
        story.more()
        story.recovered(2)
        assert story.served.metric("livetree_vht_recoveries_total") >= 2

        orphans = story.workers()
        story.served.kill()
        wait(lambda: not any(map(is_alive, orphans)), lambda: f"{orphans} linger")
        story.start()
        story.more()
        assert story.served.terminate() == 0, story.served.log
    finally:
        story.served.kill()

    assert story.hash() == undisturbed(MODES[mode])
