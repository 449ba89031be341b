"""Settings shared by every test, and the brokers."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from app.embedded import EmbeddedBroker
from tests.brokers import Broker, Embedded
from tests.kafka.conftest import kafka, kafka_there

__all__ = ["broker", "embedded", "kafka", "kafka_there"]

if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
    # Compiled kernels divide and wrap around in silence; as plain Python they should too.
    np.seterr(all="ignore")

# Compiling kernels takes seconds at the first example, so there are no deadlines; examples are
# derived from the test itself, so that a red run is red again.
settings.register_profile(
    "livetree",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("livetree")


@pytest.fixture(scope="session")
def embedded() -> Embedded:
    """Return the broker in memory, one for all tests; each makes topics of its own."""
    # Not closed: at the end of whole runs librdkafka's mock was found gone, with all tests passed,
    # and closing it then waits for ever or crashes inside the library. It ends with the process.
    return Embedded(EmbeddedBroker().start())


@pytest.fixture(
    scope="session", params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)]
)
def broker(request: pytest.FixtureRequest) -> Broker:
    """Return the broker in memory, then Apache Kafka: what needs any broker holds on both."""
    found: Broker = request.getfixturevalue(request.param)
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs Kafka, for `-m kafka`."""
    for item in items:
        if "kafka_there" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.kafka)
