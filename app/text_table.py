"""Aligned columns for people, and text of unknown origin made safe to look at."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def text_table(
    heading: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int] = (0,)
) -> str:
    """Return a table with a ruled heading; numbers to the right, the columns in `left` not.

    >>> print(text_table(["run", "nodes"], [["a", "7"], ["bc", "11"]]))
    run  nodes
    ---  -----
    a        7
    bc      11
    """
    lines = [heading, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(heading))]
    rule = ["-" * width for width in widths]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (heading, rule, *rows)
    )


def printable(text: str) -> str:
    r"""Return text without control characters, which could play tricks on a terminal.

    >>> printable("a\x1b[2J")
    'a\\x1b[2J'
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )
