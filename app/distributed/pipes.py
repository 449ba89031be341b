"""Two pipes between two processes of a machine: frames there, frames back.

One end makes the pipes, the other opens them through the maker's process. Whoever reads sees the
end of them as soon as the other process is gone, whatever it died of.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
from collections.abc import Iterator
from typing import NamedTuple

LENGTH = struct.Struct("<Q")
ROOM_BYTES = 1 << 20  # what may lie in a pipe until its reader comes
CHUNK_BYTES = 1 << 18


class Ends(NamedTuple):
    """The other end's pipes, as descriptors of the process that has made them."""

    process: int
    read: int
    write: int


class OwnEnd:
    """The end of who makes the pipes; never waits longer than it is told to."""

    def __init__(self) -> None:
        read, self._to = os.pipe()
        self._from, write = os.pipe()
        self.others = Ends(os.getpid(), read, write)
        self._come = bytearray()
        for pipe in (self._to, self._from):
            os.set_blocking(pipe, False)
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, ROOM_BYTES)
        self._open = {read, write, self._to, self._from}

    def hand_over(self) -> None:
        """The other process has opened its ends; so its death shows here."""
        self._close(self.others.read, self.others.write)

    def send(self, frame: bytes) -> None:
        """Write a frame; raises BrokenPipeError where nobody reads any more.

        What comes meanwhile is taken in, so that two who write never wait for each other.
        """
        rest = memoryview(LENGTH.pack(len(frame)) + frame)
        while rest:
            try:
                rest = rest[os.write(self._to, rest) :]
            except BlockingIOError:
                waiting = select.poll()
                waiting.register(self._to, select.POLLOUT)
                waiting.register(self._from, select.POLLIN)
                if any(pipe == self._from for pipe, _ in waiting.poll()):
                    self._take_in()

    def receive(self, seconds: float | None) -> bytes | None:
        """Return the next frame, None if none comes in time; raises EOFError at the end."""
        while (frame := self._next()) is None:
            waiting = select.poll()
            waiting.register(self._from, select.POLLIN)
            if not waiting.poll(None if seconds is None else 1000 * seconds):
                return None
            self._take_in()
        return frame

    def finish(self) -> None:
        """No more frames from here; what is on the way back can still be read."""
        self._close(self._to, self.others.read, self.others.write)

    def close(self) -> None:
        """Leave the pipes."""
        self._close(*self._open)

    def _next(self) -> bytes | None:
        if len(self._come) < LENGTH.size:
            return None
        end = LENGTH.size + LENGTH.unpack_from(self._come)[0]
        if len(self._come) < end:
            return None
        frame = bytes(self._come[LENGTH.size : end])
        del self._come[:end]
        return frame

    def _take_in(self) -> None:
        found = os.read(self._from, CHUNK_BYTES)
        if not found:
            raise EOFError
        self._come += found

    def _close(self, *pipes: int) -> None:
        for pipe in self._open.intersection(pipes):
            self._open.remove(pipe)
            os.close(pipe)


class OtherEnd:
    """The end of who opens them; waits for every frame, and ends with the other."""

    def __init__(self, ends: Ends) -> None:
        """Raise OSError where the process that has made the pipes cannot be reached."""
        read = os.open(f"/proc/{ends.process}/fd/{ends.read}", os.O_RDONLY)
        self._from = os.fdopen(read, "rb")
        try:
            write = os.open(f"/proc/{ends.process}/fd/{ends.write}", os.O_WRONLY)
        except OSError:
            self._from.close()
            raise
        self._to = os.fdopen(write, "wb")

    def __iter__(self) -> Iterator[bytes]:
        """Frames until there are no more."""
        while len(head := self._from.read(LENGTH.size)) == LENGTH.size:
            yield self._from.read(LENGTH.unpack(head)[0])

    def send(self, frame: bytes) -> None:
        """Write a frame; raises BrokenPipeError where nobody reads any more."""
        self._to.write(LENGTH.pack(len(frame)) + frame)
        self._to.flush()

    def close(self) -> None:
        """Leave the pipes."""
        self._from.close()
        self._to.close()
