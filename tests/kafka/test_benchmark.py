"""The benchmark of the way from Kafka into the tree runs as it says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kafka.broker import Kafka

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).resolve().parents[2]


def test_the_profile_tells_where_the_time_of_an_event_goes(kafka: Kafka) -> None:
    words = ["--json", "--profile", "--case", "agrawal, json", "--events", "20000", "--rounds", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.consume", *words,
         "--bootstrap-servers", kafka.bootstrap_servers],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = {line["contender"]: line["value"] for line in map(json.loads, done.stdout.splitlines())}

    whole = found.pop("all")
    assert sum(found.values()) == pytest.approx(whole, rel=0.01)
    for stage in ("take records from the client", "offsets", "decode, encode", "learn", "evaluate"):
        assert 0 < found[stage] < whole, stage
