"""What is published is what is read."""

from __future__ import annotations

from typing import Any

from app.serving import Published, Serving


def test_readers_get_what_was_published_last() -> None:
    serving = Serving()
    assert serving.current() is None
    snapshot: Any = object()
    first, second = Published(snapshot, 1.0), Published(snapshot, 2.0)

    serving.publish(first)
    serving.publish(second)

    assert serving.current() is second
