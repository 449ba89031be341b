"""GET /snapshots and GET /tree/diff: which moments can be asked for, and what changed since."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Query
from starlette.responses import Response

from app.api.problems import responses
from app.api.snapshot import chosen, current, snapshot_headers
from app.moment import ABOUT, time_text
from app.published import Published
from app.tree_diff import USUAL_SHARE, Difference
from app.wiring import Service

DIFF_EXAMPLE = """vfdt-9000 to vfdt-9900: 900 events, 3 to 5 nodes; 2 added, 0 removed, 1 changed
~ #1 age <= 39.5: a leaf has split on salary <= 51200
+ #3 salary <= 51200: answers A 99.1% (20.4% of traffic)
+ #4 salary > 51200: answers B 61.0% (12.6% of traffic)
"""


def timeline_router(service: Service) -> APIRouter:
    """Return the router of the snapshots and of their differences."""
    router = APIRouter(tags=["tree"])

    @router.get(
        "/snapshots",
        summary="The snapshots that can be asked for",
        response_class=Response,
        responses={
            200: {
                "description": "The snapshots that are held, the newest first.",
                "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/Snapshots"}}
                },
            },
            **responses(503),
        },
    )
    def snapshots() -> Response:
        """List the current snapshot and those that are held to look back at.

        The newest are close together, older ones further apart. Any of them can be named as `at`
        in `/tree` and `/predict`, and as `from` and `to` in `/tree/diff`.
        """
        published = current(service)
        body = msgspec.json.encode(snapshots_document(service))
        headers = snapshot_headers(published)
        return Response(body, headers=headers, media_type="application/json")

    @router.get(
        "/tree/diff",
        summary="What changed between two snapshots",
        response_class=Response,
        responses={
            200: {
                "description": "Nodes that were added, removed or changed.",
                "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/Difference"}},
                    "text/plain": {"schema": {"type": "string"}, "example": DIFF_EXAMPLE},
                },
            },
            **responses(404, 422, 503),
        },
    )
    def diff(
        before: Annotated[
            str | None,
            Query(alias="from", description=f"{ABOUT} By default the oldest."),
        ] = None,
        after: Annotated[
            str | None, Query(alias="to", description="The same; by default the current one.")
        ] = None,
        share: Annotated[
            float,
            Query(ge=0, le=1, description="Tell of a node whose share of traffic moved by more."),
        ] = USUAL_SHARE,
        format: Annotated[
            Literal["json", "text"], Query(description="json, or text: a line for each change.")
        ] = "json",
    ) -> Response:
        """Compare the trees of two snapshots, node by node.

        Ids of nodes stay the same while the tree grows and never come back. A node is `changed`
        when a leaf has split, a test was replaced or taken back, the answer is another one, its
        share of the traffic moved, or it began or ceased to gather statistics.
        """
        later = chosen(service, after, "to")
        earlier = chosen(service, before or service.serving.held()[-1].snapshot.id, "from")
        found = Difference(earlier.snapshot, later.snapshot, share)
        headers = snapshot_headers(later)
        del headers["etag"]  # it names one snapshot, and this is about two
        if format == "text":
            return Response(found.text(), headers=headers, media_type="text/plain; charset=utf-8")
        body = msgspec.json.encode(found.document())
        return Response(body, headers=headers, media_type="application/json")

    return router


def snapshots_document(service: Service) -> dict[str, Any]:
    """Return what /snapshots answers."""
    held = service.serving.held()
    return {
        "current": held[0].snapshot.id,
        "held_bytes": service.serving.held_bytes,
        "snapshots": [_row(published) for published in held],
    }


def _row(published: Published) -> dict[str, Any]:
    snapshot = published.snapshot
    return {
        "id": snapshot.id,
        "events": snapshot.events,
        "published_at": published.published_at,
        "time": time_text(published.published_at),
        "offsets": dict(published.offsets),
        "nodes": snapshot.shape.nodes,
        "leaves": snapshot.shape.leaves,
        "depth": snapshot.shape.depth,
        "accuracy": published.accuracy,
        "window_accuracy": published.window_accuracy,
    }
