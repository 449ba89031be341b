"""The Ray cluster of the chart: as KubeRay wants it, and known to the learner."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from app.settings import Settings
from tests.chart.rendering import CASES, objects, only
from tests.requirement import missing

KUBERAY = "github.com/ray-project/kuberay/ray-operator@v1.5.1"
SCHEMA = Path("config/crd/bases/ray.io_rayclusters.yaml")
CACHE = Path.home() / ".cache" / "livetree" / "kuberay"


@pytest.fixture(scope="module")
def definition() -> dict[str, Any]:
    """Return KubeRay's own schema of a RayCluster, which closes what it does not open."""
    if shutil.which("go") is None:
        missing("there is no `go`, which brings KubeRay's definitions", "REQUIRE_GO")
    done = subprocess.run(
        ["go", "mod", "download", "-json", KUBERAY],
        env=os.environ | {"GOPATH": str(CACHE), "GOFLAGS": "-modcacherw"},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        missing(f"KubeRay's definitions cannot be had: {done.stdout[-300:]}", "REQUIRE_GO")
    found = yaml.safe_load((Path(json.loads(done.stdout)["Dir"]) / SCHEMA).read_text())
    (version,) = [v for v in found["spec"]["versions"] if v["name"] == "v1"]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    _close(schema)
    return schema


def _close(schema: Any) -> None:
    """Refuse fields that are not described, and take numbers for quantities."""
    if isinstance(schema, list):
        for inner in schema:
            _close(inner)
    if not isinstance(schema, dict):
        return
    if "properties" in schema and "additionalProperties" not in schema:
        kept = schema.get("x-kubernetes-preserve-unknown-fields")
        is_metadata = schema["properties"].keys() <= {"annotations", "labels", "name", "namespace"}
        schema["additionalProperties"] = bool(kept) or is_metadata
    for inner in schema.values():
        _close(inner)


def cluster() -> dict[str, Any]:
    return only(objects(values=CASES["ray-values"]), "RayCluster")


def problems(definition: dict[str, Any], found: object) -> list[str]:
    return [error.message for error in jsonschema.Draft7Validator(definition).iter_errors(found)]


def test_kuberay_takes_the_cluster(definition: dict[str, Any]) -> None:
    assert problems(definition, cluster()) == []


def test_a_misspelt_or_wrong_field_would_be_found(definition: dict[str, Any]) -> None:
    wrong = cluster()
    wrong["spec"]["workerGroupSpecs"][0]["replica"] = 2
    assert any("'replica' was unexpected" in told for told in problems(definition, wrong))
    wrong = cluster()
    wrong["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] = 7
    assert any("7 is not of type 'string'" in told for told in problems(definition, wrong))


def test_the_learner_joins_the_cluster_with_its_secret() -> None:
    found = objects(values=CASES["ray-values"])
    name = only(found, "RayCluster")["metadata"]["name"]
    text = only(found, "ConfigMap", "livetree")["data"]["livetree.json"]
    settings = Settings.load(environ={}, **json.loads(text))

    assert settings.execution == "ray"
    assert settings.vht.mode == "wok"
    assert settings.vht.workers == 6
    assert settings.vht.ray.address == f"{name}-head-svc.shop.svc:6379"
    assert settings.vht.ray.join
    learner = only(found, "StatefulSet")["spec"]["template"]["spec"]["containers"][0]
    variables = {one["name"]: one for one in learner["env"]}
    secret = variables["RAY_AUTH_TOKEN"]["valueFrom"]["secretKeyRef"]
    assert secret == {"name": name, "key": "auth_token"}
    assert only(found, "RayCluster")["spec"]["authOptions"] == {"mode": "token"}
    api = only(found, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    assert "RAY_AUTH_TOKEN" not in {one["name"] for one in api["env"]}


def test_without_it_nothing_is_said_of_ray() -> None:
    found = objects(values=CASES["defaults"])

    assert not [one for one in found if one["kind"] == "RayCluster"]
    assert "ray" not in only(found, "ConfigMap", "livetree")["data"]["livetree.json"]


def test_pods_of_the_cluster_run_as_restricted_as_all_others() -> None:
    spec = cluster()["spec"]
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    for pod in (group["template"]["spec"] for group in groups):
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"]
