"""What is new in events is taken up only as far as there are bounds for it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from app.settings import Settings
from app.settings_file import declared_schema
from app.source import Record
from app.training import Training, infer_schema, new_tree
from learner import LONGEST_TEXT, Encoder, Schema, StreamingTree


def training(**schema: Any) -> Training:
    settings = Settings.load(environ={}, schema=schema)
    declared = declared_schema(settings.schema_)
    return Training(settings, new_tree(settings, declared) if declared else None)


def records(*events: dict[str, Any]) -> list[Record]:
    return [Record("t", 0, i, None, json.dumps(event).encode()) for i, event in enumerate(events)]


AGE = [{"name": "age", "kind": "numeric"}, {"name": "car", "kind": "nominal"}]


def test_a_growing_schema_stops_at_max_features_and_counts_what_it_ignores() -> None:
    growing = training(features=AGE, growing=True, max_features=5)
    flood = records(*({f"f{i}": i, "age": i, "label": i % 2} for i in range(2500)))

    outcome = growing.learn(flood)

    assert growing.tree is not None
    assert outcome.learned == 2500
    names = [feature.name for feature in growing.tree.encoder.schema.features]
    assert names == ["age", "car", "f0", "f1", "f2"]
    assert growing.tree.encoder.overflowed_values == 2500 - 3


def test_a_new_feature_does_not_read_the_whole_schema_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    growing = training(features=AGE, growing=True)

    def refuse(_: Encoder) -> Schema:
        raise AssertionError("one look at everything known for each new name")

    monkeypatch.setattr(Encoder, "schema", property(refuse))
    outcome = growing.learn(records(*({f"f{i}": i, "label": i % 2} for i in range(300))))

    assert outcome.learned == 300


def test_an_inferred_schema_has_the_most_common_features() -> None:
    settings = Settings.load(environ={}, schema={"max_features": 2})
    odd = {f"once {i}": 1 for i in range(1000)}
    examples: list[dict[str, Any]] = [odd, *({"age": 1, "car": "a"} for _ in range(10))]

    schema = infer_schema(settings, examples)

    assert [feature.name for feature in schema.features] == ["age", "car"]


def test_long_texts_are_not_taken_up() -> None:
    fixed = training(features=[*AGE, {"name": "words", "kind": "sparse_binary"}], growing=True)
    long = "x" * (LONGEST_TEXT + 1)
    fits = "y" * LONGEST_TEXT

    outcome = fixed.learn(
        records(
            {"car": long, "words": [long, "w"], long: 1, "label": "a"},
            {"car": fits, "label": long},
            {"car": fits, "label": fits},
        )
    )

    assert fixed.tree is not None
    encoder = fixed.tree.encoder
    assert outcome.learned == 2
    (refused,) = outcome.rejected
    assert refused.reason.label == "too_many_classes"
    assert "at most 1000 characters" in str(refused.reason.error)
    assert encoder.classes == ("a", fits)
    assert encoder.value_counts() == [1]
    assert encoder.tokens == ((2, "w"),)
    assert encoder.feature_count == 3
    assert encoder.overflowed_values == 3


def test_many_values_times_many_classes_reserve_no_room_for_leaves_that_are_not_there() -> None:
    encoder = Encoder(Schema.infer([{"age": 1.0, "car": "a"}]))
    tree = StreamingTree(encoder)
    rows = [{"age": float(i % 10), "car": f"v{i}"} for i in range(2000)]

    batch = encoder.encode_records(rows)
    tree.learn(batch, encoder.encode_labels([f"c{i % 500}" for i in range(2000)]))

    held = sum(array.nbytes for array in tree._tree if isinstance(array, np.ndarray))
    assert held < 4 * tree.memory_bytes() + 16 * 2**20
    assert StreamingTree.from_bytes(tree.to_bytes()).hash() == tree.hash()
