"""Every alert fires when it should, and keeps quiet when it should not."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.monitoring.cases import CASES, Case
from tests.monitoring.scraped import ALERTS, Scraped

RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
}


def said(text: str, labels: dict[str, str]) -> str:
    """Return an annotation as people get it."""
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels[found[1]], text)


def expected(name: str, labels: dict[str, str]) -> dict[str, Any]:
    rule = RULES[name]
    return {
        "exp_labels": {**rule["labels"], **labels},
        "exp_annotations": {key: said(text, labels) for key, text in rule["annotations"].items()},
    }


def judged(
    promtool: str, folder: Path, name: str, case: Case, series: dict[str, str], *, fires: bool
) -> str:
    """Return what promtool says of a case; empty where it agrees."""
    test = {
        "interval": "1m",
        "input_series": [{"series": key, "values": values} for key, values in series.items()],
        "alert_rule_test": [
            {
                "eval_time": case.at,
                "alertname": name,
                "exp_alerts": [expected(name, case.labels)] if fires else [],
            }
        ],
    }
    file = folder / "test.yaml"
    file.write_text(
        yaml.safe_dump(
            {"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": [test]},
            sort_keys=False,
        )
    )
    found = subprocess.run(
        [promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    return "" if found.returncode == 0 else found.stdout + found.stderr


def test_every_alert_has_its_cases() -> None:
    assert list(CASES) == list(RULES)
    assert all(case.quiet for case in CASES.values())


@pytest.mark.parametrize("name", CASES)
def test_an_alert_fires(name: str, promtool: str, tmp_path: Path) -> None:
    case = CASES[name]
    assert judged(promtool, tmp_path, name, case, case.fires, fires=True) == ""


@pytest.mark.parametrize("name", CASES)
def test_an_alert_keeps_quiet(name: str, promtool: str, tmp_path: Path) -> None:
    case = CASES[name]
    for series in case.quiet:
        assert judged(promtool, tmp_path, name, case, series, fires=False) == ""


def test_a_wrong_expectation_is_found(promtool: str, tmp_path: Path) -> None:
    case = CASES["LivetreeDown"]
    assert judged(promtool, tmp_path, "LivetreeDown", case, case.fires, fires=False) != ""


def test_the_rules_are_well_formed(promtool: str) -> None:
    subprocess.run([promtool, "check", "rules", str(ALERTS)], check=True, capture_output=True)


def test_a_running_prometheus_takes_the_rules_and_a_healthy_service_raises_none(
    scraped: Scraped, promtool: str
) -> None:
    subprocess.run(
        [promtool, "check", "config", str(scraped.config)], check=True, capture_output=True
    )

    (group,) = scraped.api("rules")["groups"]

    assert {rule["name"]: rule["health"] for rule in group["rules"]} == dict.fromkeys(RULES, "ok")
    assert [rule["name"] for rule in group["rules"] if rule["state"] == "firing"] == []
