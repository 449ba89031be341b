"""One Apache Kafka for all tests of a process; each test makes topics of its own."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.conftest import make_settings
from tests.kafka.broker import Kafka, Unavailable, libraries

REQUIRED = "REQUIRE_KAFKA"  # set where a test that is skipped would be a test that is missing

__all__ = ["kafka", "kafka_there", "make_settings"]


@pytest.fixture(autouse=True)
def own_log() -> Iterator[None]:
    """Take a command's log off again: it goes to a stream that ends with the command."""
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


@pytest.fixture(scope="session")
def kafka_there() -> Path:
    """Return Kafka's jars; skips, or fails where Kafka is required, without them."""
    try:
        return libraries()
    except Unavailable as exc:
        if os.environ.get(REQUIRED):
            pytest.fail(f"Apache Kafka is required here ({REQUIRED}): {exc}", pytrace=False)
        pytest.skip(f"no Apache Kafka: {exc}")


@pytest.fixture(scope="session")
def kafka(kafka_there: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """Return a running broker."""
    with Kafka(tmp_path_factory.mktemp("kafka") / "broker") as running:
        yield running
