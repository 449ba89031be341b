"""A port that nobody listens on."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Return one; another process may take it before you do, which is rare."""
    with socket.create_server(("127.0.0.1", 0)) as place:
        return int(place.getsockname()[1])
