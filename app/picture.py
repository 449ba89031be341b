"""What `livetree evaluate` measured, drawn as one SVG. Pure text, no library.

    heading
    legend                      one entry a run, as many rows as it takes
    +------------------------+
    | accuracy over events   |
    +-----------+------------+
    | attempts  | delay      |  attempts on a log scale where the runs lie far apart
    +-----------+------------+

Colours can be told apart by colour-blind readers, lines also by their dashes. The reader's light
or dark scheme is followed; where none is known, the picture is light.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import NamedTuple

WIDTH, MARGIN, TOP = 960, 24, 64
LETTER = 6.7  # width of a letter of the usual size, on average
LONGEST_NAME = 22
FAR_APART = 20  # as a ratio of attempts: from here on the scale is logarithmic
BAR = 20  # a bar and the space below it, where there are many
MOST_POINTS = 120  # of a line; more are averaged

# At least 24 apart (CIE76) in every pair, also as seen by the three kinds of colour-blind readers.
LIGHT = ("#004580", "#f9680e", "#138344", "#b372a2", "#5a1f00", "#1ca1f7", "#181a1c")
DARK = ("#1394f0", "#cd6805", "#69ffb9", "#9a518b", "#ffdf43", "#cae1fc", "#696f4a")
DASHES = ("", "8 3", "2 4", "10 3 2 3", "5 3", "14 4", "2 2 6 2", "1 3")


class Series(NamedTuple):
    """One run."""

    name: str
    events: Sequence[int]
    accuracy: Sequence[float]  # of the last window, at those events
    split_attempts: Sequence[int]
    delay: float | None  # mean of the bound splits
    delay_kind: str | None = None  # reference, audit, or None where it was not measured


class Frame(NamedTuple):
    """The inside of one chart, in pixels, and what its edges stand for."""

    left: float
    top: float
    width: float
    height: float
    x_low: float
    x_high: float
    y_low: float
    y_high: float
    log: bool = False

    def x(self, value: float) -> float:
        """Return the pixel of a value on the horizontal axis."""
        return self.left + self.width * (value - self.x_low) / (self.x_high - self.x_low)

    def y(self, value: float) -> float:
        """Return the pixel of a value on the vertical axis."""
        low, high = self.y_low, self.y_high
        if self.log:
            low, high, value = (math.log10(max(each, 1e-9)) for each in (low, high, value))
        return self.top + self.height * (1 - (value - low) / (high - low))


def picture(heading: str, series: Sequence[Series], window: int = 1000) -> str:
    """Return the whole SVG document."""
    legend, top = _legend(series)
    upper, lower = top + 50, top + 50 + 240 + 84
    half = (WIDTH - 2 * MARGIN - 64) / 2
    height = lower + max(200, BAR * len(series)) + 56
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'width="{WIDTH}" height="{height:.0f}" role="img" aria-label="{escape(heading)}">',
        f"<style>{_style(len(series))}</style>",
        f'<rect class="ground" width="{WIDTH}" height="{height:.0f}"/>',
        _text(MARGIN, 34, heading, "heading"),
        *legend,
        *_accuracy(series, window, MARGIN + 56, upper, WIDTH - 2 * MARGIN - 64),
        *_attempts(series, MARGIN + 56, lower, half - 56),
        *_delays(series, MARGIN + half + 64, lower, half),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _style(count: int) -> str:
    """Return the style sheet: the light colours, and the dark ones for those who want them."""
    base = (
        "text{font:12px system-ui,sans-serif}.heading{font-size:17px;font-weight:600}"
        ".title{font-size:13px;font-weight:600}.line{fill:none;stroke-width:2;"
        "stroke-linejoin:round;stroke-linecap:round}"
    )
    schemes = []
    for ground, ink, faint, palette in (
        ("#ffffff", "#1f2328", "#d8dee4", LIGHT),
        ("#0d1117", "#e6edf3", "#30363d", DARK),
    ):
        colours = "".join(
            f".s{place}{{stroke:{colour}}}.f{place}{{fill:{colour}}}"
            for place, colour in enumerate(palette[:count])
        )
        schemes.append(
            f".ground{{fill:{ground}}}text{{fill:{ink}}}.grid{{stroke:{faint}}}"
            f".axis{{stroke:{ink}}}{colours}"
        )
    return f"{base}{schemes[0]}@media (prefers-color-scheme:dark){{{schemes[1]}}}"


def _legend(series: Sequence[Series]) -> tuple[list[str], float]:
    """Return the entries, in rows, and where they end."""
    parts: list[str] = []
    x, y = float(MARGIN), float(TOP)
    for place, run in enumerate(series):
        needed = 34 + LETTER * len(_short(run.name)) + 22
        if x + needed > WIDTH - MARGIN and x > MARGIN:
            x, y = float(MARGIN), y + 22
        parts.append(
            f'<line class="line s{_colour(place)}" {_dash(place)}x1="{x:.1f}" y1="{y - 4:.1f}" '
            f'x2="{x + 28:.1f}" y2="{y - 4:.1f}"/>'
        )
        parts.append(_text(x + 34, y, _short(run.name)))
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
    yield from _axes(
        frame,
        f"Accuracy of the last {window:,} events",
        ticks,
        lambda value: f"{value:.{decimals}%}",
    )
    yield from _lines(frame, lines)


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
    yield from _axes(frame, title, ticks, _compact)
    yield from _lines(frame, lines)


def _delays(series: Sequence[Series], left: float, top: float, width: float) -> Iterator[str]:
    names = LETTER * max((len(_short(run.name)) for run in series), default=0) + 10
    room = width - names - 74  # the value is written behind the bar
    most = max((run.delay for run in series if run.delay is not None), default=0.0) or 1.0
    step = BAR if len(series) > 7 else BAR + 6
    yield _text(left, top - 12, "Mean delay of a bound split, events", "title")
    for place, run in enumerate(series):
        y = top + step * place
        yield _text(left + names - 8, y + 13, _short(run.name), anchor="end", whole=run.name)
        if run.delay is None:
            words = "no bound split" if run.delay_kind else "not measured"
            yield _text(left + names + 4, y + 13, words)
            continue
        length = room * run.delay / most
        yield (
            f'<rect class="f{_colour(place)}" x="{left + names:.1f}" y="{y + 2:.1f}" '
            f'width="{max(length, 1):.1f}" height="14"/>'
        )
        mark = "*" if run.delay_kind == "audit" else ""
        yield _text(left + names + length + 6, y + 13, f"{run.delay:,.1f}{mark}")
    if any(run.delay is not None and run.delay_kind == "audit" for run in series):
        yield _text(left, top + step * len(series) + 16, "* audited at its own leaves")


def _axes(
    frame: Frame, title: str, ticks: Sequence[float], shown: Callable[[float], str]
) -> Iterator[str]:
    """Yield the title, the grid, the numbers and the name of the horizontal axis."""
    left, right = frame.left, frame.left + frame.width
    bottom = frame.top + frame.height
    yield _text(left - 56, frame.top - 12, title, "title")
    for tick in ticks:
        y = frame.y(tick)
        yield _rule(left, y, right, y, "grid")
        yield _text(left - 8, y + 4, shown(tick), anchor="end")
    for tick in nice_ticks(frame.x_low, frame.x_high, max(int(frame.width / 90), 2)):
        if tick <= frame.x_high:
            yield _rule(frame.x(tick), bottom, frame.x(tick), bottom + 4, "axis")
            yield _text(frame.x(tick), bottom + 18, _compact(tick), anchor="middle")
    yield _rule(left, bottom, right, bottom, "axis")
    yield _text(left + frame.width / 2, bottom + 36, "events learned", anchor="middle")


def _lines(frame: Frame, lines: Sequence[Sequence[tuple[float, float]]]) -> Iterator[str]:
    for place, line in enumerate(lines):
        if len(line) == 1:
            x, y = frame.x(line[0][0]), frame.y(line[0][1])
            yield f'<circle class="f{_colour(place)}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>'
        points = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in line)
        yield f'<polyline class="line s{_colour(place)}" {_dash(place)}points="{points}"/>'


def nice_ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers that cover low to high, about so many.

    >>> nice_ticks(0, 9500, 5)
    [0.0, 2000.0, 4000.0, 6000.0, 8000.0, 10000.0]
    """
    rough = (high - low) / most or 1.0
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(place * step, 12) for place in range(first, max(last, first + 1) + 1)]


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


def _compact(value: float) -> str:
    """Return a number that fits under an axis: 200k, 1.5M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def _colour(place: int) -> int:
    return place % len(LIGHT)


def _dash(place: int) -> str:
    # Runs beyond the palette take its colours again, with other dashes.
    dash = DASHES[(place % len(LIGHT) + place // len(LIGHT)) % len(DASHES)]
    return f'stroke-dasharray="{dash}" ' if dash else ""


def _rule(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(
    x: float, y: float, words: str, kind: str = "", anchor: str = "start", whole: str = ""
) -> str:
    named = f' class="{kind}"' if kind else ""
    title = f"<title>{escape(whole)}</title>" if whole and whole != words else ""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f"<text{named} {place}>{title}{escape(words)}</text>"
