"""What the tests of the service share: events, and settings."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.settings import Settings


def events(number: int, seed: int = 1) -> list[bytes]:
    """Return events whose class depends on `age`, with features of all three kinds."""
    source = random.Random(seed)
    return [json.dumps(_event(source)).encode() for _ in range(number)]


def _event(source: random.Random) -> dict[str, Any]:
    age = round(source.uniform(18, 90), 3)
    return {
        "age": age,
        "car": source.choice(["c1", "c2", "c3"]),
        "words": source.sample(["good", "bad", "film"], 2),
        "label": "old" if age > 50 else "young",
    }


FEATURES = [
    {"name": "age", "kind": "numeric"},
    {"name": "car", "kind": "nominal"},
    {"name": "words", "kind": "sparse_binary"},
]


@pytest.fixture
def make_settings(tmp_path: Path) -> Callable[..., Settings]:
    """Return a factory of settings with a checkpoint folder of the test's own."""

    def make(**overrides: Any) -> Settings:
        checkpoint = {"folder": tmp_path / "checkpoints", **overrides.pop("checkpoint", {})}
        return Settings.load(environ={}, checkpoint=checkpoint, **overrides)

    return make
