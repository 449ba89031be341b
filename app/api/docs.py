"""GET /docs: the API in a browser, from files of our own; nothing is fetched from elsewhere."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from fastapi import APIRouter, Request
from starlette.responses import Response

PAGE = "/docs"
START = "start.html"
MEDIA_TYPES = {
    START: "text/html; charset=utf-8",
    "start.js": "text/javascript; charset=utf-8",
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "swagger-ui.css": "text/css; charset=utf-8",
}
HEADERS = {
    # The style sheet has its icons in itself.
    "content-security-policy": (
        "default-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; "
        "object-src 'none'"
    ),
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",  # ask whether it still holds
    "vary": "accept-encoding",
}
PATHS = frozenset({PAGE, *(f"{PAGE}/{name}" for name in MEDIA_TYPES if name != START)})


class File(NamedTuple):
    """A file as it is sent."""

    packed: bytes
    body: bytes
    etag: str


def docs_router() -> APIRouter:
    """Return the router of the page and of what it consists of."""
    router = APIRouter(tags=["health"])

    @router.get(
        PAGE,
        summary="The API in a browser",
        response_class=Response,
        responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}}},
    )
    def docs(request: Request) -> Response:
        """Show this description as a page on which requests can be tried."""
        return _response(START, request)

    def part(request: Request) -> Response:
        return _response(request.url.path.rpartition("/")[2], request)

    for path in PATHS - {PAGE}:
        router.add_api_route(path, part, include_in_schema=False)
    return router


def _response(name: str, request: Request) -> Response:
    file = _file(name)
    headers = {**HEADERS, "etag": file.etag}
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
        return Response(file.packed, headers=headers, media_type=MEDIA_TYPES[name])
    return Response(file.body, headers=headers, media_type=MEDIA_TYPES[name])


@cache
def _file(name: str) -> File:
    """Return a file of the page; read when it is first asked for, as few ever ask."""
    body = (files("app") / "swagger" / name).read_bytes()
    return File(gzip.compress(body, mtime=0), body, f'"{hashlib.sha256(body).hexdigest()[:16]}"')
