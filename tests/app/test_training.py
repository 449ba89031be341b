"""Records to a tree: order, batches, inference, refusals."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import RegistryUnreachable
from app.format import JsonFormat
from app.settings import Settings
from app.settings_file import declared_schema
from app.source import Record
from app.training import Training, infer_schema, new_tree
from learner import VARIANTS, Kind, StreamingTree
from tests.app.conftest import FEATURES, events

Make = Callable[..., Settings]


def records(values: Sequence[bytes | None], timestamp_ms: int | None = None) -> list[Record]:
    return [Record("t", 0, i, None, value, timestamp_ms) for i, value in enumerate(values)]


def trained(settings: Settings, values: Sequence[bytes | None], size: int) -> Training:
    schema = declared_schema(settings.schema_)
    training = Training(settings, new_tree(settings, schema) if schema else None)
    learned = records(values)
    for start in range(0, len(learned), size):
        training.learn(learned[start : start + size])
    return training


def declared(make_settings: Make, **more: Any) -> Settings:
    schema = {"features": FEATURES, **more.pop("schema", {})}
    return make_settings(schema=schema, tree={"n_min": 50}, **more)


@pytest.mark.parametrize("inferred", [False, True])
@pytest.mark.parametrize("size", [1, 37, 5000])
def test_batch_size_does_not_change_the_model_or_the_scores(
    make_settings: Make, size: int, inferred: bool
) -> None:
    settings = make_settings(tree={"n_min": 50}) if inferred else declared(make_settings)
    values = [b"broken", *events(1500), None]

    whole, parts = trained(settings, values, 1000), trained(settings, values, size)

    assert whole.tree is not None
    assert parts.tree is not None
    assert parts.tree.hash() == whole.tree.hash()
    assert parts.evaluation.to_dict() == whole.evaluation.to_dict()
    assert whole.tree.shape().nodes > 1


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_service_of_any_variant_goes_on_from_its_bytes(make_settings: Make, variant: str) -> None:
    haste = {"n_min": 50, "n_first": 50}
    settings = make_settings(schema={"features": FEATURES}, variant=variant, tree=haste)
    values = events(3000)
    straight, first = trained(settings, values, 1000), trained(settings, values[:1300], 1000)
    assert straight.tree is not None
    assert first.tree is not None

    resumed = Training(settings, StreamingTree.from_bytes(first.tree.to_bytes()))
    resumed.learn(records(values[1300:]))

    assert resumed.tree is not None
    assert resumed.tree.hash() == straight.tree.hash()
    assert straight.tree.shape().nodes > 1
    assert straight.tree.variant == variant
    params = dataclasses.asdict(straight.tree.params)
    assert settings.tree_params().items() <= params.items()
    assert params["reference_from"] == 0.0


def test_a_tree_of_an_inferred_schema_is_that_of_the_declared_one(make_settings: Make) -> None:
    values = events(1200)

    inferred = trained(make_settings(tree={"n_min": 50}), values, 700)
    known = trained(declared(make_settings), values, 700)

    assert inferred.tree is not None
    assert known.tree is not None
    assert inferred.tree.hash() == known.tree.hash()


def test_nothing_is_learned_before_the_schema_is_known(make_settings: Make) -> None:
    training = Training(make_settings(schema={"infer_from": 10}))

    first = training.learn(records([*events(9), b"broken", None]))
    assert (first.learned, first.tombstones, len(first.rejected)) == (0, 1, 1)
    assert training.waiting_for() == "inferring the schema: 9 of 10 events"

    second = training.learn(records(events(3)))
    assert second.learned == 12
    assert training.waiting_for() == ""


def test_bad_records_are_handed_back_and_the_others_learned(make_settings: Make) -> None:
    training = trained(declared(make_settings), [], 1)
    good = events(2)

    outcome = training.learn(records([good[0], b'{"age": "abc", "label": 1}', good[1], None]))

    assert (outcome.learned, outcome.tombstones) == (2, 1)
    (aside,) = outcome.rejected
    assert (aside.record.offset, aside.reason.stage, aside.reason.label) == (
        1,
        "decode",
        "bad_feature",
    )


def test_a_class_too_many_is_rejected_alone(make_settings: Make) -> None:
    settings = declared(
        make_settings,
        schema={"max_classes": 2},
        event={"weight_field": "w", "time_field": "t"},
    )
    training = trained(settings, [], 1)
    values = [json.dumps({"label": k, "w": 1 + k, "t": k}).encode() for k in (1, 2, 3, 1)]

    outcome = training.learn(records(values))

    assert outcome.learned == 3
    assert outcome.times.tolist() == [1.0, 2.0, 1.0]
    (aside,) = outcome.rejected
    assert (aside.record.offset, aside.reason.stage, aside.reason.label) == (
        2,
        "learn",
        "too_many_classes",
    )
    assert "label 'label' is 3; expected one of the 2 known classes" in str(aside.reason.error)
    assert training.tree is not None
    assert training.tree.counters().weight == pytest.approx(7.0)


def test_the_brokers_time_stands_in_for_the_events_own(make_settings: Make) -> None:
    settings = declared(make_settings, event={"time_field": "t"})
    training = trained(settings, [], 1)

    outcome = training.learn(records([b'{"label": 1, "t": 5}', b'{"label": 1}'], 9000))

    assert outcome.times.tolist() == [5.0, 9.0]


def test_a_batch_of_nothing_but_bad_records_is_fine(make_settings: Make) -> None:
    training = trained(declared(make_settings), [], 1)

    outcome = training.learn(records([b"x", b"y"]))

    assert (outcome.learned, len(outcome.rejected)) == (0, 2)


def test_features_that_appear_later_are_learned_when_the_schema_grows(make_settings: Make) -> None:
    settings = make_settings(schema={"infer_from": 5, "growing": True}, tree={"n_min": 20})
    early = [b'{"noise": %d, "label": "A"}' % (i % 7) for i in range(50)]
    late = [
        b'{"noise": %d, "x": %d, "label": "%s"}' % (i % 7, i % 2, b"AB"[i % 2 :][:1])
        for i in range(2000)
    ]

    training = trained(settings, [*early, *late], 100)

    assert training.tree is not None
    assert "x" in [feature.name for feature in training.tree.encoder.schema.features]
    assert "x" in {split.feature for split in training.tree.take_splits()}


def kinds(settings: Settings, examples: list[dict[str, Any]]) -> dict[str, Kind]:
    return {feature.name: feature.kind for feature in infer_schema(settings, examples).features}


def test_one_broken_event_does_not_make_a_number_nominal(make_settings: Make) -> None:
    examples: list[dict[str, Any]] = [{"age": i, "words": ["a"]} for i in range(99)]

    found = kinds(make_settings(), [*examples, {"age": "abc", "words": "none"}])

    assert found == {"age": Kind.NUMERIC, "words": Kind.SPARSE}


def test_a_feature_of_numbers_and_texts_is_nominal(make_settings: Make) -> None:
    found = kinds(make_settings(), [{"zip": 1234}, {"zip": "12a"}, {"zip": None}])

    assert found == {"zip": Kind.NOMINAL}


def test_declared_classes_come_first_in_an_inferred_schema(make_settings: Make) -> None:
    settings = make_settings(schema={"classes": ["young", "old"], "infer_from": 2})

    training = trained(settings, events(5), 5)

    assert training.tree is not None
    assert training.tree.encoder.classes == ("young", "old")


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**400), 10**400)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
fields = st.dictionaries(
    st.sampled_from(["age", "car", "words", "label", "w", "t", "new", "id", ""]), anything
)
wild = st.binary(max_size=30) | st.one_of(anything, fields, fields).map(msgspec.json.encode)


@pytest.mark.parametrize("mode", ["declared", "inferred", "growing"])
@given(values=st.lists(wild | st.none(), max_size=12))
def test_no_record_whatever_is_in_it_breaks_the_loop(mode: str, values: list[bytes | None]) -> None:
    schemas: dict[str, dict[str, Any]] = {
        "declared": {"features": FEATURES, "max_classes": 3, "max_values": 2},
        "inferred": {"infer_from": 2, "max_classes": 3},
        "growing": {"infer_from": 2, "growing": True},
    }
    event = {"weight_field": "w", "time_field": "t", "id_field": "id"}
    settings = Settings.load(environ={}, schema=schemas[mode], event=event, tree={"n_min": 1})
    good = b'{"age": 1, "car": "c", "words": ["a"], "w": 1, "label": "x"}'
    training = trained(settings, [], 1)

    outcome = training.learn(records([*values, good, good]))

    assert outcome.learned >= 1
    assert outcome.learned + outcome.tombstones + len(outcome.rejected) == len(values) + 2
    assert training.tree is not None
    again = StreamingTree.from_bytes(training.tree.to_bytes())
    assert again.hash() == training.tree.hash()


BINARY: list[tuple[str, str | bytes | None]] = [
    ("ce_specversion", b"1.0"),
    ("ce_id", b"e-1"),
    ("ce_time", b"1970-01-01T00:00:07Z"),
]
STRUCTURED: list[tuple[str, str | bytes | None]] = [
    ("content-type", b"application/cloudevents+json")
]


def enveloped(values: Sequence[bytes]) -> list[Record]:
    """Return events as they are, and in both kinds of envelopes, in turn."""
    found = []
    for place, (record, value) in enumerate(zip(records(values), values, strict=True)):
        if place % 3 == 1:
            record = record._replace(headers=BINARY)
        if place % 3 == 2:
            envelope = b'{"specversion": "1.0", "id": "e-2", "data": %s}' % value
            record = record._replace(value=envelope, headers=STRUCTURED)
        found.append(record)
    return found


@pytest.mark.parametrize("inferred", [False, True])
@pytest.mark.parametrize("size", [1, 700, 5000])
def test_envelopes_do_not_change_the_tree(make_settings: Make, size: int, inferred: bool) -> None:
    settings = make_settings(tree={"n_min": 50}) if inferred else declared(make_settings)
    values = events(1500)
    plain, training = trained(settings, values, 1000), trained(settings, [], 1)
    bad = Record("t", 0, 0, None, values[0], None, [("ce_specversion", b"9")])
    given = [bad, *enveloped(values), bad]

    outcomes = [training.learn(given[i : i + size]) for i in range(0, len(given), size)]

    assert training.tree is not None
    assert plain.tree is not None
    assert training.tree.hash() == plain.tree.hash()
    asides = [aside for outcome in outcomes for aside in outcome.rejected]
    assert [(aside.record, aside.reason.label) for aside in asides] == [(bad, "bad_envelope")] * 2


@pytest.mark.parametrize("inferred", [False, True])
def test_the_id_of_an_envelope_names_an_event_that_has_none(
    make_settings: Make, inferred: bool
) -> None:
    event = {"id_field": "key"}
    settings = make_settings(event=event) if inferred else declared(make_settings, event=event)
    training = trained(settings, [], 1)
    values = [b'{"label": null}', b'{"label": null, "key": "own"}']

    outcome = training.learn([record._replace(headers=BINARY) for record in records(values)])

    assert [aside.id for aside in outcome.rejected] == ["e-1", "own"]


def test_the_time_of_an_envelope_stands_between_the_events_own_and_the_brokers(
    make_settings: Make,
) -> None:
    training = trained(declared(make_settings, event={"time_field": "t"}), [], 1)
    values = [b'{"label": 1, "t": 5}', b'{"label": 1}', b'{"label": 1}']
    own, between, plain = records(values, 9000)

    outcome = training.learn(
        [own._replace(headers=BINARY), between._replace(headers=BINARY), plain]
    )

    assert outcome.times.tolist() == [5.0, 7.0, 9.0]


class Late(JsonFormat):
    """JSON that can be read at the second try only, as if schemas were to be fetched for it."""

    tries = 0

    def prepare(self, values: Sequence[bytes | None]) -> None:  # noqa: ARG002
        self.tries += 1
        if self.tries % 2:
            raise RegistryUnreachable("not yet", 0.0)


@pytest.mark.parametrize("inferred", [False, True])
def test_a_batch_that_had_to_wait_for_schemas_is_learned_once(
    make_settings: Make, inferred: bool
) -> None:
    settings = make_settings(tree={"n_min": 50}) if inferred else declared(make_settings)
    schema, values = declared_schema(settings.schema_), events(1300)
    late = Training(settings, new_tree(settings, schema) if schema else None, form=Late(1_000_000))
    given = records(values)

    for start in range(0, 1300, 100):
        with pytest.raises(RegistryUnreachable):
            late.learn(given[start : start + 100])
        late.learn(given[start : start + 100])

    straight = trained(settings, values, 1000)
    assert late.tree is not None
    assert straight.tree is not None
    assert late.tree.hash() == straight.tree.hash()
