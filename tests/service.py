"""A service inside the test's own process: started, waited for, stopped."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.checkpoint import CheckpointFolder
from app.settings import Settings
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
