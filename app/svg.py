"""The pieces that our SVG pictures are made of. Pure text, no library.

Colours can be told apart by colour-blind readers, lines also by their dashes. The reader's light
or dark scheme is followed; where none is known, a picture is light.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import NamedTuple

LETTER = 6.7  # width of a letter of the usual size, on average

# At least 24 apart (CIE76) in every pair, also as seen by the three kinds of colour-blind readers.
LIGHT = ("#004580", "#f9680e", "#138344", "#b372a2", "#5a1f00", "#1ca1f7", "#181a1c")
DARK = ("#1394f0", "#cd6805", "#69ffb9", "#9a518b", "#ffdf43", "#cae1fc", "#696f4a")
DASHES = ("", "8 3", "2 4", "10 3 2 3", "5 3", "14 4", "2 2 6 2", "1 3")


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
    log_x: bool = False

    def x(self, value: float) -> float:
        """Return the pixel of a value on the horizontal axis."""
        low, high = self.x_low, self.x_high
        if self.log_x:
            low, high, value = (math.log10(max(each, 1e-9)) for each in (low, high, value))
        return self.left + self.width * (value - low) / (high - low)

    def x_ticks(self) -> list[float]:
        """Return the numbers to write below: round ones, or powers of ten."""
        if self.log_x:
            low, high = math.floor(math.log10(self.x_low)), math.ceil(math.log10(self.x_high))
            return [10.0**power for power in range(low, high + 1) if 10.0**power >= self.x_low]
        return nice_ticks(self.x_low, self.x_high, max(int(self.width / 90), 2))

    def y(self, value: float) -> float:
        """Return the pixel of a value on the vertical axis."""
        low, high = self.y_low, self.y_high
        if self.log:
            low, high, value = (math.log10(max(each, 1e-9)) for each in (low, high, value))
        return self.top + self.height * (1 - (value - low) / (high - low))


def style_sheet(count: int) -> str:
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


def axes(
    frame: Frame, title: str, ticks: Sequence[float], shown: Callable[[float], str], below: str
) -> Iterator[str]:
    """Yield the title, the grid, the numbers and the name of the horizontal axis."""
    left, right = frame.left, frame.left + frame.width
    bottom = frame.top + frame.height
    yield label(left - 56, frame.top - 12, title, "title")
    for tick in ticks:
        y = frame.y(tick)
        yield rule(left, y, right, y, "grid")
        yield label(left - 8, y + 4, shown(tick), anchor="end")
    for tick in frame.x_ticks():
        if tick <= frame.x_high:
            yield rule(frame.x(tick), bottom, frame.x(tick), bottom + 4, "axis")
            yield label(frame.x(tick), bottom + 18, compact(tick), anchor="middle")
    yield rule(left, bottom, right, bottom, "axis")
    yield label(left + frame.width / 2, bottom + 36, below, anchor="middle")


def curves(frame: Frame, lines: Sequence[Sequence[tuple[float, float]]]) -> Iterator[str]:
    """Yield each line as a curve, a lone point as a dot."""
    for place, line in enumerate(lines):
        if len(line) == 1:
            x, y = frame.x(line[0][0]), frame.y(line[0][1])
            yield f'<circle class="f{colour(place)}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>'
        points = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in line)
        yield f'<polyline class="line s{colour(place)}" {dashed(place)}points="{points}"/>'


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


def compact(value: float) -> str:
    """Return a number that fits under an axis: 200k, 1.5M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def colour(place: int) -> int:
    """Return the number of the colour at a place of the legend."""
    return place % len(LIGHT)


def dashed(place: int) -> str:
    """Return the dashes at a place of the legend."""
    # Runs beyond the palette take its colours again, with other dashes.
    dash = DASHES[(place % len(LIGHT) + place // len(LIGHT)) % len(DASHES)]
    return f'stroke-dasharray="{dash}" ' if dash else ""


def rule(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """Return a straight line."""
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def label(
    x: float, y: float, words: str, kind: str = "", anchor: str = "start", whole: str = ""
) -> str:
    """Return words at a point; the whole of them on hovering."""
    named = f' class="{kind}"' if kind else ""
    title = f"<title>{escape(whole)}</title>" if whole and whole != words else ""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f"<text{named} {place}>{title}{escape(words)}</text>"
