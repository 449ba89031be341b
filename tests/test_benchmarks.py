"""The page of the benchmarks is what their results say."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from benchmarks import report
from benchmarks.measurement import Measurement
from benchmarks.vht_cost import (
    Costs,
    Network,
    Point,
    errors,
    fit,
    pays_from,
    predicted,
    speed_up,
)


def test_the_page_is_made_from_the_results() -> None:
    assert report.PAGE.read_text("utf-8") == report.page(*report.kept()), (
        "run benchmarks.report --render"
    )


def test_the_pictures_are_made_from_the_results() -> None:
    drawn = report.pictures(report.kept()[1])

    assert drawn
    for name, svg in drawn.items():
        assert (report.PICTURES / name).read_text("utf-8") == svg
        ET.fromstring(svg)


def test_every_remark_belongs_to_a_question() -> None:
    asked = {line["question"] for line in report.kept()[1]} | {"How to read this"}

    assert set(report.remarks()) <= asked


def test_what_misses_its_target_is_explained() -> None:
    missed = {
        line["question"]
        for line in report.kept()[1]
        if line.get("target") and not report.reached(line)
    }

    assert missed <= set(report.remarks())


@pytest.mark.parametrize(
    ("target", "ratio", "facts", "is_reached"),
    [
        (">= 12", 12.0, {}, True),
        (">= 12", 11.9, {}, False),
        ("each > 1", 5.0, {"least": 0.9}, False),
        (">= 10, each >= 7", 11.0, {"least": 7.0}, True),
        (">= 10, memory <= 0.5", 11.0, {"memory": 0.6}, False),
    ],
)
def test_a_target_is_judged_by_all_its_parts(
    target: str, ratio: float, facts: dict[str, float], is_reached: bool
) -> None:
    assert report.reached({"target": target, "ratio": ratio, **facts}) is is_reached


def test_a_measurement_is_one_line_of_json_with_the_five_fields() -> None:
    line = Measurement("learn", "MOA", 1.5, "events/s", 12.0, facts={"nodes": 3}).line()

    assert json.loads(line) == {
        "question": "learn", "contender": "MOA", "value": 1.5, "unit": "events/s", "ratio": 12.0,
        "nodes": 3,
    }  # fmt: skip
    assert "\n" not in line


KNOWN = Costs(0.2, update=0.001, evaluation=0.2, aggregator=0.5, message=40.0, handover=20.0)


def made_up(attributes: int, workers: int) -> Point:
    point = Point(attributes, float(attributes), workers, 0.005, 0.006 if workers else 0.0)
    return point._replace(microseconds=predicted(KNOWN, point))


def test_the_constants_of_a_cost_model_are_found_again() -> None:
    # Questions differ from run to run; with as many of them everywhere nobody could tell an update
    # from an evaluation, nor an event from a message.
    points = [
        point._replace(microseconds=predicted(KNOWN, point))
        for place, attributes in enumerate((50, 200, 1000, 5000))
        for workers in (0, 1, 2)
        for point in [made_up(attributes, workers)._replace(
            questions=0.004 + 0.001 * place, messages=(0.006 + 0.001 * place) * bool(workers)
        )]
    ]  # fmt: skip

    found = fit(points)

    assert found == pytest.approx(KNOWN, rel=1e-6)
    assert max(map(abs, errors(found, [made_up(2000, 2)]))) < 1e-6


def test_no_constant_is_negative_whatever_was_measured() -> None:
    points = [made_up(d, p)._replace(microseconds=1.0 / d) for d in (50, 500) for p in (0, 1, 2)]

    assert min(fit(points)) >= 0.0


def test_workers_pay_from_a_width_on_and_later_or_never_over_a_network() -> None:
    like = made_up(1000, 2)
    near = Network(round_trip=100.0, call=0.0, copy=0.0, wire=0.0)
    slow = near._replace(wire=1.0)

    width = pays_from(KNOWN, like)
    assert width is not None
    assert speed_up(KNOWN, like._replace(attributes=width, updates=float(width))) > 1.0
    further = pays_from(KNOWN, like, near)
    assert further is not None
    assert further > width
    assert pays_from(KNOWN, like, slow) is None
