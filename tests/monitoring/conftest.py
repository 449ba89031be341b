"""Prometheus and its tool; one scraped service for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.brokers import Embedded
from tests.monitoring.scraped import Scraped
from tests.requirement import required_program

REQUIRED = "REQUIRE_PROMETHEUS"


@pytest.fixture(scope="session")
def promtool() -> str:
    return required_program("promtool", REQUIRED, "prometheus")


@pytest.fixture(scope="session")
def prometheus_program() -> str:
    return required_program("prometheus", REQUIRED, "prometheus")


@pytest.fixture(scope="session")
def scraped(
    embedded: Embedded, prometheus_program: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scraped]:
    """Return a service under traffic that a Prometheus has watched for a while."""
    with Scraped(embedded, prometheus_program, tmp_path_factory.mktemp("scraped")) as running:
        running.wait_until_watched()
        yield running
