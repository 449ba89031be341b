"""Settings of snapshots: when there is a new one, and which earlier ones are held."""

from __future__ import annotations

from pydantic import Field

from app.group import Group


class PublishSettings(Group):
    """When predictions see what was learned."""

    every_seconds: float = Field(default=1.0, gt=0, le=3600)
    """Seconds between two snapshots while events arrive."""
    every_events: int = Field(default=0, ge=0)
    """Also after so many events; 0: by time only."""


class TimelineSettings(Group):
    """Snapshots that are held to look back at, in memory; they end with the process."""

    keep: int = Field(default=60, ge=0, le=10_000)
    """How many: the newest close together, older ones further and further apart. 0: none."""
    every_seconds: float = Field(default=10, ge=0, le=86_400)
    """Least time between two of them; each is a copy of the whole tree."""
    max_bytes: int = Field(default=100_000_000, ge=0)
    """Most memory of all of them together; fewer are held where they are large."""
