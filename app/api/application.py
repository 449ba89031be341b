"""Puts the routes together: documentation, error shape, measurement, and the fast lane."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api import description, problems
from app.api.access import Gate, open_paths
from app.api.docs import docs_router
from app.api.explain import explain_router
from app.api.export import export_router
from app.api.health import health_router
from app.api.leaves import leaves_router
from app.api.live import Live, live_router
from app.api.model import model_router
from app.api.observe import Observe
from app.api.page import page_router
from app.api.predict import PATH, PredictRoute
from app.api.splits import splits_router
from app.api.timeline import timeline_router
from app.api.tree import tree_router
from app.api.v2 import v2_router
from app.wiring import Service


class Api(FastAPI):
    """FastAPI with layers of our own in front of its middleware.

    Its own layers cost more than a prediction, and what is measured should include them.
    """

    front: ASGIApp | None = None
    live: Live

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request."""
        await (self.front or super().__call__)(scope, receive, send)


def create_app(service: Service) -> Api:
    """Return the API of one service."""
    app = Api(
        title="livetree",
        summary="A decision tree that never stops learning, over HTTP.",
        description=description.ABOUT,
        version=package_version(),
        openapi_tags=description.TAGS,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        docs_url=None,
        redoc_url=None,
    )
    predict = PredictRoute(service)
    add_predict(app, predict)
    app.live = Live(service)
    routers = (
        page_router(),
        explain_router(service),
        export_router(service),
        tree_router(service),
        splits_router(service),
        timeline_router(service),
        leaves_router(service),
        model_router(service),
        live_router(app.live),
        health_router(service),
        docs_router(),
        v2_router(service, app.version),
    )
    for router in routers:
        app.include_router(router)
    problems.install(app)
    auth = service.settings.auth
    description.install(app, open_paths(auth) if auth.enabled else None)
    declared = [*app.routes, *(route for router in routers for route in router.routes)]
    routes = frozenset(str(route.path) for route in declared if isinstance(route, Route))
    behind: ASGIApp = FastLane(super(Api, app).__call__, predict)
    if auth.enabled:
        behind = Gate(behind, auth, service.metrics)
    app.front = Observe(behind, service.metrics, routes)
    return app


def add_predict(app: FastAPI, predict: PredictRoute) -> None:
    """Declare /predict to the framework, for the documentation and for 405 on other methods."""

    @app.post(
        PATH,
        tags=["predict"],
        summary="Predict one row or many",
        description=description.PREDICT_ABOUT,
        response_class=Response,
        responses=description.PREDICT_RESPONSES,
        openapi_extra=description.PREDICT_EXTRA,
    )
    async def predict_route(request: Request) -> Response:
        return (await predict.reply(request.scope, request.receive)).response()


class FastLane:
    """Answers POST /predict before the framework does its routing; passes everything else on."""

    def __init__(self, app: ASGIApp, predict: PredictRoute) -> None:
        self._app = app
        self._predict = predict

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request."""
        if scope["type"] == "http" and scope["path"] == PATH and scope["method"] == "POST":
            reply = await self._predict.reply(scope, receive)
            await reply.send_to(send)
        else:
            await self._app(scope, receive, send)


def package_version() -> str:
    """Return the version of the installed package."""
    try:
        return version("livetree")
    except PackageNotFoundError:
        return "0"
