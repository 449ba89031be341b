"""Run something that may crash in a forked child, and say how it ended."""

from __future__ import annotations

import json
import mmap
import os
import signal
import traceback
from collections.abc import Callable
from typing import Any

NOTE_BYTES = 1 << 20


class Crashed(AssertionError):
    """The child was ended by a signal, or by an exception that nobody should see."""


def in_child(work: Callable[[Callable[[str], None]], Any], seconds: int = 300) -> Any:
    """What ``work`` returns, as plain data; raises Crashed with the last note it made.

    A crash of compiled code takes the process with it, so it happens to a child. A child that
    hangs is ended by an alarm, which Python cannot hold up inside a kernel.
    """
    board = mmap.mmap(-1, NOTE_BYTES)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _be_the_child(work, board, writer, seconds)
    os.close(writer)
    with os.fdopen(reader, "rb") as answers:
        answer = answers.read()
    _, status = os.waitpid(child, 0)
    note = board[:].split(b"\0", 1)[0].decode(errors="replace")
    board.close()
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        raise Crashed(f"{name} at: {note}")
    if os.WEXITSTATUS(status) != 0:
        raise Crashed(f"{answer.decode(errors='replace')}\nat: {note}")
    return json.loads(answer)


def _be_the_child(
    work: Callable[[Callable[[str], None]], Any], board: mmap.mmap, writer: int, seconds: int
) -> None:
    def take_note(note: str) -> None:
        raw = note.encode(errors="replace")[: NOTE_BYTES - 1]
        board[: len(raw) + 1] = raw + b"\0"

    code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        answer = json.dumps(work(take_note)).encode()
        code = 0
    except BaseException:
        answer = traceback.format_exc().encode()
    try:
        with os.fdopen(writer, "wb") as answers:
            answers.write(answer)
    finally:
        os._exit(code)  # nothing of the parent's is tidied up twice
