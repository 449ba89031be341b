"""A real socket in front of an API without threads of its own, for the tests of commands."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from learner import Snapshot
from tests.app.fake_service import FakeService
from tests.app.test_api_predict import client_of


@contextmanager
def serving(snapshot: Snapshot) -> Iterator[str]:
    """The address of a service that answers from one snapshot."""
    service = FakeService()
    service.publish(snapshot)
    client = client_of(service)

    class Pass(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.give(client.get(self.path))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            kind = self.headers["content-type"]
            self.give(client.post(self.path, content=body, headers={"content-type": kind}))

        def give(self, answer: Any) -> None:
            self.send_response(answer.status_code)
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, format: str, *args: Any) -> None:
            """Keep quiet."""

    server = HTTPServer(("127.0.0.1", 0), Pass)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
