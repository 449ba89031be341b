"""How questions become a dashboard in Grafana's JSON: panels, rows, variables, annotations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

COLUMNS = 24
ROW_HEIGHT, STAT_HEIGHT, PANEL_HEIGHT = 1, 4, 8
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
GREEN, ORANGE, RED = "green", "orange", "red"


@dataclass(frozen=True)
class Query:
    """One line, or one number, of a panel."""

    expression: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """One question; limits are (value from which, colour), from low to high."""

    title: str
    about: str
    queries: tuple[Query, ...]
    unit: str = "short"
    width: int = 8
    stat: bool = False
    stacked: bool = False
    decimals: int | None = None
    limits: tuple[tuple[float, str], ...] = ()
    bounds: tuple[float | None, float | None] = (0, None)
    words: dict[str, str] = field(default_factory=dict)


def board(overview: Sequence[Panel], rows: Mapping[str, Sequence[Panel]]) -> list[dict[str, Any]]:
    """The panels of a dashboard: numbers in one line, then a row of questions for each title."""
    panels = list(_placed(overview, 0, STAT_HEIGHT))
    top = STAT_HEIGHT
    for title, questions in rows.items():
        panels.append(_row(title, top))
        placed = list(_placed(questions, top + ROW_HEIGHT, PANEL_HEIGHT))
        panels += placed
        top = placed[-1]["gridPos"]["y"] + PANEL_HEIGHT
    for number, panel in enumerate(panels, 1):
        panel["id"] = number
    return panels


def source_variable() -> dict[str, Any]:
    """The choice of a Prometheus."""
    return {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
        "hide": 0,
        "includeAll": False,
        "multi": False,
    }


def label_variable(name: str, label: str, metric: str) -> dict[str, Any]:
    """The choice of one value of a label, some, or all."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": f"label_values({metric}, {name})", "refId": name},
        "refresh": 2,
        "sort": 1,
        "hide": 0,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def annotation(name: str, colour: str, query: Query) -> dict[str, Any]:
    """Marks on all panels at the times when a query has something."""
    return {
        "name": name,
        "datasource": SOURCE,
        "enable": True,
        "iconColor": colour,
        "expr": query.expression,
        "titleFormat": query.legend,
        "textFormat": "{{instance}}",
    }


def _row(title: str, top: int) -> dict[str, Any]:
    return {
        "type": "row",
        "title": title,
        "collapsed": False,
        "panels": [],
        "gridPos": {"h": ROW_HEIGHT, "w": COLUMNS, "x": 0, "y": top},
    }


def _placed(questions: Sequence[Panel], top: int, height: int) -> Iterator[dict[str, Any]]:
    """The panels of a row, from left to right and then below."""
    left = 0
    for question in questions:
        if left + question.width > COLUMNS:
            left, top = 0, top + height
        place = {"h": height, "w": question.width, "x": left, "y": top}
        left += question.width
        yield _stat(question, place) if question.stat else _lines(question, place)


def _common(question: Panel, place: dict[str, int], kind: str) -> dict[str, Any]:
    return {
        "type": kind,
        "title": question.title,
        "description": question.about,
        "datasource": SOURCE,
        "gridPos": place,
        "targets": [
            {
                "refId": "ABCDEF"[number],
                "datasource": SOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
                "range": True,
            }
            for number, query in enumerate(question.queries)
        ],
    }


def _field(question: Panel, colour: str, limits: list[dict[str, Any]]) -> dict[str, Any]:
    low, high = question.bounds
    found: dict[str, Any] = {
        "unit": question.unit,
        "color": {"mode": colour},
        "thresholds": {"mode": "absolute", "steps": limits},
    }
    found |= {} if low is None else {"min": low}
    found |= {} if high is None else {"max": high}
    found |= {} if question.decimals is None else {"decimals": question.decimals}
    if question.words:
        found["mappings"] = [
            {"type": "value", "options": {key: {"text": word, "index": place}}}
            for place, (key, word) in enumerate(question.words.items())
        ]
    return found


def _stat(question: Panel, place: dict[str, int]) -> dict[str, Any]:
    first = RED if question.words else GREEN
    limits = [{"color": first, "value": None}] + [
        {"color": colour, "value": value} for value, colour in question.limits
    ]
    return {
        **_common(question, place, "stat"),
        "fieldConfig": {"defaults": _field(question, "thresholds", limits), "overrides": []},
        "options": {
            "colorMode": "value",
            "graphMode": "none" if question.words else "area",
            "justifyMode": "auto",
            "textMode": "auto",
            "orientation": "auto",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        },
    }


def _lines(question: Panel, place: dict[str, int]) -> dict[str, Any]:
    limits = [{"color": GREEN, "value": None}]
    custom = {
        "lineWidth": 1,
        "fillOpacity": 25 if question.stacked else 8,
        "showPoints": "never",
        "stacking": {"mode": "normal" if question.stacked else "none", "group": "A"},
    }
    return {
        **_common(question, place, "timeseries"),
        "fieldConfig": {
            "defaults": {**_field(question, "palette-classic", limits), "custom": custom},
            "overrides": [],
        },
        "options": {
            "legend": {
                "displayMode": "list",
                "placement": "bottom",
                "showLegend": True,
                "calcs": [],
            },
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    }
