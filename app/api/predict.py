"""POST /predict, the hot route: raw body in, msgspec both ways, the Snapshot in between.

It is documented like every FastAPI route but does not run through pydantic: at a few microseconds
for the model, the framework would be nearly the whole cost of a request. Predicting only reads a
Snapshot, so it cannot change the model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from msgspec import UNSET, UnsetType
from starlette.responses import Response
from starlette.types import Receive, Scope

from app.api.body import Disconnected, decode_json, read_body, require_json
from app.api.problems import Refused, respond
from app.api.snapshot import current, snapshot_headers
from app.errors import AppError
from app.serving import Published
from app.wiring import Service
from learner import BadValue, Batch, LearnerError, Snapshot, Value

# Up to this many rows are answered in the event loop itself: a hand-over to a thread costs more
# than the work. A larger batch goes to a thread, so that it cannot hold up the probes.
ROWS_IN_LOOP = 256
PATHS_IN_LOOP = 4  # a path takes as long as a hundred predictions

PATH = "/predict"
TRUTH = {"true": True, "1": True, "false": False, "0": False}


class PredictBody(msgspec.Struct):
    """What a client sends: features of one row, or instances of many."""

    features: dict[str, Any] | UnsetType = UNSET
    instances: list[dict[str, Any]] | UnsetType = UNSET


class ClassProbability(msgspec.Struct):
    """One class and its probability; the label keeps its JSON type."""

    label: Value
    probability: float


class PathStep(msgspec.Struct):
    """One test on the way from the root to the leaf; branch is the node that it leads to."""

    node: int
    feature: str
    operator: str
    value: Any
    observed: Any
    branch: int


class Prediction(msgspec.Struct):
    """The answer for one row; label is null while the model has seen no class."""

    label: Value | None
    leaf: int
    probabilities: list[ClassProbability] | UnsetType = UNSET
    path: list[PathStep] | UnsetType = UNSET


class SingleAnswer(Prediction, kw_only=True):
    """The answer to `features`."""

    snapshot: str


class ManyAnswer(msgspec.Struct):
    """The answer to `instances`; predictions are in the order of the rows."""

    predictions: list[Prediction]
    snapshot: str


class Wanted(msgspec.Struct, frozen=True):
    """What the query asks for besides label and leaf."""

    probabilities: bool = True
    path: bool = False


DEFAULT_WANTED = Wanted()
BODY_DECODER = msgspec.json.Decoder(PredictBody)
ANSWER_ENCODER = msgspec.json.Encoder()


class PredictRoute:
    """Answers POST /predict for one service; holds no state of its own."""

    def __init__(self, service: Service) -> None:
        self._service = service
        model = service.settings.name
        self._answered = service.metrics.predictions.labels(model, "answered")
        self._refused = service.metrics.predictions.labels(model, "refused")
        self._body_limit_bytes = service.settings.http.body_limit_bytes
        self._max_rows = service.settings.http.max_rows

    async def respond(self, scope: Scope, receive: Receive) -> Response:
        """Return the answer to one request, be it a problem; count the rows it predicted."""
        try:
            body, rows, published = await self.answer(scope, receive)
        except Disconnected:
            return Response(status_code=499)
        except (Refused, AppError, LearnerError) as exc:
            self._refused.inc()
            return respond(exc)
        self._answered.inc(rows)
        return Response(body, headers=snapshot_headers(published), media_type="application/json")

    async def answer(self, scope: Scope, receive: Receive) -> tuple[bytes, int, Published]:
        """Return the JSON answer, its number of rows and what answered; raise a problem."""
        wanted = parse_query(scope["query_string"])
        require_json(scope)
        raw = await read_body(scope, receive, self._body_limit_bytes)
        published = current(self._service)
        body = decode_json(BODY_DECODER, raw)
        rows = self._rows(body)
        many = body.features is UNSET
        snapshot = published.snapshot
        if len(rows) <= (PATHS_IN_LOOP if wanted.path else ROWS_IN_LOOP):
            answer = predict_rows(snapshot, rows, wanted, many)
        else:
            answer = await asyncio.to_thread(predict_rows, snapshot, rows, wanted, many)
        return ANSWER_ENCODER.encode(answer), len(rows), published

    def _rows(self, body: PredictBody) -> list[dict[str, Any]]:
        if body.features is not UNSET:
            if body.instances is not UNSET:
                raise Refused(422, "body has 'features' and 'instances'; expected one of them")
            return [body.features]
        if body.instances is UNSET:
            raise Refused(
                422,
                "body has neither 'features' nor 'instances'; expected "
                '{"features": {...}} for one row or {"instances": [{...}, ...]} for many',
            )
        if not body.instances:
            raise Refused(
                422, "field 'instances' is empty; expected at least one row", field="instances"
            )
        if len(body.instances) > self._max_rows:
            raise Refused(
                413,
                f"field 'instances' has {len(body.instances)} rows; "
                f"expected at most {self._max_rows}",
                field="instances",
            )
        return body.instances


def parse_query(query: bytes) -> Wanted:
    """Read path= and probabilities=; other parameters are ignored."""
    if not query:
        return DEFAULT_WANTED
    given = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True))
    flags: dict[str, bool] = {}
    for name in ("probabilities", "path"):
        if name not in given:
            continue
        if given[name].lower() not in TRUTH:
            detail = f"query parameter '{name}' is '{given[name]}'; expected true or false"
            raise Refused(422, detail, field=name)
        flags[name] = TRUTH[given[name].lower()]
    return Wanted(**flags)


def predict_rows(
    snapshot: Snapshot, rows: Sequence[Mapping[str, Any]], wanted: Wanted, many: bool
) -> SingleAnswer | ManyAnswer:
    """Predict all rows with one snapshot and build the answer."""
    batch = encode_rows(snapshot, rows, many)
    codes, probabilities, leaves = snapshot.evaluate(batch)
    classes = snapshot.classes
    distributions = probabilities.tolist() if wanted.probabilities else None
    predictions = []
    for row, (code, leaf) in enumerate(zip(codes.tolist(), leaves.tolist(), strict=True)):
        prediction = Prediction(classes[code] if code >= 0 else None, leaf)
        if distributions is not None:
            prediction.probabilities = [
                ClassProbability(label, probability)
                for label, probability in zip(classes, distributions[row], strict=True)
            ]
        if wanted.path:
            prediction.path = path_of(snapshot, batch, row)
        predictions.append(prediction)
    if many:
        return ManyAnswer(predictions, snapshot.id)
    only = predictions[0]
    return SingleAnswer(only.label, only.leaf, only.probabilities, only.path, snapshot=snapshot.id)


def encode_rows(snapshot: Snapshot, rows: Sequence[Mapping[str, Any]], many: bool) -> Batch:
    """Encode all rows at once; a bad value is reported with its row."""
    try:
        return snapshot.encode_records(rows)
    except BadValue as exc:
        if not many:
            raise
        row = _first_bad_row(snapshot, rows)
        field = f"instances[{row}].{exc.field}"
        raise Refused(422, f"instances[{row}]: {exc}", field=field) from exc


def _first_bad_row(snapshot: Snapshot, rows: Sequence[Mapping[str, Any]]) -> int:
    for row, record in enumerate(rows):
        try:
            snapshot.encode_records([record])
        except BadValue:
            return row
    return 0


def path_of(snapshot: Snapshot, batch: Batch, row: int) -> list[PathStep]:
    """Return the tests that lead one row to its leaf, from the root down."""
    return [
        PathStep(
            step.node,
            step.feature,
            step.operator,
            plain(step.value),
            plain(step.observed),
            step.branch,
        )
        for step in snapshot.path(batch, row)
    ]


def plain(value: object) -> object:
    """Return a numpy scalar as the Python value that JSON can carry; anything else as it is."""
    return value.item() if hasattr(value, "item") else value
