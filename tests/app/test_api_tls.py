"""HTTPS and client certificates: what refuses to start, and who gets through to a real server."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from app.api.server import check_access
from app.api.tls import server_context
from app.api_settings import TlsSettings
from app.cli import app
from app.errors import SettingsError
from app.settings import Settings
from streams import open_stream
from tests.certificates import Authority, Issued

ROOT = Path(__file__).parents[2]
DEADLINE_SECONDS = 300  # a cold compile on a slow machine
KEY = "a-key-of-this-test-1"
PASSWORD = "hush-hush-of-the-key"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Return an authority."""
    return Authority(tmp_path_factory.mktemp("authority"))


def problem_of(**tls: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        check_access(Settings.load(environ={}, tls=tls))
    (problem,) = caught.value.problems
    return problem


def test_without_a_certificate_there_is_no_tls() -> None:
    assert server_context(TlsSettings()) is None


def test_a_certificate_and_its_key_may_share_a_file_and_the_key_may_be_encrypted(
    authority: Authority,
) -> None:
    plain = authority.issue("plain.example")
    sealed = authority.issue("sealed.example", PASSWORD)

    for given in (
        {"certificate_file": plain.certificate, "key_file": plain.key},
        {"certificate_file": plain.both},
        {
            "certificate_file": sealed.certificate,
            "key_file": sealed.key,
            "key_password": PASSWORD,
        },
    ):
        context = server_context(TlsSettings.model_validate(given))
        assert context is not None
        assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
        assert context.verify_mode == ssl.CERT_NONE


def test_with_authorities_of_clients_a_certificate_is_required(authority: Authority) -> None:
    own = authority.issue("plain.example")

    context = server_context(TlsSettings(certificate_file=own.both, client_ca_file=authority.ca))

    assert context is not None
    assert context.verify_mode == ssl.CERT_REQUIRED


def test_files_that_are_not_there_are_named_all_at_once(tmp_path: Path) -> None:
    gone = {"certificate_file": tmp_path / "c.pem", "key_file": tmp_path / "k.pem"}

    with pytest.raises(SettingsError) as caught:
        check_access(Settings.load(environ={}, tls=gone, auth={"keys_file": tmp_path / "keys"}))

    keys, certificate, key = caught.value.problems
    assert "auth.keys_file (LIVETREE_AUTH__KEYS_FILE)" in keys
    assert certificate == (
        f"tls.certificate_file (LIVETREE_TLS__CERTIFICATE_FILE) is '{tmp_path / 'c.pem'}'; "
        "expected a readable file (No such file or directory)"
    )
    assert "tls.key_file (LIVETREE_TLS__KEY_FILE)" in key


def test_files_that_do_not_fit_are_told_apart(authority: Authority, tmp_path: Path) -> None:
    one, other = authority.issue("one.example"), authority.issue("other.example")
    sealed = authority.issue("sealed.example", PASSWORD)
    text = tmp_path / "text"
    text.write_text("no certificate, but hush-hush\n")

    said = {
        "mismatch": problem_of(certificate_file=one.certificate, key_file=other.key),
        "no certificate": problem_of(certificate_file=text, key_file=one.key),
        "no key": problem_of(certificate_file=one.certificate, key_file=text),
        "key missing": problem_of(certificate_file=one.certificate),
        "no password": problem_of(certificate_file=sealed.certificate, key_file=sealed.key),
        "wrong password": problem_of(
            certificate_file=sealed.certificate, key_file=sealed.key, key_password="not-that-one"
        ),
        "no authority": problem_of(certificate_file=one.both, client_ca_file=text),
    }

    assert f"is '{other.key}'; expected the key of the certificate in" in said["mismatch"]
    assert f"is '{text}'; expected a certificate in PEM" in said["no certificate"]
    assert (
        f"tls.key_file (LIVETREE_TLS__KEY_FILE) is '{text}'; expected a private" in said["no key"]
    )
    assert "expected a private key in PEM" in said["key missing"]
    assert "expected its password in tls.key_password" in said["no password"]
    assert "(LIVETREE_TLS__KEY_PASSWORD) does not open" in said["wrong password"]
    assert "tls.client_ca_file (LIVETREE_TLS__CLIENT_CA_FILE)" in said["no authority"]
    assert not any("hush" in line or "not-that-one" in line for line in said.values())


@pytest.mark.parametrize("name", ["key_file", "key_password", "client_ca_file"])
def test_nothing_goes_without_a_certificate(name: str) -> None:
    with pytest.raises(SettingsError, match=f"expected tls.certificate_file beside tls.{name}"):
        Settings.load(environ={}, tls={name: "x" * 20})


class Running:
    """A `livetree serve` with everything on: a key, a certificate, and certificates of clients."""

    def __init__(self, authority: Authority, folder: Path) -> None:
        self.authority = authority
        self.client = authority.issue("client.example")
        server = authority.issue("127.0.0.1")
        events = folder / "events.jsonl"
        events.write_text("".join(json.dumps(e) + "\n" for e in open_stream("sea").events(600)))
        (folder / "keys").write_text(f"{KEY}\n")
        self.log = folder / "log.txt"
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("LIVETREE_")}
        settings = {
            "LIVETREE_SOURCE": "file",
            "LIVETREE_FILE__PATH": str(events),
            "LIVETREE_CHECKPOINT__FOLDER": str(folder / "checkpoints"),
            "LIVETREE_LOG_FORMAT": "json",
            "LIVETREE_AUTH__KEYS_FILE": str(folder / "keys"),
            "LIVETREE_TLS__CERTIFICATE_FILE": str(server.certificate),
            "LIVETREE_TLS__KEY_FILE": str(server.key),
            "LIVETREE_TLS__CLIENT_CA_FILE": str(authority.ca),
        }
        with self.log.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "app", "serve", "--port", "0"],
                env=self.environment | settings,
                cwd=ROOT,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        self.port = 0
        self._wait_until(self._listens)
        self._wait_until(lambda: self.get("/readyz")[0] == 200)

    def _listens(self) -> bool:
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        self.port = next((line["port"] for line in lines if line["event"] == "listening"), 0)
        return self.port > 0

    def _wait_until(self, happened: Any) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not happened():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)

    def get(self, path: str, key: str | None = None) -> tuple[int, dict[str, str]]:
        """Return status and headers for a client with the right certificate."""
        return self.attempt(path, key, self.client)

    def attempt(
        self, path: str, key: str | None, client: Issued | None, *, tls: bool = True
    ) -> tuple[int, dict[str, str]]:
        """Return status and headers; status 0 where the connection was refused."""
        trust = ssl.create_default_context(cafile=str(self.authority.ca))
        if client is not None:
            trust.load_cert_chain(client.certificate, client.key)
        connection = (
            http.client.HTTPSConnection("127.0.0.1", self.port, context=trust, timeout=30)
            if tls
            else http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        )
        try:
            connection.request("GET", path, headers={"X-API-Key": key} if key else {})
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}
        except (OSError, http.client.HTTPException):
            return 0, {}
        finally:
            connection.close()


@pytest.fixture(scope="module")
def running(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Return a running service; it is gone after the tests, whatever happens."""
    service = Running(authority, tmp_path_factory.mktemp("running"))
    try:
        yield service
    finally:
        service.process.kill()
        service.process.wait()


def test_a_client_without_a_certificate_does_not_get_through(running: Running) -> None:
    assert running.attempt("/livez", KEY, None)[0] == 0


def test_a_client_with_a_certificate_but_without_a_key_is_refused(running: Running) -> None:
    assert running.get("/livez")[0] == 200
    status, headers = running.get("/model")
    assert (status, headers["content-type"]) == (401, "application/problem+json")


def test_a_client_with_both_gets_through(running: Running) -> None:
    status, headers = running.get("/model", KEY)

    assert status == 200
    assert headers["x-content-type-options"] == "nosniff"


def test_a_certificate_of_another_authority_does_not_get_through(
    running: Running, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path).issue("client.example")

    assert running.attempt("/livez", KEY, stranger)[0] == 0


def test_plain_http_does_not_get_through(running: Running) -> None:
    assert running.attempt("/livez", KEY, None, tls=False)[0] == 0
    with socket.create_connection(("127.0.0.1", running.port), 30) as plain:
        plain.sendall(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n")
        plain.settimeout(30)
        with plain.makefile("rb") as answer:
            assert b"HTTP" not in answer.read()


def test_clients_that_were_refused_leave_the_log_readable(running: Running) -> None:
    running.attempt("/livez", None, None)
    running.attempt("/livez", None, None, tls=False)
    assert running.get("/livez")[0] == 200

    lines = [json.loads(line) for line in running.log.read_text().splitlines()]
    assert not [line for line in lines if "exception" in line]
    assert KEY not in running.log.read_text()


def test_the_command_for_the_tree_shows_key_and_certificate(running: Running) -> None:
    def tree(*options: object, key: str = KEY) -> Any:
        url = f"https://127.0.0.1:{running.port}"
        arguments = ["tree", "--url", url, *map(str, options)]
        return CliRunner().invoke(app, arguments, env={"LIVETREE_API_KEY": key})

    client = running.client
    trusted = ("--ca-file", running.authority.ca)
    ours = ("--certificate-file", client.certificate, "--key-file", client.key)

    good, without_key = tree(*trusted, *ours), tree(*trusted, *ours, key="")
    untrusted, unknown = tree(*ours), tree(*trusted)

    assert "600 events" in good.output
    assert "answered 401: the request has no key" in without_key.output
    assert "CERTIFICATE_VERIFY_FAILED" in untrusted.output
    assert [without_key.exit_code, untrusted.exit_code, unknown.exit_code] == [3, 3, 3]
    assert KEY not in untrusted.output + unknown.output


def test_a_wrong_file_ends_the_start_with_one_line_and_exit_code_2(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LIVETREE_")}
    ended = subprocess.run(
        [sys.executable, "-m", "app", "serve", "--port", "0"],
        env={**environment, "LIVETREE_TLS__CERTIFICATE_FILE": str(tmp_path / "no.pem")},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )

    assert ended.returncode == 2
    assert (ended.stdout, ended.stderr) == (
        "",
        "error: tls.certificate_file (LIVETREE_TLS__CERTIFICATE_FILE) is "
        f"'{tmp_path / 'no.pem'}'; expected a readable file (No such file or directory)\n",
    )
