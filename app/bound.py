"""Where a range of a log begins or ends, in the words of the command line.

`earliest` and `latest` are what the log holds at the start of the command, `checkpoint` is how far
a learner has come, a number is an offset in every partition, `0:100,1:200` names partitions, and
`2026-01-01T00:00:00Z` is the first record not older than that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from app.errors import SettingsError

EXPECTED = (
    "earliest, latest, checkpoint, an offset, PARTITION:OFFSET with commas between, or a time "
    "such as 2026-01-01T00:00:00Z"
)
PLACES = re.compile(r"\d+:\d+(,\d+:\d+)*")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class Bound(NamedTuple):
    """One end of a range: a word, a number for all partitions, numbers of some, or a time."""

    word: str = ""
    offset: int | None = None
    offsets: Mapping[int, int] | None = None
    milliseconds: int | None = None


def parse_bound(text: str, option: str) -> Bound:
    """Read one end of a range; raises SettingsError that lists what it may be."""
    given = text.strip()
    if given in ("earliest", "latest", "checkpoint"):
        return Bound(word=given)
    if given.isdecimal():
        return Bound(offset=int(given))
    if PLACES.fullmatch(given.replace(" ", "")):
        pairs = (part.split(":") for part in given.replace(" ", "").split(","))
        return Bound(offsets={int(partition): int(offset) for partition, offset in pairs})
    moment = _moment(given)
    if moment is None:
        raise SettingsError([f"{option} is '{text}'; expected {EXPECTED}"])
    return Bound(milliseconds=int(moment.timestamp() * 1000))


def resolve(
    bound: Bound,
    otherwise: Mapping[int, int],
    words: Mapping[str, Mapping[int, int]],
    at_time: Callable[[int], Mapping[int, int]],
) -> dict[int, int]:
    """Return the offset in each partition; `otherwise` holds where the bound names no partition."""
    if bound.word:
        found = words[bound.word]
    elif bound.offset is not None:
        found = dict.fromkeys(otherwise, bound.offset)
    elif bound.offsets is not None:
        found = bound.offsets
    else:
        found = at_time(bound.milliseconds or 0)
    return {**otherwise, **found}


def parse_since(text: str, now: datetime | None = None) -> datetime:
    """Read a time, or how long ago (`90s`, `30m`, `2h`, `7d`); raises SettingsError."""
    given = text.strip()
    if (ago := re.fullmatch(r"(\d+)([smhd])", given)) is not None:
        span = timedelta(**{UNITS[ago.group(2)]: int(ago.group(1))})
        return (now or datetime.now(UTC)) - span
    moment = _moment(given)
    if moment is None:
        raise SettingsError(
            [f"--since is '{text}'; expected a time such as 2026-01-01T00:00:00Z, or 30m, 2h, 7d"]
        )
    return moment


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
