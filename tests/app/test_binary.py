"""Rows of fixed width: the same tree as from JSON, and one bad row costs its record."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.binary import RowLayout
from app.errors import DecodeError, SettingsError
from app.settings import Settings
from app.settings_file import declared_schema
from app.source import Record
from app.training import Outcome, Training, new_tree
from tests.app.conftest import events as json_events

FEATURES = [
    {"name": "age", "kind": "numeric"},
    {"name": "car", "kind": "nominal", "values": ["c1", "c2", "c3"]},
    {"name": "height", "kind": "numeric"},
]
SCHEMA = {"features": FEATURES, "classes": ["old", "young"]}
ROW = struct.Struct("<didi")  # age, car, height, label: no gaps
WEIGHED = struct.Struct("<dididd")  # and weight, time
FIELDS = {"weight_field": "w", "time_field": "at"}


def settings(form: str = "binary", schema: dict[str, Any] = SCHEMA, **event: Any) -> Settings:
    given_ = {"format": form, **event}
    return Settings.load(environ={}, schema=schema, event=given_, tree={"n_min": 50})


def training(wanted: Settings) -> Training:
    declared = declared_schema(wanted.schema_)
    assert declared is not None
    return Training(wanted, new_tree(wanted, declared))


def learned(made: Training, values: Sequence[bytes | None], size: int = 1000) -> list[Outcome]:
    records = [Record("t", 0, i, None, value, 5000) for i, value in enumerate(values)]
    return [made.learn(records[at : at + size]) for at in range(0, len(records), size)]


def tree_hash(made: Training) -> str:
    assert made.tree is not None
    return made.tree.hash()


EVENTS = [{k: v for k, v in json.loads(e).items() if k != "words"} for e in json_events(2000)]


@pytest.mark.parametrize(("rows", "size"), [(1, 1000), (1, 7), (10, 1000), (130, 3), (2000, 1)])
def test_rows_grow_the_tree_that_json_grows(rows: int, size: int) -> None:
    plain, binary = training(settings("json")), training(settings())
    layout = RowLayout.of(binary.settings)
    learned(plain, [json.dumps(event).encode() for event in EVENTS])

    packed = [layout.pack(EVENTS[at : at + rows]) for at in range(0, len(EVENTS), rows)]
    outcomes = learned(binary, packed, size)

    assert tree_hash(binary) == tree_hash(plain)
    assert binary.evaluation.to_dict() == plain.evaluation.to_dict()
    assert sum(outcome.learned for outcome in outcomes) == 2000
    assert plain.tree is not None
    assert plain.tree.shape().nodes > 1


def test_the_layout_is_what_the_documentation_says() -> None:
    event = {"age": 41.5, "car": "c2", "label": "young", "w": 2, "at": 7}

    assert RowLayout.of(settings()).pack([event]) == ROW.pack(41.5, 1, math.nan, 1)
    packed = RowLayout.of(settings(**FIELDS)).pack([event])
    assert packed == WEIGHED.pack(41.5, 1, math.nan, 1, 2.0, 7.0)


def test_what_a_row_says_is_read() -> None:
    made = training(settings(**FIELDS))
    values = [
        WEIGHED.pack(1, -1, 2, 0, 2.5, 1_700_000_000_000),
        WEIGHED.pack(math.inf, 0, math.nan, 1, 1, math.nan),
    ]

    (outcome,) = learned(made, values)

    assert outcome.times.tolist() == [1_700_000_000.0, 5.0]
    assert made.tree is not None
    assert made.tree.counters().weight == pytest.approx(3.5)
    assert made.tree.encoder.rejected_values == 1


GOOD = ROW.pack(1, 0, 1, 0)
BAD: list[tuple[bytes, str, str]] = [
    (b"", "not_binary", "record is 0 bytes long; expected rows of 24 bytes"),
    (GOOD[:-1], "not_binary", "record is 23 bytes long; expected rows of 24 bytes"),
    (GOOD + b"\0", "not_binary", "record is 25 bytes long; expected rows of 24 bytes"),
    (GOOD * 20, "too_large", "record is 480 bytes long; expected at most 400"),
    (ROW.pack(1, 0, 1, 2), "bad_label", "label 'label' of record is 2; expected 0 to 1"),
    (ROW.pack(1, 0, 1, -1), "bad_label", "label 'label' of record is -1; expected 0 to 1"),
    (ROW.pack(1, 3, 1, 0), "bad_feature", "feature 'car' of record is 3; expected -1 to 2"),
    (ROW.pack(1, -2, 1, 0), "bad_feature", "feature 'car' of record is -2; expected -1 to 2"),
    (
        GOOD + ROW.pack(1, 9, 1, 0) + GOOD,
        "bad_feature",
        "feature 'car' of row 1 of the record is 9",
    ),
]


@pytest.mark.parametrize(("value", "reason", "message"), BAD)
def test_a_record_is_learned_whole_or_not_at_all(value: bytes, reason: str, message: str) -> None:
    made = training(settings(max_bytes=400))

    (outcome,) = learned(made, [GOOD, value, None, GOOD * 3])

    assert (outcome.learned, outcome.tombstones) == (4, 1)
    (aside,) = outcome.rejected
    assert (aside.record.offset, aside.record.value) == (1, value)
    assert (aside.reason.stage, aside.reason.label) == ("decode", reason)
    assert message in str(aside.reason.error)


@pytest.mark.parametrize("weight", [0.0, -1.0, 2e15, math.nan, math.inf])
def test_a_weight_must_be_a_number_above_zero(weight: float) -> None:
    (outcome,) = learned(training(settings(**FIELDS)), [WEIGHED.pack(1, 0, 1, 0, weight, 1)])

    assert outcome.learned == 0
    assert outcome.rejected[0].reason.label == "bad_weight"
    assert "weight 'w' is" in str(outcome.rejected[0].reason.error)


@given(st.lists(st.none() | st.binary(max_size=100) | st.binary(min_size=24, max_size=24)))
def test_whatever_the_bytes_every_record_is_learned_or_rejected(
    values: list[bytes | None],
) -> None:
    made = training(settings())

    outcomes = learned(made, [*values, GOOD])

    found = sum(outcome.learned > 0 for outcome in outcomes)
    (outcome,) = outcomes
    assert found == 1
    whole = [value for place, value in enumerate(values) if value is not None]
    refused = {aside.record.offset for aside in outcome.rejected}
    assert len(refused) == len(outcome.rejected)
    rows = sum(len(v) // 24 for i, v in enumerate(values) if v is not None and i not in refused)
    assert outcome.learned == rows + 1
    assert outcome.tombstones == len(values) - len(whole)


def test_a_value_that_is_not_declared_cannot_be_written() -> None:
    with pytest.raises(DecodeError, match="field 'car' is 'c9'; expected a declared value"):
        RowLayout.of(settings()).pack([{"age": 1, "car": "c9", "label": "old"}])


def test_records_of_one_row_are_the_rows() -> None:
    layout = RowLayout.of(settings())

    assert b"".join(layout.records(EVENTS[:5])) == layout.pack(EVENTS[:5])
    assert np.dtype(layout.dtype).itemsize == layout.width == 24


NO_VALUES = {"features": [{"name": "car", "kind": "nominal"}], "classes": ["a"]}
SETS = {"features": [{"name": "words", "kind": "sparse_binary"}], "classes": ["a"]}


@pytest.mark.parametrize(
    ("schema", "event", "message"),
    [
        ({}, {}, "expected a declared schema"),
        ({"features": FEATURES}, {}, "expected all classes in schema.classes"),
        (NO_VALUES, {}, "expected 1 to 10000 values of the feature 'car'"),
        (SETS, {}, "expected no sparse_binary feature, which 'words' is"),
        ({**SCHEMA, "growing": True}, {}, "expected schema.growing to be false"),
        (SCHEMA, {"features_field": "x"}, "expected no event.features_field"),
        (SCHEMA, {"id_field": "x"}, "expected no event.id_field"),
    ],
)
def test_rows_need_a_schema_that_says_everything(
    schema: dict[str, Any], event: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        settings("binary", schema, **event)

    assert [p for p in caught.value.problems if message in p], caught.value.problems
