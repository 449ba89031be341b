"""One Ray on this machine, and one set of workers, for all tests of one process."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from app.vht_settings import RaySettings
from tests.app.conftest import make_settings
from tests.distributed.nodes import Nodes
from tests.requirement import missing

if TYPE_CHECKING:
    from app.distributed.ray_workers import RayWorkers

__all__ = ["make_settings"]

PATIENT = RaySettings(cpus_per_worker=0.01, start_seconds=600, object_store_bytes=100 * 2**20)


@pytest.fixture(scope="session")
def ray_there() -> None:
    """Skip without Ray."""
    if importlib.util.find_spec("ray") is None:
        missing("ray is not installed (pip install 'livetree[ray]')", "REQUIRE_RAY")


@pytest.fixture(scope="session")
def running_ray(ray_there: None) -> Iterator[None]:
    """Have a Ray of our own run."""
    from app.distributed.ray_cluster import connect, disconnect

    connect(PATIENT, 2)
    yield
    disconnect()


@pytest.fixture(scope="session")
def workers(running_ray: None) -> Iterator[RayWorkers]:
    """Return workers; every test has them begin anew."""
    from app.distributed.ray_workers import RayWorkers

    found = RayWorkers(PATIENT)
    yield found
    found.close()


@pytest.fixture(scope="module")
def cluster(ray_there: None) -> Iterator[Nodes]:
    """Return a cluster of two nodes with room for workers, and a head without."""
    nodes = Nodes(2)
    yield nodes
    nodes.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs Ray, for `-m ray`."""
    for item in items:
        if "ray_there" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.ray)
