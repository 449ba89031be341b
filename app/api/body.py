"""Reading a JSON body: its type, its size while it arrives, its syntax."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from starlette.types import Receive, Scope

from app.api.problems import Refused

T = TypeVar("T")

# The rest of a refused body is not read, so the connection cannot be used again.
CLOSE = {"connection": "close"}


class Disconnected(Exception):
    """The client went away before its body was complete; nobody is left to answer."""


def header(scope: Scope, name: bytes) -> bytes | None:
    """Return the first header of this name (lower case), or None."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value)
    return None


def require_json(scope: Scope) -> None:
    """Refuse a body that says it is something other than plain JSON (415).

    A packed body could be a thousand times larger than its limit once it is unpacked.
    """
    packed = header(scope, b"content-encoding")
    if packed is not None and packed.strip().lower() not in (b"", b"identity"):
        shown = packed.decode("latin-1")
        raise Refused(415, f"content-encoding is '{shown:.80}'; expected none", headers=CLOSE)
    given = header(scope, b"content-type")
    if given is None or given == b"application/json":
        return
    essence = given.split(b";", 1)[0].strip().lower()
    if essence == b"application/json" or (
        essence.startswith(b"application/") and essence.endswith(b"+json")
    ):
        return
    shown = essence.decode("latin-1")
    raise Refused(415, f"content-type is '{shown:.80}'; expected application/json", headers=CLOSE)


async def read_body(scope: Scope, receive: Receive, limit_bytes: int) -> bytes:
    """Return the whole body; refuse more than limit_bytes (413), announced or not."""
    announced = header(scope, b"content-length")
    if announced is not None and announced.isdigit() and int(announced) > limit_bytes:
        raise _too_large(f"{int(announced)} bytes", limit_bytes)
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body", False):
        return _within(message.get("body", b""), limit_bytes)
    chunks = bytearray()
    while True:
        if message["type"] != "http.request":
            raise Disconnected
        chunks += message.get("body", b"")
        if len(chunks) > limit_bytes:
            raise _too_large(f"more than {limit_bytes} bytes", limit_bytes)
        if not message.get("more_body", False):
            return bytes(chunks)
        message = await receive()


def _within(body: bytes, limit_bytes: int) -> bytes:
    if len(body) > limit_bytes:
        raise _too_large(f"{len(body)} bytes", limit_bytes)
    return body


def _too_large(size: str, limit_bytes: int) -> Refused:
    return Refused(413, f"body is {size}; expected at most {limit_bytes} bytes", headers=CLOSE)


def decode_json(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Decode a body; broken syntax is 400, a wrong shape is 422 and names the place."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as exc:
        words, _, place = str(exc).partition(" - at `$.")
        field = place.rstrip("`") or None
        what = f"field '{field}'" if field else "body"
        raise Refused(422, f"{what}: {words[:1].lower()}{words[1:]}", field=field) from exc
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise Refused(400, f"body is not valid JSON: {exc}") from exc
    except RecursionError as exc:
        raise Refused(400, "body is nested too deeply to read") from exc
