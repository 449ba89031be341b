"""GET /: the live page for a browser, the list of routes for everybody else; and its files.

All files are read once, at the start: what is served can only be one of them. They hold nothing
of the model, so they need no key; the page asks for one and sends it with what it fetches.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from app.api.file import File, file_response, read_file

INDEX = {
    "name": "livetree",
    "about": "Kafka events in, a decision tree that never stops learning, predictions out.",
    "routes": {
        "GET /": "the live page, for a browser",
        "POST /predict": "predict one row or many",
        "POST /explain": "why a record is answered so, and what would change the answer: ?at=",
        "GET /tree": "the tree: ?format=json|text|dot|mermaid|svg|html, ?depth=, ?node=, ?at=",
        "GET /tree/diff": "what changed between two snapshots: ?from=, ?to=, ?format=json|text",
        "GET /snapshots": "the snapshots that ?at= can name",
        "GET /export": "the tree with its schema, to be used elsewhere: ?at=",
        "GET /leaves/{id}": "why a leaf has not split yet",
        "GET /splits": "what the tree did, change by change: ?after=, ?limit=",
        "GET /model": "variant, parameters, counters, shape, accuracy, offsets",
        "GET /schema": "the features and classes the model knows",
        "GET /stats": "how it goes: rate, accuracy, size, lag; ?history=true",
        "GET /live": "the same once a second, as server-sent events",
        "GET /v2": "the Open Inference Protocol: /v2/models/{model}/infer and the rest",
        "GET /livez": "is the process alive",
        "GET /readyz": "can it answer predictions",
        "GET /metrics": "Prometheus metrics",
        "GET /docs": "try the API in a browser",
        "GET /openapi.json": "the description of the API",
    },
}
START = "index.html"
PREFIX = "/static/"


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
            found.append((prefix + entry.name, read_file(entry)))
    return found


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
            return file_response(known[START], request)
        return JSONResponse(INDEX, headers={"vary": "accept"})

    @router.get(PREFIX + "{name:path}", include_in_schema=False)
    async def file(name: str, request: Request) -> Response:
        if name not in known:
            raise HTTPException(404)
        return file_response(known[name], request)

    return router
