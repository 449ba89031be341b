"""What the chart renders: valid for Kubernetes, safe by default, and wired together."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from app.api_settings import HttpSettings
from tests.chart.rendering import CASES, CHART, ROOT, Object, helm, objects, only, pods, rendered

VALIDATE = Path(sys.executable).with_name("kubernetes-validate")
YAMLLINT = Path(sys.executable).with_name("yamllint")
VERSIONS = ("1.25", "1.29", "1.34")
CUSTOM = {"ServiceMonitor", "PrometheusRule", "HTTPRoute", "RayCluster"}
OPTIONAL = {
    "api.autoscaling.enabled": "HorizontalPodAutoscaler",
    "api.podDisruptionBudget.enabled": "PodDisruptionBudget",
    "networkPolicy.enabled": "NetworkPolicy",
    "serviceMonitor.enabled": "ServiceMonitor",
    "prometheusRule.enabled": "PrometheusRule",
    "ingress.enabled": "Ingress",
    "httpRoute.enabled": "HTTPRoute",
    "ray.enabled": "RayCluster",
}


@pytest.mark.parametrize("case", CASES)
def test_helm_has_nothing_against_the_chart(case: str) -> None:
    done = helm("lint", "--strict", str(CHART), "--values", str(CASES[case]))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_takes_every_object(version: str, tmp_path: Path) -> None:
    file = tmp_path / "objects.yaml"
    file.write_text("\n".join(rendered(values=values) for values in CASES.values()))

    done = subprocess.run(
        [VALIDATE, "-k", version, "--strict", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    unknown = re.findall(r"WARN .* for kind (\w+)", done.stdout + done.stderr)
    assert set(unknown) <= CUSTOM


def test_a_misspelt_field_would_be_found(tmp_path: Path) -> None:
    file = tmp_path / "objects.yaml"
    file.write_text(rendered().replace("serviceName:", "servicename:"))

    done = subprocess.run([VALIDATE, "-k", "1.29", "--strict", str(file)], capture_output=True)

    assert done.returncode != 0


@pytest.mark.parametrize("case", CASES)
def test_all_pods_hold_the_restricted_level_of_pod_security(case: str) -> None:
    found = pods(objects(values=CASES[case]))
    assert found
    for spec in found:
        whole = spec["securityContext"]
        assert whole["runAsNonRoot"] is True
        assert whole["runAsUser"] > 0
        assert whole["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        assert spec["automountServiceAccountToken"] is False
        for volume in spec.get("volumes", []):
            assert set(volume) - {"name"} <= {"configMap", "emptyDir", "secret",
                                              "persistentVolumeClaim"}  # fmt: skip
        for container in spec["containers"]:
            own = container["securityContext"]
            assert own["allowPrivilegeEscalation"] is False
            assert own["capabilities"] == {"drop": ["ALL"]}
            assert own["readOnlyRootFilesystem"] is True
            assert container["resources"]["limits"]["memory"]


def test_what_is_optional_is_off_until_its_flag_is_on() -> None:
    plain = {found["kind"] for found in objects()}
    for flag, kind in OPTIONAL.items():
        assert kind not in plain
        assert kind in {found["kind"] for found in objects("--set", f"{flag}=true")}
    named = [o["metadata"]["name"] for o in objects("--set", "dashboard.enabled=true")]
    assert "live-livetree-dashboard" in named


def test_there_is_one_learner_and_its_checkpoints_are_on_a_volume() -> None:
    learner = only(objects(), "StatefulSet")["spec"]

    (container,) = learner["template"]["spec"]["containers"]
    (claim,) = learner["volumeClaimTemplates"]
    places = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}

    assert learner["replicas"] == 1
    assert places[claim["metadata"]["name"]] == "/data"


def test_roles_are_told_apart_and_one_pod_alone_needs_none() -> None:
    both = objects()
    for kind, role in (("StatefulSet", "learner"), ("Deployment", "api")):
        (container,) = only(both, kind)["spec"]["template"]["spec"]["containers"]
        assert {"name": "LIVETREE_ROLE", "value": role} in container["env"]

    alone = objects(values=CASES["alone-values"])
    (container,) = only(alone, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    assert "LIVETREE_ROLE" not in [entry["name"] for entry in container["env"]]
    assert not [found for found in alone if found["kind"] == "Deployment"]


@pytest.mark.parametrize("case", CASES)
def test_services_find_the_pods_that_answer(case: str) -> None:
    found = objects(values=CASES[case])
    templates = [o["spec"]["template"] for o in found if o["kind"] in ("Deployment", "StatefulSet")]
    for service in (o for o in found if o["kind"] == "Service"):
        wanted = service["spec"]["selector"].items()
        chosen = [t for t in templates if wanted <= t["metadata"]["labels"].items()]
        assert len(chosen) == 1, service["metadata"]["name"]
        (container,) = chosen[0]["spec"]["containers"]
        assert [port["name"] for port in container["ports"]] == ["http"]
        assert service["spec"]["ports"][0]["targetPort"] == "http"


def test_probes_and_ports_follow_the_settings() -> None:
    found = objects(values=CASES["everything-values"])
    for spec in (o["spec"]["template"]["spec"] for o in found if "template" in o.get("spec", {})):
        (container,) = spec["containers"]
        assert container["ports"][0]["containerPort"] == 9000
        for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
            asked = {"path": path, "port": "http", "scheme": "HTTPS"}
            assert container[probe]["httpGet"] == asked
    monitor = only(found, "ServiceMonitor")["spec"]["endpoints"][0]
    assert monitor["scheme"] == "https"


@pytest.mark.parametrize("seconds", [HttpSettings().shutdown_seconds, 0.5, 90.5])
def test_a_pod_has_time_to_finish_and_to_write_its_last_checkpoint(seconds: float) -> None:
    found = objects("--set-json", f"settings.http.shutdownSeconds={seconds}")
    grace = {
        kind: only(found, kind)["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        for kind in ("StatefulSet", "Deployment")
    }

    assert grace["StatefulSet"] > 3 * seconds
    assert grace["Deployment"] >= 5 + 2 * seconds  # preStopSeconds
    assert seconds > 60 or grace == {"StatefulSet": 75, "Deployment": 50}  # values.yaml


def test_settings_that_were_put_right_replace_a_pod_that_never_became_ready() -> None:
    """Kubernetes would wait for it by default, through every upgrade and rollback."""
    assert only(objects(), "StatefulSet")["spec"]["podManagementPolicy"] == "Parallel"


def test_a_strict_network_policy_lets_helm_test_through() -> None:
    found = objects(
        "--set", "networkPolicy.enabled=true,networkPolicy.egress[0].ports[0].port=9093",
        "--set", "networkPolicy.ingressFrom[0].podSelector.matchLabels.may=ask",
    )  # fmt: skip
    policy, asking = only(found, "NetworkPolicy")["spec"], only(found, "Pod")["metadata"]["labels"]
    answering = only(found, "Deployment")["spec"]["template"]["metadata"]["labels"]

    def open_to(rules: list[Object], side: str, labels: dict[str, str]) -> bool:
        chosen = [
            peer["podSelector"]["matchLabels"].items()
            for rule in rules
            if {"port": "http", "protocol": "TCP"} in rule.get("ports", [])
            for peer in rule.get(side, [])
        ]
        return any(wanted <= labels.items() for wanted in chosen)

    assert policy["podSelector"]["matchLabels"].items() <= asking.items()
    assert open_to(policy["ingress"], "from", asking)
    assert open_to(policy["egress"], "to", answering)
    assert not open_to(policy["ingress"], "from", {"app.kubernetes.io/name": "livetree"})


def test_new_settings_roll_the_pods() -> None:
    def stamp(*options: str) -> str:
        template = only(objects(*options), "StatefulSet")["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/settings"])

    assert stamp() == stamp()
    assert stamp() != stamp("--set", "settings.variant=efdt")


def test_autoscaling_leaves_the_number_of_replicas_alone() -> None:
    found = objects("--set", "api.autoscaling.enabled=true")

    assert "replicas" not in only(found, "Deployment")["spec"]
    target = only(found, "HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]
    assert target["name"] == only(found, "Deployment")["metadata"]["name"]


def test_the_chart_has_the_version_of_the_program() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert (chart["version"], chart["appVersion"]) == (version, version)
    assert f"image: livetree:{version}" in chart["annotations"]["artifacthub.io/images"]
    assert yaml.safe_load(chart["annotations"]["artifacthub.io/changes"])[0]["kind"] == "added"


def test_the_notes_end_with_the_readme_s_own_question() -> None:
    body = re.search(r"-d '(\{\"features\".*\})'", (ROOT / "README.md").read_text())
    assert body is not None

    notes = helm(
        "install", "live", str(CHART), "--dry-run=client", "--debug", "--namespace", "shop"
    )
    said = (CHART / "templates/NOTES.txt").read_text() if notes.returncode else notes.stdout

    assert body[0] in said
    json.loads(body[1])


def test_several_releases_do_not_share_names() -> None:
    done = helm("template", "other", str(CHART))
    names = {(o["kind"], o["metadata"]["name"]) for o in yaml.safe_load_all(done.stdout) if o}

    assert not names & {(o["kind"], o["metadata"]["name"]) for o in objects()}


def test_the_chart_s_files_are_tidy() -> None:
    rules = "{extends: relaxed, rules: {line-length: {max: 130}, commas: disable}}"
    files = [CHART / "values.yaml", CHART / "values-prod.yaml", CHART / "Chart.yaml", CHART / "ci"]
    subprocess.run([YAMLLINT, "--strict", "-d", rules, *files, ROOT / "compose.yaml"], check=True)
