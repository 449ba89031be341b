"""GET /splits: the record of changes, page by page."""

from __future__ import annotations

from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from app.history import History
from tests.app.fake_service import FakeService
from tests.app.test_api_predict import assert_problem, client_of
from tests.app.test_history import TIME, record


@pytest.fixture
def service() -> FakeService:
    """Return a service whose tree has changed seven times."""
    service = FakeService()
    history = History(100)
    history.add([record("bound", event=10), record("tie", event=12)], {"t-0": 20}, TIME)
    history.add([record("deactivate", event=30)] * 5, {"t-0": 40}, TIME, skipped=3)
    published = service.serving.current()
    assert published is not None
    service.serving.publish(replace(published, changes=history.changes()))
    return service


@pytest.fixture
def client(service: FakeService) -> TestClient:
    """Return a client of that service."""
    return client_of(service)


def test_changes_come_in_order_with_their_batch(client: TestClient) -> None:
    answer = client.get("/splits")
    body = answer.json()

    assert answer.headers["livetree-snapshot"] == body["snapshot"] == "snap-1"
    assert (body["total"], body["skipped"], body["first"], body["next"]) == (7, 3, 1, 7)
    assert [change["sequence"] for change in body["changes"]] == [1, 2, 3, 4, 5, 6, 7]
    first = body["changes"][0]
    assert (first["action"], first["reason"], first["event"]) == ("split", "bound", 10)
    assert (first["offsets"], first["time"]) == ({"t-0": 20}, TIME)
    assert body["changes"][2]["merit"] is None


def test_pages_follow_one_another_to_the_end(client: TestClient) -> None:
    found, after = [], 0
    while changes := (body := client.get(f"/splits?after={after}&limit=3").json())["changes"]:
        found += [change["sequence"] for change in changes]
        after = body["next"]

    assert found == [1, 2, 3, 4, 5, 6, 7]
    assert after == body["next"] == 7


def test_without_a_number_the_newest_come(client: TestClient) -> None:
    body = client.get("/splits?limit=2").json()

    assert [change["sequence"] for change in body["changes"]] == [6, 7]
    assert body["next"] == 7


def test_a_tree_that_never_changed_has_an_empty_record() -> None:
    body = client_of(FakeService()).get("/splits").json()

    assert body == {
        "snapshot": "snap-1", "total": 0, "skipped": 0, "first": 1, "next": 0, "changes": []
    }  # fmt: skip


@pytest.mark.parametrize(
    ("query", "field"), [("limit=0", "limit"), ("limit=1001", "limit"), ("after=-1", "after")]
)
def test_a_wrong_number_is_named(client: TestClient, query: str, field: str) -> None:
    given = query.split("=")[1]

    expected = f"query parameter '{field}' is '{given}'; expected"
    assert_problem(client.get(f"/splits?{query}"), 422, expected, field)


def test_the_example_in_the_description_looks_like_an_answer(client: TestClient) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    body = client.get("/splits").json()

    (example,) = schemas["Splits"]["examples"]
    assert example.keys() == schemas["Splits"]["properties"].keys() == body.keys()
    change = body["changes"][0]
    assert example["changes"][0].keys() == schemas["Change"]["properties"].keys() == change.keys()
