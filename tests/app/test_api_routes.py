"""Every route besides /predict, the probes, and the one shape of errors."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from app.api import create_app
from app.errors import SourceError
from tests.app.fake_service import FakeService
from tests.app.test_api_predict import assert_problem, client_of

ENDLESS = {"/live"}
NEEDS_A_TREE = {"/export"}  # the snapshot of the fake has none
READS_THE_MODEL = ("/tree", "/splits", "/model", "/schema")


@pytest.fixture
def service() -> FakeService:
    """Return a service with a snapshot."""
    return FakeService()


@pytest.fixture
def client(service: FakeService) -> TestClient:
    """Return a client of that service."""
    return client_of(service)


def test_the_index_names_routes_that_exist(client: TestClient) -> None:
    for entry in client.get("/").json()["routes"]:
        method, path = entry.split()
        if method == "GET" and path not in ENDLESS | NEEDS_A_TREE and "{" not in path:
            assert client.get(path).status_code == 200


def test_the_index_names_every_route(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    own = (path for path in paths if not path.startswith("/v2/"))  # "/v2" stands for those
    described = {f"{method.upper()} {path}" for path in own for method in paths[path]}

    # The page asks the index what the service can do.
    assert described - {"GET /healthz"} <= set(client.get("/").json()["routes"])


def test_the_tree_comes_as_json(client: TestClient) -> None:
    answer = client.get("/tree")

    assert answer.headers["content-type"] == "application/json"
    assert [node["id"] for node in answer.json()["nodes"]] == [0, 1, 2]


def test_the_tree_comes_as_text(client: TestClient) -> None:
    answer = client.get("/tree?format=text")

    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert "#0 split on age" in answer.text


def test_the_tree_comes_as_dot(client: TestClient) -> None:
    answer = client.get("/tree?format=dot")

    assert answer.headers["content-type"].startswith("text/vnd.graphviz")
    assert answer.text.startswith("digraph")


def test_part_of_the_tree_can_be_asked_for(client: TestClient) -> None:
    assert [node["id"] for node in client.get("/tree?depth=0").json()["nodes"]] == [0]
    assert [node["id"] for node in client.get("/tree?node=2").json()["nodes"]] == [2]


def test_an_unknown_node_is_not_found(client: TestClient) -> None:
    assert_problem(client.get("/tree?node=99"), 404, "node 99 is not in the tree")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("format=pdf", "format"),
        ("depth=-1", "depth"),
        ("depth=x", "depth"),
        ("node=99999999999999999999", "node"),
    ],
)
def test_a_wrong_query_names_the_parameter(client: TestClient, query: str, field: str) -> None:
    given = query.split("=")[1]

    assert_problem(
        client.get(f"/tree?{query}"),
        422,
        f"query parameter '{field}' is '{given}'; expected",
        field,
    )


def test_a_tree_that_has_not_changed_is_not_sent_again(client: TestClient) -> None:
    tag = client.get("/tree").headers["etag"]

    again = client.get("/tree", headers={"if-none-match": tag})

    assert again.status_code == 304
    assert again.content == b""
    assert client.get("/tree", headers={"if-none-match": '"older"'}).status_code == 200


def test_the_model_says_what_it_is_and_how_far_it_has_come(client: TestClient) -> None:
    body = client.get("/model").json()

    assert body["name"] == "fake"
    assert body["variant"] == "vfdt"
    assert body["params"] == {"n_min": 200.0, "criterion": "info_gain"}
    assert body["events"] == 120
    assert body["counters"]["split_attempts"] == 4
    assert body["shape"]["leaves"] == 2
    assert body["memory_bytes"] == 4096
    assert body["accuracy"] == 0.9
    assert body["window"] == {"events": 1000, "accuracy": 0.95, "kappa": None}
    assert body["offsets"] == {"events-0": 120}
    assert body["snapshot"]["id"] == "snap-1"
    assert body["snapshot"]["age_seconds"] > 0


def test_the_schema_lists_features_and_classes_with_their_types(client: TestClient) -> None:
    body = client.get("/schema").json()

    assert body["features"][1] == {"name": "car", "kind": "nominal", "values": ["small", "large"]}
    assert body["classes"] == ["yes", 7, True]


@pytest.mark.parametrize("path", READS_THE_MODEL)
def test_nothing_is_read_before_the_first_snapshot(path: str) -> None:
    answer = client_of(FakeService(published=False)).get(path)

    assert_problem(answer, 503, "no snapshot has been published yet")


@pytest.mark.parametrize("path", ["/livez", "/healthz"])
def test_liveness_follows_the_learning_loop(
    service: FakeService, client: TestClient, path: str
) -> None:
    assert client.get(path).json() == {"alive": True}

    service.living = False

    answer = client.get(path)
    assert answer.status_code == 503
    assert answer.json()["alive"] is False


def test_ready_only_with_a_snapshot() -> None:
    service = FakeService(published=False)
    client = client_of(service)

    answer = client.get("/readyz")

    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["ready"] is False
    assert answer.json()["detail"] == "no snapshot has been published yet"


def test_not_ready_while_shutting_down(service: FakeService, client: TestClient) -> None:
    assert client.get("/readyz").json() == {"ready": True}

    service.begin_shutdown()

    assert client.get("/readyz").json()["detail"] == "shutting down"
    assert client.get("/livez").status_code == 200


def test_unknown_paths_and_methods_have_the_one_shape(client: TestClient) -> None:
    assert_problem(client.get("/nowhere"), 404, "path is '/nowhere'; expected one of those")
    assert_problem(client.get("/predict"), 405, "method is GET; expected POST for '/predict'")
    assert_problem(client.post("/tree"), 405, "method is POST; expected GET for '/tree'")
    assert client.get("/predict").headers["allow"] == "POST"


def test_an_unexpected_failure_tells_nothing_and_is_logged(
    service: FakeService, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[str] = []

    def broken() -> Any:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(service.serving, "current", broken)
    monkeypatch.setattr("app.api.observe.log.exception", lambda event, **_: logged.append(event))

    for answer in (client.get("/tree"), client.post("/predict", json={"features": {}})):
        assert_problem(answer, 500, "the service failed on this request")
        assert "secret" not in answer.text
    assert logged == ["request failed", "request failed"]


def test_our_own_errors_keep_their_status(
    service: FakeService, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing() -> Any:
        raise SourceError("the broker went away")

    monkeypatch.setattr(service.serving, "current", failing)

    assert_problem(client.get("/model"), 503, "the broker went away")


def test_requests_are_measured_under_bounded_labels(
    service: FakeService, client: TestClient
) -> None:
    client.get("/tree")
    client.get("/a")
    client.get("/b")
    client.post("/predict", json={"features": {}})
    client.request("BREW", "/tree")

    text = client.get("/metrics").text
    assert 'http_requests_total{code="200",method="GET",route="/tree"} 1.0' in text
    assert 'http_requests_total{code="404",method="GET",route="unmatched"} 2.0' in text
    assert 'http_requests_total{code="200",method="POST",route="/predict"} 1.0' in text
    assert 'http_requests_total{code="405",method="other",route="/tree"} 1.0' in text
    assert "http_requests_in_progress 1.0" in text
    assert 'http_request_duration_seconds_count{method="GET",route="/tree"} 1.0' in text


def test_metrics_come_in_the_format_of_prometheus(client: TestClient) -> None:
    answer = client.get("/metrics")

    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert "livetree_events_learned_total" in answer.text


def test_the_api_can_be_created_twice() -> None:
    assert create_app(FakeService()).routes  # type: ignore[arg-type]
    assert create_app(FakeService()).routes  # type: ignore[arg-type]
