"""The parts of the demo that can be looked at without running it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from app.demo import (
    DemoOptions,
    concept_values,
    demo_settings,
    demo_stream,
    first_steps,
    opening_words,
    status_line,
)
from streams import STREAMS, Drifting


def test_agrawal_goes_through_its_ten_rules() -> None:
    assert concept_values("agrawal") == [{"function": rule} for rule in range(1, 11)]


@pytest.mark.parametrize("name", STREAMS)
def test_every_stream_can_be_shown(name: str) -> None:
    stream = demo_stream(DemoOptions(stream=name))

    assert isinstance(stream, Drifting) == bool(concept_values(name))
    assert len(stream.events(3)) == 3


def test_without_drift_the_rule_stays() -> None:
    options = DemoOptions(drift_every_seconds=0)

    stream = demo_stream(options)

    assert not isinstance(stream, Drifting)
    assert "does not change" in opening_words(options, stream, "http://x")


def test_the_example_uses_features_that_exist() -> None:
    options = DemoOptions()
    stream = demo_stream(options)

    body = re.search(r"-d '(\{.*\})'", first_steps(stream, options, "http://x"))

    assert body is not None
    names = set(json.loads(body.group(1))["features"])
    assert names == {feature.name for feature in stream.schema.features}


def test_the_environment_plays_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVETREE_NAME", "other")
    options = DemoOptions(port=9)

    settings = demo_settings(options, demo_stream(options), "127.0.0.1:1", str(tmp_path))

    assert settings.name == "demo"
    assert settings.http.port == 9
    assert settings.checkpoint.folder == tmp_path
    assert settings.tree.audit_fraction == 1.0


def test_the_status_says_how_it_goes() -> None:
    line = status_line(12_345, 1999.6, 0.9312, 21, 5, 40)

    assert "12,345 events" in line
    assert "2,000/s" in line
    assert "93.1%" in line
    assert status_line(0, 0.0, None, 1, 0, 0)
