"""The image's health check asks the port that is configured, and tells the living from the dead."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from app.healthcheck import address, main
from tests.port import free_port

CONFIG = "http: {port: 9100}\ntls: {certificate_file: /c.pem}\n"


class Probe(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/livez" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Probe]]:
    class Own(Probe):
        """A probe whose status a test may change."""

    server = HTTPServer(("127.0.0.1", 0), Own)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("LIVETREE_HTTP__PORT", str(server.server_port))
    yield Own
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_port_comes_from_the_environment_then_the_file_then_the_default(tmp_path: Path) -> None:
    file = tmp_path / "livetree.yaml"
    file.write_text(CONFIG)
    named = {"LIVETREE_CONFIG_FILE": str(file)}

    assert address({}) == "http://127.0.0.1:8000/livez"
    assert address({"LIVETREE_HTTP__PORT": "9000"}) == "http://127.0.0.1:9000/livez"
    assert address(named) == "https://127.0.0.1:9100/livez"
    assert address({**named, "LIVETREE_HTTP__PORT": "9000"}) == "https://127.0.0.1:9000/livez"


def test_a_service_that_is_alive_is_healthy(service: type[Probe]) -> None:
    assert main() == 0


def test_one_that_says_it_is_not_is_not(
    service: type[Probe], capsys: pytest.CaptureFixture[str]
) -> None:
    service.status = 503

    assert main() == 1
    assert "503" in capsys.readouterr().err


def test_nobody_there_is_not_healthy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LIVETREE_HTTP__PORT", str(free_port()))

    assert main() == 1
    assert "refused" in capsys.readouterr().err
