"""GET /tree: the tree itself, as JSON, as a drawing in text, or as Graphviz DOT."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Header, Query
from starlette.responses import Response

from app.api.problems import responses
from app.api.snapshot import current, snapshot_headers
from app.render import tree_document, tree_dot, tree_text
from app.wiring import Service

# Node ids and depths beyond this are nonsense, and would not fit the arrays they index.
LARGEST = 2**31 - 1

TEXT_EXAMPLE = """vfdt, 12,000 events, 3 nodes, 2 leaves, depth 1, snapshot vfdt-12000
#0 split on age (100.0% of traffic)
├─ age <= 39.5  #1 → A 93.1% (33.0% of traffic)
└─ age > 39.5  #2 → B 71.4% (67.0% of traffic)
"""


def tree_router(service: Service) -> APIRouter:
    """Return the router of the tree."""
    router = APIRouter(tags=["tree"])

    @router.get(
        "/tree",
        summary="The tree itself",
        response_class=Response,
        responses={
            200: {
                "description": "The tree, or the part of it that was asked for.",
                "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/Tree"}},
                    "text/plain": {"schema": {"type": "string"}, "example": TEXT_EXAMPLE},
                    "text/vnd.graphviz": {"schema": {"type": "string"}},
                },
            },
            304: {"description": "The snapshot named in If-None-Match is still the current one."},
            **responses(404, 422, 503),
        },
    )
    def tree(
        format: Annotated[
            Literal["json", "text", "dot"],
            Query(description="json: a flat list of nodes; text: a drawing; dot: Graphviz."),
        ] = "json",
        depth: Annotated[
            int | None,
            Query(ge=0, le=LARGEST, description="How many levels below the first node to show."),
        ] = None,
        node: Annotated[
            int | None, Query(ge=0, le=LARGEST, description="The id of the node to start at.")
        ] = None,
        details: Annotated[
            bool,
            Query(description="true: text says of each node when and why; json always does."),
        ] = False,
        if_none_match: Annotated[str | None, Header()] = None,
    ) -> Response:
        """Return the tree of the current snapshot from its root, or from `node`, downwards.

        Nodes have ids that stay the same while the tree grows; a prediction names its leaf by
        the same id. Send the `etag` back as `if-none-match` to be told that nothing changed.
        """
        published = current(service)
        headers = snapshot_headers(published)
        if if_none_match is not None and headers["etag"] in if_none_match:
            return Response(status_code=304, headers=headers)
        snapshot = published.snapshot
        if format == "text":
            return Response(
                tree_text(snapshot, node, depth, details=details),
                headers=headers,
                media_type="text/plain; charset=utf-8",
            )
        if format == "dot":
            return Response(
                tree_dot(snapshot, node, depth),
                headers=headers,
                media_type="text/vnd.graphviz; charset=utf-8",
            )
        encoded = msgspec.json.encode(tree_document(snapshot, node, depth))
        return Response(encoded, headers=headers, media_type="application/json")

    return router
