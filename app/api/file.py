"""Files of the package that a browser asks for: read once, packed, and not sent twice."""

from __future__ import annotations

import gzip
import hashlib
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import NamedTuple

from fastapi import Request
from starlette.responses import Response

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
TEXT = "text/plain; charset=utf-8"  # licences
HEADERS = {
    # Nothing from elsewhere and nothing inline runs or styles a page, whatever a label says.
    "content-security-policy": (
        "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'; object-src 'none'"
    ),
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",  # ask whether it still holds
    "vary": "accept, accept-encoding",
}


class File(NamedTuple):
    """A file as it is sent."""

    body: bytes
    packed: bytes
    media_type: str
    etag: str


def read_file(entry: Traversable) -> File:
    """Return a file of the package, ready to be sent."""
    body = entry.read_bytes()
    media_type = MEDIA_TYPES.get(PurePosixPath(entry.name).suffix, TEXT)
    etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    return File(body, gzip.compress(body, mtime=0), media_type, etag)


def file_response(file: File, request: Request) -> Response:
    """Return the answer to who asks for a file: whole, packed, or that it still holds."""
    headers = {**HEADERS, "etag": file.etag}
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
        return Response(file.packed, headers=headers, media_type=file.media_type)
    return Response(file.body, headers=headers, media_type=file.media_type)
