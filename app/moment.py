"""Which snapshot is meant: by its id, by events, by an offset or by a time.

vfdt-12000             the snapshot of this id
events:12000           the first that had learned so many events
clicks-0:123           the first that had learned beyond this offset of this partition
2026-11-18T08:00:00Z   the newest that was not published after this time; also as seconds
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from app.errors import UnknownSnapshot
from app.published import Published

EVENTS = re.compile(r"events:(\d{1,18})")
OFFSET = re.compile(r"([\w.-]+-\d{1,9}):(\d{1,18})")
SECONDS = re.compile(r"\d{1,12}(?:\.\d{1,9})?")
DATE = re.compile(r"\d{4}-\d\d-\d\d(?=[Tt _]|$)")
BARE_PLUS = re.compile(r" (?=\d\d:?\d\d$)")  # a plus in an address means a blank
LONGEST_SHOWN = 80

ABOUT = (
    "The id of a snapshot, `events:N` (the first that had learned so many), an offset as in "
    "`clicks-0:123` (the first that had learned beyond it), or a time (RFC 3339, or seconds since "
    "1970: the newest not after it). `GET /snapshots` lists what is held."
)


def find(at: str, held: Sequence[Published]) -> Published:
    """Return the snapshot that is meant, of those held (the newest first, at least one).

    Raises UnknownSnapshot where none is, ValueError for a time that cannot be read.
    """
    if match := EVENTS.fullmatch(at):
        events = int(match[1])
        return _first(at, held, lambda each: each.snapshot.events >= events)
    if match := OFFSET.fullmatch(at):
        partition, offset = match[1], int(match[2])
        return _first(at, held, lambda each: each.offsets.get(partition, 0) > offset)
    if SECONDS.fullmatch(at):
        return _not_after(at, held, float(at))
    if DATE.match(at):
        return _not_after(at, held, seconds_of(at))
    for each in held:
        if each.snapshot.id == at:
            return each
    raise _unknown(at, held)


def seconds_of(text: str) -> float:
    """Return a time in RFC 3339 as seconds since 1970; raises ValueError."""
    try:
        moment = datetime.fromisoformat(BARE_PLUS.sub("+", text.upper()))
    except ValueError as exc:
        raise ValueError("a time as in 2026-11-18T08:00:00Z") from exc
    if moment.tzinfo is None:
        raise ValueError("a time with its zone, as in 2026-11-18T08:00:00Z")
    return moment.timestamp()


def time_text(seconds: float) -> str:
    """Return seconds since 1970 as RFC 3339, in UTC.

    >>> time_text(1767225600.25)
    '2026-01-01T00:00:00.250Z'
    """
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _first(at: str, held: Sequence[Published], reached: Callable[[Published], bool]) -> Published:
    for each in reversed(held):
        if reached(each):
            return each
    raise _unknown(at, held)


def _not_after(at: str, held: Sequence[Published], seconds: float) -> Published:
    for each in held:
        if each.published_at <= seconds:
            return each
    raise _unknown(at, held)


def _unknown(at: str, held: Sequence[Published]) -> UnknownSnapshot:
    newest, oldest = held[0], held[-1]
    shown = at if len(at) <= LONGEST_SHOWN else f"{at[:LONGEST_SHOWN]}..."
    if len(held) == 1:
        what = f"held is {_named(newest)}"
    else:
        what = f"held are {len(held)}, from {_named(oldest)} to {_named(newest)}"
    return UnknownSnapshot(f"at is '{shown}'; no snapshot is that: {what}")


def _named(published: Published) -> str:
    return f"{published.snapshot.id} ({time_text(published.published_at)})"
