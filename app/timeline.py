"""Snapshots to look back at: the newest close together, older ones further and further apart.

When there are too many, the one goes whose neighbours are closest beside their age. So a few dozen
reach from seconds to months, each step back about as large a share of the way as every other. The
first one stays: what the tree began as. Each is a copy of its own; a bound on their bytes goes
before their number. No clock: time is what the snapshots themselves say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from app.published import Published
from learner import held_bytes, set_apart


class Timeline:
    """Chooses and holds; one thread adds, any thread reads."""

    def __init__(
        self, keep: int, every_seconds: float = 10.0, max_bytes: int = 100_000_000
    ) -> None:
        self._keep, self._every_seconds, self._max_bytes = keep, every_seconds, max_bytes
        self._held: tuple[Published, ...] = ()  # the oldest first

    @property
    def held(self) -> Sequence[Published]:
        """What is held, the newest first."""
        return self._held[::-1]

    @property
    def held_bytes(self) -> int:
        """Bytes of all that is held."""
        return _bytes(self._held)

    def add(self, published: Published) -> None:
        """Hold a copy, if the last one is old enough."""
        if not self._keep or not self._is_due(published):
            return
        copy = replace(published, snapshot=set_apart(published.snapshot), kept={})
        held = [*self._held, copy]
        while len(held) > self._keep or _bytes(held) > self._max_bytes:
            del held[_least_missed(held)]
            if not held:
                break
        self._held = tuple(held)

    def _is_due(self, published: Published) -> bool:
        if not self._held:
            return True
        last = self._held[-1]
        if last.snapshot.id == published.snapshot.id:
            return False
        # A clock that was set back must not keep us from holding anything.
        return not 0 <= published.published_at - last.published_at < self._every_seconds


def _least_missed(held: Sequence[Published]) -> int:
    """Return the place of the one to give up."""
    if len(held) < 3:
        return 0
    now = held[-1].published_at

    def gap_beside_age(place: int) -> float:
        gap = held[place + 1].published_at - held[place - 1].published_at
        age = now - held[place - 1].published_at
        return gap / age if age > 0.0 else 0.0

    return min(range(1, len(held) - 1), key=gap_beside_age)


def _bytes(held: Sequence[Published]) -> int:
    return sum(held_bytes(each.snapshot) for each in held)
