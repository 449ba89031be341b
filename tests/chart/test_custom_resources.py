"""Objects of operators: their schemas come from npm, the rules are judged by promtool."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.chart.rendering import CASES, CHART, objects, only
from tests.monitoring.conftest import promtool
from tests.requirement import missing

__all__ = ["promtool"]

CACHE = Path.home() / ".cache" / "livetree" / "custom-resources"
PACKAGES = ("@kubernetes-models/prometheus-operator", "@kubernetes-models/gateway-api")
MODULES = {
    "ServiceMonitor": "prometheus-operator/monitoring.coreos.com/v1",
    "PrometheusRule": "prometheus-operator/monitoring.coreos.com/v1",
    "HTTPRoute": "gateway-api/gateway.networking.k8s.io/v1",
}
SCRIPT = """
import {readFileSync} from "fs";
import {%(kind)s} from "@kubernetes-models/%(module)s";
new %(kind)s(JSON.parse(readFileSync(0))).validate();
"""


@pytest.fixture(scope="session")
def node() -> Path:
    """Return the folder with the schemas; fetched once on a machine."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        missing("there is no `npm`, which brings the schemas of operators", "REQUIRE_NPM")
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not all((CACHE / "node_modules" / name).is_dir() for name in PACKAGES):
            done = subprocess.run(
                ["npm", "install", "--no-audit", "--no-fund", "--prefix", ".", *PACKAGES],
                cwd=CACHE, capture_output=True, text=True, timeout=600, check=False,
            )  # fmt: skip
            if done.returncode != 0:
                missing(f"npm did not bring the schemas: {done.stderr[-300:]}", "REQUIRE_NPM")
    return CACHE


def judged(node: Path, kind: str, found: object) -> str:
    """Return what the operator's schema has against an object; empty: nothing."""
    done = subprocess.run(
        ["node", "--input-type=module", "-e", SCRIPT % {"kind": kind, "module": MODULES[kind]}],
        cwd=node, input=json.dumps(found), capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stderr


@pytest.mark.parametrize("kind", MODULES)
def test_operators_take_their_objects(kind: str, node: Path) -> None:
    found = only(objects(values=CASES["everything-values"]), kind)

    assert judged(node, kind, found) == ""


def test_a_wrong_object_would_be_found(node: Path) -> None:
    found = only(objects(values=CASES["everything-values"]), "ServiceMonitor")
    found["spec"]["endpoints"][0]["port"] = 8000

    assert "must be string" in judged(node, "ServiceMonitor", found)


def test_the_rendered_alerts_are_the_file_s_and_ask_for_this_release_only(
    promtool: str, tmp_path: Path
) -> None:
    spec = only(objects(values=CASES["everything-values"]), "PrometheusRule")["spec"]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump(spec))
    subprocess.run([promtool, "check", "rules", str(file)], check=True, capture_output=True)

    plain = yaml.safe_load((CHART / "prometheus/alerts.yaml").read_text())
    scope = 'namespace="shop", job=~"everything(-learner)?"'
    for ours, theirs in zip(plain["groups"][0]["rules"], spec["groups"][0]["rules"], strict=True):
        asked = re.findall(r"\b(?:livetree|http|process)_[a-z_]+(\{[^}]*\})?", theirs["expr"])
        assert asked, theirs["alert"]
        assert all(scope in selector for selector in asked), theirs["alert"]
        without = theirs["expr"].replace(f"{{{scope}}}", "").replace(f"{scope}, ", "")
        assert without == ours["expr"]
        assert theirs["annotations"]["summary"] == ours["annotations"]["summary"]
        assert theirs["annotations"]["runbook_url"] == ours["annotations"]["runbook_url"].replace(
            "docs/operations.md", "https://example.com/operations"
        )


def test_the_dashboard_arrives_as_it_is() -> None:
    found = only(objects("--set", "dashboard.enabled=true"), "ConfigMap", "-dashboard")

    arrived = json.loads(found["data"]["livetree.json"])
    assert arrived == json.loads((CHART / "grafana/dashboard.json").read_text())
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
