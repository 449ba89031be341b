"""Where records come from: what a source is, be it a Kafka topic or a growing file.

A source is opened and used by one thread only, the consumer's. It stops only for what waiting
cannot mend; a broker that cannot be reached, or a topic or file that is not there yet, is waited
for.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, overload

import numpy as np
import numpy.typing as npt

from app.values import ListedValues, Values

Headers = list[tuple[str, str | bytes | None]]


class Record(NamedTuple):
    """One record as the source holds it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None  # None: a tombstone
    timestamp_ms: int | None = None  # None or below 1: unknown
    headers: Headers | None = None


class Records(Sequence[Record]):
    """Records in their order, and single columns of them.

    A column costs much less than the records: a source need not make a record before somebody
    asks for it, and for most nobody does.
    """

    @overload
    def __getitem__(self, place: int) -> Record: ...
    @overload
    def __getitem__(self, place: slice) -> Records: ...
    @abstractmethod
    def __getitem__(self, place: int | slice) -> Record | Records:
        """Return one record, or some as a batch of their own."""

    @abstractmethod
    def values(self) -> Values:
        """Return the value of each record."""

    @abstractmethod
    def headers(self) -> Sequence[Headers | None]:
        """Return the headers of each record."""

    def has_headers(self) -> bool:
        """Whether any record has some."""
        return any(self.headers())

    @abstractmethod
    def timestamps_ms(self, step: int = 1) -> npt.NDArray[np.float64]:
        """Return the time of every so many-th record, NaN or below 1 where it is unknown."""


class Listed(Records):
    """Records that are made already."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, place: int) -> Record: ...
    @overload
    def __getitem__(self, place: slice) -> Records: ...
    def __getitem__(self, place: int | slice) -> Record | Records:
        if isinstance(place, slice):
            return Listed(self._records[place])
        return self._records[place]

    def values(self) -> Values:
        """Return the value of each record."""
        return ListedValues([record.value for record in self._records])

    def headers(self) -> list[Headers | None]:
        """Return the headers of each record."""
        return [record.headers for record in self._records]

    def timestamps_ms(self, step: int = 1) -> npt.NDArray[np.float64]:
        """Return the time of every so many-th record."""
        return np.array([record.timestamp_ms for record in self._records[::step]], np.float64)


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

    def poll(self, limit: int) -> Sequence[Record]:
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
