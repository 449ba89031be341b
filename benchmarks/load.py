"""Load on an HTTP server of this machine, and what it costs the server.

`hammer` keeps connections busy and counts the answers. `paced` asks at a fixed rate, whether or not
the last answer has come: where it has not, time counts from when a request was due, so a stall is
not hidden. Where it has, time counts from when the request is sent: how late this process wakes
beside others is not the server's doing.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import uvloop

TICKS = os.sysconf("SC_CLK_TCK")
HEAD_END = b"\r\n\r\n"
LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


def post(path: str, body: bytes) -> bytes:
    """A whole request, as it goes over the wire."""
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def cpu_seconds(pid: int) -> float:
    """User and system time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class _Connection(asyncio.Protocol):
    """Asks again as soon as it is answered."""

    def __init__(self, requests: Sequence[bytes], first: int) -> None:
        self.answered = 0
        self.failure = ""
        self._requests, self._next = requests, first
        self._missing = 0  # bytes of the answer that are still to come
        self._head = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._ask()

    def _ask(self) -> None:
        assert self._transport is not None
        self._transport.write(self._requests[self._next % len(self._requests)])
        self._next += 1

    def data_received(self, data: bytes) -> None:
        if self._missing > 0:
            self._missing -= len(data)
        else:
            self._head += data
            end = self._head.find(HEAD_END)
            if end < 0:
                return
            length = LENGTH.search(self._head, 0, end)
            if not self._head.startswith(b"HTTP/1.1 200") or length is None:
                self.failure = self._head[:300].decode("latin-1")
                asyncio.get_running_loop().stop()
                return
            self._missing = end + len(HEAD_END) + int(length[1]) - len(self._head)
            self._head = b""
        if self._missing <= 0:
            self.answered += 1
            self._ask()


def hammer(
    port: int, requests: Sequence[bytes], seconds: float, connections: int = 16
) -> tuple[int, float]:
    """Keep the connections busy; returns the answers and the seconds they took."""
    loop = uvloop.new_event_loop()
    made: list[_Connection] = []

    def connection() -> _Connection:
        made.append(_Connection(requests, len(made)))
        return made[-1]

    for _ in range(connections):
        loop.run_until_complete(loop.create_connection(connection, "127.0.0.1", port))
    before = sum(each.answered for each in made)
    began = time.perf_counter()
    loop.call_later(seconds, loop.stop)
    loop.run_forever()
    took = time.perf_counter() - began
    answers = sum(each.answered for each in made) - before
    loop.close()
    for each in made:
        if each.failure:
            raise RuntimeError(f"the server refused a request: {each.failure}")
    return answers, took


def paced(port: int, requests: Sequence[bytes], rate: float, seconds: float) -> list[float]:
    """Ask at a fixed rate over one connection; returns milliseconds since each could be asked."""
    taken: list[float] = []
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began = time.perf_counter()
        for asked in range(int(rate * seconds)):
            due = began + asked / rate
            pause = due - time.perf_counter()
            if pause > 0.0:
                time.sleep(pause)
                due = time.perf_counter()
            connection.sendall(requests[asked % len(requests)])
            _read_answer(connection)
            taken.append((time.perf_counter() - due) * 1000)
    return taken


def _read_answer(connection: socket.socket) -> None:
    answer = b""
    while True:
        answer += connection.recv(65536)
        end = answer.find(HEAD_END)
        length = LENGTH.search(answer, 0, end) if end >= 0 else None
        if length is not None and len(answer) >= end + len(HEAD_END) + int(length[1]):
            break
    if not answer.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"the server refused a request: {answer[:300].decode('latin-1')}")
