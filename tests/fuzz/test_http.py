"""Requests made from the API's own description, and requests near what the model knows.

The API over a real tree: no answer is a fault of ours, none has a status, a type or a shape that
the description does not name, and none changes the model.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import cache
from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import positive_data_acceptance
from starlette.testclient import TestClient

from app.api import create_app
from app.question import Questions
from learner import Encoder, LeafCopy, StreamingTree
from tests.app.fake_service import FakeService
from tests.fuzz.model import EAGER, MIXED, teach
from tests.fuzz.test_decode import deep_values, odd_texts

LONGER = int(os.environ.get("FUZZ_TIMES", "1"))  # times as many examples
HTTP = {"body_limit_bytes": 20_000, "max_rows": 50}
NAMES = [feature.name for feature in MIXED.schema().features]


@cache
def tree() -> StreamingTree:
    """A tree with tests of every kind, and naive Bayes at its leaves."""
    made = StreamingTree(Encoder(MIXED.schema()), "vfdt", **EAGER, leaf_predictor="nb")
    teach(made, MIXED, 2000)
    return made


class AtOnce(Questions):
    """A learner that always has time."""

    def ask(self, leaf: int) -> Future[LeafCopy]:
        """Ask, and answer."""
        asked = super().ask(leaf)
        self.answer(tree())
        return asked


@cache
def app() -> FastAPI:
    service = FakeService(**HTTP)
    service.questions = AtOnce()
    service.publish(tree().snapshot())
    return create_app(service)  # type: ignore[arg-type]


@cache
def starting_app() -> FastAPI:
    """The API before there is a model, and with a learner that has failed."""
    service = FakeService(published=False, **HTTP)
    service.living = False
    return create_app(service)  # type: ignore[arg-type]


@cache
def described(api: Callable[[], FastAPI]) -> Any:
    return schemathesis.openapi.from_asgi("/openapi.json", api())


@pytest.fixture(scope="module", autouse=True)
def _model_stays_as_it_is() -> Iterator[None]:
    before = tree().hash(), answers_of_the_model()
    yield
    assert (tree().hash(), answers_of_the_model()) == before


def answers_of_the_model() -> str:
    """One name for all that the served snapshot says."""
    client = TestClient(app())
    rows = [dict(zip(NAMES, row, strict=True)) for row, _, _ in MIXED.events(50)]
    said = client.get("/tree").content + client.get("/schema").content
    said += client.post("/predict", json={"instances": rows}).content
    return hashlib.sha256(said).hexdigest()


ENDLESS = {"/live"}  # tests/app/test_api_live.py
BY_THE_MODEL = {"/explain"}  # which features and labels there are, only the model knows
OPERATIONS = [
    (path, method.upper())
    for path, methods in create_app(FakeService()).openapi()["paths"].items()  # type: ignore[arg-type]
    for method in methods
    if path not in ENDLESS
]
MODES = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]


@pytest.mark.parametrize("mode", MODES, ids=["as described", "not as described"])
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_the_api_does_what_its_description_says(
    path: str, method: str, mode: GenerationMode
) -> None:
    operation = described(app)[path][method]

    # Of a route whose only parameters are texts in its path nothing can be wrong.
    @settings(max_examples=300 * LONGER, suppress_health_check=[HealthCheck.filter_too_much])
    @given(case=operation.as_strategy(generation_mode=mode))
    def each(case: Any) -> None:
        beyond = [positive_data_acceptance] if path in BY_THE_MODEL else []
        case.call_and_validate(excluded_checks=beyond)

    try:
        each()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_before_there_is_a_model_too(path: str, method: str) -> None:
    operation = described(starting_app)[path][method]

    @settings(max_examples=30 * LONGER)
    @given(case=operation.as_strategy())
    def each(case: Any) -> None:
        response = case.call()
        assert response.status_code != 500
        case.validate_response(response, excluded_checks=[not_a_server_error])

    each()


rows = st.dictionaries(st.sampled_from(NAMES) | odd_texts, deep_values, max_size=6)
bodies = st.one_of(
    rows.map(lambda row: {"features": row}),
    st.lists(rows, max_size=60).map(lambda many: {"instances": many}),
    st.fixed_dictionaries({}, optional={"features": deep_values, "instances": deep_values}),
    deep_values,
)
queries = st.sampled_from(
    [
        "",
        "?path=true",
        "?path=1&probabilities=false",
        "?path=maybe",
        "?path=%ff",
        "?path=true&path=",
    ]
)


@settings(max_examples=400 * LONGER)
@given(body=bodies, query=queries)
def test_any_row_is_answered_or_refused_as_described(body: object, query: str) -> None:
    client = TestClient(app())
    operation = described(app)["/predict"]["POST"]

    raw = json.dumps(body).encode()
    answer = client.post(
        "/predict" + query, content=raw, headers={"content-type": "application/json"}
    )

    assert answer.status_code in (200, 400, 413, 422)
    operation.validate_response(schemathesis.Response.from_any(answer))
    if answer.status_code == 200 and "probabilities=false" not in query:
        given_ = answer.json()
        for prediction in given_.get("predictions", [given_]):
            total = sum(each["probability"] for each in prediction["probabilities"])
            assert total == pytest.approx(1.0)


@pytest.mark.parametrize("x", [1e154, 1e200, -1e308, 1.7976931348623157e308, 10**400])
def test_a_value_beyond_all_that_was_seen_still_has_probabilities(x: float) -> None:
    row = dict.fromkeys(NAMES[:3], x)
    numeric = {k: v for k, v in row.items() if MIXED.kinds[NAMES.index(k)] == "numeric"}

    given_ = TestClient(app()).post("/predict", content=json.dumps({"features": numeric})).json()

    assert sum(each["probability"] for each in given_["probabilities"]) == pytest.approx(1.0)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "gzip, identity", "\xff"])
def test_a_packed_body_is_refused(encoding: str) -> None:
    answer = TestClient(app()).post(
        "/predict",
        content=b"\x1f\x8b\x08",
        headers={
            "content-type": "application/json",
            "content-encoding": encoding.encode("latin-1"),
        },
    )

    assert answer.status_code == 415
    assert "content-encoding" in answer.json()["detail"]
