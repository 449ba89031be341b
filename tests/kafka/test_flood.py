"""Floods of new values, tokens, classes and features are bounded by settings, and counted."""

from __future__ import annotations

import json
from pathlib import Path

from app.settings import Settings
from tests.kafka.broker import Kafka
from tests.kafka.running import passed, running, wait_until

EVENTS = 200_000
FEATURES = [
    {"name": "age", "kind": "numeric"},
    {"name": "car", "kind": "nominal"},
    {"name": "words", "kind": "sparse_binary"},
]
VALUES, CLASSES, MOST_FEATURES = 500, 20, 50


def flood(number: int, start: int) -> list[bytes]:
    """Events of which each brings a new value, token and feature; every 20th a new class."""
    return [
        json.dumps(
            {
                "age": i % 97,
                "car": f"value {i}",
                "words": [f"token {i}"],
                f"feature {i}": 1.5,
                "label": f"class {i}" if i % 20 == 0 else "ab"[i % 97 > 40],
            }
        ).encode()
        for i in range(start, start + number)
    ]


def test_a_flood_of_new_names_leaves_the_model_at_its_bounds(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic()
    settings = Settings.load(
        environ={},
        kafka={"bootstrap_servers": kafka.bootstrap_servers, "topic": topic},
        checkpoint={"folder": tmp_path / "checkpoints"},
        schema={
            "features": FEATURES,
            "growing": True,
            "max_features": MOST_FEATURES,
            "max_values": VALUES,
            "max_classes": CLASSES,
        },
        tree={"max_memory_bytes": 20_000_000, "memory_check_every": 1000},
    )
    with running(settings) as service:
        bytes_after: list[int] = []
        for half in (0, 1):
            kafka.send(topic, *flood(EVENTS // 2, half * EVENTS // 2))
            end = {0: kafka.end(topic)}
            wait_until(lambda end=end: passed(service, end), service)  # type: ignore[misc]
            # The position moves before its batch is learned.
            tree = service.consumer.training.tree
            assert tree is not None
            ignored = service.metrics.values_ignored.labels(settings.name, "too_many")
            wait_until(
                lambda t=tree, m=ignored: m._value.get() == t.encoder.overflowed_values,  # type: ignore[misc]
                service,
            )
            bytes_after.append(tree.memory_bytes())
        encoder = tree.encoder
        assert encoder.feature_count == MOST_FEATURES
        assert encoder.value_counts() == [VALUES]
        assert encoder.token_count == VALUES
        assert len(encoder.classes) == CLASSES
        learned = tree.counters().events
        rejected = service.metrics.events_rejected.labels("too_many_classes")._value.get()
        assert learned + rejected == EVENTS
        assert rejected == EVENTS / 20 - (CLASSES - 2)
        # A value, a token and a feature of every event, but for those that found room.
        new = MOST_FEATURES - len(FEATURES)
        assert encoder.overflowed_values == (EVENTS - new) + 2 * (learned - VALUES)
        assert max(bytes_after) <= 20_000_000
        assert service.alive()
        assert service.ready() == (True, "ready")
