"""GET /leaves/{id}: why a leaf has not split yet."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Path
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from app.api.problems import responses
from app.api.snapshot import current
from app.errors import LearnerBusy
from app.prospect import prospect_document
from app.wiring import Service

PATIENCE_SECONDS = 5.0  # for a batch to end, beyond the longest wait for the first record of one
LARGEST = 2**62

EXAMPLE = {
    "snapshot": "vfdt-12480",
    "leaf": 2,
    "branch": "age > 39.5",
    "n": 1480.0,
    "distribution": [{"label": "A", "weight": 410.0}, {"label": "B", "weight": 1370.0}],
    "status": "waiting",
    "best": {"test": "salary <= 51200", "merit": 0.061},
    "second": {"test": "age <= 58.2", "merit": 0.022},
    "gap": 0.039,
    "bias": 0.0,
    "bound": 0.0738,
    "tie": 0.05,
    "events_needed": 1744.0,
    "next_attempt_in": 120.0,
    "explanation": "Not yet: 'salary <= 51200' leads 'age <= 58.2' by 0.039, the bound is 0.0738, "
    "a tie below 0.05. At the present gap it splits after about 1,744 more events, as a tie. "
    "The next attempt comes after 120 events here.",
}

_NUMBER = {"anyOf": [{"type": "number"}, {"type": "null"}]}
_OPTION = {
    "anyOf": [
        {
            "type": "object",
            "properties": {
                "test": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "merit": {"type": "number"},
            },
        },
        {"type": "null"},
    ],
}
STATUSES = ("waiting", "ready", "useless", "pure", "empty", "queued", "done", "inactive")
SCHEMAS: dict[str, Any] = {
    "LeafProspect": {
        "type": "object",
        "title": "LeafProspect",
        "examples": [EXAMPLE],
        "properties": {
            "snapshot": {
                "type": "string",
                "description": "The state that answered; it may be newer than the published one.",
            },
            "leaf": {"type": "integer"},
            "branch": {"type": "string", "description": "The test that leads here."},
            "n": {"type": "number", "description": "Weight that the leaf has counted."},
            "distribution": {
                "type": "array",
                "items": {"type": "object", "properties": {"label": {}, "weight": _NUMBER}},
            },
            "status": {"enum": list(STATUSES)},
            "best": {**_OPTION, "description": "The best split now; a null test: not to split."},
            "second": {**_OPTION, "description": "Its rival."},
            "gap": {**_NUMBER, "description": "Between their merits."},
            "bias": {"type": "number", "description": "What the normal test takes off the gap."},
            "bound": {**_NUMBER, "description": "The gap that is asked for."},
            "tie": {"type": "number", "description": "Once the bound is below, no gap is needed."},
            "events_needed": {
                **_NUMBER,
                "description": "Weight until the test passes at the present gap; null: never.",
            },
            "next_attempt_in": {
                **_NUMBER,
                "description": "Weight until the next attempt; null: none is planned.",
            },
            "explanation": {"type": "string", "description": "The same in words."},
        },
    },
}


def leaves_router(service: Service) -> APIRouter:
    """Return the router of the leaves."""
    router = APIRouter(tags=["tree"])
    waits = service.settings.kafka, service.settings.file
    patience = PATIENCE_SECONDS + max(wait.poll_timeout_seconds for wait in waits)

    @router.get(
        "/leaves/{id}",
        summary="Why a leaf has not split yet",
        response_class=Response,
        responses={
            200: {
                "description": "What an attempt to split the leaf would say now.",
                "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/LeafProspect"}}
                },
            },
            **responses(404, 422, 503),
        },
    )
    async def leaf(
        id: Annotated[int, Path(ge=0, le=LARGEST, description="The leaf's id, as in /tree.")],
    ) -> Response:
        """Evaluate the leaf as its next attempt would, on a copy: nothing is learned by asking.

        The answer comes from the tree that learns, between two of its batches, not from a
        snapshot. A learner that does not answer in time is 503; try again.
        """
        published = current(service)
        asked = asyncio.wrap_future(service.questions.ask(id))
        try:
            copy = await asyncio.wait_for(asked, patience)
        except TimeoutError as exc:
            raise LearnerBusy(
                f"the learner did not answer within {patience:g} seconds; expected the end of a "
                "batch by then; try again, or see /readyz"
            ) from exc
        prospect = await run_in_threadpool(copy.prospect)
        name = f"{published.snapshot.variant}-{prospect.events}"
        return Response(
            msgspec.json.encode(prospect_document(prospect, name)), media_type="application/json"
        )

    return router
