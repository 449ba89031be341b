"""Every variant over the whole way: `livetree produce`, the topic, `livetree serve`, real HTTP.

All variants read the same topic, each goes on after a restart, and each ends with the model that
the learner alone makes of the same events.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.checkpoint import CheckpointFolder
from learner import VARIANTS, Encoder, Schema, StreamingTree
from streams import open_stream
from tests.kafka.broker import Kafka
from tests.process import ROOT, Event, Livetree, ends_cleanly
from tests.test_walk import grown_tree, path_fits

FIRST, MORE = 6000, 500


@pytest.fixture(scope="module")
def topic(kafka: Kafka) -> str:
    """Return a topic into which the command has written."""
    name = kafka.topic()
    said = subprocess.run(
        [sys.executable, "-m", "app", "produce", "--stream", "agrawal", "--topic", name,
         "--events", str(FIRST), "--seed", "7",
         "--bootstrap-servers", kafka.bootstrap_servers],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=True,
    ).stdout  # fmt: skip
    assert f"{FIRST:,} events delivered to topic '{name}'" in said
    assert "0 failed" in said
    return name


@pytest.fixture
def started() -> Iterator[list[Livetree]]:
    """Return the list of services; those still running end with the test."""
    services: list[Livetree] = []
    yield services
    for service in services:
        service.kill()


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_learns_answers_stops_and_goes_on(
    kafka: Kafka, topic: str, variant: str, started: list[Livetree], tmp_path: Path
) -> None:
    config = configured(kafka, topic, variant, tmp_path)
    started.append(Livetree(config, tmp_path / "first.jsonl"))
    before = kafka.end(topic)
    answers(started[-1], variant, topic, before)
    ends_cleanly(started[-1])

    more = open_stream("agrawal", seed=before).events(MORE)
    kafka.send(topic, *[json.dumps(event).encode() for event in more])
    total = before + MORE
    started.append(Livetree(config, tmp_path / "second.jsonl"))
    answers(started[-1], variant, topic, total)
    ends_cleanly(started[-1])

    kept = CheckpointFolder(tmp_path / "checkpoints").load()
    assert kept is not None
    assert (kept.events, kept.offsets) == (total, {0: total})
    sent = [json.loads(message.value() or b"") for message in kafka.read(topic, total)]
    assert kept.model_hash == learned_alone(variant, sent)


def configured(kafka: Kafka, topic: str, variant: str, folder: Path) -> Path:
    config = folder / "livetree.yaml"
    settings = {
        "name": "walk",
        "variant": variant,
        "kafka": {"bootstrap_servers": kafka.bootstrap_servers, "topic": topic},
        "tree": {"n_min": 100},
        "publish": {"every_seconds": 0.1},
        "checkpoint": {"folder": str(folder / "checkpoints")},
    }
    config.write_text(json.dumps(settings))  # JSON is YAML too
    return config


def answers(service: Livetree, variant: str, topic: str, total: int) -> None:
    """Check what the API says of a service that has learned so many events."""
    service.wait_until_learned(total)
    model = service.get("/model").json()
    assert (model["variant"], model["events"]) == (variant, total)
    assert model["offsets"] == {f"{topic}-0": total}
    nodes = grown_tree(service)
    (row,) = open_stream("agrawal", seed=99).events(1)
    del row["label"]
    answer = service.get("/predict?path=true", {"features": row}).json()
    assert answer["snapshot"] == f"{variant}-{total}"
    path_fits(row, answer, nodes)
    assert sum(p["probability"] for p in answer["probabilities"]) == pytest.approx(1)
    service.wait_until(lambda: sample(service, "consumer_lag_records") == 0)
    assert sample(service, "prequential_accuracy_ratio", window="all") == model["accuracy"] > 0.7


def sample(service: Livetree, name: str, **labels: str) -> Any:
    """Return the one sample of a metric that has these labels, by Prometheus' own parser."""
    families = text_string_to_metric_families(service.get("/metrics").body.decode())
    found = [
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == f"livetree_{name}" and labels.items() <= sample.labels.items()
    ]
    assert len(found) <= 1
    return found[0] if found else None


def learned_alone(variant: str, events: list[Event]) -> str:
    """Return the hash of the tree that the learner grows without a service."""
    labels = [event.pop("label") for event in events]
    encoder = Encoder(Schema.infer(events[:500]))
    tree = StreamingTree(encoder, variant, n_min=100.0)
    for start in range(0, len(events), 777):
        part = slice(start, start + 777)
        codes = encoder.encode_labels(labels[part])
        tree.learn(encoder.encode_records(events[part]), codes)
    return tree.hash()
