"""Events in memory that the processes of a machine share: written once, read where they lie.

The memory is its writer's and has no name. Others open it through the writer's process, and it is
gone with the last of them, whatever they die of. It is used again for the next events: fresh pages
cost several times what it takes to write into them.
"""

from __future__ import annotations

import mmap
import os
import sys
import weakref
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learner import Events

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
MORE_NUMBERS = 8  # that a row may take beside its numeric columns; else the memory grows
ALIGNED = 64  # bytes: where an array may begin
IS_POSSIBLE = sys.platform == "linux"


class Laid(NamedTuple):
    """Where events lie."""

    process: int  # whose memory it is
    memory: int  # its descriptor there
    arrays: list[tuple[str, list[int], int]]  # type, shape and place of each, as Events has them

    @property
    def nbytes(self) -> int:
        """How long the memory has to be."""
        kind, shape, place = self.arrays[-1]
        return place + int(np.prod(shape)) * np.dtype(kind).itemsize


class SharedRows:
    """Memory for the events of some batches, each held until it is given back."""

    def __init__(self) -> None:
        self._free: list[_Piece] = []
        self._held: dict[int, _Piece] = {}
        self._next: _Piece | None = None
        self._begun: Array | None = None  # numbers of the next batch, which lie there already

    def empty(self, shape: tuple[int, int]) -> Floats:
        """Return room for the numbers of the next batch, so that they need not be copied."""
        piece = self._piece()
        size = 8 * shape[0] * (shape[1] + MORE_NUMBERS)
        self._begun = found = np.ndarray(shape, np.float64, piece.of(max(size, 1)))
        return found

    def lay(self, number: int, events: Events) -> tuple[Laid, Events]:
        """Copy events there, unless they lie there; returns where they are, and that copy."""
        arrays, place = [], 0
        for array in events:
            arrays.append((array.dtype.str, list(array.shape), place))
            place += -(-array.nbytes // ALIGNED) * ALIGNED
        piece, self._next = self._piece(), None
        self._held[number] = piece
        laid = Laid(os.getpid(), piece.descriptor, arrays)
        copies = _views(laid, piece.of(max(place, 1)))
        for copy, given in zip(copies, events, strict=True):
            if given is not self._begun:
                copy[...] = given
        self._begun = None
        return laid, Events._make(copies)

    def _piece(self) -> _Piece:
        """Return the memory of the next batch."""
        self._next = self._next or (self._free.pop() if self._free else _Piece())
        return self._next

    def give_back(self, number: int) -> None:
        """Nobody reads these events any more."""
        self._free.append(self._held.pop(number))


class _Piece:
    """Memory that grows to the largest batch it has held."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("livetree-rows")
        weakref.finalize(self, os.close, self.descriptor)
        self._mapped = mmap.mmap(-1, 1)

    def of(self, size: int) -> mmap.mmap:
        """Return it, at least so long."""
        if len(self._mapped) < size:
            os.ftruncate(self.descriptor, size)
            self._mapped = _mapped(self.descriptor, size, mmap.PROT_READ | mmap.PROT_WRITE)
        return self._mapped


class OthersRows:
    """Events in the memory of other processes, which may not be written here."""

    def __init__(self) -> None:
        self._mapped: dict[tuple[int, int], mmap.mmap] = {}

    def events(self, laid: Laid) -> Events:
        """Return events where they lie; raises OSError where their process cannot be reached."""
        key = laid.process, laid.memory
        if key not in self._mapped or len(self._mapped[key]) < laid.nbytes:
            self._mapped.pop(key, None)
            found = os.open(f"/proc/{laid.process}/fd/{laid.memory}", os.O_RDONLY)
            try:
                self._mapped[key] = _mapped(found, os.fstat(found).st_size, mmap.PROT_READ)
            finally:
                os.close(found)
        return Events._make(_views(laid, self._mapped[key]))


def _mapped(descriptor: int, size: int, access: int) -> mmap.mmap:
    """All of the pages at once: one by one they would cost more."""
    return mmap.mmap(descriptor, size, mmap.MAP_SHARED | mmap.MAP_POPULATE, access)


def _views(laid: Laid, memory: mmap.mmap) -> list[Any]:
    return [np.ndarray(tuple(shape), kind, memory, place) for kind, shape, place in laid.arrays]
