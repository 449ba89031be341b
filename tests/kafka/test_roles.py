"""A learner and its replicas as processes, on Apache Kafka: killed, cut off, under load."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.api.answer import ENCODER, Wanted, predictions
from app.serving import Published
from app.settings import Settings
from app.snapshot_message import about, message_pieces
from app.snapshot_topic import TopicOutlet
from learner import Snapshot
from tests.app.conftest import FEATURES, events
from tests.app.snapshots import ROWS, grown_tree
from tests.kafka.broker import Kafka
from tests.process import Livetree, metrics_of

PUBLICATIONS = 1000
ASKED = {"instances": ROWS}
AWAY_SECONDS = 10


@pytest.fixture
def start(kafka: Kafka, tmp_path: Path) -> Iterator[Callable[..., Livetree]]:
    """Return how a process of a role is started; all are ended after the test."""
    topic = kafka.topic()
    with ExitStack() as running:

        def started(role: str, **more: Any) -> Livetree:
            snapshots = {"message_bytes": 1500, "every_seconds": 0.1, **more.pop("snapshots", {})}
            settings = {
                "role": role,
                "kafka": {
                    "bootstrap_servers": kafka.bootstrap_servers,
                    "topic": topic,
                    "fetch_wait_ms": 10,
                },
                "schema": {"features": FEATURES},
                "tree": {"n_min": 50, "leaf_predictor": "nba"},
                "publish": {"every_seconds": 0.1},
                "checkpoint": {"folder": str(tmp_path / "checkpoints"), "every_seconds": 0.5},
                "snapshots": snapshots,
                "log_format": "json",
                **more,
            }
            number = len(list(tmp_path.glob("*.yaml")))
            config = tmp_path / f"{role}-{number}.yaml"
            config.write_text(yaml.safe_dump(settings))
            process = Livetree(config, config.with_suffix(".log"))
            running.callback(process.kill)
            return process

        started.topic = topic  # type: ignore[attr-defined]
        yield started


def ready(process: Livetree) -> None:
    process.wait_until(lambda: process.get("/readyz").status == 200)


def wait_for_snapshot(process: Livetree, name: str) -> None:
    process.wait_until(lambda: process.get("/model").json()["snapshot"]["id"] == name)


def answer(process: Livetree) -> tuple[str, Any]:
    """Return what answered, and its predictions."""
    found = process.get("/predict", ASKED)
    assert found.status == 200, found.body
    return found.headers["etag"], found.json()["predictions"]


def agree(processes: list[Livetree], learned: int) -> None:
    """All answer from the same snapshot of so many events, and alike."""
    for process in processes:
        process.wait_until_learned(learned)
    answers = [answer(process) for process in processes]
    assert len({etag for etag, _ in answers}) == 1
    assert all(predictions == answers[0][1] for _, predictions in answers)
    trees = [process.get("/tree").json() for process in processes]
    assert all(tree["nodes"] == trees[0]["nodes"] for tree in trees)


@contextmanager
def asking(*processes: Livetree) -> Iterator[list[int]]:
    """Ask all of them, again and again; their answers' statuses."""
    statuses: list[int] = []
    stop = threading.Event()

    def ask(process: Livetree) -> None:
        while not stop.is_set():
            statuses.append(process.get("/predict", ASKED).status)
            time.sleep(0.02)

    threads = [threading.Thread(target=ask, args=(process,)) for process in processes]
    for thread in threads:
        thread.start()
    try:
        yield statuses
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_three_replicas_answer_alike_and_outlive_the_learner_and_each_other(
    kafka: Kafka, start: Any
) -> None:
    learner = start("learner")
    replicas = [start("api") for _ in range(3)]
    kafka.send(start.topic, *events(1000))
    agree(replicas, 1000)

    with asking(*replicas[:2]) as statuses:
        learner.kill()
        replicas[2].kill()
        replicas[2] = start("api")  # from the topic alone
        ready(replicas[2])
        agree(replicas, 1000)
        kafka.send(start.topic, *events(500, seed=2))
        learner = start("learner")  # from its checkpoint
        agree(replicas, 1500)
    told = learner.get("/model").json()

    assert set(statuses) == {200}
    for replica in replicas:
        model = replica.get("/model").json()
        for name in ("offsets", "accuracy", "kappa", "window", "counters", "shape", "params"):
            assert model[name] == told[name], name
        assert replica.get("/schema").json() == learner.get("/schema").json()
        assert (
            replica.get("/splits").json()["changes"]
            == (learner.get("/splits?limit=100").json()["changes"])
        )
    assert learner.get("/predict", ASKED).status == 421


def test_a_broker_that_is_away_for_ten_seconds_costs_no_answer(kafka: Kafka, start: Any) -> None:
    learner, replica = start("learner"), start("api")
    kafka.send(start.topic, *events(600))
    agree([replica], 600)

    with asking(replica) as statuses:
        kafka.kill()
        time.sleep(AWAY_SECONDS)
        assert replica.get("/readyz").status == 200
        assert metrics_of(replica)["livetree_snapshot_source_connected"] == 0
        kafka.start()
        kafka.send(start.topic, *events(600, seed=2))
        agree([replica], 1200)

    assert set(statuses) == {200}
    assert learner.process.poll() is None
    assert metrics_of(replica)["livetree_snapshot_source_connected"] == 1


def test_no_snapshot_of_a_thousand_is_torn_under_load(
    kafka: Kafka, start: Any, make_settings: Callable[..., Settings]
) -> None:
    replicas = [start("api", http={"workers": 2}), start("api"), start("api")]
    snapshots = different_snapshots(12)
    expected = {snapshot.id: predicted(snapshot) for snapshot in snapshots}
    seen, torn, done = Counter[str](), [], threading.Event()

    def ask(replica: Livetree) -> None:
        with keeping(replica) as post:
            while not done.is_set():
                found = post()
                seen[found["snapshot"]] += 1
                if found["predictions"] != expected[found["snapshot"]]:
                    torn.append(found)

    outlet = TopicOutlet(
        make_settings(
            kafka={"bootstrap_servers": kafka.bootstrap_servers, "topic": start.topic},
            snapshots={"message_bytes": 1500},
        )
    )
    publish(outlet, snapshots[0], 0)
    for replica in replicas:
        ready(replica)
    clients = [threading.Thread(target=ask, args=(replica,)) for replica in replicas]
    for client in clients:
        client.start()
    for number in range(1, PUBLICATIONS):
        publish(outlet, snapshots[number % len(snapshots)], number)
    last = snapshots[(PUBLICATIONS - 1) % len(snapshots)].id
    for replica in replicas * 8:  # whichever worker answers
        wait_for_snapshot(replica, last)
    done.set()
    for client in clients:
        client.join()
    outlet.close()

    assert not torn
    assert len(seen) > len(snapshots) // 2
    for replica, labels in zip(replicas, ('{worker="receiver"}', "", ""), strict=True):
        found = metrics_of(replica)
        assert found[f"livetree_snapshots_received_total{labels}"] > 100
        for name, value in found.items():
            if name.startswith("livetree_snapshots_refused_total"):
                assert value == 0, name


def different_snapshots(count: int) -> list[Snapshot]:
    """Return snapshots of one tree as it grows; no two of them answer alike."""
    tree, source, found = grown_tree(), random.Random(7), []
    for _ in range(count):
        rows = [{"age": source.uniform(18, 90)} for _ in range(90)]
        old = [row["age"] > 50 or source.random() < 0.2 for row in rows]
        tree.learn(tree.encoder.encode_records(rows), tree.encoder.encode_labels(old))
        found.append(tree.snapshot())
    assert len({json.dumps(predicted(snapshot)) for snapshot in found}) == count
    return found


def predicted(snapshot: Snapshot) -> Any:
    """Return what a replica must answer."""
    batch = snapshot.encode_records(ROWS)
    return json.loads(ENCODER.encode(predictions(snapshot, batch, Wanted())))


def publish(outlet: TopicOutlet, snapshot: Snapshot, number: int) -> None:
    of, name = Published(snapshot, time.time()), f"{number:032x}"
    outlet.send(message_pieces(of, about(of, "livetree", name)), name)


@contextmanager
def keeping(process: Livetree) -> Iterator[Callable[[], Any]]:
    """Return how to ask over one connection that is kept."""
    connection = http.client.HTTPConnection("127.0.0.1", int(process.url.rsplit(":", 1)[1]))
    body, headers = json.dumps(ASKED), {"content-type": "application/json"}

    def post() -> Any:
        connection.request("POST", "/predict", body, headers)
        return json.loads(connection.getresponse().read())

    try:
        yield post
    finally:
        connection.close()


def test_workers_share_a_port_and_one_that_is_killed_is_replaced(kafka: Kafka, start: Any) -> None:
    start("learner")
    replica = start("api", http={"workers": 2})
    kafka.send(start.topic, *events(600))
    replica.wait_until_learned(600)
    pids = children(replica)
    victims = sorted(pids)[:2]  # the receiver and a worker

    for victim in victims:
        os.kill(victim, signal.SIGKILL)
    replica.wait_until(lambda: len(children(replica) - set(victims)) == 3)
    ready(replica)
    kafka.send(start.topic, *events(600, seed=2))
    replica.wait_until_learned(1200)
    info = [f'livetree_build_info{{worker="{worker}",' for worker in ("0", "1", "receiver")]
    replica.wait_until(lambda: all(map(replica.get("/metrics").body.decode().count, info)))
    told = replica.get("/metrics").body.decode()

    receiver, *workers = sorted(children(replica), key=lambda pid: len(mapped_files(pid)))
    replica.wait_until(lambda: len({frozenset(mapped_files(pid)) for pid in workers}) == 1)

    assert len(pids) == 3
    assert len(mapped_files(workers[0])) == 1  # one copy serves both
    assert not mapped_files(receiver)
    assert told.count("# TYPE livetree_predictions_total counter") == 1
    replica.process.send_signal(signal.SIGTERM)
    assert replica.ended() == 0
    assert not any(map(alive, pids | children(replica)))


def children(process: Livetree) -> set[int]:
    """Return the processes that a process has started and that live."""
    listed = Path(f"/proc/{process.process.pid}/task/{process.process.pid}/children")
    found = {int(pid) for pid in listed.read_text().split()} if listed.exists() else set()
    return {pid for pid in found if alive(pid)}


def mapped_files(pid: int) -> set[str]:
    """Return the device and number of each snapshot's file that a process has in its memory."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {" ".join(line.split()[3:5]) for line in lines if "/livetree-workers-" in line}


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
