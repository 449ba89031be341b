"""Who gets through to the API, and what the others are told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.api import create_app
from app.api.access import PROBES
from tests.app.fake_service import FakeService
from tests.app.test_api_predict import assert_problem, client_of

KEY, OTHER = "a-key-of-this-test-1", "a-key-of-this-test-2"
ROW = {"features": {"age": 52}}
CLOSED = ("/", "/tree", "/model", "/schema", "/docs", "/openapi.json", "/no-such-path")


def service_with(**auth: Any) -> FakeService:
    return FakeService(auth={"keys": [KEY, OTHER], **auth})


@pytest.fixture
def service() -> FakeService:
    """Return a service with two keys."""
    return service_with()


@pytest.fixture
def client(service: FakeService) -> TestClient:
    """Return a client of that service, without a key."""
    return client_of(service)


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.mark.parametrize(
    "headers",
    [
        bearer(KEY),
        bearer(OTHER),
        {"x-api-key": KEY},
        {"Authorization": f"bearer  {KEY}"},
        {"authorization": "Basic cHJveHk6cHJveHk=", "x-api-key": KEY},
        {"authorization": "Bearer a-token-for-the-proxy", "x-api-key": KEY},
        {"authorization": f"Bearer {KEY}", "x-api-key": "a-key-for-the-proxy"},
    ],
)
def test_a_key_in_either_header_opens_the_api(client: TestClient, headers: dict[str, str]) -> None:
    assert client.post("/predict", json=ROW, headers=headers).json()["label"] == 7
    assert client.get("/model", headers=headers).status_code == 200


@pytest.mark.parametrize("path", CLOSED)
def test_everything_else_is_closed(client: TestClient, path: str) -> None:
    answer = client.get(path)

    assert_problem(answer, 401, "the request has no key; expected one in 'Authorization: Bearer")
    assert answer.headers["www-authenticate"] == 'Bearer realm="livetree"'


def test_the_fast_lane_is_closed_too(client: TestClient) -> None:
    answer = client.post("/predict", json=ROW)

    assert_problem(answer, 401, "the request has no key")
    assert client.post("/predict/", json=ROW).status_code == 401
    assert client.put("/predict", json=ROW).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [bearer("not-a-key-of-this-test"), bearer(KEY[:-1]), {"x-api-key": f"{KEY}x"}],
)
def test_a_wrong_key_is_told_so_and_not_repeated(
    client: TestClient, headers: dict[str, str]
) -> None:
    answer = client.post("/predict", json=ROW, headers=headers)

    assert_problem(answer, 401, "the key is not one that is accepted")
    assert answer.headers["www-authenticate"] == 'Bearer realm="livetree", error="invalid_token"'
    assert not any(value.removeprefix("Bearer ") in answer.text for value in headers.values())


@pytest.mark.parametrize("value", ["Basic a2V5OmtleQ==", "Bearer", "Bearer ", KEY, f"Token {KEY}"])
def test_a_header_of_another_scheme_is_no_key(client: TestClient, value: str) -> None:
    assert_problem(client.get("/model", headers={"authorization": value}), 401, "has no key")


def test_a_key_in_the_address_is_none(client: TestClient) -> None:
    assert client.get(f"/model?api_key={KEY}&key={KEY}").status_code == 401


@pytest.mark.parametrize("path", sorted(PROBES))
def test_probes_stay_open(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 200
    assert client.get(f"{path}/").status_code == 401
    assert client.get(f"{path}%2F..%2Fmodel").status_code == 401


def test_metrics_and_docs_have_switches_of_their_own() -> None:
    def codes(**auth: Any) -> list[int]:
        client = client_of(service_with(**auth))
        return [client.get(path).status_code for path in ("/metrics", "/docs", "/openapi.json")]

    assert codes() == [200, 401, 401]
    assert codes(open_metrics=False) == [401, 401, 401]
    assert codes(open_docs=True) == [200, 200, 200]


def test_without_keys_everything_is_open_and_nothing_is_said_of_keys() -> None:
    client = client_of(FakeService())

    assert client.get("/model").status_code == 200
    assert client.post("/predict", json=ROW, headers=bearer("anything")).status_code == 200
    document = client.get("/openapi.json").json()
    assert "securitySchemes" not in document["components"]
    assert "401" not in document["paths"]["/predict"]["post"]["responses"]


def test_refusals_are_counted_by_reason_from_zero_on(
    service: FakeService, client: TestClient
) -> None:
    def counted() -> tuple[float | None, float | None]:
        sample = service.metrics.registry.get_sample_value
        return (
            sample("http_unauthorized_total", {"reason": "missing"}),
            sample("http_unauthorized_total", {"reason": "wrong"}),
        )

    before = counted()
    client.get("/model")
    client.post("/predict", json=ROW, headers=bearer("not-a-key-of-this-test"))
    client.get("/tree", headers={"x-api-key": "neither-is-this-one"})
    client.get("/tree", headers=bearer(KEY))

    assert (before, counted()) == ((0, 0), (1, 2))
    refused = {"method": "POST", "route": "/predict", "code": "401"}
    assert service.metrics.registry.get_sample_value("http_requests_total", refused) == 1


def test_the_description_says_where_a_key_is_needed() -> None:
    document = client_of(service_with(open_docs=True)).get("/openapi.json").json()

    schemes = document["components"]["securitySchemes"]
    assert schemes["bearer"]["scheme"] == "bearer"
    assert schemes["header"] == {"type": "apiKey", "in": "header", "name": "X-API-Key"}
    assert document["security"] == [{"bearer": []}, {"header": []}]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            is_open = path in {*PROBES, "/metrics", "/docs"}
            assert (operation.get("security") == []) == is_open, path
            assert ("401" in operation["responses"]) != is_open, path
    refused = document["paths"]["/predict"]["post"]["responses"]["401"]
    assert list(refused["content"]) == ["application/problem+json"]


def test_a_body_is_not_read_for_a_request_without_a_key(service: FakeService) -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        raise AssertionError("the body was read")

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "path": "/predict", "method": "POST", "query_string": b"",
        "headers": [(b"content-length", b"9000000")],
    }  # fmt: skip
    asyncio.run(create_app(service)(scope, receive, send))  # type: ignore[arg-type]

    assert sent[0]["status"] == 401
    assert (b"connection", b"close") in sent[0]["headers"]


def test_a_socket_without_a_key_is_closed(service: FakeService) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/predict", "headers": []}
    asyncio.run(create_app(service)(scope, None, send))  # type: ignore[arg-type]

    assert sent == [{"type": "websocket.close", "code": 1008}]


def test_a_rotated_key_works_on_the_running_api(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{KEY}\n")
    now = [0.0]
    app: Any = create_app(FakeService(auth={"keys_file": file}))  # type: ignore[arg-type]
    app.front._app._keys._clock = lambda: now[0]
    client = TestClient(app)
    assert client.get("/model", headers=bearer(KEY)).status_code == 200

    file.write_text(f"{KEY}\n{OTHER}\n")
    now[0] += 1e9

    assert client.get("/model", headers=bearer(OTHER)).status_code == 200
    assert client.get("/model", headers=bearer(KEY)).status_code == 200


def test_answers_may_be_kept_by_the_client_alone(client: TestClient) -> None:
    answer = client.get("/tree", headers=bearer(KEY))

    assert answer.headers["cache-control"] == "private, no-cache"
