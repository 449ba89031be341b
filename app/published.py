"""A snapshot and what was known when it was published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.history import NO_CHANGES, Changes
from learner import Snapshot


@dataclass(frozen=True)
class Published:
    """A snapshot and what was known when it was published."""

    snapshot: Snapshot
    published_at: float  # seconds since 1970
    offsets: Mapping[str, int] = field(default_factory=dict)  # "topic-partition" -> next offset
    accuracy: float | None = None
    kappa: float | None = None
    window_accuracy: float | None = None
    window_kappa: float | None = None
    changes: Changes = NO_CHANGES  # of the tree, up to this snapshot
    kept: dict[Any, Any] = field(default_factory=dict, repr=False)  # what readers derive from it
