"""POST /explain: why a record is answered as it is, and what would have to be different.

Runs in a worker thread: where naive Bayes answers, many records are predicted before one is told.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Mapping
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request
from msgspec import UNSET, UnsetType, field
from starlette.responses import Response

from app.api.answer import ClassProbability, Prediction, Wanted, plain, predictions
from app.api.body import Disconnected, decode_json, read_body, require_json
from app.api.problems import Refused, responses
from app.api.snapshot import chosen, snapshot_headers
from app.moment import ABOUT as AT_ABOUT
from app.wiring import Service
from learner import Batch, Change, Counterfactual, Evidence, Snapshot, Value

ABOUT = """
Explain the answer to one record: the tests on its way with the events that support each, what
naive Bayes weighs where it answers, and the **counterfactual**: the record with the fewest changes
(and of those the smallest) that gets the answer `target`, by default the runner-up. Features in
`frozen` stay as they are. Sent to `/predict`, the `features` of the counterfactual get its label
from the same snapshot.
""".strip()

EXAMPLE = {
    "features": {"salary": 52000, "commission": 0, "age": 31, "elevel": "e3", "car": "c7"},
}


class ExplainBody(msgspec.Struct):
    """What a client sends: a record, the answer it would rather have, what must not change."""

    features: dict[str, Any]
    target: Value | None = None
    frozen: list[str] = []


class ExplainedStep(msgspec.Struct):
    """One test on the way; numbers have a threshold, other tests a value."""

    node: int
    feature: str
    operator: str
    observed: Any
    branch: int
    support: float
    share: float
    threshold: float | UnsetType = UNSET
    value: Any | UnsetType = UNSET


class LogLikelihood(msgspec.Struct):
    """A logarithm to base 2 for one class; null: impossible."""

    label: Value
    value: float | None


class FeatureEvidence(msgspec.Struct):
    """What one feature says to naive Bayes: log2 P(observed | label)."""

    feature: str
    observed: Any
    log_likelihoods: list[LogLikelihood]


class FeatureChange(msgspec.Struct):
    """One feature before and after; of a list of tokens also what is new and what is gone."""

    feature: str
    before: Any = field(name="from")
    after: Any = field(name="to")
    added: list[Value] | UnsetType = UNSET
    removed: list[Value] | UnsetType = UNSET


class CounterfactualAnswer(msgspec.Struct):
    """The nearest record that is answered otherwise."""

    label: Value
    leaf: int
    changes: list[FeatureChange]
    features: dict[str, Any]
    distance: float
    exact: bool


class Explained(msgspec.Struct, kw_only=True):
    """The answer to a record, and why; `reason` says why there is no counterfactual."""

    snapshot: str
    label: Value | None
    probabilities: list[ClassProbability]
    leaf: int
    path: list[ExplainedStep]
    prior: list[LogLikelihood] | None
    bayes: list[FeatureEvidence] | None
    counterfactual: CounterfactualAnswer | None
    reason: str | None


BODY = msgspec.json.Decoder(ExplainBody)


def explain_router(service: Service) -> APIRouter:
    """Return the router of explanations."""
    router = APIRouter(tags=["predict"])

    @router.post(
        "/explain",
        summary="Explain the answer to one record",
        description=ABOUT,
        response_class=Response,
        responses={
            200: {
                "description": "The answer, and why.",
                "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/Explained"}}
                },
            },
            **responses(400, 404, 413, 415, 422, 503),
        },
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {
                    "application/json": {
                        "schema": {"$ref": "#/components/schemas/ExplainBody"},
                        "examples": {"one": {"summary": "One record", "value": EXAMPLE}},
                    }
                },
            }
        },
    )
    async def explain_route(
        request: Request, at: Annotated[str | None, Query(description=AT_ABOUT)] = None
    ) -> Response:
        require_json(request.scope)
        limit = service.settings.http.body_limit_bytes
        try:
            raw = await read_body(request.scope, request.receive, limit)
        except Disconnected:
            return Response(status_code=499)
        asked = decode_json(BODY, raw)
        published = chosen(service, at)
        found = await asyncio.to_thread(explain, published.snapshot, asked)
        return Response(
            msgspec.json.encode(found),
            headers=snapshot_headers(published),
            media_type="application/json",
        )

    return router


def explain(snapshot: Snapshot, asked: ExplainBody) -> Explained:
    """Return the answer to a record with its reasons; raises Refused or BadValue."""
    require_known(snapshot, asked)
    record = asked.features
    batch = snapshot.encode_records([record])
    (answer,) = predictions(snapshot, batch, Wanted())
    evidence = snapshot.explanation.evidence(batch)
    found, reason = counterfactual_of(snapshot, asked, answer)
    return Explained(
        snapshot=snapshot.id,
        label=answer.label,
        probabilities=answer.probabilities or [],
        leaf=answer.leaf,
        path=path_of(snapshot, batch, answer.leaf),
        prior=None if evidence is None else by_class(snapshot, evidence.log2_prior),
        bayes=None if evidence is None else bayes_of(snapshot, evidence),
        counterfactual=None if found is None else counterfactual_answer(found),
        reason=reason,
    )


def require_known(snapshot: Snapshot, asked: ExplainBody) -> None:
    """Refuse names that the model does not have: a slip would be taken for a wish (422)."""
    classes = snapshot.classes
    if asked.target is not None and asked.target not in classes:
        shown = ", ".join(map(repr, classes[:20])) + (", ..." if len(classes) > 20 else "")
        detail = (
            f"field 'target' is {asked.target!r:.80}; expected one of {shown or 'no class yet'}"
        )
        raise Refused(422, detail, field="target")
    names = {feature.name for feature in snapshot.schema.features}
    for name in asked.frozen:
        if name not in names:
            detail = f"field 'frozen' has {name!r:.80}; expected names of features, as in /schema"
            raise Refused(422, detail, field="frozen")


def path_of(snapshot: Snapshot, batch: Batch, leaf: int) -> list[ExplainedStep]:
    """Return the tests from the root to the leaf, each with the events that went the same way."""
    steps = snapshot.path(batch)
    support = snapshot.explanation.support(leaf)
    whole = max(support.values())
    found = []
    for step in steps:
        weight = support[step.branch]
        told = ExplainedStep(
            node=step.node,
            feature=step.feature,
            operator=step.operator,
            observed=plain(step.observed),
            branch=step.branch,
            support=weight,
            share=weight / whole if whole > 0.0 else 0.0,
        )
        if step.operator in ("<=", ">"):
            told.threshold = step.value
        else:
            told.value = plain(step.value)
        found.append(told)
    return found


def by_class(snapshot: Snapshot, logarithms: Collection[float]) -> list[LogLikelihood]:
    """Return one logarithm a class; JSON has no infinity."""
    return [
        LogLikelihood(label, value if math.isfinite(value) else None)
        for label, value in zip(snapshot.classes, logarithms, strict=True)
    ]


def bayes_of(snapshot: Snapshot, evidence: Evidence) -> list[FeatureEvidence]:
    """Return what every feature says."""
    return [
        FeatureEvidence(each.feature, each.observed, by_class(snapshot, each.log2_likelihoods))
        for each in evidence.factors
    ]


def counterfactual_of(
    snapshot: Snapshot, asked: ExplainBody, answer: Prediction
) -> tuple[Counterfactual | None, str | None]:
    """Return the nearest record with the wanted answer, or why there is none."""
    if answer.label is None:
        return None, "the model has seen no class yet"
    if asked.target is not None and asked.target == answer.label:
        return None, f"the answer is {shown(answer.label)} already"
    wanted = wanted_labels(asked.target, answer)
    found = snapshot.explanation.counterfactual(asked.features, wanted, asked.frozen)
    if found is not None:
        return found, None
    return None, _why_none(snapshot, asked.features, wanted, asked.frozen)


def wanted_labels(target: Value | None, answer: Prediction) -> list[Value]:
    """Return the answers that will do: the target, the runner-up, or any other if none is near."""
    if target is not None:
        return [target]
    others = [each for each in answer.probabilities or [] if each.label != answer.label]
    likeliest = max(others, key=lambda each: each.probability, default=None)
    if likeliest is not None and likeliest.probability > 0.0:
        return [likeliest.label]
    return [each.label for each in others]


def _why_none(
    snapshot: Snapshot, record: Mapping[str, Any], wanted: list[Value], frozen: list[str]
) -> str:
    if not wanted:
        return "the model knows one class only"
    target = shown(wanted[0]) if len(wanted) == 1 else "anything else"
    if frozen and snapshot.explanation.counterfactual(record, wanted) is not None:
        return f"the answer is {target} only if a frozen feature changes ({', '.join(frozen)})"
    if any(decision.by_bayes for decision in snapshot.explanation.decisions().values()):
        return (
            f"no record was found that is answered {target}; "
            "of the leaves that answer by naive Bayes only the nearest were tried"
        )
    return f"no leaf of this tree answers {target}"


def shown(label: object) -> str:
    """Return a label as JSON has it."""
    return msgspec.json.encode(label).decode()


def counterfactual_answer(found: Counterfactual) -> CounterfactualAnswer:
    """Return it as JSON has it."""
    return CounterfactualAnswer(
        label=found.label,
        leaf=found.leaf,
        changes=[feature_change(change) for change in found.changes],
        features=found.record,
        distance=found.distance,
        exact=found.exact,
    )


def feature_change(change: Change) -> FeatureChange:
    """Return one change as JSON has it."""
    told = FeatureChange(change.feature, change.before, change.after)
    if change.added or change.removed:
        told.added, told.removed = list(change.added), list(change.removed)
    return told
