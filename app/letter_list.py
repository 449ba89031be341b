"""Dead letters as people look at them: the newest, how many for which reason, one in full."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from app.letter import Letter, LetterFilter, Place
from app.letterbox import Letterbox
from app.text_table import printable, text_table

SHOWN_CHARACTERS = 48
BYTES_A_LINE = 16


class Line(NamedTuple):
    """What a list keeps of a letter: a value may be large, and letters many."""

    time: str
    partition: int
    offset: int
    original: Place
    reason: str
    exception: str
    stage: str
    message: str
    value: str  # its start
    ours: bool


@dataclass
class Listing:
    """The letters asked for, and how many there are altogether."""

    lines: list[Line] = field(default_factory=list)
    records: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    copies: Counter[Place] = field(default_factory=Counter)  # of records put aside several times
    redriven: set[Place] = field(default_factory=set)

    def document(self, name: str) -> dict[str, Any]:
        """Return the list as plain data."""
        return {
            "dead_letters": name,
            "records": self.records,
            "reasons": dict(self.reasons.most_common()),
            "letters": [
                {
                    **line._asdict(),
                    "original": list(line.original) if line.ours else None,
                    "copies": self.copies[line.original] + 1,
                    "redriven": line.original in self.redriven,
                }
                for line in self.lines
            ],
        }


def list_letters(
    box: Letterbox,
    wanted: LetterFilter,
    *,
    limit: int,
    oldest_first: bool,
    progress: Callable[[int], None] = lambda _done: None,
) -> Listing:
    """Read all letters and return the newest or oldest (0 = all); a record put aside twice once."""
    listing = Listing()
    places: dict[Place, list[tuple[int, int]]] = {}

    def lines() -> Iterator[Line]:
        for letters in box.read():
            for letter in letters:
                if not wanted.admits(letter):
                    continue
                if letter.original in places:
                    listing.copies[letter.original] += 1
                    places[letter.original].append((letter.partition, letter.offset))
                    continue
                places[letter.original] = [(letter.partition, letter.offset)]
                listing.records += 1
                listing.reasons[letter.reason] += 1
                yield _line(letter)
            progress(box.done)

    if not limit:
        listing.lines = sorted(lines(), reverse=not oldest_first)
    elif oldest_first:
        listing.lines = heapq.nsmallest(limit, lines())
    else:
        listing.lines = heapq.nlargest(limit, lines())
    listing.redriven = {
        original for original, found in places.items() if not box.redriven.isdisjoint(found)
    }
    return listing


def _line(letter: Letter) -> Line:
    return Line(
        letter.time,
        letter.partition,
        letter.offset,
        letter.original,
        letter.reason,
        letter.exception,
        letter.stage,
        letter.message,
        start_of(letter.record.value),
        letter.ours,
    )


def start_of(value: bytes | None) -> str:
    """Return the beginning of a value on one line, safe to look at."""
    if value is None:
        return "(none)"
    text = printable(value[: 4 * SHOWN_CHARACTERS].decode("utf-8", "backslashreplace"))
    if len(text) > SHOWN_CHARACTERS or len(value) > 4 * SHOWN_CHARACTERS:
        text = f"{text[: SHOWN_CHARACTERS - 3]}..."
    return text


def listing_table(listing: Listing, name: str) -> str:
    """Return the list as text: the letters, then how many for which reason."""
    if not listing.records:
        return f"no dead letters in '{name}'"
    heading = ["partition", "offset", "from", "reason", "stage", "put aside", "note", "value"]
    rows = [
        [
            str(line.partition),
            str(line.offset),
            printable("-".join(map(str, line.original))) if line.ours else "not ours",
            printable(line.reason),
            printable(line.stage),
            printable(line.time),
            _note(listing, line),
            line.value,
        ]
        for line in listing.lines
    ]
    counts = [[printable(reason), f"{count:,}"] for reason, count in listing.reasons.most_common()]
    total = f"{listing.records:,} records in '{name}'"
    if listing.records > len(listing.lines):
        total += f", {len(listing.lines):,} shown"
    if copies := listing.copies.total():
        total += f"; {copies:,} copies of records put aside more than once are left out"
    letters = text_table(heading, rows, left=(2, 3, 4, 5, 6, 7))
    return f"{letters}\n\n{text_table(['reason', 'records'], counts)}\n\n{total}"


def _note(listing: Listing, line: Line) -> str:
    copies = listing.copies[line.original]
    notes = [f"{copies + 1} copies"] if copies else []
    return ", ".join([*notes, *(["redriven"] if line.original in listing.redriven else [])])


def letter_text(letter: Letter) -> str:
    """Return everything about one letter as text; bytes that are no text as a hex dump."""
    record, document = letter.record, letter.document()
    said = {
        "place": f"{letter.partition}:{letter.offset}",
        "from": "-".join(map(str, letter.original)) if letter.ours else "not ours",
        "reason": f"{letter.reason} ({letter.exception})",
        "stage": letter.stage,
        "message": letter.message,
        "put aside": letter.time,
        "timestamp": document["record_timestamp"] or "none",
        "redriven": f"{letter.redriven} times before",
    }
    lines = [f"{name:<10} {printable(str(value))}" for name, value in said.items()]
    for name, value in record.headers or []:
        lines.append(f"header     {printable(name)}: {_one_line(value)}")
    lines.append(f"key        {_one_line(record.key)}")
    lines.append(f"value      {len(record.value or b''):,} bytes")
    return "\n".join(lines) + "\n" + body_text(record.value)


def body_text(value: bytes | None) -> str:
    """Return a value as text where it is UTF-8, else as a hex dump."""
    if value is None:
        return "(none)"
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return hex_dump(value)
    return "\n".join(map(printable, text.split("\n")))


def hex_dump(value: bytes) -> str:
    r"""Return bytes as offset, hexadecimal numbers and characters.

    >>> print(hex_dump(b"caf\xe9"))
    00000000  63 61 66 e9                                      |caf.|
    """
    lines = []
    for start in range(0, len(value), BYTES_A_LINE):
        part = value[start : start + BYTES_A_LINE]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:08x}  {part.hex(' '):<{3 * BYTES_A_LINE}} |{shown}|")
    return "\n".join(lines)


def _one_line(value: str | bytes | None) -> str:
    if value is None:
        return "(none)"
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
    return printable(text)
