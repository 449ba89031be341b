"""The dashboard: what it asks exists, Grafana knows every key, and no panel stays empty."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from app.metrics import Metrics
from tests.monitoring.scraped import Scraped

ROOT = Path(__file__).parents[2]
FILE = ROOT / "helm/livetree/grafana/dashboard.json"
BOARD: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
QUERIES = [
    (f"{panel['title']}: {target['legendFormat'] or target['refId']}", target["expr"])
    for panel in PANELS
    for target in panel["targets"]
]
VARIABLES = {
    "$__rate_interval": "5s",
    "$__interval": "1s",
    "$__range": "12s",
    "$model": "scraped",
}
# Read by Grafana's Prometheus plugin, of which the schema of dashboards says nothing.
PLUGINS_OWN = re.compile(r"/annotations/list/\d/(titleFormat|textFormat)")


def filled_in(query: str) -> str:
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    assert "$" not in query, query
    return query


def lost(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Name what one document has and the other does not, or has otherwise."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            if value is not None and key not in theirs:
                yield f"{path}/{key}"
            elif value is not None:
                yield from lost(value, theirs[key], f"{path}/{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from lost(one, other, f"{path}/{place}")
    elif ours != theirs:
        yield path


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


def through_grafana(board: dict[str, Any]) -> list[str]:
    plugins.register_default_plugins()
    read = Dashboard.from_json(without_nulls(board))
    back = json.loads(JSONEncoder().encode(read))
    return [path for path in lost(board, back) if not PLUGINS_OWN.fullmatch(path)]


def test_grafana_knows_every_key() -> None:
    assert through_grafana(BOARD) == []


def test_a_key_that_grafana_does_not_know_is_found() -> None:
    wrong = json.loads(FILE.read_text(encoding="utf-8"))
    wrong["panels"][0]["titel"] = "Accuracy"

    assert through_grafana(wrong) == ["/panels/0/titel"]


def test_every_metric_that_is_asked_for_exists() -> None:
    known = set(re.findall(r"^# TYPE (\w+) ", Metrics().render()[0].decode(), re.MULTILINE))
    asked = {
        re.sub(r"_bucket$", "", name)
        for _, query in QUERIES
        for name in re.findall(r"\b((?:livetree|http|process)_\w+)", query)
    }
    assert len(asked) > 30
    assert asked <= known


def test_panels_explain_themselves_and_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + right, place["y"] + down)
            for right in range(place["w"])
            for down in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert all(panel["description"].endswith(".") for panel in PANELS)
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


def test_every_panel_shows_something_while_the_service_works(scraped: Scraped) -> None:
    empty = [
        name
        for name, query in QUERIES
        if not any(values for _, values in scraped.values(filled_in(query)))
    ]
    assert empty == []


def test_each_process_is_behind_the_newest_snapshot_of_its_model(
    promtool: str, tmp_path: Path
) -> None:
    (query,) = (query for name, query in QUERIES if name.startswith("Events behind"))
    learned = {
        '{instance="learner", model="scraped"}': 100,
        '{instance="replica", model="scraped", worker="0"}': 60,
        '{instance="replica", model="scraped", worker="1"}': 100,
        '{instance="elsewhere", model="other"}': 900,
    }
    behind = dict(zip(learned, (0, 40, 0), strict=False))
    test = {
        "input_series": [
            {"series": f"livetree_snapshot_events{labels}", "values": str(events)}
            for labels, events in learned.items()
        ],
        "promql_expr_test": [
            {
                "expr": filled_in(query),
                "eval_time": "0s",
                "exp_samples": [
                    {"labels": labels, "value": events} for labels, events in behind.items()
                ],
            }
        ],
    }
    file = tmp_path / "test.json"  # JSON is YAML
    file.write_text(json.dumps({"tests": [test]}))

    subprocess.run([promtool, "test", "rules", str(file)], check=True)


def test_a_misspelt_metric_would_show_as_an_empty_panel(scraped: Scraped) -> None:
    assert scraped.values("sum(rate(livetree_events_lerned_total[5s]))") == []


def test_panels_of_another_model_are_empty(scraped: Scraped) -> None:
    """So the choice of a model reaches every query."""
    for name, query in QUERIES:
        other = filled_in(query.replace("$model", "other"))
        shown = [values for _, values in scraped.values(other) if any(values)]
        assert not shown, name


def test_the_choice_of_models_offers_those_that_run(scraped: Scraped) -> None:
    (query,) = (
        variable["query"]["query"]
        for variable in BOARD["templating"]["list"]
        if variable["type"] == "query"
    )
    found = re.fullmatch(r"label_values\((\w+), (\w+)\)", query)
    assert found is not None

    values = scraped.api(f"label/{found[2]}/values", **{"match[]": found[1]})

    assert values == ["scraped"]


@pytest.mark.parametrize("mark", BOARD["annotations"]["list"], ids=lambda mark: str(mark["name"]))
def test_the_queries_behind_marks_are_understood(scraped: Scraped, mark: dict[str, Any]) -> None:
    scraped.values(filled_in(mark["expr"]))


def test_prometheus_finds_nothing_to_complain_about(scraped: Scraped, promtool: str) -> None:
    status, exposition = scraped.ask("/metrics", key=None)
    assert status == 200

    checked = subprocess.run(
        [promtool, "check", "metrics"], input=exposition, capture_output=True, check=False
    )

    assert (checked.returncode, checked.stderr.decode()) == (0, "")
