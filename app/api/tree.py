"""GET /tree: the tree itself, as JSON, as text of several kinds, as a picture or a page."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Header, Query
from starlette.responses import Response

from app.api.problems import responses
from app.api.snapshot import chosen, snapshot_headers
from app.moment import ABOUT as AT_ABOUT
from app.render import tree_document, tree_text
from app.tree_format import ABOUT as FORMAT_ABOUT
from app.tree_format import FORMATS
from app.tree_page import page_policy
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
    policy = page_policy()

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
                    "image/svg+xml": {"schema": {"type": "string"}},
                    "text/html": {"schema": {"type": "string"}},
                },
            },
            304: {"description": "The snapshot named in If-None-Match is still the one meant."},
            **responses(404, 422, 503),
        },
    )
    def tree(
        format: Annotated[
            Literal["json", "text", "dot", "mermaid", "svg", "html"],
            Query(description=FORMAT_ABOUT),
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
        at: Annotated[str | None, Query(description=AT_ABOUT)] = None,
        if_none_match: Annotated[str | None, Header()] = None,
    ) -> Response:
        """Return the tree of a snapshot from its root, or from `node`, downwards.

        Nodes have ids that stay the same while the tree grows; a prediction names its leaf by
        the same id. Send the `etag` back as `if-none-match` to be told that nothing changed.
        """
        published = chosen(service, at)
        headers = snapshot_headers(published)
        if if_none_match is not None and headers["etag"] in if_none_match:
            return Response(status_code=304, headers=headers)
        snapshot = published.snapshot
        if format == "json":
            encoded = msgspec.json.encode(tree_document(snapshot, node, depth))
            return Response(encoded, headers=headers, media_type="application/json")
        headers["content-security-policy"] = policy
        if format == "text":
            written = tree_text(snapshot, node, depth, details=details)
        else:
            written = FORMATS[format].write(snapshot, node, depth)
        return Response(written, headers=headers, media_type=FORMATS[format].media_type)

    return router
