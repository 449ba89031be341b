"""Records that are anything but events: each becomes an event or a rejection, and nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.decode import Decoded, Decoder, GrowingDecoder, StructDecoder, decoder_for
from app.errors import Action, DecodeError, NotJson, NotText, policy_of
from app.settings import EventSettings, Settings
from app.settings_file import declared_schema
from app.source import Record
from app.training import Training, new_tree
from learner import Encoder, Feature, Kind, Schema, StreamingTree
from tests.app.conftest import FEATURES, events

LONGER = int(os.environ.get("FUZZ_TIMES", "1"))  # times as many examples

SCHEMA = Schema(
    (Feature("age", Kind.NUMERIC), Feature("car", Kind.NOMINAL), Feature("words", Kind.SPARSE))
)
FIELDS: list[dict[str, Any]] = [
    {},
    {"weight_field": "w", "time_field": "at", "id_field": "id"},
    {"features_field": "features", "weight_field": "w"},
]

numbers = st.one_of(
    st.integers(),
    st.integers(10**300, 10**320),
    st.floats(),
    st.sampled_from([0, -0.0, 1e308, -1e308, 5e-324, 2**63, 2**64, -(2**63) - 1, 10**400, 2e15]),
)  # fmt: skip
odd_texts = st.text(max_size=30) | st.sampled_from(
    ["", "\0", '"', "\\", "\n", "\u202e", "é", "e\u0301", "x" * 5000, "1", "NaN", "label", "\ud800"]
)
values = st.one_of(st.none(), st.booleans(), numbers, odd_texts)
deep_values = st.recursive(
    values,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(odd_texts, inner, max_size=4),
    max_leaves=8,
)
names = st.sampled_from(["age", "car", "words", "label", "w", "at", "id", "features"]) | odd_texts
near_events = st.dictionaries(names, deep_values, max_size=8)


def as_json(value: object) -> bytes:
    """As a careless producer writes it: with NaN, lone surrogates, and all digits."""
    return json.dumps(value).encode()


def _spoiled(drawn: tuple[bytes, int, int, bytes]) -> bytes:
    event, at, cut, junk = drawn
    place = at % len(event)
    return event[:place] + junk + event[place + cut % 4 :]


REAL = events(20)
spoiled = st.tuples(
    st.sampled_from(REAL), st.integers(0, 200), st.integers(0, 3), st.binary(max_size=4)
).map(_spoiled)
numbers_beyond = st.sampled_from(
    [
        b'{"age": 1e400, "label": "a"}',
        b'{"zz": 1e400, "label": NaN}',
        b'{"zz": 1e400, "car": NaN, "label": "a"}',
        b'{"zz": 1e400, "label": "\\ud800"}',
        b'{"zz": 1e400, "label": -Infinity}',
        b'{"label": 1' + b"0" * 400 + b"}",
        b'{"label": 1' + b"0" * 5000 + b"}",
        b'{"label": "a", "age": ' + b"9" * 5000 + b"}",
        b'{"label": "a", "words": [1e400]}',
        b'{"label": "a", "words": {"x": 1e400}}',
        b'{"label": "a", "label": "b"}',
        b"[" * 100_000,
        b'{"label":' + b'{"a":' * 100_000,
        b'\xef\xbb\xbf{"label": "a"}',
        b'{"label": "a"} {"label": "b"}',
        b'{"label": "a"}\n\n',
        b"",
    ]
)
records = st.one_of(
    st.none(),
    st.binary(max_size=60),
    deep_values.map(as_json),
    near_events.map(as_json),
    near_events.map(lambda event: as_json({"label": "a", "w": 1, "features": {}, **event})),
    spoiled,
    numbers_beyond,
    st.sampled_from(REAL),
)


def decoders(fields: dict[str, Any]) -> list[Decoder]:
    event = EventSettings(**fields)
    return [StructDecoder(SCHEMA, event), GrowingDecoder(Encoder(SCHEMA, growing=True), event, 100)]


def check_decoded(out: Decoded, given: list[bytes | None], fields: dict[str, Any]) -> None:
    assert len(out.rows) + len(out.rejected) + out.tombstones == len(given)
    assert len(out.rows) == len(out.labels) == len(out.places)
    assert out.tombstones == sum(value is None for value in given)
    assert sorted([*out.places, *(bad.place for bad in out.rejected)]) == [
        place for place, value in enumerate(given) if value is not None
    ]
    for bad in out.rejected:
        assert isinstance(bad.error, DecodeError)
        assert policy_of(bad.error).action is Action.SKIP
        assert 0 < len(str(bad.error)) < 500
    for label in out.labels:
        assert isinstance(label, str | int | float)
        assert msgspec.json.decode(msgspec.json.encode(label)) == label
    assert len(out.weights) == (len(out.rows) if "weight_field" in fields else 0)
    assert all(0 < weight <= 1e15 for weight in out.weights)


@pytest.mark.parametrize("fields", FIELDS)
@settings(max_examples=250 * LONGER)
@given(given_=st.lists(records, max_size=8))
def test_every_record_is_an_event_or_a_rejection(
    fields: dict[str, Any], given_: list[bytes | None]
) -> None:
    for decoder in decoders(fields):
        check_decoded(decoder.decode(given_), given_, fields)


@settings(max_examples=250 * LONGER)
@given(given_=st.lists(records, max_size=8))
def test_both_ways_read_a_record_alike(given_: list[bytes | None]) -> None:
    """The quick way does not look into fields that nobody asked for: they may be broken."""
    event = EventSettings()
    for value in given_:
        quick = StructDecoder(SCHEMA, event).decode([value])
        plain = GrowingDecoder(Encoder(SCHEMA, growing=False), event, 100).decode([value])

        if quick.rows and plain.rejected:
            assert isinstance(plain.rejected[0].error, NotText | NotJson)
            continue
        assert plain.labels == quick.labels
        assert [list(row) for row in plain.rows] == [list(row) for row in quick.rows]
        assert [str(bad.error) for bad in plain.rejected] == [str(b.error) for b in quick.rejected]


def settings_for(folder: Path, **schema: Any) -> Settings:
    return Settings.load(
        environ={}, checkpoint={"folder": folder}, schema=schema, tree={"n_min": 50}
    )


def learned(settled: Settings, given_: list[bytes | None]) -> tuple[Training, int]:
    """The training after these records, and how many of them it set aside."""
    declared = declared_schema(settled.schema_)
    training = Training(settled, new_tree(settled, declared) if declared else None)
    batch = [Record("t", 0, i, None, value, None) for i, value in enumerate(given_)]
    outcome = training.learn(batch)
    held_back = 0 if training.tree is not None else len(training._held_back)
    total = outcome.learned + len(outcome.rejected) + outcome.tombstones + held_back
    assert total == len(given_)
    return training, len(outcome.rejected)


poison = st.one_of(
    st.none(),
    st.binary(max_size=40).filter(lambda value: b"label" not in value),
    st.lists(deep_values, max_size=3).map(as_json),
    st.dictionaries(st.sampled_from(["age", "car", "zz"]), deep_values, max_size=3).map(as_json),
    st.sampled_from(
        [
            b'{"age": "abc", "label": "old"}',
            b'{"words": [[1]], "label": "old"}',
            b'{"car": {}, "label": "new"}',
            b'{"zz": 1e400, "label": NaN}',
        ]
    ),
)  # none of them has a label and features that fit


@settings(max_examples=40 * LONGER)
@given(drawn=st.lists(st.tuples(st.integers(0, 300), poison), max_size=12))
def test_a_bad_record_changes_nothing_for_the_good_ones(
    drawn: list[tuple[int, bytes | None]],
) -> None:
    settled = settings_for(Path("unused"), features=FEATURES)
    good: list[bytes | None] = [*events(300)]
    mixed = list(good)
    for place, bad in sorted(drawn, key=lambda pair: pair[0], reverse=True):
        mixed.insert(place, bad)

    clean, _ = learned(settled, good)
    dirty, rejected = learned(settled, mixed)

    assert clean.tree is not None
    assert dirty.tree is not None
    assert rejected == sum(bad is not None for _, bad in drawn)
    assert dirty.tree.hash() == clean.tree.hash()
    assert dirty.evaluation.to_dict() == clean.evaluation.to_dict()


hostile_names = st.lists(
    odd_texts | st.sampled_from(["__class__", "f0", "f1", "features", "self", "time", "weight"]),
    max_size=6,
    unique=True,
)


@pytest.mark.parametrize("growing", [False, True])
@settings(max_examples=60 * LONGER)
@given(names=hostile_names, shape=deep_values, more=st.lists(records, max_size=6))
def test_a_schema_is_inferred_from_whatever_comes_first(
    growing: bool, names: list[str], shape: object, more: list[bytes | None]
) -> None:
    settled = settings_for(Path("unused"), infer_from=3, growing=growing)
    first = [as_json({**dict.fromkeys(names, shape), "x": i, "label": i % 2}) for i in range(5)]

    training, _ = learned(settled, [*first, *more, *events(5)])

    assert training.tree is not None
    again = StreamingTree.from_bytes(training.tree.to_bytes())
    assert again.hash() == training.tree.hash()
    msgspec.json.encode(training.tree.snapshot().schema.to_dict())


@pytest.mark.parametrize("name", ['say "hi"', "back\\slash", "line\nbreak", "nul\0", "tab\t"])
def test_a_name_that_json_must_escape_is_a_feature_like_any_other(name: str) -> None:
    schema = Schema((Feature(name, Kind.NUMERIC), Feature("b", Kind.SPARSE)))
    decoder = decoder_for(Encoder(schema), EventSettings(), 100)

    out = decoder.decode([as_json({name: 4, "b": ["t"], "new": [[1]], "label": "a"})])

    assert [list(row) for row in out.rows] == [[4, ["t"]]]


def test_ten_thousand_features_are_inferred_and_learned() -> None:
    settled = settings_for(Path("unused"), infer_from=2, max_features=10_000)
    wide = {f"feature {i}": float(i) for i in range(10_000)}
    good: list[bytes | None] = [as_json({**wide, "label": i % 2}) for i in range(4)]

    training, rejected = learned(settled, good)

    assert rejected == 0
    assert training.tree is not None
    assert len(training.tree.encoder.schema.features) == 10_000
