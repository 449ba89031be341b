"""The pulse of a service: what the page shows, taken once a second, and a bounded past of it.

Used by the event loop's thread alone. It reads what was published and what the metrics hold, so
it is the same whoever publishes.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, NamedTuple

from app.serving import Published
from app.wiring import Service

EVERY_SECONDS = 1.0
KEPT = 900  # beats: a quarter of an hour
# A rate over fewer beats would jump: snapshots do not come exactly once a second.
RATE_BEATS = 5
# Changes are told for some beats: who misses one misses no change. Floods are left to /splits.
TOLD_BEATS = 3
MOST_TOLD = 50


class Beat(NamedTuple):
    """How things stood at one moment; None where something is not known."""

    time: float  # seconds since 1970
    snapshot: str | None
    events: int
    events_per_second: float
    accuracy: float | None
    window_accuracy: float | None
    kappa: float | None
    window_kappa: float | None
    nodes: int
    leaves: int
    depth: int
    lag: int | None
    attempts: int
    splits: int
    delay_mean: float | None
    memory_bytes: int


class Pulse:
    """Takes beats and keeps the last ones."""

    def __init__(
        self,
        service: Service,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._service = service
        self._clock, self._monotonic = clock, monotonic
        self._due = -1.0
        self._beats: deque[Beat] = deque(maxlen=KEPT)
        self._totals: deque[int] = deque(maxlen=TOLD_BEATS + 1)  # changes of the tree so far
        self._published: deque[tuple[float, int]] = deque(maxlen=RATE_BEATS + 1)

    def beat(self) -> Beat:
        """Return the newest beat; takes one where a second has passed since."""
        now = self._monotonic()
        if now >= self._due or not self._beats:
            # On the grid of seconds, unless somebody slept: then from here.
            late = now - self._due
            self._due = self._due + EVERY_SECONDS if late < EVERY_SECONDS else now + EVERY_SECONDS
            self._beats.append(self._taken(self._service.serving.current()))
        return self._beats[-1]

    def history(self) -> dict[str, list[Any]]:
        """Return the beats that are kept, oldest first, as one list a number."""
        columns = zip(*map(_shortened, self._beats), strict=True)
        return dict(zip(Beat._fields, map(list, columns), strict=True))

    def changes(self) -> list[dict[str, Any]]:
        """Return what the tree did during the last beats, the oldest first."""
        published = self._service.serving.current()
        if published is None or not self._totals:
            return []
        told = published.changes.page(self._totals[0], MOST_TOLD)
        return [entry.document() for entry in told]

    def _taken(self, published: Published | None) -> Beat:
        lag, delay = self._service.metrics.lag(), self._service.metrics.mean_delay()
        moment = self._clock()
        if published is None:
            nothing = (None, None, None, None)
            return Beat(moment, None, 0, 0.0, *nothing, 0, 0, 0, lag, 0, 0, delay, 0)
        self._totals.append(published.changes.total)
        snapshot, shape = published.snapshot, published.snapshot.shape
        counters = snapshot.counters
        return Beat(
            moment,
            snapshot.id,
            snapshot.events,
            self._rate(published.published_at, snapshot.events),
            published.accuracy,
            published.window_accuracy,
            published.kappa,
            published.window_kappa,
            shape.nodes,
            shape.leaves,
            shape.depth,
            lag,
            counters.split_attempts,
            counters.splits_bound + counters.splits_tie,
            delay,
            snapshot.memory_bytes,
        )

    def _rate(self, published_at: float, events: int) -> float:
        """Return events a second over the last beats; 0 once nothing new was published in them."""
        self._published.append((published_at, events))
        first_at, first_events = self._published[0]
        seconds = published_at - first_at
        # A model that began anew has fewer events than before.
        return max(events - first_events, 0) / seconds if seconds > 0 else 0.0


def _shortened(beat: Beat) -> list[Any]:
    """Return the numbers of a beat as a curve needs them: not to the last digit."""
    first, rest = round(beat.time, 2), islice(beat, 1, None)
    return [first, *(round(x, 5) if isinstance(x, float) else x for x in rest)]
