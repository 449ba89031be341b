"""The stream of statistics: what it says, when it ends, and how many there may be."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from app.api import create_app
from app.api.live import Live
from app.api.pulse import Pulse
from tests.app.fake_service import FakeService
from tests.app.test_api_predict import assert_problem, client_of


class Listener:
    """Listens to GET /live as a server would let it: without a network."""

    def __init__(self, app: Any) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.text = ""
        self._gone = asyncio.Event()
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/live",
            "raw_path": b"/live",
            "root_path": "",
            "query_string": b"",
            "headers": [],
            "http_version": "1.1",
            "scheme": "http",
            "server": ("test", 80),
            "client": ("test", 1),
            "asgi": {"version": "3.0", "spec_version": "2.3"},
        }
        self.task = asyncio.create_task(app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.text += message.get("body", b"").decode()

    @property
    def messages(self) -> list[Any]:
        """The statistics that came so far."""
        blocks = self.text.split("\n\n")
        head = "event: stats\ndata: "
        return [json.loads(each.removeprefix(head)) for each in blocks if each.startswith(head)]

    async def heard(self, number: int) -> None:
        """Wait for so many messages."""
        while len(self.messages) < number and not self.task.done():
            await asyncio.sleep(0.01)

    async def leave(self) -> None:
        """Close the connection."""
        self._gone.set()
        await self.task


def listening(test: Callable[[FakeService, Any, Live], Awaitable[None]], **http: Any) -> None:
    service: Any = FakeService(**http)
    app = create_app(service)
    asyncio.run(asyncio.wait_for(test(service, app, app.live), 60))


def test_the_stream_sends_what_stats_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.api.live.EVERY_SECONDS", 0.01)

    async def test(service: FakeService, app: Any, live: Live) -> None:
        listener = Listener(app)
        await listener.heard(3)
        live.end()
        await listener.task

        assert listener.status == 200
        assert listener.headers["content-type"].startswith("text/event-stream")
        assert listener.headers["cache-control"] == "no-store"
        assert len(listener.messages) >= 3
        assert set(listener.messages[0]) == set(client_of(service).get("/stats").json())
        assert listener.text.startswith("retry: 2000\n\n")
        assert listener.text.endswith("event: end\ndata: {}\n\n")

    listening(test)


def test_a_stream_that_waits_for_the_next_second_ends_at_once() -> None:
    async def test(_: FakeService, app: Any, live: Live) -> None:
        listener = Listener(app)
        await listener.heard(1)
        live.end()
        await listener.task

        assert live.listeners == 0
        assert len(listener.messages) == 1

    listening(test)


def test_too_many_listeners_are_sent_elsewhere() -> None:
    async def test(_: FakeService, app: Any, live: Live) -> None:
        listeners = [Listener(app), Listener(app)]
        for listener in listeners:
            await listener.heard(1)
        refused = Listener(app)
        await refused.task

        assert refused.status == 503
        problem = json.loads(refused.text)["detail"]
        assert problem.startswith("2 streams are open; expected fewer than http.max_listeners (2)")
        await listeners[0].leave()
        late = Listener(app)
        await late.heard(1)
        assert late.status == 200
        live.end()
        await asyncio.gather(late.task, listeners[1].task)

    listening(test, max_listeners=2)


def test_who_leaves_is_counted_out() -> None:
    async def test(_: FakeService, app: Any, live: Live) -> None:
        listener = Listener(app)
        await listener.heard(1)
        assert live.listeners == 1
        await listener.leave()

        assert live.listeners == 0

    listening(test)


def test_no_stream_begins_after_the_end() -> None:
    async def test(_: FakeService, app: Any, live: Live) -> None:
        live.end()
        listener = Listener(app)
        await listener.task

        assert listener.status == 503

    listening(test)


def test_how_long_somebody_listened_is_no_time_of_an_answer() -> None:
    async def test(service: FakeService, app: Any, live: Live) -> None:
        listener = Listener(app)
        await listener.heard(1)
        await listener.leave()

        told = service.metrics.render()[0].decode()
        assert 'http_requests_total{code="200",method="GET",route="/live"} 1.0' in told
        assert 'http_request_duration_seconds_count{method="GET",route="/live"}' not in told

    listening(test)


def test_stats_are_told_before_there_is_a_snapshot() -> None:
    body = client_of(FakeService(published=False)).get("/stats").json()

    assert body["snapshot"] is None
    assert body["ready"] is False
    assert body["state"] == "no snapshot has been published yet"


def test_the_past_comes_when_it_is_asked_for() -> None:
    client = client_of(FakeService())

    assert "history" not in client.get("/stats").json()
    found = client.get("/stats?history=true").json()
    assert found["history"]["events"] == [120]
    assert_problem(
        client.get("/stats?history=x"), 422, "query parameter 'history' is 'x'", "history"
    )


def test_statistics_that_fail_do_not_end_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[str] = []
    service: Any = FakeService()
    live = Live(service)

    def broken(_: Pulse) -> None:
        raise RuntimeError("no pulse")

    monkeypatch.setattr(Pulse, "beat", broken)
    monkeypatch.setattr("app.api.live.log.exception", lambda event, **_: logged.append(event))

    live.beat()
    live.beat()

    assert logged == ["no statistics for the page"]
