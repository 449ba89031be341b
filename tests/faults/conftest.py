"""The broker of the fault tests is Apache Kafka itself; faults of a broker get one of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.settings import Settings
from tests.app.conftest import FEATURES, make_settings
from tests.brokers import Broker
from tests.faults.served import Served

STRACE_REQUIRED = "REQUIRE_STRACE"

__all__ = ["given", "make_settings", "serve", "settings_on", "strace"]


def given(broker: Broker, topic: str, folder: Path, **more: Any) -> dict[str, Any]:
    """Return the settings of a learner as plain data; groups in `more` are added to ours."""
    own: dict[str, dict[str, Any]] = {
        "kafka": {
            "bootstrap_servers": broker.bootstrap_servers,
            "topic": topic,
            "fetch_wait_ms": 10,
        },
        "schema": {"features": FEATURES},
        "tree": {"n_min": 50},
        "checkpoint": {"folder": str(folder)},
    }
    return {name: {**own.get(name, {}), **more.get(name, {})} for name in {**own, **more}}


def settings_on(broker: Broker, topic: str, folder: Path, **more: Any) -> Settings:
    """Return the settings of a learner in this process."""
    return Settings.load(environ={}, **given(broker, topic, folder, **more))


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Return a starter of `livetree serve`; what it started is gone after the test."""
    started: list[Served] = []

    def start(settings: dict[str, Any], **more: Any) -> Served:
        started.append(Served(settings, tmp_path / f"serve-{len(started)}.yaml", **more))
        return started[-1]

    yield start
    for served in started:
        served.kill()


@pytest.fixture(scope="session")
def strace() -> str:
    """Return the program that breaks system calls; skips, or fails where it is required."""
    found = shutil.which("strace")
    works = found and not subprocess.run([found, "-qq", "true"], capture_output=True).returncode
    if works:
        return str(found)
    missing = "there is no `strace`, or it may not trace here"
    if os.environ.get(STRACE_REQUIRED):
        pytest.fail(f"strace is required here ({STRACE_REQUIRED}): {missing}", pytrace=False)
    pytest.skip(missing)
