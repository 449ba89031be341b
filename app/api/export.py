"""GET /export: the tree with its schema and every answer, for what works without livetree."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from starlette.responses import Response

from app.api.problems import responses
from app.api.snapshot import chosen, snapshot_headers
from app.export.document import export_document
from app.moment import ABOUT as AT_ABOUT
from app.wiring import Service

SCHEMA = {
    "type": "object",
    "title": "Export",
    "description": "A tree that is whole in itself: docs/export.md describes the fields.",
    "required": ["format", "version", "snapshot", "schema", "root", "nodes"],
    "properties": {
        "format": {"const": "livetree"},
        "version": {"type": "integer"},
        "snapshot": {"type": "string"},
        "variant": {"type": "string"},
        "events": {"type": "integer"},
        "shape": {"type": "object"},
        "schema": {"$ref": "#/components/schemas/Schema"},
        "root": {"type": "integer"},
        "nodes": {"type": "array", "items": {"type": "object"}},
    },
}


def export_router(service: Service) -> APIRouter:
    """Return the router of the export."""
    router = APIRouter(tags=["tree"])

    @router.get(
        "/export",
        summary="The tree with its schema, to be used elsewhere",
        response_class=Response,
        responses={
            200: {
                "description": "The tree as one document.",
                "content": {"application/json": {"schema": SCHEMA}},
            },
            **responses(404, 422, 503),
        },
    )
    def export(
        at: Annotated[str | None, Query(description=AT_ABOUT)] = None,
    ) -> Response:
        """Return the whole tree as one versioned document, from which a program can predict.

        A node of `/tree` is told with what it answers rows that end there (`label`,
        `probabilities`, `answers_by`) and where it sends missing values (`missing`).
        `livetree export` writes SQL, Python and ONNX from it.
        """
        published = chosen(service, at)
        return Response(
            msgspec.json.encode(export_document(published.snapshot)),
            headers=snapshot_headers(published),
            media_type="application/json",
        )

    return router
