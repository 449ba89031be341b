"""The values of a batch: bytes each, wherever they lie, and what readers want of all together."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]

NO_VALUE = -1  # instead of a length


class Values(Sequence[bytes | None]):
    """What records hold, None for a tombstone; columns cost less than the bytes of each."""

    @overload
    def __getitem__(self, place: int) -> bytes | None: ...
    @overload
    def __getitem__(self, place: slice) -> Values: ...
    @abstractmethod
    def __getitem__(self, place: int | slice) -> bytes | Values | None:
        """Return one value, or some as a batch of their own."""

    @abstractmethod
    def __iter__(self) -> Iterator[bytes | None]:
        """Yield the bytes of each."""

    @abstractmethod
    def lengths(self) -> Longs:
        """Return the number of bytes of each, NO_VALUE for none."""

    @abstractmethod
    def chosen(self, places: npt.NDArray[Any]) -> Values:
        """Return those at some places."""

    @abstractmethod
    def joined(self, gap: int, room: int) -> Bytes:
        """Return all one after the other, with so many zeros behind each and at the end."""


class ListedValues(Values):
    """Values that are there as bytes."""

    def __init__(self, values: Sequence[bytes | None]) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, place: int) -> bytes | None: ...
    @overload
    def __getitem__(self, place: slice) -> Values: ...
    def __getitem__(self, place: int | slice) -> bytes | Values | None:
        if isinstance(place, slice):
            return ListedValues(self._values[place])
        return self._values[place]

    def __iter__(self) -> Iterator[bytes | None]:
        return iter(self._values)

    def lengths(self) -> Longs:
        """Return the number of bytes of each."""
        asked: Any = self._values
        try:
            return np.fromiter(map(len, asked), np.int64, len(asked))
        except TypeError:  # some have no value
            return np.array([NO_VALUE if v is None else len(v) for v in asked], np.int64)

    def chosen(self, places: npt.NDArray[Any]) -> Values:
        """Return those at some places."""
        return ListedValues([self._values[place] for place in places.tolist()])

    def joined(self, gap: int, room: int) -> Bytes:
        """Return all one after the other."""
        # Kernels are compiled for arrays that may be written: no bytes.
        between, asked = bytearray(gap), [*self._values, bytes(room)]
        try:
            text = between.join(asked)  # type: ignore[arg-type]
        except TypeError:  # some have no value
            text = between.join([value or b"" for value in asked])
        return np.frombuffer(text, np.uint8)


def as_values(values: Sequence[bytes | None]) -> Values:
    """Return values with their columns."""
    return values if isinstance(values, Values) else ListedValues(values)
