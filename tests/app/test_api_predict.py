"""POST /predict: answers, and every way to be refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.api import create_app
from app.api.body import Disconnected, read_body
from tests.app.fake_service import FakeService, FakeSnapshot


def client_of(service: Any) -> TestClient:
    """Return a client of the service's API; a broken handler must answer, not raise."""
    return TestClient(create_app(service), raise_server_exceptions=False)


@pytest.fixture
def service() -> FakeService:
    """Return a service with a snapshot."""
    return FakeService(body_limit_bytes=2000, max_rows=600)


@pytest.fixture
def client(service: FakeService) -> TestClient:
    """Return a client of that service."""
    return client_of(service)


def assert_problem(answer: Any, status: int, detail: str, field: str | None = None) -> None:
    """Check the one shape of all errors."""
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert set(body) - {"field"} == {"type", "title", "status", "detail"}
    assert body["status"] == status
    assert detail in body["detail"]
    assert body.get("field") == field


def test_one_row_gets_one_answer_with_snapshot_and_leaf(client: TestClient) -> None:
    answer = client.post("/predict", json={"features": {"age": 52, "car": "small"}})

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["livetree-snapshot"] == "snap-1"
    assert float(answer.headers["livetree-snapshot-age-seconds"]) > 0
    assert answer.headers["livetree-snapshot-offsets"].startswith("events-0=")
    assert answer.json() == {
        "label": 7,
        "leaf": 2,
        "probabilities": [
            {"label": "yes", "probability": 0.25},
            {"label": 7, "probability": 0.75},
            {"label": True, "probability": 0.0},
        ],
        "snapshot": "snap-1",
    }


def test_many_rows_are_answered_in_their_order(client: TestClient) -> None:
    answer = client.post("/predict", json={"instances": [{"age": 52}, {"age": 12}, {}]})

    body = answer.json()
    assert set(body) == {"predictions", "snapshot"}
    assert [row["label"] for row in body["predictions"]] == [7, "yes", "yes"]


def test_one_instance_is_answered_as_a_list(client: TestClient) -> None:
    assert len(client.post("/predict", json={"instances": [{}]}).json()["predictions"]) == 1


def test_a_large_batch_gives_the_same_answers_as_a_small_one(client: TestClient) -> None:
    rows: list[dict[str, object]] = [{} for _ in range(600)]

    body = client.post("/predict?probabilities=false", json={"instances": rows}).json()

    assert body["predictions"] == [{"label": "yes", "leaf": 1}] * 600


def test_probabilities_can_be_left_out(client: TestClient) -> None:
    answer = client.post("/predict?probabilities=false", json={"features": {"age": 3}})

    assert answer.json() == {"label": "yes", "leaf": 1, "snapshot": "snap-1"}


def test_the_path_explains_the_answer(client: TestClient) -> None:
    answer = client.post("/predict?path=true&probabilities=0", json={"features": {"age": 3}})

    assert answer.json()["path"] == [
        {"node": 0, "feature": "age", "operator": "<=", "value": 40, "observed": 3, "branch": 0}
    ]


@pytest.mark.parametrize(
    ("rows", "query", "in_thread"),
    [(1000, "", False), (1100, "", True), (4, "?path=true", False), (5, "?path=true", True)],
)
def test_long_work_does_not_hold_up_the_probes(
    monkeypatch: pytest.MonkeyPatch, rows: int, query: str, in_thread: bool
) -> None:
    handed_over: list[int] = []

    async def to_thread(work: Any, published: Any, body: bytes, *more: Any) -> Any:
        handed_over.append(len(body))
        return work(published, body, *more)

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    client = client_of(FakeService())

    answer = client.post(f"/predict{query}", json={"instances": [{"age": 1}] * rows})

    assert len(answer.json()["predictions"]) == rows
    assert bool(handed_over) == in_thread


def test_the_path_of_a_missing_value_shows_null(client: TestClient) -> None:
    answer = client.post("/predict?path=1", json={"features": {"age": None}})

    assert answer.json()["path"][0]["observed"] is None


def test_names_the_model_does_not_know_are_ignored(client: TestClient) -> None:
    answer = client.post("/predict", json={"features": {"age": 3, "shoe": [1]}, "id": "r1"})

    assert answer.json()["label"] == "yes"


def test_a_model_without_classes_answers_null(service: FakeService, client: TestClient) -> None:
    service.publish(FakeSnapshot(classes=()))

    answer = client.post("/predict", json={"features": {}})

    assert answer.json()["label"] is None
    assert answer.json()["probabilities"] == []


@pytest.mark.parametrize(
    ("features", "detail", "field"),
    [
        ({"age": "abc"}, "feature 'age' is 'abc'; expected a number", "age"),
        ({"age": True}, "feature 'age' is True; expected a number", "age"),
        ({"car": ["x"]}, "feature 'car' is ['x']; expected", "car"),
        ({"words": 5}, "feature 'words' is 5; expected a list of tokens", "words"),
    ],
)
def test_a_wrong_type_names_the_feature(
    client: TestClient, features: dict[str, object], detail: str, field: str
) -> None:
    assert_problem(client.post("/predict", json={"features": features}), 422, detail, field)


def test_a_wrong_type_in_a_batch_names_the_row_too(client: TestClient) -> None:
    answer = client.post("/predict", json={"instances": [{"age": 1}, {"age": "abc"}]})

    detail = "instances[1]: feature 'age' is 'abc'; expected a number"
    assert_problem(answer, 422, detail, "instances[1].age")


@pytest.mark.parametrize(
    ("body", "status", "detail", "field"),
    [
        (b"", 400, "body is not valid JSON", None),
        (b"{", 400, "body is not valid JSON", None),
        (b'{"features": {"age": NaN}}', 400, "body is not valid JSON", None),
        (b'{"features": {"car": "\xff"}}', 400, "body is not valid JSON", None),
        (b"[1]", 422, "body: expected `object`, got `array`", None),
        (b"null", 422, "body: expected `object`, got `null`", None),
        (b"{}", 422, "body has neither 'features' nor 'instances'", None),
        (b'{"age": 3}', 422, "body has neither 'features' nor 'instances'", None),
        (b'{"features": {}, "instances": [{}]}', 422, "expected one of them", None),
        (b'{"features": null}', 422, "field 'features': expected `object`", "features"),
        (b'{"features": [1]}', 422, "field 'features': expected `object`", "features"),
        (b'{"instances": {}}', 422, "field 'instances': expected `array`", "instances"),
        (b'{"instances": [1]}', 422, "field 'instances[0]': expected `object`", "instances[0]"),
        (b'{"instances": []}', 422, "'instances' is empty", "instances"),
        (b'{"features": {"age": 1e999}}', 422, "number out of range", "features[...]"),
    ],
)
def test_a_body_of_the_wrong_shape_is_refused_with_the_place(
    client: TestClient, body: bytes, status: int, detail: str, field: str | None
) -> None:
    answer = client.post("/predict", content=body, headers={"content-type": "application/json"})

    assert_problem(answer, status, detail, field)


def test_deep_nesting_is_refused() -> None:
    client = client_of(FakeService())
    body = b'{"features": {"words": ' + b"[" * 50_000 + b"]" * 50_000 + b"}}"

    assert_problem(client.post("/predict", content=body), 400, "nested too deeply")


@pytest.mark.parametrize("query", ["path=maybe", "probabilities="])
def test_a_wrong_query_parameter_is_named(client: TestClient, query: str) -> None:
    answer = client.post(f"/predict?{query}", json={"features": {}})

    name = query.split("=")[0]
    assert_problem(answer, 422, f"query parameter '{name}' is", name)


@pytest.mark.parametrize("given", ["text/plain", "application/x-www-form-urlencoded", "a/b+json"])
def test_another_content_type_is_refused(client: TestClient, given: str) -> None:
    answer = client.post("/predict", content=b'{"features": {}}', headers={"content-type": given})

    assert_problem(answer, 415, f"content-type is '{given}'; expected application/json")


@pytest.mark.parametrize("given", ["application/json; charset=utf-8", "application/vnd.x+json"])
def test_json_by_other_names_is_read(client: TestClient, given: str) -> None:
    answer = client.post("/predict", content=b'{"features": {}}', headers={"content-type": given})

    assert answer.status_code == 200


def test_too_many_rows_are_refused(client: TestClient) -> None:
    client = client_of(FakeService(max_rows=2))

    answer = client.post("/predict", json={"instances": [{}, {}, {}]})

    assert_problem(answer, 413, "'instances' has 3 rows; expected at most 2", "instances")


def test_a_body_that_announces_too_many_bytes_is_refused(client: TestClient) -> None:
    answer = client.post("/predict", content=b" " * 2001)

    assert_problem(answer, 413, "body is 2001 bytes; expected at most 2000 bytes")
    assert answer.headers["connection"] == "close"


def test_a_body_that_arrives_in_too_many_pieces_is_refused(client: TestClient) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(30):
            yield b" " * 100

    assert_problem(client.post("/predict", content=pieces()), 413, "expected at most 2000 bytes")


def test_the_limit_is_enforced_before_the_rest_has_arrived() -> None:
    sent = 0

    async def receive() -> dict[str, Any]:
        nonlocal sent
        sent += 1
        return {"type": "http.request", "body": b" " * 100, "more_body": True}

    with pytest.raises(Exception, match="expected at most 250 bytes"):
        asyncio.run(read_body({"headers": []}, receive, 250))
    assert sent == 3


def test_a_client_that_leaves_is_not_answered() -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    with pytest.raises(Disconnected):
        asyncio.run(read_body({"headers": []}, receive, 250))


def test_before_the_first_snapshot_the_service_is_not_ready() -> None:
    answer = client_of(FakeService(published=False)).post("/predict", json={"features": {}})

    assert_problem(answer, 503, "no snapshot has been published yet")


def test_rows_are_counted_by_outcome(service: FakeService, client: TestClient) -> None:
    client.post("/predict", json={"instances": [{}, {}]})
    client.post("/predict", json={})

    text = service.metrics.render()[0].decode()
    assert 'livetree_predictions_total{model="fake",outcome="answered"} 2.0' in text
    assert 'livetree_predictions_total{model="fake",outcome="refused"} 1.0' in text
