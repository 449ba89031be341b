"""The gate of the API: a request without a key goes no further than here.

Pure ASGI, in front of the framework and of the fast lane. Everything is closed but the paths that
are named as open; without any key in the settings the gate is not built at all.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from app.api import docs
from app.api.body import CLOSE
from app.api.keys import Keys
from app.api.problems import Refused, respond
from app.api_settings import AuthSettings
from app.log import Seldom, get_logger
from app.metrics import Metrics

PROBES = frozenset({"/livez", "/healthz", "/readyz"})
METRICS = frozenset({"/metrics"})
DOCS = docs.PATHS | {"/openapi.json"}

BEARER = b"bearer "
HOW = "'Authorization: Bearer KEY' or 'X-API-Key: KEY'"

log = get_logger("app.api")


def open_paths(auth: AuthSettings) -> frozenset[str]:
    """Return the paths that answer without a key."""
    metrics = METRICS if auth.open_metrics else frozenset()
    described = DOCS if auth.open_docs else frozenset()
    return PROBES | metrics | described


class Gate:
    """Lets requests with a key pass; answers 401 to the others, in the one problem shape."""

    def __init__(self, app: ASGIApp, auth: AuthSettings, metrics: Metrics) -> None:
        self._app = app
        self._keys = Keys(auth)
        self._open = open_paths(auth)
        self._seldom = Seldom()
        # Shown from the start: an alert on growth misses a series that appears with 1.
        self._refused = {
            reason: metrics.http_unauthorized.labels(reason) for reason in ("missing", "wrong")
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request."""
        if scope["type"] == "lifespan" or scope["path"] in self._open:
            await self._app(scope, receive, send)
            return
        offered = offered_keys(scope)
        if any(map(self._keys.accepts, offered)):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await respond(self._refuse(scope, bool(offered)))(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _refuse(self, scope: Scope, offered: bool) -> Refused:
        reason = "wrong" if offered else "missing"
        self._refused[reason].inc()
        if self._seldom.due(reason):
            client = (scope.get("client") or ("unknown",))[0]
            log.warning("request refused, its key is " + reason, client=client)
        challenge = 'Bearer realm="livetree"'
        if offered:
            detail = f"the key is not one that is accepted; expected such a key in {HOW}"
            challenge += ', error="invalid_token"'
        else:
            detail = f"the request has no key; expected one in {HOW}"
        # The body of the request is not read.
        return Refused(401, detail, headers={"www-authenticate": challenge, **CLOSE})


def offered_keys(scope: Scope) -> list[bytes]:
    """Return what a request shows as keys: the first of each of the two headers."""
    bearer = direct = None
    for name, value in scope["headers"]:
        if name == b"authorization" and bearer is None:
            if value[: len(BEARER)].lower() == BEARER:
                bearer = value[len(BEARER) :].strip()
        elif name == b"x-api-key" and direct is None:
            direct = value.strip()
    return [key for key in (bearer, direct) if key]
