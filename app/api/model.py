"""GET /model and GET /schema: what the model is, how far it has come, what it knows."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from app.api.problems import responses
from app.api.snapshot import age_seconds, current, snapshot_headers
from app.render import importance_document
from app.serving import Published
from app.wiring import Service


def model_router(service: Service) -> APIRouter:
    """Return the router of the model and its schema."""
    router = APIRouter(tags=["model"])

    @router.get(
        "/model",
        summary="The model: variant, parameters, progress, quality",
        response_class=Response,
        responses={
            200: {
                "description": "The model as of the current snapshot.",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Model"}}},
            },
            **responses(503),
        },
    )
    def model() -> Response:
        """Describe the model behind the current snapshot."""
        published = current(service)
        return _json(model_document(service, published), published)

    @router.get(
        "/schema",
        summary="The features and classes the model knows",
        response_class=Response,
        responses={
            200: {
                "description": "Features with their kinds and known values, and the classes.",
                "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/Schema"}}
                },
            },
            **responses(503),
        },
    )
    async def schema() -> Response:
        """Return the schema of the current snapshot; names are those /predict takes."""
        published = current(service)
        return _json(published.snapshot.schema.to_dict(), published)

    return router


def _json(document: object, published: Published) -> Response:
    return Response(
        msgspec.json.encode(document),
        headers=snapshot_headers(published),
        media_type="application/json",
    )


def model_document(service: Service, published: Published) -> dict[str, Any]:
    """Return what /model answers."""
    snapshot = published.snapshot
    return {
        "name": service.settings.name,
        "variant": snapshot.variant,
        "params": dataclasses.asdict(snapshot.params),
        "events": snapshot.events,
        "counters": snapshot.counters._asdict(),
        "shape": snapshot.shape._asdict(),
        "importance": importance_document(snapshot),
        "memory_bytes": snapshot.memory_bytes,
        "accuracy": published.accuracy,
        "kappa": published.kappa,
        "window": {
            "events": published.window_events or service.settings.evaluation.window,
            "accuracy": published.window_accuracy,
            "kappa": published.window_kappa,
        },
        "offsets": dict(published.offsets),
        "snapshot": {
            "id": snapshot.id,
            "published_at": published.published_at,
            "age_seconds": age_seconds(published),
        },
    }
