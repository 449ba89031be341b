"""Where records come from: what a source is, be it a Kafka topic or a growing file.

A source is opened and used by one thread only, the consumer's. It stops only for what waiting
cannot mend; a broker that cannot be reached, or a topic or file that is not there yet, is waited
for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol


class Record(NamedTuple):
    """One record as the source holds it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None  # None: a tombstone
    timestamp_ms: int | None = None  # None or below 1: unknown
    headers: list[tuple[str, str | bytes | None]] | None = None


class Start(NamedTuple):
    """Where a checkpoint says to go on; empty at the first start."""

    offsets: Mapping[int, int] = {}  # partition -> next offset
    identity: str | None = None  # which cluster or file these offsets belong to
    topic_id: str | None = None  # which topic of that name; None: unknown, or a file


class Source(Protocol):
    """An endless, ordered supply of records in one or more partitions."""

    topic: str
    resets: int  # how often a position was given up by the policy

    @property
    def connected(self) -> bool:
        """Whether the broker answers and the topic is there, or the file."""

    @property
    def topic_id(self) -> str | None:
        """Return which topic of that name this is; None while that is not known."""

    def open(self, start: Start) -> None:
        """Begin at the checkpoint's offsets, or at the configured end for other partitions."""

    def poll(self, limit: int) -> list[Record]:
        """Return up to ``limit`` records in order; waits a moment when there are none."""

    def positions(self) -> dict[int, int]:
        """Return for each partition the offset to poll next."""

    def identity(self) -> str | None:
        """Return which cluster or file this is; None while that is not known."""

    def lag(self) -> dict[int, int]:
        """Return for each partition how much waits behind the position."""

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Tell lag tools how far a durable checkpoint is; best effort."""

    def close(self) -> None:
        """Let go of everything."""
