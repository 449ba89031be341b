"""The image as it is built, and as it runs: not root, read-only, without rights, ready at once."""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streams import open_stream
from tests.brokers import Embedded
from tests.faults.served import wait
from tests.image.container import Container
from tests.image.containers import run

ROOT = Path(__file__).parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

pytestmark = pytest.mark.image

Start = Callable[..., Container]


def test_it_says_what_it_is_and_runs_as_nobody(description: dict[str, Any]) -> None:
    config = description["Config"]
    labels = config["Labels"]

    assert config["User"] == "10001:10001"
    assert config["Entrypoint"] == ["tini", "-s", "--", "livetree"]
    assert config["Cmd"] == ["serve"]
    assert config["Volumes"] == {"/data": {}}
    assert description["Healthcheck"]["Test"] == ["CMD", "python", "-m", "app.healthcheck"]
    assert labels["org.opencontainers.image.version"] == VERSION
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert len(labels["org.opencontainers.image.revision"]) == 40


def test_it_learns_and_answers_on_a_read_only_file_system_and_ends_with_a_checkpoint(
    start: Start, embedded: Embedded
) -> None:
    topic = embedded.topic()
    events = open_stream("agrawal", seed=3).events(2000)
    container = start(
        "--memory=768m",
        f"--env=LIVETREE_KAFKA__BOOTSTRAP_SERVERS={embedded.bootstrap_servers}",
        f"--env=LIVETREE_KAFKA__TOPIC={topic}",
        "--env=LIVETREE_TREE__N_MIN=50",
    )
    embedded.send(topic, *(json.dumps(event).encode() for event in events))
    container.wait_for("/readyz")

    features = {name: value for name, value in events[0].items() if name != "label"}
    status, answer = container.ask("/predict", {"features": features})
    assert (status, json.loads(answer)["label"] in ("A", "B")) == (200, True)
    assert container.run("id", "-u") == "10001"
    assert container.run("python", "-m", "app.healthcheck") == ""
    assert container.run("sh", "-c", "touch /opt/x /x 2>/dev/null; ls /opt") == "livetree"
    rights = container.run("sh", "-c", "grep -h CapEff /proc/[0-9]*/status").split()
    assert set(rights) == {"CapEff:", "0000000000000000"}
    assert container.run("cat", "/proc/1/comm") == "tini"

    assert container.stop() == 0
    assert container.said("checkpoint written")


def test_kernels_are_ready_made(start: Start) -> None:
    container = start()
    wait(lambda: container.said("kernels ready"), container.log)

    own = container.run("sh", "-c", "find /tmp -name '*.nb?' -type f | wc -l")
    linked = container.run("sh", "-c", "find /tmp -name '*.nb?' -type l | wc -l")

    assert (own, int(linked) > 50) == ("0", True)


@pytest.mark.parametrize(
    "options", [(), ("--init",), ("--env=LIVETREE_ROLE=api", "--env=LIVETREE_HTTP__WORKERS=2")]
)
@pytest.mark.parametrize("milliseconds", [0, 50, 200, 500, 1000])
def test_it_ends_by_sigterm_from_the_first_instant(
    start: Start, milliseconds: int, options: tuple[str, ...]
) -> None:
    """Also below another init, and with processes of its own."""
    container = start(*options)
    time.sleep(milliseconds / 1000)

    code = container.stop()  # by SIGKILL it would be 137

    assert code == 0 or not container.said("kernels ready"), container.log()
    assert code in (0, 143), container.log()
    assert "Traceback" not in container.log()


def test_wrong_settings_end_it_with_their_exit_code(start: Start) -> None:
    container = start("--env=LIVETREE_TREE__DELTA=2")

    assert run("podman", "wait", container.name) == "2"
    assert "tree.delta" in container.log()


def test_the_commands_work_inside(start: Start) -> None:
    container = start(command=("variants", "vfdt"))

    assert run("podman", "wait", container.name) == "0"
    assert "Domingos" in container.log()


def test_no_compilers_and_no_installers_are_left_in_it(start: Start) -> None:
    container = start()
    search = "for name in gcc cc ld make git; do command -v $name; done; true"

    assert container.run("sh", "-c", search) == ""
    assert "pip" not in container.run("ls", "/opt/livetree/bin").split()


def test_a_replica_answers_from_the_snapshots_of_a_learner(
    start: Start, embedded: Embedded
) -> None:
    """As the chart and compose.yaml run them: two containers, told apart by their role."""
    topic = embedded.topic()
    embedded.create_topic(f"{topic}.snapshots")
    given = (
        f"--env=LIVETREE_KAFKA__BOOTSTRAP_SERVERS={embedded.bootstrap_servers}",
        f"--env=LIVETREE_KAFKA__TOPIC={topic}",
        "--env=LIVETREE_TREE__N_MIN=50",
    )
    learner, replica = (start(*given, f"--env=LIVETREE_ROLE={role}") for role in ("learner", "api"))
    events = open_stream("agrawal", seed=3).events(2000)
    embedded.send(topic, *(json.dumps(event).encode() for event in events))
    replica.wait_for("/readyz")

    wait(lambda: json.loads(replica.ask("/model")[1]).get("events") == len(events), replica.log)
    assert replica.ask("/predict", {"features": {"age": 40}})[0] == 200
    assert b"livetree_events_learned_total{" not in replica.ask("/metrics")[1]
    assert b"livetree_events_learned_total{" in learner.ask("/metrics")[1]
    assert (replica.stop(), learner.stop()) == (0, 0)
