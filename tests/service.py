"""A service inside the test's own process: started, waited for, stopped."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app import wiring
from app.checkpoint import Checkpoint, CheckpointFolder
from app.settings import Settings
from app.settings_file import declared_schema
from app.training import new_tree
from app.wiring import Service
from tests.app.conftest import FEATURES
from tests.brokers import Broker

DEADLINE_SECONDS = 300  # a cold compile on a slow machine

Make = Callable[..., Settings]


def learn_to(service: Service, records: int) -> None:
    """Run a service until it has consumed so many records in all, then stop it."""
    service.start()
    wait(lambda: sum(service.consumer.source.positions().values()) >= records, service)
    service.begin_shutdown()
    service.stop()
    assert service.failure is None


def wait(until: Callable[[], bool], service: Service) -> None:
    """Wait for something that a service does; fails with it, or when time is up."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not until():
        assert service.failure is None, f"the service failed: {service.failure}"
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def settings_for(make_settings: Make, broker: Broker, topic: str, **more: Any) -> Settings:
    """Return settings for a topic of the events of these tests."""
    kafka = {
        "bootstrap_servers": broker.bootstrap_servers,
        "topic": topic,
        "fetch_wait_ms": 10,
        **more.pop("kafka", {}),
    }
    given = {"schema": {"features": FEATURES}, "tree": {"n_min": 50}, **more}
    return make_settings(kafka=kafka, **given)


def model_of(folder: Path) -> str:
    """Return the hash of the model in the newest checkpoint."""
    found = CheckpointFolder(folder).load()
    assert found is not None
    assert hashlib.sha256(found.model).hexdigest() == found.model_hash
    return found.model_hash


@contextmanager
def running(settings: Settings) -> Iterator[Service]:
    """Return a service that learns; it must end without a failure."""
    service = wiring.build(settings)
    service.start()
    try:
        yield service
    finally:
        service.stop()
    assert service.failure is None


def lag(service: Service) -> dict[int, float]:
    """Return how many records wait in each partition, as the metrics tell."""
    return {
        int(sample.labels["partition"]): sample.value
        for metric in service.metrics.consumer_lag_records.collect()
        for sample in metric.samples
    }


def learned_alone(settings: Settings, values: Sequence[bytes]) -> str:
    """Return the hash of the tree that learns events without any service, in other batches."""
    schema = declared_schema(settings.schema_)
    assert schema is not None
    tree = new_tree(settings, schema)
    for start in range(0, len(values), 777):
        found = [json.loads(value) for value in values[start : start + 777]]
        labels = tree.encoder.encode_labels([event.pop("label") for event in found])
        tree.learn(tree.encoder.encode_records(found), labels)
    return tree.hash()


def kept(settings: Settings) -> Checkpoint:
    """Return the newest checkpoint."""
    found = CheckpointFolder(settings.checkpoint.folder).load()
    assert found is not None
    return found
