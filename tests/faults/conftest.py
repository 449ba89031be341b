"""Faults are tried on Apache Kafka itself, and on system calls."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.app.conftest import make_settings
from tests.kafka.conftest import kafka, kafka_there

REQUIRED = "REQUIRE_STRACE"

__all__ = ["kafka", "kafka_there", "make_settings", "strace"]


@pytest.fixture(scope="session")
def strace() -> str:
    """Return the program that breaks system calls; skips, or fails where it is required."""
    found = shutil.which("strace")
    works = found and not subprocess.run([found, "-qq", "true"], capture_output=True).returncode
    if works:
        return str(found)
    missing = "there is no `strace`, or it may not trace here"
    if os.environ.get(REQUIRED):
        pytest.fail(f"strace is required here ({REQUIRED}): {missing}", pytrace=False)
    pytest.skip(missing)
