"""The client of the schema registry: what it asks, what it carries, and when it is told to wait."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from app.errors import RegistryRefused, RegistryUnreachable, SettingsError, UnusableSchema
from app.registry import Registry
from app.settings import RegistrySettings
from tests.app.registry_server import RegistryServer


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer().running() as running:
        yield running


def registry(server: RegistryServer, **more: Any) -> Registry:
    return Registry(RegistrySettings(url=f"{server.url}/", timeout_seconds=30, **more))


def test_a_schema_comes_by_its_id(server: RegistryServer) -> None:
    server.add(7, {"type": "string"})

    fetched = registry(server).fetch(7)

    assert fetched == ('{"type": "string"}', [])
    assert server.asked == ["/schemas/ids/7"]


def test_references_are_fetched_with_theirs_and_each_once(server: RegistryServer) -> None:
    money = {"subject": "a/money", "version": 2}
    server.add(1, "Order", references=[{"name": "Money", **money}, {"name": "M2", **money}])
    coin = {"name": "Coin", "subject": "coin", "version": 1}
    server.add_version("a/money", 2, "Money", references=[coin])
    server.add_version("coin", 1, "Coin", references=[{"name": "Money", **money}])

    fetched = registry(server).fetch(1)

    assert fetched == ('"Order"', ['"Money"', '"Coin"'])
    assert server.asked[1:] == [
        "/subjects/a%2Fmoney/versions/2?deleted=true",
        "/subjects/coin/versions/1?deleted=true",
    ]


def test_a_schema_that_is_not_there_is_named(server: RegistryServer) -> None:
    server.add(2, "x", references=[{"name": "N", "subject": "gone", "version": 3}])

    with pytest.raises(UnusableSchema, match="schema 1 is not in the schema registry http://127"):
        registry(server).fetch(1)
    with pytest.raises(UnusableSchema, match="version 3 of 'gone', which schema 2 refers to, is"):
        registry(server).fetch(2)


def test_a_schema_of_another_kind_is_refused(server: RegistryServer) -> None:
    server.add(3, "syntax", schemaType="PROTOBUF")

    with pytest.raises(UnusableSchema, match="schema 3 is of type PROTOBUF; expected AVRO"):
        registry(server).fetch(3)


def test_credentials_are_carried(server: RegistryServer) -> None:
    server.add(1, "string")
    basic = f"Basic {base64.b64encode('me:pä:ss'.encode()).decode()}"

    server.authorization = basic
    registry(server, username="me", password="pä:ss").fetch(1)
    server.authorization = "Bearer t0ken"
    registry(server, token="t0ken").fetch(1)

    assert server.carried == [basic, "Bearer t0ken"]


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_is_final_and_names_the_settings(server: RegistryServer, status: int) -> None:
    server.instead = (status, b'{"error_code": 401, "message": "who are you"}', {})

    with pytest.raises(RegistryRefused, match=rf"{status} \(who are you\).*__TOKEN"):
        registry(server, token="hush-hush").fetch(1)


GARBAGE = [
    (200, b"<html>Welcome</html>"),
    (200, b"[]"),
    (200, b"{}"),
    (200, b'{"schema": 7}'),
    (200, b""),
    (200, b"[" * 100_000),
    (404, b"<html>no such page</html>"),
    (404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}'),
    (404, b'{"error_code": "x"}'),
    (404, b"[]"),
    (400, b""),
    (429, b""),
    (500, b'{"error_code": 50001, "message": "Error in the backend data store"}'),
    (503, b""),
]


@pytest.mark.parametrize(("status", "body"), GARBAGE)
def test_an_answer_that_no_registry_gives_is_a_reason_to_wait(
    server: RegistryServer, status: int, body: bytes
) -> None:
    server.instead = (status, body, {})

    with pytest.raises(RegistryUnreachable, match=r"schema registry http://127.*: answers"):
        registry(server).fetch(1)


def test_an_answer_that_breaks_off_is_a_reason_to_wait(server: RegistryServer) -> None:
    server.instead = (200, b'{"schema', {"Content-Length": "100000"})

    with pytest.raises(RegistryUnreachable):
        Registry(RegistrySettings(url=server.url, timeout_seconds=0.5)).fetch(1)


def test_pauses_grow_while_it_is_away_and_begin_anew_when_it_is_back() -> None:
    server = RegistryServer()
    client = registry(server)
    pauses = []
    for _ in range(7):
        with pytest.raises(RegistryUnreachable) as caught:
            client.fetch(1)
        pauses.append(caught.value.pause_seconds)
    assert pauses == [0.5, 1, 2, 4, 8, 10, 10]

    server.add(1, "string")
    with server.running():
        client.fetch(1)
    with pytest.raises(RegistryUnreachable) as caught:
        client.fetch(1)
    assert caught.value.pause_seconds == 0.5


def test_credentials_stay_with_the_registry_when_it_points_elsewhere(
    server: RegistryServer,
) -> None:
    elsewhere = RegistryServer()
    elsewhere.add(1, "string")
    server.instead = (302, b"", {"Location": f"{elsewhere.url}/schemas/ids/1"})

    with elsewhere.running():
        registry(server, token="t0ken").fetch(1)

    assert (server.carried, elsewhere.carried) == (["Bearer t0ken"], [None])


def test_a_certificate_must_lead_to_the_authority_in_the_settings(tmp_path: Path) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    for ca, name in ((authority, "ours.pem"), (stranger, "other.pem")):
        ca.cert_pem.write_to_path(str(tmp_path / name))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server = RegistryServer(context=context)
    server.add(1, "string")

    with server.running():
        registry(server, ca_file=tmp_path / "ours.pem").fetch(1)
        with pytest.raises(RegistryUnreachable, match="CERTIFICATE_VERIFY_FAILED"):
            registry(server, ca_file=tmp_path / "other.pem").fetch(1)


@pytest.mark.parametrize("content", [None, b"no certificate"])
def test_a_file_without_certificates_is_a_wrong_setting(
    tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(SettingsError, match=r"event.registry.ca_file .*ca.pem'; expected"):
        Registry(RegistrySettings(url="https://x", ca_file=file))


def test_an_answer_without_end_is_cut(
    server: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.registry.MOST_BYTES", 100)
    server.instead = (200, json.dumps({"schema": "x" * 200}).encode(), {})

    with pytest.raises(RegistryUnreachable, match="answers more than 100 bytes"):
        registry(server).fetch(1)


def test_references_without_end_are_refused(
    server: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.registry.MOST_REFERENCES", 5)
    for version in range(10):
        next_one = [{"name": "N", "subject": "s", "version": version + 1}]
        server.add_version("s", version, "x", references=next_one)
    server.add(1, "x", references=[{"name": "N", "subject": "s", "version": 0}])

    with pytest.raises(UnusableSchema, match="schema 1 refers to more than 5 others"):
        registry(server).fetch(1)
