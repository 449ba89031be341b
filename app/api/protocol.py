"""HTTP/1.1 with an end: uvicorn's protocol takes a request line and headers of any length.

A client that sends bytes and bytes without ever reaching a body would fill the memory, and joining
a long address piece by piece would hold up everybody else. Whoever sends more than the limit
without an end of the headers, of a chunk's size or of the trailers is answered 431 and let go.
"""

from __future__ import annotations

import asyncio

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.api.problems import MEDIA_TYPE, document
from app.api.transport import OneWrite

MOST_HEAD_BYTES = 64 * 1024


class BoundedProtocol(HttpToolsProtocol):
    """Counts what has arrived since the last piece of a request that was whole."""

    _waiting_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection."""
        super().connection_made(OneWrite(transport, self.loop))  # type: ignore[arg-type]

    def data_received(self, data: bytes) -> None:
        """Take what the network brings."""
        self._waiting_bytes += len(data)
        super().data_received(data)
        if self._waiting_bytes > MOST_HEAD_BYTES and not self.transport.is_closing():
            self._refuse()

    def on_headers_complete(self) -> None:
        """Note that the headers have ended."""
        self._waiting_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Note a piece of a body; how long a body may be is for the routes to say."""
        self._waiting_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note the end of a request."""
        self._waiting_bytes = 0
        super().on_message_complete()

    def _refuse(self) -> None:
        detail = f"request line and headers are longer than {MOST_HEAD_BYTES} bytes; expected less"
        body = msgspec.json.encode(document(431, detail))
        self.transport.write(
            b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
            b"content-type: " + MEDIA_TYPE.encode() + b"\r\n"
            b"content-length: " + str(len(body)).encode() + b"\r\n"
            b"connection: close\r\n\r\n" + body
        )
        self.transport.close()
