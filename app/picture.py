"""What `livetree evaluate` measured, drawn as one SVG. Pure text, no library.

heading
legend                      one entry a run, as many rows as it takes
+------------------------+
| accuracy over events   |
+-----------+------------+
| attempts  | delay      |  attempts on a log scale where the runs lie far apart
+-----------+------------+
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from app.svg import (
    LETTER,
    Frame,
    axes,
    colour,
    compact,
    curves,
    dashed,
    label,
    nice_ticks,
    style_sheet,
)

WIDTH, MARGIN, TOP = 960, 24, 64
LONGEST_NAME = 22
FAR_APART = 20  # as a ratio of attempts: from here on the scale is logarithmic
BAR = 20  # a bar and the space below it, where there are many
MOST_POINTS = 120  # of a line; more are averaged


class Series(NamedTuple):
    """One run."""

    name: str
    events: Sequence[int]
    accuracy: Sequence[float]  # of the last window, at those events
    split_attempts: Sequence[int]
    delay: float | None  # mean of the bound splits
    delay_kind: str | None = None  # reference, audit, or None where it was not measured


def picture(heading: str, series: Sequence[Series], window: int = 1000) -> str:
    """Return the whole SVG document."""
    legend, top = _legend(series)
    upper, lower = top + 50, top + 50 + 240 + 84
    half = (WIDTH - 2 * MARGIN - 64) / 2
    height = lower + max(200, BAR * len(series)) + 56
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'width="{WIDTH}" height="{height:.0f}" role="img" aria-label="{escape(heading)}">',
        f"<style>{style_sheet(len(series))}</style>",
        f'<rect class="ground" width="{WIDTH}" height="{height:.0f}"/>',
        label(MARGIN, 34, heading, "heading"),
        *legend,
        *_accuracy(series, window, MARGIN + 56, upper, WIDTH - 2 * MARGIN - 64),
        *_attempts(series, MARGIN + 56, lower, half - 56),
        *_delays(series, MARGIN + half + 64, lower, half),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _legend(series: Sequence[Series]) -> tuple[list[str], float]:
    """Return the entries, in rows, and where they end."""
    parts: list[str] = []
    x, y = float(MARGIN), float(TOP)
    for place, run in enumerate(series):
        needed = 34 + LETTER * len(_short(run.name)) + 22
        if x + needed > WIDTH - MARGIN and x > MARGIN:
            x, y = float(MARGIN), y + 22
        parts.append(
            f'<line class="line s{colour(place)}" {dashed(place)}x1="{x:.1f}" y1="{y - 4:.1f}" '
            f'x2="{x + 28:.1f}" y2="{y - 4:.1f}"/>'
        )
        parts.append(label(x + 34, y, _short(run.name)))
        x += needed
    return parts, y


def _accuracy(
    series: Sequence[Series], window: int, left: float, top: float, width: float
) -> Iterator[str]:
    lines = [_averaged(run.events, run.accuracy) for run in series]
    seen = [y for line in lines for _, y in line] or [0.0, 1.0]
    low, high = max(0.0, min(seen) - 0.02), min(1.0, max(seen) + 0.02)
    ticks = nice_ticks(low, high, 5)
    frame = Frame(left, top, width, 240, 0, _last_event(series), ticks[0], ticks[-1])
    decimals = 0 if ticks[1] - ticks[0] >= 0.01 else 1
    yield from axes(
        frame,
        f"Accuracy of the last {window:,} events",
        ticks,
        lambda value: f"{value:.{decimals}%}",
        "events learned",
    )
    yield from curves(frame, lines)


def _attempts(series: Sequence[Series], left: float, top: float, width: float) -> Iterator[str]:
    lines = [list(zip(run.events, run.split_attempts, strict=True)) for run in series]
    totals = [run.split_attempts[-1] for run in series if run.split_attempts]
    most, least = max(totals, default=0), max(min(totals, default=1), 1)
    log = most / least >= FAR_APART
    if log:
        lines = [[(x, y) for x, y in line if y >= 1] for line in lines]
        decades = math.ceil(math.log10(most))
        step = math.ceil(decades / 6)
        ticks = [10.0**power for power in range(0, decades + step, step)]
    else:
        ticks = nice_ticks(0, max(most, 5), 5)
    frame = Frame(left, top, width, 200, 0, _last_event(series), ticks[0], ticks[-1], log)
    title = "Split attempts, log scale" if log else "Split attempts"
    yield from axes(frame, title, ticks, compact, "events learned")
    yield from curves(frame, lines)


def _delays(series: Sequence[Series], left: float, top: float, width: float) -> Iterator[str]:
    names = LETTER * max((len(_short(run.name)) for run in series), default=0) + 10
    room = width - names - 74  # the value is written behind the bar
    most = max((run.delay for run in series if run.delay is not None), default=0.0) or 1.0
    step = BAR if len(series) > 7 else BAR + 6
    yield label(left, top - 12, "Mean delay of a bound split, events", "title")
    for place, run in enumerate(series):
        y = top + step * place
        yield label(left + names - 8, y + 13, _short(run.name), anchor="end", whole=run.name)
        if run.delay is None:
            words = "no bound split" if run.delay_kind else "not measured"
            yield label(left + names + 4, y + 13, words)
            continue
        length = room * run.delay / most
        yield (
            f'<rect class="f{colour(place)}" x="{left + names:.1f}" y="{y + 2:.1f}" '
            f'width="{max(length, 1):.1f}" height="14"/>'
        )
        mark = "*" if run.delay_kind == "audit" else ""
        yield label(left + names + length + 6, y + 13, f"{run.delay:,.1f}{mark}")
    if any(run.delay is not None and run.delay_kind == "audit" for run in series):
        yield label(left, top + step * len(series) + 16, "* audited at its own leaves")


def _averaged(events: Sequence[int], values: Sequence[float]) -> list[tuple[float, float]]:
    """Return the curve with at most so many points, each the mean of its neighbours."""
    group = math.ceil(len(events) / MOST_POINTS) or 1
    starts = range(0, len(events), group)
    return [
        (events[min(start + group, len(events)) - 1], math.fsum(part) / len(part))
        for start in starts
        if (part := values[start : start + group])
    ]


def _last_event(series: Sequence[Series]) -> float:
    return max((run.events[-1] for run in series if run.events), default=1)


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
