"""Probes, metrics and the index: /livez, /healthz, /readyz, /metrics and /."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from app.api.problems import MEDIA_TYPE, SCHEMA, document
from app.wiring import Service


def probe_responses(name: str) -> dict[int | str, dict[str, Any]]:
    """Return the `responses=` entry of a probe: its flag, true with 200 and false with 503."""
    flag = {"required": [name], "properties": {name: {"type": "boolean"}}}
    return {
        200: {
            "description": "Yes.",
            "content": {"application/json": {"schema": {"type": "object", **flag}}},
        },
        503: {
            "description": "Not now; `detail` says why.",
            "content": {MEDIA_TYPE: {"schema": {"allOf": [SCHEMA, flag]}}},
        },
    }


INDEX = {
    "name": "livetree",
    "about": "Kafka events in, a decision tree that never stops learning, predictions out.",
    "routes": {
        "POST /predict": "predict one row or many",
        "GET /tree": "the tree: ?format=json|text|dot|mermaid|svg|html, ?depth=, ?node=, ?at=",
        "GET /tree/diff": "what changed between two snapshots: ?from=, ?to=, ?format=json|text",
        "GET /snapshots": "the snapshots that ?at= can name",
        "GET /leaves/{id}": "why a leaf has not split yet",
        "GET /splits": "what the tree did, change by change: ?after=, ?limit=",
        "GET /model": "variant, parameters, counters, shape, accuracy, offsets",
        "GET /schema": "the features and classes the model knows",
        "GET /livez": "is the process alive",
        "GET /readyz": "can it answer predictions",
        "GET /metrics": "Prometheus metrics",
        "GET /docs": "try the API in a browser",
        "GET /openapi.json": "the description of the API",
    },
}


def health_router(service: Service) -> APIRouter:
    """Return the router of the probes, the metrics and the index."""
    router = APIRouter(tags=["health"])

    @router.get("/", summary="What is here", response_class=JSONResponse)
    async def index() -> JSONResponse:
        """Name the routes."""
        return JSONResponse(INDEX)

    alive_responses = probe_responses("alive")

    @router.get("/livez", summary="Is the process alive", responses=alive_responses)
    @router.get("/healthz", summary="The same as /livez", responses=alive_responses)
    async def livez() -> Response:
        """Answer 200 while the learning loop runs; a restart helps when this fails."""
        if service.alive():
            return JSONResponse({"alive": True})
        return _not_now("the learning loop has stopped", {"alive": False})

    @router.get("/readyz", summary="Can it answer predictions", responses=probe_responses("ready"))
    async def readyz() -> Response:
        """Answer 200 only with a snapshot, and not while shutting down."""
        ready, reason = service.ready()
        if ready:
            return JSONResponse({"ready": True})
        return _not_now(reason, {"ready": False})

    @router.get(
        "/metrics",
        summary="Prometheus metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    def metrics() -> Response:
        """Return all metrics in the Prometheus text format."""
        body, content_type = service.metrics.render()
        return Response(body, headers={"content-type": content_type})

    return router


def _not_now(reason: str, extra: dict[str, bool]) -> Response:
    body = msgspec.json.encode({**document(503, reason), **extra})
    return Response(body, status_code=503, media_type=MEDIA_TYPE)
