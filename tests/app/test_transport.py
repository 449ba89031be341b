"""An answer leaves in one piece, nothing waits longer than the loop turns, and order is kept."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.transport import OneWrite
from tests.app.listening import answering


class Wire:
    """A transport that notes what is sent with which call."""

    def __init__(self) -> None:
        self.calls: list[bytes] = []
        self.closed_after: int | None = None

    def write(self, data: bytes) -> None:
        self.calls.append(data)

    def writelines(self, parts: Sequence[bytes]) -> None:
        self.calls.append(b"".join(parts))

    def close(self) -> None:
        self.closed_after = len(self.calls)

    def is_closing(self) -> bool:
        return self.closed_after is not None

    def get_extra_info(self, name: str) -> str:
        return f"of {name}"


def over(wire: Wire) -> OneWrite:
    transport: Any = wire
    return OneWrite(transport, asyncio.get_running_loop())


def test_a_head_and_its_body_are_one_call() -> None:
    async def answer() -> list[bytes]:
        wire = Wire()
        connection = over(wire)
        connection.write(b"head")
        connection.write(b"body")
        return wire.calls

    assert asyncio.run(answer()) == [b"headbody"]


def test_a_head_without_a_body_leaves_when_the_loop_turns() -> None:
    async def answer() -> tuple[list[bytes], list[bytes]]:
        wire = Wire()
        over(wire).write(b"head")
        at_once = list(wire.calls)
        await asyncio.sleep(0)
        return at_once, wire.calls

    assert asyncio.run(answer()) == ([], [b"head"])


def test_closing_sends_what_is_held_first() -> None:
    async def answer() -> Wire:
        wire = Wire()
        connection = over(wire)
        connection.write(b"sorry")
        connection.close()
        await asyncio.sleep(0)
        return wire

    wire = asyncio.run(answer())

    assert wire.calls == [b"sorry"]
    assert wire.closed_after == 1
    assert wire.is_closing()


def test_all_else_is_the_transports_own() -> None:
    async def ask() -> str:
        found: str = over(Wire()).get_extra_info("peername")
        return found

    assert asyncio.run(ask()) == "of peername"


@given(st.lists(st.one_of(st.none(), st.binary(min_size=1, max_size=3)), max_size=20))
def test_bytes_leave_in_the_order_in_which_they_were_written(
    steps: list[bytes | None],
) -> None:
    """None: the loop turns."""

    async def send() -> list[bytes]:
        wire = Wire()
        connection = over(wire)
        for step in steps:
            if step is None:
                await asyncio.sleep(0)
            else:
                connection.write(step)
        await asyncio.sleep(0)
        return wire.calls

    assert b"".join(asyncio.run(send())) == b"".join(step for step in steps if step)


@pytest.mark.parametrize("method", [b"HEAD", b"GET"])
def test_an_answer_without_a_body_comes_too(method: bytes) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    with answering(app) as address:
        host, port = address.split(":")
        with socket.create_connection((host, int(port)), 10) as connection:
            for _ in range(2):  # the connection stays open
                connection.sendall(method + b" / HTTP/1.1\r\nhost: x\r\n\r\n")
                answer = b""
                while not answer.endswith(b"\r\n\r\n"):
                    answer += connection.recv(1000)
                assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
