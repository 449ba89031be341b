"""Two kinds of picture for docs/benchmarks.md: bars of ratios, and curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from app.svg import LETTER, Frame, axes, colour, compact, curves, dashed, label, rule, style_sheet

WIDTH, MARGIN, ROW = 860, 24, 24


class Bar(NamedTuple):
    """One ratio, and what it should reach."""

    name: str
    ratio: float
    target: float | None


def bars(heading: str, rows: Sequence[Bar]) -> str:
    """Ratios on a log scale, with a mark where each should reach and a line at 1: no difference."""
    names = LETTER * max(len(row.name) for row in rows) + 12
    top, left = 70.0, MARGIN + names
    seen = [row.ratio for row in rows] + [row.target for row in rows if row.target]
    low = 10.0 ** math.floor(math.log10(min(*seen, 1.0)))
    high = 10.0 ** math.ceil(math.log10(max(*seen, 1.0) * 1.01))
    height = ROW * len(rows)
    frame = Frame(
        left, top, WIDTH - left - MARGIN - 60, height, low, high, 0, 1, log=False, log_x=True
    )
    words = "log scale; a thin mark is the target, orange where it is missed"
    parts = [label(MARGIN, 30, heading, "heading"), label(MARGIN, 48, words)]
    for tick in frame.x_ticks():
        kind = "axis" if tick == 1.0 else "grid"
        parts.append(rule(frame.x(tick), top - 4, frame.x(tick), top + height, kind))
        parts.append(label(frame.x(tick), top + height + 18, f"{tick:g} x", anchor="middle"))
    for place, row in enumerate(rows):
        y = top + ROW * place
        ahead = row.target is None or row.ratio >= row.target
        start, end = sorted((frame.x(1.0), frame.x(row.ratio)))
        parts.append(label(left - 8, y + 15, row.name, anchor="end"))
        parts.append(
            f'<rect class="f{0 if ahead else 1}" x="{start:.1f}" y="{y + 4:.1f}" '
            f'width="{max(end - start, 1):.1f}" height="{ROW - 8}"/>'
        )
        parts.append(label(max(end, frame.x(row.target or 1.0)) + 6, y + 15, f"{row.ratio:.3g} x"))
        if row.target:
            at = frame.x(row.target)
            parts.append(rule(at, y + 1, at, y + ROW - 1, "axis"))
    return _document(heading, parts, top + height + 36, 2)


def lines(
    heading: str, below: str, series: Mapping[str, Sequence[tuple[float, float]]], title: str
) -> str:
    """Curves with both axes on a log scale."""
    points = [point for line in series.values() for point in line]
    x_low, x_high = min(x for x, _ in points), max(x for x, _ in points)
    low = math.floor(math.log10(min(y for _, y in points)))
    high = max(math.ceil(math.log10(max(y for _, y in points))), low + 1)
    parts, x = [label(MARGIN, 30, heading, "heading")], float(MARGIN)
    for place, name in enumerate(series):
        parts.append(
            f'<line class="line s{colour(place)}" {dashed(place)}x1="{x:.1f}" y1="54" '
            f'x2="{x + 28:.1f}" y2="54"/>'
        )
        parts.append(label(x + 34, 58, name))
        x += 34 + LETTER * len(name) + 22
    frame = Frame(MARGIN + 56, 110, WIDTH - 2 * MARGIN - 64, 240, x_low, x_high,
                  10.0**low, 10.0**high, log=True, log_x=True)  # fmt: skip
    ticks = [10.0**power for power in range(low, high + 1)]
    parts += axes(frame, title, ticks, compact, below)
    parts += curves(frame, list(series.values()))
    return _document(heading, parts, 410, len(series))


def _document(heading: str, parts: Sequence[str], height: float, colours: int) -> str:
    """The whole SVG."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
            f'width="{WIDTH}" height="{height:.0f}" role="img" aria-label="{escape(heading)}">',
            f"<style>{style_sheet(colours)}</style>",
            f'<rect class="ground" width="{WIDTH}" height="{height:.0f}"/>',
            *parts,
            "</svg>\n",
        ]
    )
