"""Every error of the API in one shape: application/problem+json (RFC 9457).

    {"type": "...", "title": "Unprocessable Content", "status": 422,
     "detail": "feature 'age' is 'abc'; expected a number", "field": "age"}

`field` is there when the culprit has a name. Nothing internal leaks: an unexpected failure says
only that it happened, the log has the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from app import errors
from learner import LearnerError

MEDIA_TYPE = "application/problem+json"

# Shown in the OpenAPI description of every route, so that clients can be generated from it.
SCHEMA: dict[str, object] = {
    "type": "object",
    "title": "Problem",
    "description": "What went wrong, as RFC 9457 has it.",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "description": "A stable name of the kind of problem."},
        "title": {"type": "string", "description": "The kind of problem in words."},
        "status": {"type": "integer", "description": "The HTTP status."},
        "detail": {"type": "string", "description": "What is wrong here, with name and value."},
        "field": {"type": "string", "description": "The offending field, where it has a name."},
    },
}


# The same in the Open Inference Protocol.
V2_SCHEMA: dict[str, object] = {
    "type": "object",
    "title": "V2Error",
    "required": ["error"],
    "properties": {"error": {"type": "string", "description": "What is wrong."}},
}


# One real sentence for each status, as an example in the same description.
EXAMPLES: dict[int, tuple[str, str | None]] = {
    400: ("body is not valid JSON: Input data was truncated", None),
    401: ("the request has no key; expected one in 'Authorization: Bearer KEY'", None),
    404: ("node is 99; this snapshot has no node of that id (5 nodes, the root is 0)", None),
    413: ("field 'instances' has 20000 rows; expected at most 10000", "instances"),
    415: ("content-type is 'text/csv'; expected application/json", None),
    421: ("this process has the role 'learner' and answers no predictions", None),
    422: ("feature 'age' is 'abc'; expected a number", "age"),
    503: ("no snapshot has been published yet; try again in a moment", None),
}


class Refused(Exception):
    """A request that the API itself turns down, with its status and the sentence to send."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.field = field
        self.headers = dict(headers or {})


def problem_of(exc: Exception) -> dict[str, Any]:
    """Return the problem document of any exception that a request can end in."""
    if isinstance(exc, Refused):
        return document(exc.status, exc.detail, exc.field)
    if isinstance(exc, errors.AppError | LearnerError):
        return errors.problem(exc)
    if isinstance(exc, RequestValidationError):
        return _validation_problem(exc)
    if isinstance(exc, HTTPException):
        return document(exc.status_code, str(exc.detail))
    return document(500, "the service failed on this request; its log says why")


def document(status: int, detail: str, field: str | None = None) -> dict[str, Any]:
    """Return a problem document for a plain HTTP status."""
    title = HTTPStatus(status).phrase
    found: dict[str, Any] = {
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": detail,
    }
    if field is not None:
        found["field"] = field
    return found


def respond(exc: Exception, path: str = "") -> Response:
    """Return the HTTP answer to an exception; below /v2 in the shape of that protocol."""
    found = problem_of(exc)
    headers = dict(getattr(exc, "headers", None) or {})
    if is_v2(path):
        body = msgspec.json.encode({"error": found["detail"]})
        return Response(body, int(found["status"]), headers, "application/json")
    return Response(
        msgspec.json.encode(found),
        status_code=int(found["status"]),
        headers=headers,
        media_type=MEDIA_TYPE,
    )


def is_v2(path: str) -> bool:
    """Whether a path is of the Open Inference Protocol, which has a shape of its own for errors."""
    return path == "/v2" or path.startswith("/v2/")


def v2_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses=` entry of a route of the Open Inference Protocol."""
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {
                "application/json": {
                    "schema": V2_SCHEMA,
                    "example": {"error": EXAMPLES[status][0]},
                }
            },
        }
        for status in statuses
    }


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses=` entry of a route that may end in these statuses."""
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {
                MEDIA_TYPE: {"schema": SCHEMA, "example": document(status, *EXAMPLES[status])}
            },
        }
        for status in statuses
    }


def install(app: FastAPI) -> None:
    """Give every failure of the framework and of our own code the one shape."""
    ours = (Refused, errors.AppError, LearnerError)
    for kind in (*ours, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, _handle)


async def _handle(request: Request, exc: Exception) -> Response:
    if isinstance(exc, HTTPException) and exc.detail == HTTPStatus(exc.status_code).phrase:
        # The framework's own 404 and 405 say nothing about what was asked for.
        path, method = request.url.path, request.method
        if exc.status_code == HTTPStatus.NOT_FOUND:
            exc.detail = f"path is '{path}'; expected one of those that GET / lists"
        elif exc.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            allowed = (exc.headers or {}).get("Allow", "another")
            exc.detail = f"method is {method}; expected {allowed} for '{path}'"
    return respond(exc, request.url.path)


def _validation_problem(exc: RequestValidationError) -> dict[str, Any]:
    """Turn pydantic's list into one sentence about the first fault, naming field and value."""
    first = exc.errors()[0]
    where = [str(part) for part in first["loc"]]
    name = ".".join(where[1:]) or where[0]
    given = first.get("input")
    shown = "missing" if first["type"] == "missing" else repr(given)
    expected = str(first["msg"]).removeprefix("Input should be ").removeprefix("Value error, ")
    detail = f"{where[0]} parameter '{name}' is {shown}; expected {expected}"
    return document(422, detail, name)
