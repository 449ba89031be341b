"""Pipes between two processes: every frame in its order, nobody waits for nobody, death shows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.distributed.pipes import ROOM_BYTES, Ends, OtherEnd, OwnEnd

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

# Answers every frame with one that is three times as long.
ECHO = """
import sys
from app.distributed.pipes import Ends, OtherEnd
pipes = OtherEnd(Ends(*map(int, sys.argv[1:4])))
pipes.send(b"")
for frame in pipes:
    pipes.send(3 * frame)
"""


class Echo:
    """Another process at the other end."""

    def __init__(self) -> None:
        self.own = OwnEnd()
        self.process = subprocess.Popen(
            [sys.executable, "-c", ECHO, *map(str, self.own.others)],
        )
        assert self.own.receive(60) == b""
        self.own.hand_over()

    def close(self) -> None:
        self.own.close()
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def echo() -> Iterator[Echo]:
    found = Echo()
    yield found
    found.close()


@settings(max_examples=40, deadline=None)
@given(sizes=st.lists(st.integers(0, 100_000), max_size=12))
def test_frames_come_back_in_their_order(echo: Echo, sizes: list[int]) -> None:
    frames = [bytes([i]) * size for i, size in enumerate(sizes)]
    for frame in frames:
        echo.own.send(frame)

    assert [echo.own.receive(60) for _ in frames] == [3 * frame for frame in frames]
    assert echo.own.receive(0.0) is None


def test_two_that_write_more_than_the_pipes_hold_do_not_wait_for_each_other(echo: Echo) -> None:
    frames = [bytes([i]) * ROOM_BYTES for i in range(4)]
    for frame in frames:
        echo.own.send(frame)

    assert [echo.own.receive(60) for _ in frames] == [3 * frame for frame in frames]


def test_what_is_on_the_way_back_is_read_before_the_end() -> None:
    echo = Echo()
    for frame in (b"a", b"b"):
        echo.own.send(frame)
    echo.own.finish()

    assert [echo.own.receive(60) for _ in range(2)] == [b"aaa", b"bbb"]
    with pytest.raises(EOFError):
        echo.own.receive(60)
    assert echo.process.wait() == 0
    echo.close()


def test_the_death_of_the_other_shows() -> None:
    echo = Echo()
    os.kill(echo.process.pid, signal.SIGKILL)
    echo.process.wait()

    with pytest.raises(EOFError):
        echo.own.receive(60)
    with pytest.raises(BrokenPipeError):
        echo.own.send(b"anybody?")
    echo.close()


def test_the_other_ends_with_its_maker() -> None:
    own = OwnEnd()
    other, heard = OtherEnd(own.others), []
    own.hand_over()
    thread = threading.Thread(target=lambda: heard.extend(other))
    thread.start()
    own.send(b"the last words")
    own.close()
    thread.join(60)

    assert heard == [b"the last words"]
    with pytest.raises(BrokenPipeError):
        other.send(b"anybody?")
    with pytest.raises(BrokenPipeError):
        other.close()  # what could not be sent is still there


def identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def open_ends(pipes: set[tuple[int, int]]) -> int:
    """How many open files of this process, whose other threads open some too, are these pipes."""
    count = 0
    for file in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            count += identity(file.stat()) in pipes
    return count


@pytest.mark.parametrize("place", range(2))
def test_pipes_that_cannot_be_reached_are_told(place: int) -> None:
    own = OwnEnd()
    missing = [*own.others[1:]]
    missing[place] = 1 << 20
    pipes = {identity(os.fstat(end)) for end in own.others[1:]}
    assert open_ends(pipes) == 4
    with pytest.raises(OSError, match="No such file"):
        OtherEnd(Ends(os.getpid(), *missing))

    assert open_ends(pipes) == 4
    own.close()
