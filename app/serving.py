"""The snapshot that answers: the consumer's thread swaps it, readers take it and never wait."""

from __future__ import annotations

from collections.abc import Sequence

from app.published import Published
from app.timeline import Timeline

__all__ = ["Published", "Serving"]


class Serving:
    """Holds the current Published, and those to look back at; one assignment swaps it."""

    def __init__(self, timeline: Timeline | None = None) -> None:
        self._current: Published | None = None
        self._timeline = timeline or Timeline(keep=0)

    def publish(self, published: Published) -> None:
        """Make this the snapshot that every later request reads."""
        self._current = published
        self._timeline.add(published)

    def current(self) -> Published | None:
        """Return what was published last, or None. Never blocks."""
        return self._current

    def held(self) -> Sequence[Published]:
        """Return all that can be asked for, the newest first: the current one, and earlier ones."""
        earlier, current = self._timeline.held, self._current
        if current is None:
            return []
        return [current, *(each for each in earlier if each.snapshot.id != current.snapshot.id)]

    @property
    def held_bytes(self) -> int:
        """Bytes of the earlier ones."""
        return self._timeline.held_bytes
