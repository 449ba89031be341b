"""compose.yaml: well formed, and in step with the program, the chart's files and each other."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.settings import Settings
from app.settings_file import setting_paths, variable_of
from tests.monitoring.conftest import promtool

__all__ = ["promtool"]

ROOT = Path(__file__).parents[1]
FILE = ROOT / "compose.yaml"
COMPOSE = yaml.safe_load(FILE.read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: found for name, found in SERVICES.items() if "livetree" in found["image"]}
ROLE = "LIVETREE_ROLE"


def test_it_is_a_compose_file() -> None:
    program = Path(sys.executable).with_name("check-jsonschema")
    command = [program, "--builtin-schema", "vendor.compose-spec", str(FILE)]
    subprocess.run(command, check=True, capture_output=True)


def test_it_runs_what_it_should() -> None:
    assert {"kafka", "learner", "api", "producer", "prometheus", "grafana"} <= set(SERVICES)
    assert SERVICES["api"]["deploy"] == {"replicas": 2}
    assert [name for name, found in OURS.items() if found["environment"].get(ROLE)] == [
        "learner",
        "api",
    ]


def test_every_variable_is_a_setting() -> None:
    known = {variable_of(path) for path in setting_paths(Settings)}
    for name, found in OURS.items():
        assert set(found["environment"]) <= known, name
        Settings.load(environ=found["environment"])


def test_our_containers_are_as_strict_as_the_chart_s() -> None:
    for found in OURS.values():
        assert found["read_only"] is True
        assert found["cap_drop"] == ["ALL"]
        assert found["security_opt"] == ["no-new-privileges:true"]


def test_they_have_as_long_to_end_as_in_the_chart() -> None:
    values = yaml.safe_load((ROOT / "helm/livetree/values.yaml").read_text(encoding="utf-8"))
    for name in ("learner", "api"):
        seconds = values[name]["terminationGracePeriodSeconds"]
        assert SERVICES[name]["stop_grace_period"] == f"{seconds}s"


def test_the_init_is_the_image_s_own() -> None:
    assert not [name for name, found in OURS.items() if "init" in found]


def test_the_image_is_the_one_that_make_image_builds() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert {found["image"] for found in OURS.values()} == {
        f"livetree:${{LIVETREE_VERSION:-{version}}}"
    }


def test_only_this_machine_can_reach_the_ports() -> None:
    ports = [port for found in SERVICES.values() for port in found.get("ports", [])]
    assert len(ports) == 3
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_files_volumes_and_configs_exist() -> None:
    for found in SERVICES.values():
        for source in (volume.partition(":")[0] for volume in found.get("volumes", [])):
            exists = (ROOT / source).is_file() if source.startswith("./") else None
            assert source in COMPOSE["volumes"] if exists is None else exists, source
        for config in found.get("configs", []):
            assert config["source"] in COMPOSE["configs"]


def test_the_topics_are_those_that_the_service_uses() -> None:
    settings = Settings.load(environ=SERVICES["producer"]["environment"])
    made = SERVICES["topics"]["command"][0]
    for topic in (settings.kafka.topic, settings.dead_letter_topic()):
        assert f"--topic {topic} " in made
    assert f"--topic {settings.snapshots.topic_beside(settings.kafka.topic)} " in made


def test_prometheus_understands_its_file(promtool: str, tmp_path: Path) -> None:
    text = COMPOSE["configs"]["prometheus"]["content"]
    alerts = ROOT / "helm/livetree/prometheus/alerts.yaml"
    file = tmp_path / "prometheus.yml"
    file.write_text(text.replace("/etc/prometheus/alerts.yaml", str(alerts)))
    subprocess.run([promtool, "check", "config", str(file)], check=True, capture_output=True)

    (job,) = yaml.safe_load(text)["scrape_configs"]
    (where,) = job["dns_sd_configs"]
    assert set(where["names"]) == {name for name, f in OURS.items() if ROLE in f["environment"]}


@pytest.mark.parametrize("name", ["datasource", "dashboards"])
def test_grafana_finds_the_dashboard_and_its_prometheus(name: str) -> None:
    provisioned = yaml.safe_load(COMPOSE["configs"][name]["content"])
    grafana = SERVICES["grafana"]
    if name == "datasource":
        assert provisioned["datasources"][0]["url"] == "http://prometheus:9090"
    else:
        folder = provisioned["providers"][0]["options"]["path"]
        (mounted,) = grafana["volumes"]
        assert mounted.split(":")[1].startswith(f"{folder}/")
        home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
        assert home == mounted.split(":")[1]
