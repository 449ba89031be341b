"""GET /: the live page for a browser, the list of routes for everybody else; and its files.

All files are read once, at the start: what is served can only be one of them. They hold nothing
of the model, so they need no key; the page asks for one and sends it with what it fetches.
"""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import NamedTuple

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

INDEX = {
    "name": "livetree",
    "about": "Kafka events in, a decision tree that never stops learning, predictions out.",
    "routes": {
        "GET /": "the live page, for a browser",
        "POST /predict": "predict one row or many",
        "GET /tree": "the tree: ?format=json|text|dot, ?depth=, ?node=",
        "GET /model": "variant, parameters, counters, shape, accuracy, offsets",
        "GET /schema": "the features and classes the model knows",
        "GET /stats": "how it goes: rate, accuracy, size, lag; ?history=true",
        "GET /live": "the same once a second, as server-sent events",
        "GET /livez": "is the process alive",
        "GET /readyz": "can it answer predictions",
        "GET /metrics": "Prometheus metrics",
        "GET /docs": "try the API in a browser; the page loads its scripts from the internet",
        "GET /openapi.json": "the description of the API",
    },
}
START = "index.html"
PREFIX = "/static/"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
TEXT = "text/plain; charset=utf-8"  # licences
HEADERS = {
    # Nothing from elsewhere and nothing inline runs or styles the page, whatever a label says.
    "content-security-policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
        "object-src 'none'"
    ),
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",  # ask whether it still holds
    "vary": "accept, accept-encoding",
}


class File(NamedTuple):
    """One file of the page, ready to be sent."""

    body: bytes
    packed: bytes
    media_type: str
    etag: str


@cache
def page_files() -> dict[str, File]:
    """Return the files in app/static by name, those in folders as 'folder/name'."""
    found = dict(_read(files("app") / "static", ""))
    if START not in found:
        raise FileNotFoundError(f"app/static has no {START}; the installation is not whole")
    return found


def _read(folder: Traversable, prefix: str) -> list[tuple[str, File]]:
    found = []
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.is_dir():
            found += _read(entry, f"{prefix}{entry.name}/")
        else:
            found.append((prefix + entry.name, _file(entry)))
    return found


def _file(entry: Traversable) -> File:
    body = entry.read_bytes()
    media_type = MEDIA_TYPES.get(PurePosixPath(entry.name).suffix, TEXT)
    etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    return File(body, gzip.compress(body, mtime=0), media_type, etag)


def page_paths() -> frozenset[str]:
    """Return the paths at which the page and its files are."""
    return frozenset({"/", *(PREFIX + name for name in page_files())})


def page_router() -> APIRouter:
    """Return the router of the page."""
    router = APIRouter(tags=["page"])
    known = page_files()

    @router.get(
        "/",
        summary="The live page, or what is here",
        response_class=JSONResponse,
        responses={
            200: {
                "description": "The page where HTML is accepted, else the list of routes.",
                "content": {"text/html": {"schema": {"type": "string"}}},
            }
        },
    )
    async def start(request: Request) -> Response:
        """Show the tree as it grows in a browser; name the routes to other clients."""
        if "text/html" in request.headers.get("accept", ""):
            return _response(known[START], request)
        return JSONResponse(INDEX, headers={"vary": "accept"})

    @router.get(PREFIX + "{name:path}", include_in_schema=False)
    async def file(name: str, request: Request) -> Response:
        if name not in known:
            raise HTTPException(404)
        return _response(known[name], request)

    return router


def _response(file: File, request: Request) -> Response:
    headers = {**HEADERS, "etag": file.etag}
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
        return Response(file.packed, headers=headers, media_type=file.media_type)
    return Response(file.body, headers=headers, media_type=file.media_type)
