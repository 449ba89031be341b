"""The picture of a comparison."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from app.picture import WIDTH, Series, picture
from app.svg import DARK, DASHES, LIGHT, nice_ticks

SVG = "{http://www.w3.org/2000/svg}"


def series(name: str = "vfdt", attempts: int = 100, delay: float | None = 10.0) -> Series:
    events = list(range(1000, 51_000, 1000))
    accuracy = [0.6 + 0.3 * place / len(events) for place in range(len(events))]
    tried = [attempts * place // len(events) for place in range(1, len(events) + 1)]
    return Series(name, events, accuracy, tried, delay, "reference")


def drawn(*runs: Series) -> ET.Element:
    return ET.fromstring(picture("sea, 50,000 events", runs))


def words(root: ET.Element) -> list[str]:
    return ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]


def boxes(root: ET.Element) -> list[tuple[str, float, float, float, float]]:
    """Where every text is, by a cautious guess of its width."""
    found = []
    for text in root.iter(f"{SVG}text"):
        title = text.find(f"{SVG}title")
        shown = (title.tail if title is not None else text.text) or ""
        size = {"heading": 17, "title": 13}.get(text.get("class", ""), 12)
        width = len(shown) * size * 0.56
        x, y = float(text.get("x", 0)), float(text.get("y", 0))
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[text.get("text-anchor", "")]
        found.append((shown, left, y - size * 0.75, left + width, y + size * 0.2))
    return found


def test_every_run_has_a_line_in_both_charts_a_legend_and_a_bar() -> None:
    names = ("vfdt", "imac", "osm")
    root = drawn(*(series(name) for name in names))

    assert len(root.findall(f"{SVG}polyline")) == 2 * len(names)
    assert len([rect for rect in root.iter(f"{SVG}rect") if rect.get("height") == "14"]) == 3
    assert all(words(root).count(name) == 2 for name in names)


def test_axes_and_charts_are_labelled() -> None:
    said = words(drawn(series()))

    assert "sea, 50,000 events" in said
    assert "Accuracy of the last 1,000 events" in said
    assert said.count("events learned") == 2
    assert "Split attempts" in said
    assert "Mean delay of a bound split, events" in said
    assert {"70%", "50k", "10.0"} <= set(said)


def test_the_scale_is_logarithmic_where_attempts_lie_far_apart() -> None:
    said = words(drawn(series("many", 20_000), series("few", 100)))

    assert "Split attempts, log scale" in said
    assert {"1", "10", "100", "1k", "10k", "100k"} <= set(said)


@pytest.mark.parametrize("runs", [1, 7, 8, 20])
def test_no_text_lies_on_another_or_leaves_the_picture(runs: int) -> None:
    root = drawn(*(series(f"a run of a rather long name, number {n}", 10**n) for n in range(runs)))
    height = float(root.get("height", 0))
    found = boxes(root)

    for place, (one, left, top, right, bottom) in enumerate(found):
        assert left >= 0, one
        assert right <= WIDTH, one
        assert top >= 0, one
        assert bottom <= height, one
        for other, left2, top2, right2, bottom2 in found[place + 1 :]:
            apart = right <= left2 or right2 <= left or bottom <= top2 or bottom2 <= top
            assert apart, (one, other)


def test_every_run_looks_different() -> None:
    root = drawn(*(series(f"r{n}") for n in range(20)))
    looks = {(line.get("class"), line.get("stroke-dasharray")) for line in root.iter(f"{SVG}line")}
    lines = {look for look in looks if str(look[0]).startswith("line")}

    assert len(lines) == 20
    assert len(LIGHT) == len(DARK) == len(set(LIGHT)) == len(set(DARK))
    assert len(set(DASHES)) == len(DASHES)


def test_light_and_dark_readers_have_their_own_colours() -> None:
    text = picture("x", [series()])

    light, _, dark = text.partition("@media (prefers-color-scheme:dark)")
    assert LIGHT[0] in light
    assert DARK[0] in dark
    assert not re.search(r"<(script|image|foreignObject)", text)


def test_names_from_outside_cannot_break_the_document() -> None:
    root = drawn(series('<b>&"name'))

    assert words(root).count('<b>&"name') == 2


def test_delays_that_do_not_exist_are_said_in_words() -> None:
    runs = [
        series("plain")._replace(delay=None, delay_kind=None),
        series("none")._replace(delay=None),
        series("own")._replace(delay_kind="audit"),
    ]
    said = words(drawn(*runs))

    assert {"not measured", "no bound split", "10.0*", "* audited at its own leaves"} <= set(said)


@pytest.mark.parametrize("points", [0, 1, 2])
def test_a_short_run_can_be_drawn(points: int) -> None:
    full = series(attempts=0)
    short = Series("s", full.events[:points], full.accuracy[:points], [0] * points, None)

    root = drawn(short)

    assert len(list(root.iter(f"{SVG}circle"))) == (2 if points == 1 else 0)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.88, 0.92), (0, 35_949), (3, 3)])
def test_ticks_are_round_and_cover_the_range(low: float, high: float) -> None:
    ticks = nice_ticks(low, high, 5)

    assert 2 <= len(ticks) <= 8
    assert ticks[0] <= low
    assert ticks[-1] >= high
