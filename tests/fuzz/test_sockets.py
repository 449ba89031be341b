"""HTTP as nobody should speak it, over plain sockets to a running service.

Whatever is sent: no answer is a fault of ours, nobody else waits, and the process lives.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.api.protocol import MOST_HEAD_BYTES
from streams import open_stream
from tests.app.test_api_server import Process, free_port

PATIENCE_SECONDS = 60.0
JSON = b"Content-Type: application/json\r\n"


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A service that has learned all there is."""
    folder = tmp_path_factory.mktemp("service")
    events: Path = folder / "events.jsonl"
    lines = [json.dumps(event) for event in open_stream("agrawal").events(3000)]
    events.write_text("\n".join(lines) + "\n")
    running = Process(events, folder, free_port())
    try:
        running.wait_until_ready()
        running.wait_until_learned(3000)
        yield running
    finally:
        running.process.kill()
        running.process.wait()


@pytest.fixture(autouse=True)
def _others_are_served(process: Process) -> Iterator[None]:
    """After each test the service answers as before, and has logged no fault of its own."""
    before = model(process)
    yield
    assert process.process.poll() is None, process.log.read_text()
    assert model(process) == before
    assert process.get("/livez")[0] == 200
    assert "request failed" not in process.log.read_text()
    assert "Traceback" not in process.log.read_text()


def model(process: Process) -> tuple[Any, Any]:
    """What the service answers, without the time of day."""
    status, tree = process.get("/tree")
    assert status == 200
    return tree, json.loads(process.get("/model")[1])["counters"]


def port(process: Process) -> int:
    return int(process.url.rsplit(":", 1)[1])


def connect(process: Process) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port(process)), timeout=PATIENCE_SECONDS)


def spoken(process: Process, raw: bytes, *, ends: bool = False) -> bytes:
    """All that the service says to these bytes until it hangs up, or at once if we ``end``."""
    with connect(process) as line:
        try:
            line.sendall(raw)
            if ends:
                line.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it hung up before we were done
        heard = b""
        try:
            while piece := line.recv(65536):
                heard += piece
        except ConnectionResetError:
            pass
        return heard


def statuses(heard: bytes) -> list[int]:
    return [int(found) for found in re.findall(rb"HTTP/1\.1 (\d{3}) ", heard)]


def request(
    method: bytes = b"POST", path: bytes = b"/predict", head: bytes = b"", body: bytes = b""
) -> bytes:
    length = b"" if b"transfer-encoding" in head.lower() else b"Content-Length: %d\r\n" % len(body)
    start = method + b" " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    return start + length + head + b"\r\n" + body


ROW = b'{"features": {"age": 30, "salary": 5e4}}'
PACKED = JSON + b"Content-Encoding: gzip\r\n"
CHUNKED = JSON + b"Transfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (request(body=ROW, head=JSON), [200]),
        (request(head=CHUNKED, body=b"%x\r\n%s\r\n0\r\n\r\n" % (len(ROW), ROW)), [200]),
        # chunks
        (request(head=CHUNKED, body=b"zz\r\nhello\r\n0\r\n\r\n"), [400]),
        (request(head=CHUNKED, body=b"ffffffffffffffffff\r\nx"), [400]),
        (request(head=CHUNKED, body=b"-5\r\nhello\r\n0\r\n\r\n"), [400]),
        (request(head=CHUNKED, body=b"5\r\nhel"), []),
        (request(head=CHUNKED, body=b"5\r\nhelloXX0\r\n\r\n"), [400]),
        (request(head=b"Transfer-Encoding: gzip, chunked\r\n" + JSON, body=b"0\r\n\r\n"), None),
        # lengths
        (b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", [400]),
        (b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 1e3\r\n\r\n", [400]),
        (b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\n", [400]),
        (b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999999\r\n\r\n", [413]),
        (b"POST /predict HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", [400]),
        (b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{", []),
        (
            b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            [400],
        ),
        # addresses
        (request(b"GET", b"/%74ree"), [200]),
        (request(b"GET", b"/tree%00"), [404]),
        (request(b"GET", b"/%ff%fe"), [404]),
        (request(b"GET", b"/../../etc/passwd"), [404]),
        (request(b"GET", b"//tree"), [404]),
        (request(b"GET", b"/tr\x00ee"), [400]),
        (request(b"GET", b"/tr\xc3\xa9e"), None),
        (request(b"GET", b"*"), None),
        (request(b"GET", b"http://other/tree"), None),
        (request(b"CONNECT", b"other:443"), None),
        (request(b"GET", b"/tree?depth=\xff\xfe"), [400]),
        (request(b"GET", b"/tree?depth=%ff"), [422]),
        (request(b"GET", b"/tree?depth=1e400"), [422]),
        (request(b"GET", b"/tree?depth=" + b"9" * 5000), [422]),
        (request(b"GET", b"/tree?node=-1"), [422]),
        (request(b"GET", b"/tree?node=99999999"), [404]),
        (request(b"GET", b"/tree?format=json&format=exe"), [422]),
        (request(b"POST", b"/predict?path=%ff%00", JSON, ROW), [422]),
        (request(b"POST", b"/predict?" + b"a&" * 2000, JSON, ROW), [200]),
        # methods
        (request(b"HEAD", b"/tree"), [405]),
        (request(b"OPTIONS", b"/predict"), [405]),
        (request(b"DELETE", b"/model"), [405]),
        (request(b"GET", b"/predict"), [405]),
        (request(b"BREW", b"/tree"), [400]),
        (request(b"TRACE", b"/tree"), [405]),
        # headers
        (b"GET /livez HTTP/1.1\r\n\r\n", None),
        (b"GET /livez HTTP/9.9\r\nHost: x\r\n\r\n", None),
        (b"GET /livez\r\n\r\n", None),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", [400]),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", None),
        (request(b"GET", b"/livez", b"Bad Header: x\r\n"), [400]),
        (request(b"GET", b"/livez", b"X: a\x00b\r\n"), [400]),
        (request(b"GET", b"/livez", b"X: \xff\xfe\r\n"), [200]),
        (request(b"GET", b"/livez", b"".join(b"X-%d: y\r\n" % i for i in range(3000))), [200]),
        (request(b"GET", b"/tree", b"If-None-Match: \xff\r\n"), [200]),
        (request(b"GET", b"/livez", b"Upgrade: websocket\r\nConnection: Upgrade\r\n"), None),
        # bodies
        (request(head=b"Content-Type: text/csv\r\n", body=ROW), [415]),
        (request(head=PACKED, body=gzip.compress(bytes(10**7))), [415]),
        (request(head=JSON, body=b""), [400]),
        (request(head=JSON, body=b"\xff\xfe"), [400]),
        (request(head=JSON, body=b"\0" * 100), [400]),
        (request(head=JSON, body=b"[" * 1_000_000), [422]),
        (request(head=JSON, body=b'{"features":' * 80_000), [400]),
        (request(head=JSON, body=b'{"features": {"a": ' + b"[" * 900_000), [400]),
        (request(head=JSON, body=b'{"features": {"age": 1' + b"0" * 400 + b"}}"), [200]),
        (request(head=JSON, body=b'{"features": {"age": 1' + b"0" * 9000 + b"}}"), None),
        (request(head=JSON, body=b'{"features": {"age": 1e999}}'), None),
        (request(head=JSON, body=b'{"features": {"age": NaN}}'), [400]),
        (request(head=JSON, body=b'{"features": {"car": ["unhashable"]}}'), [422]),
        (request(head=JSON, body=b'{"features": {"car": {"a": 1}}}'), [422]),
        (request(head=JSON, body=b'{"features": {"car": "\\ud800"}}'), [400]),
        (request(head=JSON, body=b'{"instances": [' + b"{}," * 20_000 + b"{}]}"), [413]),
        (request(head=JSON, body=b'{"features": {}, "features": {"age": 1}}'), [200]),
    ],
    ids=lambda value: repr(value[:60]) if isinstance(value, bytes) else "",
)  # fmt: skip
def test_odd_requests_get_an_answer_that_is_no_fault_of_ours(
    process: Process, raw: bytes, expected: list[int] | None
) -> None:
    unfinished = expected == [] or b"Connection: close" not in raw
    heard = statuses(spoken(process, raw, ends=unfinished))

    if expected is not None:
        assert heard == expected
    assert all(status < 500 for status in heard)


@pytest.mark.parametrize(
    "raw",
    [
        b"GET /" + b"a" * 5_000_000,
        b"GET /livez HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 5_000_000,
        b"GET /livez HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 900_000,
        b"POST /predict HTTP/1.1\r\nHost: x\r\n" + CHUNKED + b"\r\n1;" + b"a" * 5_000_000,
        b"POST /predict HTTP/1.1\r\nHost: x\r\n" + CHUNKED + b"\r\n0\r\nX: " + b"a" * 5_000_000,
    ],
    ids=["address", "one header", "many headers", "chunk extension", "trailer"],
)
def test_what_never_ends_is_ended(process: Process, raw: bytes) -> None:
    """The service hangs up long before it has heard everything."""
    assert len(raw) > 10 * MOST_HEAD_BYTES
    heard = statuses(spoken(process, raw))

    assert heard in ([431], [400], [])  # [] where the answer was lost with the connection


def test_pipelined_requests_are_answered_in_their_order(process: Process) -> None:
    alive = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
    wrong = b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n"
    last = request(body=ROW, head=JSON)

    heard = statuses(spoken(process, (alive + wrong) * 100 + last))

    assert heard == [200, 404] * 100 + [200]


def test_clients_that_dawdle_do_not_hold_up_others(process: Process) -> None:
    """Half a header, half a body, a body byte by byte: others are answered meanwhile."""
    lines = [connect(process) for _ in range(60)]
    try:
        for number, line in enumerate(lines):
            whole = request(body=ROW, head=JSON)
            line.sendall(whole[: (20, 60, len(whole) - 5)[number % 3]])
        assert process.get("/readyz")[0] == 200
        assert statuses(spoken(process, request(body=ROW, head=JSON))) == [200]
        for line in lines[2::3]:
            line.sendall(ROW[-5:])
            assert statuses(line.recv(65536)) == [200]
    finally:
        for line in lines:
            line.close()


def test_a_body_of_the_announced_size_is_not_waited_for_where_it_is_refused(
    process: Process,
) -> None:
    head = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n" + JSON

    assert statuses(spoken(process, head + b"\r\n")) == [413]


def test_bytes_at_random_are_no_request(process: Process) -> None:
    rng = random.Random(7)
    for _ in range(200):
        raw = bytearray(request(body=ROW, head=JSON))
        for _ in range(rng.choice((1, 2, 8))):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        assert all(status < 500 for status in statuses(spoken(process, bytes(raw), ends=True)))
