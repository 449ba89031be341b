"""GET /splits: what the tree did, change by change, with the reason of each."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from starlette.responses import Response

from app.api.problems import responses
from app.api.snapshot import current, snapshot_headers
from app.serving import Published
from app.wiring import Service

MOST = 1000  # changes in one answer
LARGEST = 2**62

EXAMPLE = {
    "snapshot": "vfdt-12000",
    "total": 1,
    "skipped": 0,
    "first": 1,
    "next": 1,
    "changes": [
        {
            "sequence": 1,
            "action": "split",
            "node": 0,
            "feature": "age",
            "test": "age <= 39.5",
            "reason": "bound",
            "merit": 0.214,
            "second_merit": 0.083,
            "second": "salary <= 51200",
            "bound": 0.0759,
            "n": 1400.0,
            "delay_events": None,
            "event": 1400,
            "offsets": {"livetree-events-0": 2000},
            "time": "2026-01-01T00:00:00.000+00:00",
        }
    ],
}

_TEXT = {"anyOf": [{"type": "string"}, {"type": "null"}]}
_NUMBER = {"anyOf": [{"type": "number"}, {"type": "null"}]}
SCHEMAS: dict[str, Any] = {
    "Splits": {
        "type": "object",
        "title": "Splits",
        "examples": [EXAMPLE],
        "properties": {
            "snapshot": {"type": "string"},
            "total": {"type": "integer", "description": "Changes so far."},
            "skipped": {
                "type": "integer",
                "description": "Leaves that lost or got statistics, too many at once to be listed.",
            },
            "first": {"type": "integer", "description": "Number of the oldest that is kept."},
            "next": {"type": "integer", "description": "What to send as `after` next time."},
            "changes": {"type": "array", "items": {"$ref": "#/components/schemas/Change"}},
        },
    },
    "Change": {
        "type": "object",
        "title": "Change",
        "properties": {
            "sequence": {"type": "integer", "description": "Its number, from 1 on."},
            "action": {
                "enum": ["split", "replace", "prune", "move", "deactivate", "reactivate"],
            },
            "node": {"type": "integer"},
            "feature": _TEXT,
            "test": _TEXT,
            "reason": {"enum": ["bound", "tie", None]},
            "merit": _NUMBER,
            "second_merit": _NUMBER,
            "second": {**_TEXT, "description": "The runner-up; null: not to split."},
            "bound": _NUMBER,
            "n": {"type": "number", "description": "Weight that the node had observed."},
            "delay_events": {**_NUMBER, "description": "How late the split was; audited only."},
            "event": {"type": "integer", "description": "Events learned when it happened."},
            "offsets": {
                "type": "object",
                "description": "What was learned next after the batch in which it happened.",
                "additionalProperties": {"type": "integer"},
            },
            "time": {"type": "string", "format": "date-time"},
        },
    },
}


def splits_router(service: Service) -> APIRouter:
    """Return the router of the record of changes."""
    router = APIRouter(tags=["tree"])

    @router.get(
        "/splits",
        summary="What the tree did, change by change",
        response_class=Response,
        responses={
            200: {
                "description": "Changes in the order in which they happened.",
                "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/Splits"}}
                },
            },
            **responses(422, 503),
        },
    )
    def splits(
        after: Annotated[
            int | None,
            Query(
                ge=0,
                le=LARGEST,
                description="Only changes with a higher number; 0: from the oldest that is kept. "
                "Without it the newest come.",
            ),
        ] = None,
        limit: Annotated[int, Query(ge=1, le=MOST, description="How many at most.")] = 100,
    ) -> Response:
        """Return splits, replaced, moved and removed splits, and leaves that lost statistics.

        To follow the tree, send `next` of each answer as `after` of the next request. A `first`
        above `after` + 1 says that changes in between are no longer kept.
        """
        published = current(service)
        return Response(
            msgspec.json.encode(splits_document(published, after, limit)),
            headers=snapshot_headers(published),
            media_type="application/json",
        )

    return router


def splits_document(published: Published, after: int | None, limit: int) -> dict[str, Any]:
    """Return what /splits answers."""
    changes = published.changes
    page = changes.page(after, limit)
    seen = page[-1].change.sequence if page else max(after or 0, changes.total)
    return {
        "snapshot": published.snapshot.id,
        "total": changes.total,
        "skipped": changes.skipped,
        "first": changes.first,
        "next": seen,
        "changes": [entry.document() for entry in page],
    }
