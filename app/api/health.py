"""Probes and metrics: /livez, /healthz, /readyz and /metrics."""

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


def health_router(service: Service) -> APIRouter:
    """Return the router of the probes and the metrics."""
    router = APIRouter(tags=["health"])

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
