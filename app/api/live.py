"""GET /live and GET /stats: how the learner does, once a second, as a stream or when asked.

A stream never ends by itself, and an open one would hold up the end of the process: the server
tells `Live` when it is over, and every stream says goodbye at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from app.api.problems import Refused, responses
from app.api.pulse import EVERY_SECONDS, Pulse
from app.log import Seldom, get_logger
from app.wiring import Service

RETRY_SECONDS = 2
# Nobody keeps it, and no proxy holds it back until there is more.
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}
GOODBYE = b"event: end\ndata: {}\n\n"

log = get_logger("app.api")


class Live:
    """The pulse of one service and those who listen to it; for the event loop's thread alone."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._pulse = Pulse(service)
        self._most = service.settings.http.max_listeners
        self._goodbyes: set[asyncio.Event] = set()
        self._seldom = Seldom()
        self._over = False

    @property
    def listeners(self) -> int:
        """How many streams are open."""
        return len(self._goodbyes)

    def beat(self) -> None:
        """Take a beat when one is due, so that there is a past when somebody looks."""
        try:
            self._pulse.beat()
        except Exception:  # what is only shown must not end the server
            if self._seldom.due("beat"):
                log.exception("no statistics for the page")

    def end(self) -> None:
        """Let every stream end, and begin no other."""
        self._over = True
        for goodbye in self._goodbyes:
            goodbye.set()

    def stats(self) -> dict[str, Any]:
        """Return how things stand."""
        ready, reason = self._service.ready()
        beat = self._pulse.beat()._asdict()
        return {**beat, "ready": ready, "state": reason, "changes": self._pulse.changes()}

    def history(self) -> dict[str, list[Any]]:
        """Return how they stood during the last minutes."""
        self._pulse.beat()
        return self._pulse.history()

    def listen(self) -> StreamingResponse:
        """Return a stream of messages; raises Refused where there are too many already."""
        if self._over:
            raise Refused(503, "the service is shutting down; try another, or later")
        if self.listeners >= self._most:
            raise Refused(
                503,
                f"{self.listeners} streams are open; expected fewer than http.max_listeners "
                f"({self._most}). GET /stats tells the same",
            )
        goodbye = asyncio.Event()
        self._goodbyes.add(goodbye)
        return _Stream(self._messages(goodbye), lambda: self._goodbyes.discard(goodbye))

    async def _messages(self, goodbye: asyncio.Event) -> AsyncIterator[bytes]:
        yield b"retry: %d\n\n" % (1000 * RETRY_SECONDS)
        while not goodbye.is_set():
            yield b"event: stats\ndata: " + msgspec.json.encode(self.stats()) + b"\n\n"
            await _wait(goodbye, EVERY_SECONDS)
        yield GOODBYE


class _Stream(StreamingResponse):
    """A stream that is counted out, however it ends and even if it never began."""

    def __init__(self, messages: AsyncIterator[bytes], count_out: Callable[[], None]) -> None:
        super().__init__(messages, headers=HEADERS, media_type="text/event-stream")
        self._count_out = count_out

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._count_out()


async def _wait(goodbye: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await goodbye.wait()
    except TimeoutError:
        pass


def live_router(live: Live) -> APIRouter:
    """Return the router of the stream and of what takes its place."""
    router = APIRouter(tags=["model"])

    @router.get(
        "/live",
        summary="How it goes, once a second",
        response_class=Response,
        responses={
            200: {
                "description": "Server-sent events: `stats` once a second, `end` at the end.",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            },
            **responses(503),
        },
    )
    async def stream() -> Response:
        """Send the object of `/stats` once a second, until the client or the service goes."""
        return live.listen()

    @router.get(
        "/stats",
        summary="How it goes, now",
        response_class=Response,
        responses={
            200: {
                "description": "The numbers of the page; also before the first snapshot.",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Stats"}}},
            },
            **responses(422),
        },
    )
    async def stats(
        history: Annotated[
            bool, Query(description="true adds the last quarter of an hour, one list a number.")
        ] = False,
    ) -> Response:
        """Return rate, accuracy, size of the tree, lag and split attempts as of now."""
        found = live.stats()
        if history:
            found["history"] = live.history()
        return Response(msgspec.json.encode(found), headers=HEADERS, media_type="application/json")

    return router
