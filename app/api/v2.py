"""/v2: the REST part of the Open Inference Protocol, for clients of KServe, Triton and MLServer.

The model is the service's own, its versions are the ids of the snapshots that are held.
"""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from app.api.body import CLOSE, Disconnected, header, read_body, require_json
from app.api.predict import BYTES_IN_LOOP
from app.api.problems import Refused, v2_responses
from app.api.snapshot import chosen, snapshot_headers
from app.api.v2_infer import NAMES, Answered
from app.api.v2_tensor import FP64, datatype_of, input_metadata
from app.published import Published
from app.wiring import Service
from learner import LearnerError

BINARY = b"inference-header-content-length"
OCTETS = "application/octet-stream"
MODEL = "/v2/models/{model}"
VERSION = MODEL + "/versions/{version}"


def _answer(words: str, *names: str, **more: Any) -> dict[int | str, dict[str, Any]]:
    """Return the `responses=` entry of an object that has at least these members."""
    schema = {"type": "object", "required": list(names), **more}
    return {200: {"description": words, "content": {"application/json": {"schema": schema}}}}


def _ref(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}


def v2_router(service: Service, release: str) -> APIRouter:
    """Return the router of the protocol; `release` is the version of the program."""
    router = APIRouter(tags=["v2"])
    model_of = Model(service)

    @router.get(
        "/v2",
        summary="The server",
        responses=_answer("Name, version, extensions.", "name", "version", "extensions"),
    )
    async def server() -> dict[str, Any]:
        """Name the server and what it can do beyond the protocol."""
        return {"name": "livetree", "version": release, "extensions": ["binary_tensor_data"]}

    @router.get(
        "/v2/health/live",
        summary="The same as /livez",
        responses={**_answer("Yes.", "live"), 503: _answer("No.", "live")[200]},
    )
    async def live() -> Response:
        """Answer 200 while the learning loop runs."""
        alive = service.alive()
        return JSONResponse({"live": alive}, 200 if alive else 503)

    ready_answer = {**_answer("Yes.", "ready"), 503: _answer("No.", "ready")[200]}

    @router.get("/v2/health/ready", summary="The same as /readyz", responses=ready_answer)
    async def ready() -> Response:
        """Answer 200 only with a snapshot, and not while shutting down."""
        is_ready, _ = service.ready()
        return JSONResponse({"ready": is_ready}, 200 if is_ready else 503)

    model_ready = {**ready_answer, **v2_responses(404, 422)}

    @router.get(f"{MODEL}/ready", summary="Is the model ready", responses=model_ready)
    async def model_is_ready(model: str) -> Response:
        """Answer 200 when this model can answer."""
        return model_of.ready(model, None)

    @router.get(f"{VERSION}/ready", summary="Is a version ready", responses=model_ready)
    async def version_is_ready(model: str, version: str) -> Response:
        """Answer 200 when this version can answer, 404 when it is not held."""
        return model_of.ready(model, version)

    described = {
        **_answer("Versions, inputs and outputs.", "name", "versions", "inputs", "outputs"),
        **v2_responses(404, 422, 503),
    }

    @router.get(MODEL, summary="The model", responses=described)
    def model_metadata(model: str) -> Response:
        """Describe the inputs, a column for each feature, and the outputs.

        `versions` are the snapshots that are held, the newest first.
        """
        return model_of.metadata(model, None)

    @router.get(VERSION, summary="A version of the model", responses=described)
    def version_metadata(model: str, version: str) -> Response:
        """Describe the inputs and outputs of one version, the id of a snapshot."""
        return model_of.metadata(model, version)

    answered: dict[int | str, dict[str, Any]] = {
        200: {"description": "Labels and probabilities.", "content": _ref("InferResponse")},
        **v2_responses(400, 404, 413, 415, 422, 503),
    }
    body = {"requestBody": {"required": True, "content": _ref("InferRequest")}}

    @router.post(f"{MODEL}/infer", summary="Predict", responses=answered, openapi_extra=body)
    async def model_infer(request: Request, model: str) -> Response:
        """Predict the label (`predict`) and the probabilities (`predict_proba`) of each row.

        Inputs are columns, one a feature; those that are absent are missing in every row. Tensors
        may follow the JSON as bytes (`Inference-Header-Content-Length`), and come back so.
        """
        return await model_of.infer(request, model, None)

    @router.post(
        f"{VERSION}/infer", summary="Predict with a version", responses=answered, openapi_extra=body
    )
    async def version_infer(request: Request, model: str, version: str) -> Response:
        """Predict with one version, the id of a snapshot that is held."""
        return await model_of.infer(request, model, version)

    return router


def metadata_document(service: Service, published: Published) -> dict[str, Any]:
    """Return what is told of the model."""
    snapshot = published.snapshot
    predict, probabilities = NAMES
    return {
        "name": service.settings.name,
        "versions": [each.snapshot.id for each in service.serving.held()],
        "platform": "livetree",
        "inputs": input_metadata(snapshot.schema.features),
        "outputs": [
            {"name": predict, "datatype": datatype_of(snapshot.classes), "shape": [-1]},
            {"name": probabilities, "datatype": FP64, "shape": [-1, len(snapshot.classes)]},
        ],
    }


class Model:
    """What clients ask of the one model that is here, and of its versions."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._name = service.settings.name
        self._answered = service.metrics.predictions.labels(self._name, "answered")
        self._refused = service.metrics.predictions.labels(self._name, "refused")

    def _require(self, model: str) -> None:
        if model != self._name:
            raise Refused(404, f"model '{model:.80}' is not here; expected '{self._name}'")

    def ready(self, model: str, version: str | None) -> Response:
        """Return whether it can answer."""
        self._require(model)
        is_ready, _ = self._service.ready()
        if is_ready:
            chosen(self._service, version, "version")
        return JSONResponse({"name": model, "ready": is_ready}, 200 if is_ready else 503)

    def metadata(self, model: str, version: str | None) -> Response:
        """Return its versions, inputs and outputs."""
        self._require(model)
        published = chosen(self._service, version, "version")
        document = metadata_document(self._service, published)
        return JSONResponse(document, headers=_headers(published))

    async def infer(self, request: Request, model: str, version: str | None) -> Response:
        """Return its predictions; raises Refused and the errors of the learner."""
        self._require(model)
        settings = self._service.settings
        try:
            length = header_length(request)
            raw = await read_body(request.scope, request.receive, settings.http.body_limit_bytes)
            if length is not None and length > len(raw):
                detail = f"expected at most the {len(raw)} bytes of the body"
                raise Refused(400, f"{BINARY.decode()} is {length}; {detail}")
            published = chosen(self._service, version, "version")
            given = raw, length, self._name, published.snapshot, settings.http.max_rows
            if len(raw) <= BYTES_IN_LOOP // 4:
                found = Answered(*given)
            else:
                found = await asyncio.to_thread(Answered, *given)
        except Disconnected:
            return Response(status_code=499)
        except (Refused, LearnerError):
            self._refused.inc()
            raise
        self._answered.inc(found.rows)
        headers = _headers(published)
        if not found.is_binary:
            return Response(found.json, headers=headers, media_type="application/json")
        headers[BINARY.decode()] = str(len(found.json))
        return Response(found.body, headers=headers, media_type=OCTETS)


def header_length(request: Request) -> int | None:
    """Return how long the JSON is where tensors follow as bytes; None: all of the body is JSON."""
    given = header(request.scope, BINARY)
    if given is None:
        require_json(request.scope)
        return None
    if header(request.scope, b"content-encoding") not in (None, b"identity"):
        raise Refused(415, "content-encoding is set; expected none", headers=CLOSE)
    if not given.isdigit() or len(given) > 18:
        shown = given.decode("latin-1")
        detail = f"{BINARY.decode()} is '{shown:.40}'; expected a whole number"
        raise Refused(400, detail, headers=CLOSE)
    return int(given)


def _headers(published: Published) -> dict[str, str]:
    named = snapshot_headers(published)
    del named["etag"]  # the list of versions changes while a snapshot does not
    return named
