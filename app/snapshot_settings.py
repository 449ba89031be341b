"""How snapshots travel from the process that learns to those that answer."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from app.group import Group


class SnapshotSettings(Group):
    """How snapshots travel from the learner to processes of the role `api`."""

    publish: bool = False
    """Publish in the role `all` too; the role `learner` always does."""
    transport: Literal["topic", "folder", "both"] = "topic"
    """By a compacted topic, or by a folder on one machine; a learner may publish to both."""
    topic: str = Field(default="", max_length=249, pattern=r"^[\w.-]*$")
    """Their topic; empty: the events' topic with `.snapshots`. Only its partition 0 is used."""
    create_topic: bool = True
    """Create the topic, compacted, where it is missing; otherwise it is waited for."""
    folder: Path = Path("snapshots")
    """Their folder; each model has one file in it, that of its newest snapshot."""
    every_seconds: float = Field(default=1.0, ge=0, le=3600)
    """Least time between two that travel; those in between are seen by this process only."""
    compression: Literal["none", "lz4", "zstd"] = "zstd"
    """How they are packed on the topic."""
    message_bytes: int = Field(default=900_000, ge=1_000, le=100_000_000)
    """Longest message on the topic; larger snapshots are cut. Below the broker's own limit."""
    max_bytes: int = Field(default=1_000_000_000, ge=10_000)
    """Longest snapshot that is put together; longer ones are refused."""

    def topic_beside(self, events: str) -> str:
        """Return the topic of the snapshots of the events of a topic."""
        return self.topic or f"{events}.snapshots"

    @property
    def by_topic(self) -> bool:
        """Whether they travel by the topic."""
        return self.transport != "folder"

    @property
    def by_folder(self) -> bool:
        """Whether they travel by the folder."""
        return self.transport != "topic"
