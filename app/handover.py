"""Bytes that one thread makes and another takes, as they are made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from queue import SimpleQueue

from learner import Piece

_END = object()


class Handover:
    """Pieces on their way from the thread that fills it to the one that goes through it, once.

    A failure of the one reaches the other: what is not whole must not look as if it were.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[object] = SimpleQueue()

    def fill(self, pieces: Iterable[Piece]) -> None:
        """Hand over all pieces, and say that they are all."""
        try:
            for piece in pieces:
                self._queue.put(piece)
        except BaseException as exc:
            self._queue.put(exc)
            raise
        self._queue.put(_END)

    def __iter__(self) -> Iterator[Piece]:
        while (found := self._queue.get()) is not _END:
            if isinstance(found, BaseException):
                raise RuntimeError("the pieces are not whole: making them failed") from found
            assert isinstance(found, bytes | memoryview)
            yield found
