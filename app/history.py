"""The record of structural changes: what the tree did, when, and after which offsets.

The learner tells changes without a clock; here they get a number, a time and the offsets of their
batch. So many of the newest are kept. Statistics that leaves lose and get back can come in floods,
so of these a quarter as many are kept, and they never push out a split. Written by the consumer's
thread; readers get an immutable list with every snapshot, and a checkpoint has it too, so that a
restart neither loses a change nor tells it twice.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from learner import SplitRecord

Action = Literal["split", "replace", "prune", "move", "deactivate", "reactivate"]
ACTIONS: dict[str, Action] = {
    "bound": "split",
    "tie": "split",
    "replace": "replace",
    "collapse": "prune",
    "move": "move",
    "deactivate": "deactivate",
    "reactivate": "reactivate",
}
ACTIVITY = ("deactivate", "reactivate")
ACTIVITY_SHARE = 4  # one in so many of the changes that are kept

Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One change, with the number that names it."""

    sequence: Annotated[int, msgspec.Meta(ge=1, le=2**62)]
    action: Action
    node: Count
    feature: str | None
    test: str | None
    reason: Literal["bound", "tie"] | None
    merit: float | None
    second_merit: float | None
    second: str | None
    bound: float | None
    n: float
    delay_events: float | None
    event: Count


class Entry(NamedTuple):
    """A change and the batch it happened in."""

    change: Change
    offsets: Mapping[str, int]  # "topic-partition" -> offset that was learned next
    time: str  # RFC 3339

    def document(self) -> dict[str, Any]:
        """Return it as plain data."""
        found = msgspec.structs.asdict(self.change)
        return {**found, "offsets": dict(self.offsets), "time": self.time}


class Changes(NamedTuple):
    """The changes that are kept, in order; never changed."""

    total: int = 0  # so far; the number of the newest
    skipped: int = 0  # comings and goings of statistics that were too many to be written down
    kept: tuple[Entry, ...] = ()

    @property
    def first(self) -> int:
        """The number of the oldest that is kept; where nothing is, of the next to come."""
        return self.kept[0].change.sequence if self.kept else self.total + 1

    def page(self, after: int | None, limit: int) -> tuple[Entry, ...]:
        """Return what follows a number, at most so many; without one the newest."""
        if after is None:
            return self.kept[-limit:]
        start = bisect_right(self.kept, after, key=_number)
        return self.kept[start : start + limit]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data; what one batch did stands together."""
        batches = groupby(self.kept, key=lambda entry: (id(entry.offsets), entry.time))
        listed = [(time, list(entries)) for (_, time), entries in batches]
        return {
            "total": self.total,
            "skipped": self.skipped,
            "batches": [
                {
                    "time": time,
                    "offsets": dict(entries[0].offsets),
                    "changes": [entry.change for entry in entries],
                }
                for time, entries in listed
            ],
        }


NO_CHANGES = Changes()


class KeptBatch(msgspec.Struct, forbid_unknown_fields=True):
    """The changes of one batch in a checkpoint."""

    time: str
    offsets: dict[str, Count]
    changes: list[Change]


class KeptChanges(msgspec.Struct, forbid_unknown_fields=True):
    """The record of changes in a checkpoint; numbers rise, and end with the total."""

    total: Count = 0
    skipped: Count = 0
    batches: list[KeptBatch] = []

    def __post_init__(self) -> None:
        """Refuse what cannot have been written; readers find their place by the numbers."""
        numbers = [change.sequence for batch in self.batches for change in batch.changes]
        for before, number in zip([0, *numbers], [*numbers, self.total + 1], strict=True):
            if number <= before:
                raise ValueError(f"change {number} follows {before}; expected rising numbers")

    def changes(self) -> Changes:
        """Return them as readers have them."""
        kept = tuple(
            Entry(change, batch.offsets, batch.time)
            for batch in self.batches
            for change in batch.changes
        )
        return Changes(self.total, self.skipped, kept)


class History:
    """The record as it grows; one writer."""

    def __init__(self, keep: int, before: Changes | None = None) -> None:
        self._structure: deque[Entry] = deque(maxlen=keep)
        self._activity: deque[Entry] = deque(maxlen=max(1, keep // ACTIVITY_SHARE))
        self._current = before or NO_CHANGES
        self._is_current = False
        for entry in self._current.kept:
            self._take(entry)

    def add(
        self,
        records: Sequence[SplitRecord],
        offsets: Mapping[str, int],
        time: str,
        skipped: int = 0,
    ) -> None:
        """Write down what one batch did."""
        total = self._current.total
        for number, record in enumerate(records, start=total + 1):
            self._take(Entry(_change(number, record), offsets, time))
        self._current = self._current._replace(
            total=total + len(records), skipped=self._current.skipped + skipped
        )
        self._is_current = False

    def _take(self, entry: Entry) -> None:
        kept = self._activity if entry.change.action in ACTIVITY else self._structure
        kept.append(entry)

    def changes(self) -> Changes:
        """Return all that is kept, as of now."""
        if not self._is_current:
            kept = sorted((*self._structure, *self._activity), key=_number)
            self._current = self._current._replace(kept=tuple(kept))
            self._is_current = True
        return self._current


def _number(entry: Entry) -> int:
    return entry.change.sequence


def _change(number: int, record: SplitRecord) -> Change:
    return Change(
        number,
        ACTIONS[record.kind],
        record.node,
        record.feature or None,
        record.test or None,
        record.reason,  # type: ignore[arg-type]
        _finite(record.merit),
        _finite(record.second_merit),
        record.second,
        _finite(record.bound),
        record.n,
        record.delay if record.delay >= 0.0 else None,
        record.event,
    )


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
