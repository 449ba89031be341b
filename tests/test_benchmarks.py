"""The page of the benchmarks is what their results say."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from benchmarks import report
from benchmarks.measurement import Measurement


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
