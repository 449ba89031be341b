"""Bytes to rows: what is taken, what is set aside, and what is said about it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from app.decode import Decoded, Decoder, GrowingDecoder, StructDecoder
from app.errors import policy_of
from app.event import seconds_of
from app.settings import EventSettings
from learner import Encoder, Feature, Kind, Schema

SCHEMA = Schema(
    (
        Feature("age", Kind.NUMERIC),
        Feature("the car", Kind.NOMINAL),
        Feature("words", Kind.SPARSE),
    )
)


def decoder(growing: bool = False, **fields: Any) -> Decoder:
    event = EventSettings(**fields)
    return (
        GrowingDecoder(Encoder(SCHEMA, growing=True), event, max_features=100)
        if growing
        else StructDecoder(SCHEMA, event)
    )


def decoded(*values: bytes | None, growing: bool = False, **fields: Any) -> Decoded:
    return decoder(growing, **fields).decode(list(values))


both = pytest.mark.parametrize("growing", [False, True])


@both
def test_a_flat_event_becomes_a_row_in_schema_order(growing: bool) -> None:
    value = b'{"label": "A", "words": ["x", 1], "the car": "c7", "age": 41, "ignored?": null}'

    out = decoded(value, growing=growing)

    assert [list(row) for row in out.rows] == [[41.0, "c7", ["x", 1]]]
    assert (out.labels, out.places, out.rejected) == (["A"], [0], [])


@both
def test_absent_and_null_features_are_missing(growing: bool) -> None:
    out = decoded(b'{"label": 1, "age": null}', growing=growing)

    assert [list(row) for row in out.rows] == [[None, None, None]]


@both
@pytest.mark.parametrize("label", ["A", 3, 2.5, True, ""])
def test_a_label_keeps_its_json_type(label: object, growing: bool) -> None:
    out = decoded(json.dumps({"label": label}).encode(), growing=growing)

    assert out.labels == [label]
    assert type(out.labels[0]) is type(label)


@both
def test_features_may_sit_under_a_key_of_their_own(growing: bool) -> None:
    good = b'{"x": {"age": 4, "label": "a feature now"}, "label": "A"}'

    out = decoded(good, b'{"label": "A"}', growing=growing, features_field="x")

    assert out.rows[0][0] == 4
    assert "field 'x' is missing; expected an object" in str(out.rejected[0].error)


BAD: list[tuple[bytes, str, str]] = [
    (b'{"age": "abc", "label": 1}', "bad_feature", "feature 'age' is 'abc'; expected a number"),
    (b'{"age": true, "label": 1}', "bad_feature", "feature 'age' is True; expected a number"),
    (b'{"age": 1e999, "label": 1}', "bad_feature", "feature 'age' is inf; expected a number"),
    (b'{"age": [1], "label": 1}', "bad_feature", "feature 'age' is [1]; expected a number"),
    (b'{"the car": {}, "label": 1}', "bad_feature", "feature 'the car' is {}; expected a text"),
    (b'{"words": "x", "label": 1}', "bad_feature", "feature 'words' is 'x'; expected a list"),
    (b'{"words": [null], "label": 1}', "bad_feature", "feature 'words' is [None]; expected a list"),
    (b'{"age": 1}', "bad_label", "label 'label' is missing; expected a text"),
    (b'{"age": 1, "label": null}', "bad_label", "label 'label' is None; expected a text"),
    (b'{"age": 1, "label": {"a": 1}}', "bad_label", "label 'label' is {'a': 1}; expected a text"),
    (b'{"age": 1, "label": [1]}', "bad_label", "label 'label' is [1]; expected a text"),
    (b'{"label": 1e999}', "bad_label", "label 'label' is inf; expected a text"),
    (b"[1, 2]", "not_an_object", "record is [1, 2]; expected a JSON object"),
    (b"41", "not_an_object", "record is 41; expected a JSON object"),
    (b"null", "not_an_object", "record is None; expected a JSON object"),
    (b"", "not_json", "record is b''; expected a JSON object"),
    (b"age=41", "not_json", "record is b'age=41'; expected a JSON object"),
    (b'{"age": NaN, "label": 1}', "not_json", "expected a JSON object"),
    (b'{"label": 1} {"label": 2}', "not_json", "expected a JSON object"),
    (b'{"label": "\xff\xfe"}', "not_utf8", "record is not UTF-8"),
    (b"\xff\xfe{", "not_utf8", "record is not UTF-8 (byte 0 is 0xff)"),
    (b'{"label": ' + b"[" * 50_000, "not_json", "nested too deeply"),
    (b'{"age": 1e999, "label": ' + b"[" * 50_000, "not_json", "expected a JSON object"),
    (b'{"the car": 1e999, "label": 1}', "bad_feature", "feature 'the car' is inf; expected a text"),
    (b'{"words": [1e999], "label": 1}', "bad_feature", "feature 'words' is [inf]; expected a list"),
    (b'{"label": 1' + b"0" * 5000 + b"}", "bad_label", "label 'label' is inf; expected a text"),
    (b'{"label": "' + b"x" * 1000 + b'"}', "too_large", "1013 bytes long; expected at most 500"),
]


@both
@pytest.mark.parametrize(("value", "reason", "message"), BAD)
def test_a_bad_record_is_set_aside_by_name_value_and_expectation(
    value: bytes, reason: str, message: str, growing: bool
) -> None:
    good = b'{"age": 1, "label": "A"}'
    limit = 500 if reason == "too_large" else 1_000_000

    out = decoded(good, value, good, growing=growing, max_bytes=limit)

    assert out.places == [0, 2]
    (bad,) = out.rejected
    assert bad.place == 1
    assert policy_of(bad.error).reason == reason
    assert message in str(bad.error)
    assert len(str(bad.error)) < 400


@both
@pytest.mark.parametrize("field", ["label", "age", "words", "other"])
def test_no_depth_of_nesting_breaks_anything(field: str, growing: bool) -> None:
    values = [
        b'{"%s": %s1%s, "label": 2}' % (field.encode(), b"[" * depth, b"]" * depth)
        for depth in range(1, 1200)
    ]

    out = decoded(*values, growing=growing)

    assert len(out.places) + len(out.rejected) == len(values)


@both
@pytest.mark.parametrize("weight", [b"", b"0", b"-1", b"null", b'"1"', b"true", b"1e999"])
def test_a_weight_must_be_a_number_above_zero(weight: bytes, growing: bool) -> None:
    field = b', "w": ' + weight if weight else b""

    out = decoded(b'{"label": 1' + field + b"}", growing=growing, weight_field="w")

    assert policy_of(out.rejected[0].error).reason == "bad_weight"
    assert "weight 'w' is" in str(out.rejected[0].error)


@both
def test_weights_and_times_are_columns_of_their_own(growing: bool) -> None:
    fields = {"weight_field": "w", "time_field": "t"}
    value = b'{"label": 1, "w": 2, "t": "2026-01-01T00:00:00Z"}'

    out = decoded(value, b'{"label": 1, "w": 0.5}', growing=growing, **fields)

    assert out.weights == [2.0, 0.5]
    assert out.times == [1767225600.0, None]


@both
def test_an_integer_beyond_any_float_is_no_number_of_ours(growing: bool) -> None:
    out = decoded(b'{"label": 1, "age": 1' + b"0" * 400 + b"}", growing=growing)

    assert policy_of(out.rejected[0].error).reason == "bad_feature"


@both
def test_a_rejected_record_carries_its_id(growing: bool) -> None:
    out = decoded(b'{"key": "e-7", "age": "abc", "label": 1}', growing=growing, id_field="key")

    assert out.rejected[0].id == "e-7"


@both
def test_tombstones_are_counted_and_not_rejected(growing: bool) -> None:
    out = decoded(None, b'{"label": 1}', None, growing=growing)

    assert (out.tombstones, out.places, out.rejected) == (2, [1], [])


def test_a_growing_schema_takes_up_features_within_a_batch() -> None:
    out = decoded(
        b'{"label": 1, "age": 2}',
        b'{"label": 1, "new": 3.5, "set": ["a"]}',
        b'{"label": 1, "new": "text"}',
        b'{"label": 1, "other": [null]}',
        growing=True,
    )

    assert [list(row) for row in out.rows] == [
        [2, None, None, None, None],
        [None, None, None, 3.5, ["a"]],
    ]
    said = [str(bad.error) for bad in out.rejected]
    assert said[0] == "feature 'new' is 'text'; expected a number"
    assert said[1].startswith("feature 'other' is [None]; expected a list")


def test_a_growing_schema_learns_no_reserved_field() -> None:
    out = decoded(b'{"label": 1, "key": 7, "t": 5}', growing=True, id_field="key", time_field="t")

    assert [list(row) for row in out.rows] == [[None, None, None]]


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        (1_700_000_000, 1_700_000_000.0),
        (1_700_000_000_123, 1_700_000_000.123),
        ("2026-01-01T00:00:00+01:00", 1_767_222_000.0),
        ("2026-01-01T00:00:00", 1_767_225_600.0),
        ("soon", None),
        (True, None),
        (None, None),
        ({}, None),
        (10**400, None),
        (-(10**400), None),
    ],
)
def test_times_are_seconds_milliseconds_or_rfc_3339(time: object, seconds: float | None) -> None:
    found = seconds_of(time)

    assert found == seconds or math.isclose(found or 0, seconds or 0)
