"""GET /docs: the API in a browser, from files of our own; nothing is fetched from elsewhere."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.file import File, file_response, read_file

PAGE = "/docs"
START = "start.html"
NAMES = (START, "start.js", "swagger-ui-bundle.js", "swagger-ui.css")
PATHS = frozenset({PAGE, *(f"{PAGE}/{name}" for name in NAMES if name != START)})


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
        return file_response(_file(START), request)

    def part(request: Request) -> Response:
        return file_response(_file(request.url.path.rpartition("/")[2]), request)

    for path in PATHS - {PAGE}:
        router.add_api_route(path, part, include_in_schema=False)
    return router


@cache
def _file(name: str) -> File:
    """Return a file of the page; read when it is first asked for, as few ever ask."""
    return read_file(files("app") / "swagger" / name)
