"""The pod that the chart renders, really run: podman takes it for a small cluster.

Podman knows pods, claims and ConfigMaps, but no StatefulSets, services or running probes: the
test takes the pod out of the set, and asks what the probes would ask.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from streams import open_stream
from tests.brokers import Embedded
from tests.chart.rendering import objects, only
from tests.faults.served import wait
from tests.image.conftest import image
from tests.image.containers import run
from tests.port import free_port

__all__ = ["image"]

pytestmark = pytest.mark.image

CONTAINER = "live-livetree-learner-livetree"
KEY = "a-key-of-the-rendered-pod"


class Pod:
    """The learner's pod, running; it answers by itself."""

    def __init__(self, image: str, embedded: Embedded, topic: str, file: Path) -> None:
        self.file, self.port = file, free_port()
        name, _, tag = image.rpartition(":")
        rendered = objects(
            "--set", f"image.repository={name},image.tag={tag},image.pullPolicy=Never",
            "--set", "api.enabled=false,secrets.auth.keys.name=keys,secrets.auth.keys.key=keys",
            "--set", f"settings.kafka.topic={topic},settings.http.port={self.port}",
            "--set", f"settings.kafka.bootstrapServers={embedded.bootstrap_servers}",
            "--set", "settings.tree.nMin=50,learner.resources.limits.memory=768Mi",
        )  # fmt: skip
        self.spec = only(rendered, "StatefulSet")["spec"]
        self.settings = only(rendered, "ConfigMap")
        self.test = only(rendered, "Pod")

    def _claims(self) -> list[dict[str, Any]]:
        return [
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim}
            for claim in self.spec["volumeClaimTemplates"]
        ]

    def _pod(self) -> dict[str, Any]:
        """Return the set's pod, with the volumes that the set would have made for it."""
        template = self.spec["template"]
        volumes = [
            {"name": claim["metadata"]["name"],
             "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
            for claim in self.spec["volumeClaimTemplates"]
        ]  # fmt: skip
        (container,) = template["spec"]["containers"]
        # On the machine's own network nothing is mapped, and podman refuses to.
        alone = {key: value for key, value in container.items() if key != "ports"}
        spec = template["spec"] | {
            "containers": [alone],
            "volumes": [*template["spec"]["volumes"], *volumes],
        }
        metadata = template["metadata"] | {"name": "live-livetree-learner"}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def start(self, *, claimed: bool = False) -> None:
        """Run it; on the volume of before where that is claimed already."""
        claims = [] if claimed else self._claims()
        self.file.write_text(yaml.safe_dump_all([self.settings, *claims, self._pod()]))
        run("podman", "play", "kube", "--network", "host", str(self.file))

    def helm_test(self) -> str:
        """Run what the pod of `helm test` runs, here beside the service; return what it printed."""
        (container,) = self.test["spec"]["containers"]
        given = {each["name"]: each.get("value", KEY) for each in container["env"]}
        given["URL"] = f"http://127.0.0.1:{self.port}{urlsplit(given['URL']).path}"
        variables = [f"--env={name}={value}" for name, value in given.items()]
        command = [*container["command"], *container["args"]]
        return run("podman", "exec", *variables, CONTAINER, *command)

    def stop(self) -> int:
        """Stop it as a node would; return the learner's exit code."""
        grace = str(self.spec["template"]["spec"]["terminationGracePeriodSeconds"])
        run("podman", "stop", "--time", grace, CONTAINER)
        return int(run("podman", "inspect", "--format", "{{.State.ExitCode}}", CONTAINER))

    def remove(self) -> None:
        """Take it away; the volume stays."""
        run("podman", "play", "kube", "--down", str(self.file))

    def ask(self, path: str, body: object = None) -> tuple[int, bytes]:
        """Return status and body of a route; status 0 while nothing answers."""
        headers = {
            "content-type": "application/json",
            "x-api-key": KEY,
        }
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as exc:
            with exc:
                return exc.code, exc.read()
        except OSError:
            return 0, b""


@pytest.fixture
def pod(image: str, embedded: Embedded, tmp_path: Path) -> Iterator[tuple[Pod, str]]:
    topic = embedded.topic()
    made = Pod(image, embedded, topic, tmp_path / "pod.yaml")
    forget()
    secret = tmp_path / "secret.json"  # podman's own form of a Secret that is there already
    secret.write_text(json.dumps({"keys": b64encode(KEY.encode()).decode()}))
    run("podman", "secret", "create", "keys", str(secret))
    made.start()
    yield made, topic
    forget()


def forget() -> None:
    """Remove what an earlier run may have left."""
    run("podman", "pod", "rm", "--force", "--ignore", "live-livetree-learner")
    run("podman", "volume", "rm", "--force", "data")
    if "keys" in run("podman", "secret", "ls", "--format", "{{.Name}}").split():
        run("podman", "secret", "rm", "keys")


def log() -> str:
    return run("podman", "logs", CONTAINER, errors_too=True)


def test_the_rendered_pod_learns_answers_and_goes_on_from_its_volume(
    pod: tuple[Pod, str], embedded: Embedded
) -> None:
    running, topic = pod
    events = open_stream("agrawal", seed=3).events(2000)
    embedded.send(topic, *(json.dumps(event).encode() for event in events))
    (container,) = running.spec["template"]["spec"]["containers"]
    probes = [container[name]["httpGet"]["path"] for name in ("livenessProbe", "readinessProbe")]

    for path in probes:
        wait(lambda path=path: running.ask(path)[0] == 200, log)
    wait(lambda: json.loads(running.ask("/model")[1])["events"] == len(events), log)
    assert "label" in json.loads(running.helm_test())
    assert run("podman", "exec", CONTAINER, "id", "-u") == "10001"
    assert run("podman", "exec", CONTAINER, "sh", "-c", "touch /x 2>&1 || true").endswith(
        "Read-only file system"
    )
    assert running.stop() == 0
    assert "checkpoint written" in log()

    running.remove()
    running.start(claimed=True)
    wait(lambda: running.ask("/readyz")[0] == 200, log)
    assert json.loads(running.ask("/model")[1])["events"] == len(events)
    assert "checkpoint loaded" in log()
