"""Every event is learned exactly once, whenever and however often the learner is killed.

One partition: the model after hundreds of kills is, bit for bit, that of a learner nobody
disturbed. Several partitions: their order differs from run to run, so a journal beside the
learner notes it; the model is, bit for bit, that of the journal's events learned in one go, and
the journal holds every event of every partition once.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app import wiring
from app.checkpoint import Checkpoint, CheckpointFolder
from app.settings import Settings
from app.source import Record
from app.training import Training
from learner import VARIANTS
from streams import open_stream
from tests.faults.learner_process import Learners, learned_order, newest, wait
from tests.kafka.broker import Kafka

EVENTS = 12_000
KILLS = 30  # of each variant, at random moments
KILLS_PARTITIONED = 8
PARTITIONS = 4
KEEP = 2  # checkpoints; few, so that old ones are removed while a learner can be killed
EVERY_EVENTS = 150
LARGEST_BATCH = 64

# The papers' defaults would hardly split within so few events.
HASTY: dict[str, Any] = {"n_min": 40, "audit_fraction": 0.5}
TREE: dict[str, dict[str, Any]] = {
    "vfdt": {**HASTY, "leaf_predictor": "nba"},
    "vht": HASTY,
    "vfdtc": HASTY,
    "efdt": {**HASTY, "reevaluate_every": 200},
    "cgd": {**HASTY, "tau": 0.1},
    "osm": {**HASTY, "tau": 0.1},
    "imac": {"mu": 40, "tau": 0.1, "audit_fraction": 0.5},
    "streamtree": HASTY,
}


def values(number: int) -> list[bytes | None]:
    """Return events, and now and then a poison record or a tombstone among them."""
    good = [json.dumps(event).encode() for event in open_stream("agrawal", seed=5).events(number)]
    mixed: list[bytes | None] = []
    for place, value in enumerate(good):
        if place % 1000 == 333:
            mixed.append(b'{"salary": "abc", "label": "A"}')
        if place % 1000 == 777:
            mixed.append(None)
        mixed.append(value)
    return mixed


@pytest.fixture(scope="module")
def topic(kafka: Kafka) -> str:
    """Return a topic of one partition with all events; every test has checkpoints of its own."""
    name = kafka.topic()
    kafka.send(name, *values(EVENTS))
    return name


@pytest.fixture(scope="module")
def partitioned(kafka: Kafka) -> str:
    """Return a topic of four partitions with all events, dealt out in turn."""
    name = kafka.topic(PARTITIONS)
    for partition in range(PARTITIONS):
        kafka.send(name, *values(EVENTS)[partition::PARTITIONS], partition=partition)
    return name


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def learners(variant: str) -> Iterator[Learners]:
    with Learners(variant) as made:
        yield made


def given(kafka: Kafka, topic: str, variant: str, folder: Path, poll_batch: int) -> dict[str, Any]:
    return {
        "variant": variant,
        "kafka": {
            "bootstrap_servers": kafka.bootstrap_servers,
            "topic": topic,
            "fetch_wait_ms": 10,
            "poll_batch": poll_batch,
            "poll_timeout_seconds": 0.05,
        },
        "schema": {"infer_from": 120},
        "tree": TREE[variant],
        "publish": {"every_seconds": 3600},
        "checkpoint": {
            "folder": str(folder),
            "every_events": EVERY_EVENTS,
            "every_seconds": 0.5,
            "keep": KEEP,
        },
    }


def finish(settings: dict[str, Any], ends: dict[int, int]) -> Checkpoint:
    """Learn to the end in this process; return the last checkpoint."""
    service = wiring.build(Settings.load(environ={}, **settings))
    service.start()
    wait(lambda: service.failure is not None or service.consumer.source.positions() == ends)
    service.stop()
    assert service.failure is None
    return checkpoint_in(Path(settings["checkpoint"]["folder"]))


def checkpoint_in(folder: Path) -> Checkpoint:
    kept = CheckpointFolder(folder).load()
    assert kept is not None
    return kept


def ends_of(kafka: Kafka, topic: str, partitions: int) -> dict[int, int]:
    return {partition: kafka.end(topic, partition) for partition in range(partitions)}


def live_and_die(
    learners: Learners, settings: dict[str, Any], chance: random.Random, journal: Path | None = None
) -> bool:
    """Start a learner and kill it at a random moment; whether it left a checkpoint behind."""
    folder = Path(settings["checkpoint"]["folder"])
    before = newest(folder)
    left = EVENTS - (checkpoint_in(folder).events if before else 0)
    learners.start(settings, journal=journal)
    # From one that has not read a record yet to one with several checkpoints, if so many come.
    enough = before + min(chance.randint(0, 3), left // (EVERY_EVENTS + LARGEST_BATCH))
    wait(lambda: newest(folder) >= enough or learners.gone())
    time.sleep(chance.uniform(0.0, 0.01))
    learners.kill()
    return newest(folder) > before


def test_a_learner_killed_at_random_moments_ends_with_the_model_of_one_that_was_not(
    kafka: Kafka, topic: str, variant: str, learners: Learners, tmp_path: Path
) -> None:
    chance = random.Random(variant)
    ends = ends_of(kafka, topic, 1)
    killed = tmp_path / "killed"
    settings = [given(kafka, topic, variant, killed, batch) for batch in (1, 10, LARGEST_BATCH)]

    at_work = sum(live_and_die(learners, chance.choice(settings), chance) for _ in range(KILLS))
    resumed = finish(given(kafka, topic, variant, killed, 500), ends)
    straight = finish(given(kafka, topic, variant, tmp_path / "straight", 1000), ends)

    assert at_work >= KILLS // 3  # kills did hit learners that were learning
    assert resumed.model_hash == straight.model_hash
    assert resumed.evaluation == straight.evaluation
    assert resumed.events == straight.events == EVENTS


# What a checkpoint does to the disk. The n-th call of a life is where the learner dies: before it
# takes effect, so that "after it" is "before the next one".
CRASH_POINTS = [
    (call, n)
    for n in (1, 2, 3, 4)
    for call in ("openat", "write", "fsync", "rename", "close", "ftruncate")
    if (call, n) not in {("ftruncate", 3), ("ftruncate", 4)}
]


def test_a_learner_killed_at_every_step_of_a_checkpoint_ends_with_the_same_model(
    kafka: Kafka, topic: str, variant: str, learners: Learners, strace: str, tmp_path: Path
) -> None:
    ends = ends_of(kafka, topic, 1)
    killed = tmp_path / "killed"
    settings = given(kafka, topic, variant, killed, 50)

    for call, n in CRASH_POINTS:
        before = newest(killed)
        pid = learners.start(settings, wait=True)
        tracer = kill_at(strace, pid, killed, before, call, n)
        assert learners.wait_gone() == -signal.SIGKILL, f"it did not die of {call} number {n}"
        tracer.wait(60)
        for file in CheckpointFolder(killed).files():
            Checkpoint.from_bytes(file.read_bytes())  # raises where it is not whole
        assert newest(killed) >= before

    resumed = finish(given(kafka, topic, variant, killed, 500), ends)
    straight = finish(given(kafka, topic, variant, tmp_path / "straight", 1000), ends)
    assert resumed.model_hash == straight.model_hash
    assert resumed.evaluation == straight.evaluation


def kill_at(
    strace: str, pid: int, folder: Path, before: int, call: str, n: int
) -> subprocess.Popen[bytes]:
    """Attach to a learner that waits for it, and let it go on until it dies of its n-th call."""
    files = [
        folder / f"{number:012d}.{suffix}"
        for number in range(max(0, before - KEEP), before + 6)
        for suffix in ("tmp", "checkpoint")
    ]
    paths = [
        argument for path in (folder, folder / "spare", *files) for argument in ("-P", str(path))
    ]
    return subprocess.Popen(
        [strace, "-f", "-qq", "-o", "/dev/null", *paths, "-e", f"trace={call}",
         "-e", f"inject={call}:signal=KILL:when={n}", "-p", str(pid)],
    )  # fmt: skip


def test_with_several_partitions_every_event_is_learned_exactly_once(
    kafka: Kafka, partitioned: str, variant: str, learners: Learners, tmp_path: Path
) -> None:
    chance = random.Random(variant)
    ends = ends_of(kafka, partitioned, PARTITIONS)
    killed, journal = tmp_path / "killed", tmp_path / "journal.jsonl"
    settings = given(kafka, partitioned, variant, killed, 20)

    at_work = sum(
        live_and_die(learners, settings, chance, journal) for _ in range(KILLS_PARTITIONED)
    )
    learners.start(settings, journal=journal)
    wait(lambda: learners.gone() or learned_to(killed) == ends)
    learners.kill()
    final = checkpoint_in(killed)

    order = learned_order(journal)
    assert at_work >= KILLS_PARTITIONED // 3
    assert Counter(partition for partition, _ in order) == ends
    assert sorted(order) == [(p, offset) for p in ends for offset in range(ends[p])]
    assert final.model_hash == learned_in(order, settings)
    assert final.events == EVENTS


def learned_to(folder: Path) -> dict[int, int]:
    kept = CheckpointFolder(folder).load() if newest(folder) else None
    return dict(kept.offsets) if kept else {}


def learned_in(order: list[tuple[int, int]], given: dict[str, Any]) -> str:
    """Return the hash of the model that learns the events in this order, without a service."""
    dealt = {p: values(EVENTS)[p::PARTITIONS] for p in range(PARTITIONS)}
    training = Training(Settings.load(environ={}, **given))
    training.learn([Record("t", p, offset, None, dealt[p][offset]) for p, offset in order])
    assert training.tree is not None
    return training.tree.hash()
