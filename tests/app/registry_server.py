"""A schema registry in this process, in the shape of Confluent's REST API.

No real registry can be started here; the paths, bodies and error codes are those of its
documentation.
"""

from __future__ import annotations

import io
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from fastavro import parse_schema, schemaless_writer


class RegistryServer:
    """Holds schemas; answers over HTTP while it runs, and can be told to misbehave."""

    def __init__(self, port: int = 0, context: ssl.SSLContext | None = None) -> None:
        self.ids: dict[int, dict[str, Any]] = {}
        self.versions: dict[tuple[str, int], dict[str, Any]] = {}
        self.authorization: str | None = None  # what a request must carry
        self.instead: tuple[int, bytes, dict[str, str]] | None = None  # the answer to everything
        self.asked: list[str] = []
        self.carried: list[str | None] = []  # the requests' Authorization
        self._context = context
        with socket.create_server(("127.0.0.1", port)) as held:
            self.port = held.getsockname()[1]

    @property
    def url(self) -> str:
        return f"{'https' if self._context else 'http'}://127.0.0.1:{self.port}"

    def add(self, schema_id: int, schema: object, **more: Any) -> None:
        """Register a schema under an id."""
        self.ids[schema_id] = {"schema": json.dumps(schema), **more}

    def add_version(self, subject: str, version: int, schema: object, **more: Any) -> None:
        """Register a schema that others refer to."""
        shape = {"subject": subject, "version": version, "id": 9000 + len(self.versions)}
        self.versions[subject, version] = {**shape, "schema": json.dumps(schema), **more}

    @contextmanager
    def running(self) -> Iterator[RegistryServer]:
        """Answer until the end of the block."""
        server = ThreadingHTTPServer(("127.0.0.1", self.port), self._handler())
        server.daemon_threads = True
        if self._context is not None:
            server.socket = self._context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def answer(self, path: str, authorization: str | None) -> tuple[int, bytes, dict[str, str]]:
        """Return status, body and headers of an answer."""
        self.asked.append(path)
        self.carried.append(authorization)
        if self.instead is not None:
            return self.instead
        if self.authorization is not None and authorization != self.authorization:
            return _json(401, {"error_code": 401, "message": "Unauthorized"})
        parts = [unquote(part) for part in urlsplit(path).path.strip("/").split("/")]
        if parts[:2] == ["schemas", "ids"] and len(parts) == 3:
            found = self.ids.get(int(parts[2]))
            if found is None:
                return _json(404, {"error_code": 40403, "message": f"Schema {parts[2]} not found"})
            return _json(200, found)
        if parts[0] == "subjects" and parts[2] == "versions" and len(parts) == 4:
            found = self.versions.get((parts[1], int(parts[3])))
            if found is None:
                return _json(404, {"error_code": 40401, "message": "Subject not found."})
            return _json(200, found)
        return _json(404, {"error_code": 404, "message": "HTTP 404 Not Found"})

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body, headers = registry.answer(
                    self.path, self.headers.get("Authorization")
                )
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        return Handler


def _json(status: int, body: object) -> tuple[int, bytes, dict[str, str]]:
    kind = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    return status, json.dumps(body).encode(), kind


def framed(schema_id: int, schema: Any, event: object) -> bytes:
    """Return an event as a producer writes it: 0, the id, Avro."""
    out = io.BytesIO()
    schemaless_writer(out, parse_schema(schema), event)
    return b"\0" + schema_id.to_bytes(4, "big") + out.getvalue()
