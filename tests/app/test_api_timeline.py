"""Earlier snapshots over HTTP: listed, asked for, compared."""

from __future__ import annotations

import numpy as np
import pytest
from starlette.testclient import TestClient

from app.timeline import Timeline
from learner import Encoder, StreamingTree
from streams import open_stream
from tests.app.fake_service import FakeService
from tests.app.test_api_predict import assert_problem, client_of
from tests.app.test_api_real_model import rows

START = 1_700_000_000.0
STEPS = 6  # snapshots, 30 seconds and 2,000 events apart


@pytest.fixture(scope="module", params=["mc", "nba"])
def service(request: pytest.FixtureRequest) -> FakeService:
    """Return a service that has published some snapshots of a growing tree."""
    found = FakeService(published=False, timeline=Timeline(4, every_seconds=30))
    stream = open_stream("agrawal", seed=5)
    tree = StreamingTree(Encoder(stream.schema), n_min=50.0, leaf_predictor=request.param)
    for step in range(STEPS):
        tree.learn(*stream.take(2000))
        found.publish(tree.snapshot(), START + 30 * step, 2000 * (step + 1))
        if step == STEPS - 1:
            tree.learn(*stream.take(10))
            found.publish(tree.snapshot(), START + 30 * step + 1, 2000 * STEPS + 10)
    return found


@pytest.fixture(scope="module")
def client(service: FakeService) -> TestClient:
    """Return a client of that service."""
    return client_of(service)


def ids(client: TestClient) -> list[str]:
    return [each["id"] for each in client.get("/snapshots").json()["snapshots"]]


def test_the_snapshots_are_listed_the_newest_first(client: TestClient) -> None:
    body = client.get("/snapshots").json()

    assert body["current"] == body["snapshots"][0]["id"] == "vfdt-12010"
    assert len(body["snapshots"]) == 5
    assert body["snapshots"][-1] == {
        **body["snapshots"][-1],
        "id": "vfdt-2000",
        "events": 2000,
        "published_at": START,
        "time": "2023-11-14T22:13:20.000Z",
        "offsets": {"events-0": 2000},
        "accuracy": 0.9,
    }
    assert body["snapshots"][-1]["nodes"] < body["snapshots"][0]["nodes"]
    assert body["held_bytes"] > 1000


def test_the_example_in_the_description_looks_like_a_real_answer(client: TestClient) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    example, body = schemas["Snapshots"]["examples"][0], client.get("/snapshots").json()

    assert example.keys() == body.keys()
    assert example["snapshots"][0].keys() == body["snapshots"][0].keys()


@pytest.mark.parametrize("at", ["vfdt-2000", "events:1", "events-0:1999", "2023-11-14T22:13:20Z"])
def test_an_earlier_tree_can_be_asked_for(client: TestClient, at: str) -> None:
    answer = client.get("/tree", params={"at": at})

    assert answer.json()["snapshot"] == "vfdt-2000"
    assert answer.headers["livetree-snapshot"] == "vfdt-2000"
    assert answer.json()["events"] == 2000
    again = client.get(
        "/tree", params={"at": at}, headers={"if-none-match": answer.headers["etag"]}
    )
    assert again.status_code == 304
    assert client.get("/tree").json()["snapshot"] == "vfdt-12010"


@pytest.mark.parametrize("form", ["text", "dot", "mermaid", "svg", "html"])
def test_an_earlier_tree_comes_in_every_format(client: TestClient, form: str) -> None:
    answer = client.get("/tree", params={"at": "vfdt-2000", "format": form})

    assert answer.status_code == 200
    assert "2,000 events" in answer.text
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


def test_predictions_of_an_earlier_snapshot_are_those_it_gave(
    client: TestClient, service: FakeService
) -> None:
    asked = rows(300)
    for published in service.serving.held():
        snapshot = published.snapshot
        codes, probabilities, leaves = snapshot.evaluate(snapshot.encode_records(asked))

        given = client.post("/predict", params={"at": snapshot.id}, json={"instances": asked})

        found = given.json()["predictions"]
        assert given.headers["livetree-snapshot"] == snapshot.id
        assert given.json()["snapshot"] == snapshot.id
        assert [each["label"] for each in found] == [snapshot.classes[code] for code in codes]
        assert [each["leaf"] for each in found] == leaves.tolist()
        told = [[each["probability"] for each in one["probabilities"]] for one in found]
        np.testing.assert_array_equal(told, probabilities)
        one = client.post(
            "/predict", params={"at": snapshot.id, "path": "true"}, json={"features": asked[0]}
        ).json()
        assert one["label"] == found[0]["label"]
        assert one["path"] or snapshot.shape.nodes == 1


def test_readers_of_an_earlier_snapshot_leave_nothing_behind(
    client: TestClient, service: FakeService
) -> None:
    held = service.serving.held()[-1]
    before = held.snapshot._row_walk._stops.copy(), held.snapshot._answering._plan

    client.post("/predict?at=vfdt-2000", json={"instances": rows(500)})
    client.post("/predict?at=vfdt-2000", json={"features": rows(1)[0]})

    assert (held.snapshot._row_walk._stops, held.snapshot._answering._plan) == before
    assert held.kept == {}


def test_an_unknown_snapshot_is_not_found_and_says_what_is_held(client: TestClient) -> None:
    what = "held are 5, from vfdt-2000 (2023-11-14T22:13:20.000Z) to vfdt-12010"
    for answer in (
        client.get("/tree?at=vfdt-1"),
        client.post("/predict?at=vfdt-1", json={"features": {}}),
        client.get("/tree/diff?from=vfdt-1"),
        client.get("/tree/diff?to=vfdt-1"),
    ):
        assert_problem(answer, 404, "at is 'vfdt-1'; no snapshot is that")
        assert what in answer.json()["detail"]


def test_a_time_that_cannot_be_read_names_the_parameter(client: TestClient) -> None:
    words = "is '2023-11-14'; expected a time with its zone"
    for answer, name in (
        (client.get("/tree?at=2023-11-14"), "at"),
        (client.post("/predict?at=2023-11-14", json={"features": {}}), "at"),
        (client.get("/tree/diff?from=2023-11-14"), "from"),
        (client.get("/tree/diff?to=2023-11-14"), "to"),
    ):
        assert_problem(answer, 422, f"query parameter '{name}' {words}", name)


def test_two_snapshots_are_compared(client: TestClient) -> None:
    whole = client.get("/tree/diff").json()
    named = client.get("/tree/diff", params={"from": "vfdt-2000", "to": "vfdt-12010"}).json()
    oldest = {node["id"] for node in client.get("/tree?at=vfdt-2000").json()["nodes"]}
    newest = {node["id"] for node in client.get("/tree").json()["nodes"]}

    assert whole == named
    assert {node["id"] for node in whole["added"]} == newest - oldest
    assert whole["removed"] == []
    assert whole["summary"]["added"] == len(newest - oldest) > 0
    assert whole["summary"]["split"] > 0


def test_the_difference_comes_as_text(client: TestClient) -> None:
    answer = client.get("/tree/diff?format=text&from=events:1&share=1")

    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.text.startswith("vfdt-2000 to vfdt-12010: 10,010 events, ")
    assert "share" not in answer.text
    assert "a leaf has split on" in answer.text


@pytest.mark.parametrize("query", ["share=-1", "share=2", "share=x", "format=svg"])
def test_a_wrong_query_of_the_difference_is_refused(client: TestClient, query: str) -> None:
    name, given = query.split("=")

    assert_problem(
        client.get(f"/tree/diff?{query}"), 422, f"query parameter '{name}' is '{given}'", name
    )


@pytest.mark.parametrize("path", ["/snapshots", "/tree/diff", "/tree?at=vfdt-1"])
def test_nothing_is_read_before_the_first_snapshot(path: str) -> None:
    answer = client_of(FakeService(published=False)).get(path)

    assert_problem(answer, 503, "no snapshot has been published yet")


def test_without_a_timeline_there_is_the_current_one_alone() -> None:
    client = client_of(FakeService())

    assert ids(client) == ["snap-1"]
    assert client.get("/tree?at=snap-1").status_code == 200
    assert client.get("/tree/diff").json()["summary"]["changed"] == 0
