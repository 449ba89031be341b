"""A connection that sends the head of an answer together with its body.

uvicorn writes them one after the other, each in a call of the system, and the first one wakes a
client that then has to wait for the second.
"""

from __future__ import annotations

import asyncio
from typing import Any


class OneWrite:
    """Holds a write until the next one, or until the loop turns."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._later = transport, loop.call_soon
        self._held: bytes | None = None
        self.is_closing = transport.is_closing

    def __getattr__(self, name: str) -> Any:
        """All that does not send is the transport's own."""
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send what is held with this, or hold this for a moment."""
        held = self._held
        if held is None:
            self._held = data
            self._later(self._flush)
        else:
            self._held = None
            self._transport.writelines((held, data))

    def close(self) -> None:
        """Send what is held, and close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            self._transport.write(held)
