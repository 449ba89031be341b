"""The description of the API: complete, consistent, with examples that work."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.api.problems import is_v2
from tests.app.fake_service import FakeService
from tests.app.test_api_predict import client_of

PATHS = {
    "/",
    "/predict",
    "/explain",
    "/export",
    "/tree",
    "/tree/diff",
    "/snapshots",
    "/splits",
    "/leaves/{id}",
    "/model",
    "/schema",
    "/stats",
    "/live",
    "/livez",
    "/healthz",
    "/readyz",
    "/metrics",
    "/docs",
    "/v2",
    "/v2/health/live",
    "/v2/health/ready",
    *(
        f"/v2/models/{{model}}{version}{what}"
        for version in ("", "/versions/{version}")
        for what in ("", "/ready", "/infer")
    ),
}


@pytest.fixture(scope="module")
def client() -> TestClient:
    """Return a client."""
    return client_of(FakeService())


@pytest.fixture(scope="module")
def document(client: TestClient) -> dict[str, Any]:
    """Return the description."""
    found: dict[str, Any] = client.get("/openapi.json").json()
    return found


def test_every_route_is_described(document: dict[str, Any]) -> None:
    assert set(document["paths"]) == PATHS
    assert document["openapi"].startswith("3.1")


def test_every_operation_has_a_tag_a_summary_and_words(document: dict[str, Any]) -> None:
    tags = {tag["name"] for tag in document["tags"]}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert set(operation["tags"]) <= tags, path
            assert operation["summary"], path
            assert operation["description"], path


def test_operation_ids_are_unique(document: dict[str, Any]) -> None:
    ids = [op["operationId"] for path in document["paths"].values() for op in path.values()]

    assert len(ids) == len(set(ids))


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    text = json.dumps(document)
    wanted = set(re.findall(r'"#/components/schemas/([^"]+)"', text))

    assert wanted <= set(document["components"]["schemas"])
    assert {"PredictBody", "SingleAnswer", "ManyAnswer", "Tree", "Model", "Schema"} <= wanted


def test_predict_documents_its_refusals(document: dict[str, Any]) -> None:
    responses = document["paths"]["/predict"]["post"]["responses"]

    assert {"200", "400", "413", "415", "422", "503"} <= set(responses)
    for status in ("400", "413", "415", "422", "503"):
        assert "application/problem+json" in responses[status]["content"]


def test_errors_are_documented_in_the_one_shape(document: dict[str, Any]) -> None:
    for path, operations in document["paths"].items():
        for operation in operations.values():
            for status, answer in operation["responses"].items():
                if int(status) >= 400:
                    kind = "application/json" if is_v2(path) else "application/problem+json"
                    assert list(answer["content"]) == [kind], path
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_the_examples_of_predict_are_accepted(client: TestClient, document: dict[str, Any]) -> None:
    body = document["paths"]["/predict"]["post"]["requestBody"]
    examples = body["content"]["application/json"]["examples"]

    for example in examples.values():
        assert client.post("/predict", json=example["value"]).status_code == 200


def test_the_page_with_the_description_is_served(client: TestClient) -> None:
    assert client.get("/docs").status_code == 200
