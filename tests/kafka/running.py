"""A service in this process, started and stopped round a test."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.settings import Settings
from app.warmup import warm_up
from app.wiring import Service, build

DEADLINE_SECONDS = 180


@contextmanager
def running(settings: Settings) -> Iterator[Service]:
    """Yield a service that learns; its final checkpoint is written at the end."""
    warm_up(settings.variant, settings.tree.given())  # compiling has no deadline
    service = build(settings)
    service.start()
    try:
        yield service
    finally:
        service.stop()


def wait_until(happened: Callable[[], object], service: Service) -> None:
    """Wait for something that a running service does."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not happened():
        assert service.failure is None, service.failure
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.02)


def passed(service: Service, topic_end: dict[int, int]) -> bool:
    """Whether the service has read up to these offsets and told so with a snapshot."""
    positions = service.consumer.source.positions()
    return all(positions.get(partition, 0) >= end for partition, end in topic_end.items())
