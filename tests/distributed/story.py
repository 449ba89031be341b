"""`livetree serve` with workers on Ray, whose file of events grows part by part."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from app.checkpoint import CheckpointFolder
from app.settings import Settings
from app.settings_file import declared_schema
from app.training import Training, new_tree
from tests.app.conftest import FEATURES, events
from tests.app.test_training import records
from tests.faults.served import Served

PART = 700
EVENTS = events(4 * PART)
CHECKPOINT_EVERY = 500
EAGER = {"n_min": 20, "delta": 0.05, "tau": 0.2}
SCHEMA = {"features": FEATURES}


class Story:
    """A learner that may die and be started again."""

    def __init__(
        self,
        folder: Path,
        ray: dict[str, Any],
        environment: dict[str, str],
        vht: dict[str, Any] | None = None,
    ) -> None:
        self.checkpoints = folder / "checkpoints"
        self.served: Served
        self._folder, self._environment = folder, environment
        self._file, self._parts = folder / "events.jsonl", 0
        self._settings: dict[str, Any] = {
            "variant": "vht",
            "execution": "ray",
            "vht": {**(vht or {}), "ray": {"start_seconds": 600, **ray}},
            "tree": EAGER,
            "schema": SCHEMA,
            "source": "file",
            "file": {"path": str(self._file)},
            "checkpoint": {
                "folder": str(self.checkpoints),
                "every_seconds": 3600,
                "every_events": CHECKPOINT_EVERY,
            },
        }

    def move(self, address: str, environment: dict[str, str]) -> None:
        """Have the next learner use another cluster."""
        self._settings["vht"]["ray"]["address"] = address
        self._environment = environment

    def start(self) -> None:
        """Start the learner, or another one after its death."""
        config = self._folder / "livetree.yaml"
        self.served = Served(self._settings, config, environment=self._environment)

    def more(self) -> None:
        """Another part of the events, learned beyond the last checkpoint in it."""
        with self._file.open("ab") as file:
            for event in EVENTS[self._parts * PART : (self._parts + 1) * PART]:
                file.write(event + b"\n")
        self._parts += 1
        self.served.wait(lambda: self._events() >= self._parts * PART)

    def _events(self) -> int:
        """How many events the model has learned that answers."""
        body = self.served.get("/model")[1]
        return int(json.loads(body).get("events", 0)) if body.startswith(b"{") else 0

    def workers(self) -> list[int]:
        """Return their processes."""
        return list(self.served.said("workers ready")[-1]["processes"])

    def hash(self) -> str:
        """Return that of the last checkpoint, which knows all events."""
        checkpoint = CheckpointFolder(self.checkpoints, 1).restore(lambda found: found)
        assert checkpoint is not None
        assert checkpoint.events == self._parts * PART
        return checkpoint.model_hash


def undisturbed(parts: int, vht: dict[str, Any] | None = None) -> str:
    """Return the hash of the model of one process, which nothing happens to."""
    settings = Settings(variant="vht", vht=vht or {}, tree=EAGER, schema=SCHEMA)
    schema = declared_schema(settings.schema_)
    assert schema is not None
    training = Training(settings, new_tree(settings, schema))
    training.learn(records(EVENTS[: parts * PART]))
    assert training.tree is not None
    assert training.tree.shape().nodes >= 9
    return training.tree.hash()


def is_alive(pid: int) -> bool:
    """Whether a process runs."""
    with suppress(ProcessLookupError, FileNotFoundError):
        os.kill(pid, 0)
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False
