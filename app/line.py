"""The lines of a file as records, which are made one by one, and only for who asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from app.source import Headers, Listed, Record, Records
from app.values import Bytes, ListedValues, Longs, Values

LINE_END = 0x0A


def whole_lines(text: bytes) -> Longs:
    r"""Return where each complete line of a text ends, behind its line end.

    >>> whole_lines(b"a\nbc\nd").tolist()
    [2, 5]
    """
    return np.flatnonzero(np.frombuffer(text, np.uint8) == LINE_END) + 1


class Lines(Records):
    """Complete lines, one behind the other; a record's offset is where its line begins."""

    def __init__(self, topic: str, position: int, text: bytes, ends: Longs) -> None:
        self._topic, self._position = topic, position
        self._values = LineValues(text, ends)

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, place: int) -> Record: ...
    @overload
    def __getitem__(self, place: slice) -> Records: ...
    def __getitem__(self, place: int | slice) -> Record | Records:
        if isinstance(place, slice):
            return Listed(list(self)[place])
        place = range(len(self))[place]
        offset = self._position + self._values.start(place)
        return Record(self._topic, 0, offset, None, self._values[place])

    def values(self) -> Values:
        """Return what stands on each line."""
        return self._values

    def headers(self) -> list[Headers | None]:
        """Return none for each line."""
        return [None] * len(self)

    def has_headers(self) -> bool:
        """Whether any line has some."""
        return False

    def timestamps_ms(self, step: int = 1) -> npt.NDArray[np.float64]:
        """Return NaN for every so many-th line: lines have no time."""
        return np.full(len(range(0, len(self), step)), np.nan)


class LineValues(Values):
    """What stands on lines, without the space around it; an empty line holds no value."""

    def __init__(self, text: bytes, ends: Longs) -> None:
        self._text, self._ends = text, ends

    def __len__(self) -> int:
        return len(self._ends)

    def start(self, place: int) -> int:
        """Return where a line begins in the text."""
        return int(self._ends[place - 1]) if place else 0

    @overload
    def __getitem__(self, place: int) -> bytes | None: ...
    @overload
    def __getitem__(self, place: slice) -> Values: ...
    def __getitem__(self, place: int | slice) -> bytes | Values | None:
        if isinstance(place, slice):
            return ListedValues(list(self)[place])
        place = range(len(self))[place]
        return self._text[self.start(place) : int(self._ends[place])].strip() or None

    def __iter__(self) -> Iterator[bytes | None]:
        start = 0
        for end in self._ends.tolist():
            yield self._text[start:end].strip() or None
            start = end

    def lengths(self) -> Longs:
        """Return the number of bytes of each."""
        return ListedValues(list(self)).lengths()

    def chosen(self, places: npt.NDArray[Any]) -> Values:
        """Return those at some places."""
        return ListedValues([self[place] for place in places.tolist()])

    def joined(self, gap: int, room: int) -> Bytes:
        """Return all one after the other; the space around them may still be there."""
        if gap != 1:
            return ListedValues(list(self)).joined(gap, room)
        # They stand like this already, with line ends for the zeros.
        size = len(self._text)
        text = np.empty(size + room, np.uint8)
        text[:size] = np.frombuffer(self._text, np.uint8)
        text[self._ends - 1] = 0
        text[size:] = 0
        return text
