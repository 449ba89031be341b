"""How the statistics of a tree are spread over workers, as settings."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from app.group import Group


class RaySettings(Group):
    """The Ray cluster that the workers run on (execution `ray`)."""

    address: str = ""
    """Where the cluster is, `host:port`, or `auto` on one of its nodes; empty: start one here."""
    join: bool = False
    """Make this machine a node of that cluster, without room for workers, while the learner runs:
    needed where it is none yet."""
    cpus_per_worker: float = Field(default=1, gt=0, le=1024)
    """CPUs that a worker takes of the cluster."""
    start_seconds: float = Field(default=120, gt=0, le=86_400)
    """Longest wait until all workers have started."""
    ingest: bool = False
    """Have one more actor read the topic and cut the events, so that wide columns never pass the
    learner; for events in binary rows."""
    recoveries: int = Field(default=5, ge=0, le=1_000_000)
    """How often in a row, without a checkpoint in between, new workers go on from the checkpoint
    after one is lost; then the process ends."""
    object_store_bytes: int = Field(default=0, ge=0, le=2**50)
    """Memory for events on their way, where Ray is started here; 0: as much as Ray sees fit."""


class VhtSettings(Group):
    """Workers that keep the statistics of the attributes (variant `vht`)."""

    workers: int = Field(default=2, ge=1, le=256)
    """How many share the attributes among them; the tree does not depend on it."""
    mode: Literal["sync", "wok", "wk"] = "sync"
    """Decisions take effect at once (sync), or later: events of the leaf until then are left out
    (wok), or counted and kept to be learned again below a split (wk)."""
    lag_events: int = Field(default=1000, ge=0, le=1_000_000_000)
    """Events from the question to the workers until the decision takes effect (wok, wk)."""
    keep_events: int = Field(default=1000, ge=0, le=1_000_000)
    """The paper's z: events kept of a leaf that waits for its decision (wk)."""
    keep_most_events: int = Field(default=100_000, ge=0, le=10_000_000)
    """Events kept of all leaves together (wk); further ones are lost where their leaf splits."""
    timeout_seconds: float = Field(default=0, ge=0, le=86_400)
    """Longest wait for the answers to a question; 0: without end, and the same tree always."""
    timeout_policy: Literal["abort", "partial"] = "abort"
    """What an answer that is missing means: no split, or the other workers decide."""

    ray: RaySettings = RaySettings()
    """The Ray cluster that the workers run on (execution `ray`)."""

    def shaping(self) -> dict[str, Any]:
        """Return what must not change between a checkpoint and the run that continues it."""
        if self.mode == "sync":
            return {"mode": "sync"}
        return self.model_dump(
            mode="json", include={"mode", "lag_events", "keep_events", "keep_most_events"}
        )
