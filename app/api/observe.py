"""The outermost layer of the API: counts and times every request, and catches what nobody caught.

Pure ASGI, because a middleware that wraps streams would cost more than a prediction. Route labels
come from the routes that exist, so that a scanner cannot grow the number of time series.
"""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.problems import respond
from app.log import get_logger
from app.metrics import Metrics

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
UNMATCHED = "unmatched"

log = get_logger("app.api")


class Observe:
    """Measures requests; answers 500 in the one problem shape when a handler breaks."""

    def __init__(self, app: ASGIApp, metrics: Metrics, routes: frozenset[str]) -> None:
        self._app = app
        self._counter, self._durations = metrics.http_requests, metrics.http_request_duration
        self._routes = routes
        self._in_progress = 0
        metrics.http_requests_in_progress.set_function(lambda: self._in_progress)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in METHODS else "other"
        code = 0

        async def note_code(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
            await send(message)

        self._in_progress += 1
        started = time.perf_counter()
        try:
            await self._app(scope, receive, note_code)
        except Exception as exc:
            # The answer must not show the trace; the log must.
            log.exception("request failed", method=method, route=self._route(scope))
            if code == 0:
                await respond(exc)(scope, receive, note_code)
            else:
                code = 500
        finally:
            self._in_progress -= 1
            route = self._route(scope)
            self._durations.observe((method, route), time.perf_counter() - started)
            # 499: the client left before an answer began, as proxies count it.
            self._counter.inc((method, route, str(code or 499)))

    def _route(self, scope: Scope) -> str:
        """Return the route of a request that was run; one with an id in its path by its pattern."""
        if scope["path"] in self._routes:
            return str(scope["path"])
        pattern = getattr(scope.get("route"), "path", None)
        return pattern if pattern in self._routes else UNMATCHED
