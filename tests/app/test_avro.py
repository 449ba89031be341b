"""Events in Avro: the values they become, and what crafted bytes and schemas cannot do."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.avro import AvroFormat
from app.decode import Decoded, GrowingDecoder, StructDecoder
from app.envelope import open_all
from app.errors import DecodeError, RegistryUnreachable, UnusableSchema, policy_of
from app.registry import Fetched
from app.settings import EventSettings
from app.source import Record
from learner import Encoder, Feature, Kind, Schema
from tests.app.registry_server import framed


class Shelf:
    """Schemas without a network: by id, and those that all of them refer to."""

    def __init__(self, schemas: dict[int, Any], referenced: tuple[Any, ...] = ()) -> None:
        self.schemas, self.referenced = schemas, referenced
        self.asked: list[int] = []
        self.away = False

    def fetch(self, schema_id: int) -> Fetched:
        self.asked.append(schema_id)
        if self.away:
            raise RegistryUnreachable("not there", 0.0)
        if schema_id not in self.schemas:
            raise UnusableSchema(f"schema {schema_id} is not in the schema registry")
        schema = self.schemas[schema_id]
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return Fetched(text, [json.dumps(other) for other in self.referenced])


def record_of(**fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "Event",
        "namespace": "com.acme",
        "fields": [{"name": name, "type": kind} for name, kind in fields.items()],
    }


def form_of(schema: Any, *referenced: Any, max_bytes: int = 1_000_000) -> AvroFormat:
    return AvroFormat(Shelf({1: schema}, referenced), max_bytes)


def read(form: AvroFormat, value: bytes) -> dict[str, Any]:
    form.prepare([value])
    return form.read(value)


def read_one(kind: Any, value: object) -> Any:
    """Return what a value of a type becomes."""
    schema = record_of(x=kind)
    return read(form_of(schema), framed(1, schema, {"x": value}))["x"]


def long(number: int) -> bytes:
    """Return a number as Avro writes it."""
    rest, out = number << 1 if number >= 0 else ~(number << 1), bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


MOMENT = dt.datetime(2026, 1, 1, 12, 30, 15, 250_000, tzinfo=dt.UTC)
SECONDS = MOMENT.timestamp()
SUIT = {"type": "enum", "name": "Suit", "symbols": ["HEARTS", "SPADES"]}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
FIXED = {"type": "fixed", "name": "Hash", "size": 2}


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("int", -7, -7),
        ("long", 2**62, 2**62),
        ("double", 0.1, 0.1),
        ("float", 0.5, 0.5),
        ("boolean", True, True),
        ("string", "fr", "fr"),
        ("bytes", b"a\xff\x00", "a\xff\x00"),
        (FIXED, b"\x80b", "\x80b"),
        (SUIT, "SPADES", "SPADES"),
        (["null", "string"], None, None),
        (["null", "string"], "x", "x"),
        (["null", "long", "string", "boolean"], "x", "x"),
        ({"type": "array", "items": "string"}, ["good", "film"], ["good", "film"]),
        ({"type": "array", "items": ["null", "double"]}, [1.5, math.nan], [1.5, None]),
        ({"type": "map", "values": "boolean"}, {"good": True}, {"good": True}),
        ({"type": "string", "avro.java.string": "String"}, "x", "x"),
        (MONEY, Decimal("-19.99"), -19.99),
        ({**MONEY, "scale": 0}, Decimal(7), 7.0),
        ({**FIXED, "size": 4, "logicalType": "decimal", "precision": 4}, Decimal(7), 7.0),
        (["null", MONEY], Decimal("0.10"), 0.1),
        ({"type": "long", "logicalType": "timestamp-millis"}, MOMENT, SECONDS),
        ({"type": "long", "logicalType": "timestamp-micros"}, MOMENT, SECONDS),
        (["null", {"type": "long", "logicalType": "timestamp-micros"}, "string"], MOMENT, SECONDS),
        ({"type": "long", "logicalType": "timestamp-nanos"}, 1_500_000_000, 1.5),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, 1500, 1.5),
        ({"type": "int", "logicalType": "date"}, dt.date(2026, 1, 1), 1_767_225_600.0),
        ({"type": "int", "logicalType": "time-millis"}, dt.time(1, 0, 0, 500_000), 3600.5),
        ({"type": "long", "logicalType": "time-micros"}, dt.time(0, 1), 60.0),
        ({"type": "string", "logicalType": "uuid"}, UUID(int=7), str(UUID(int=7))),
        ({**FIXED, "size": 16, "logicalType": "uuid"}, UUID(int=7).bytes, str(UUID(int=7))),
        ({"type": "long", "logicalType": "of our own"}, 5, 5),
        ({"type": "string", "logicalType": "date"}, "x", "x"),
        ("double", math.nan, None),
        ("double", -math.inf, None),
        ("float", math.inf, None),
    ],
)
def test_a_value_becomes_what_json_would_hold(kind: Any, value: object, expected: object) -> None:
    found = read_one(kind, value)

    assert found == expected
    assert type(found) is type(expected)


def test_nested_records_and_types_used_twice_are_read() -> None:
    place = {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}
    schema = record_of(home=place, work=["null", "Place"], away="com.acme.Place")
    event = {"home": {"city": "a"}, "work": {"city": "b"}, "away": {"city": "c"}}

    assert read(form_of(schema), framed(1, schema, event)) == event


def test_types_of_referenced_schemas_are_found_by_their_names() -> None:
    cent = {"type": "fixed", "name": "Cent", "namespace": "com.money", "size": 1}
    price = {
        "type": "record",
        "name": "com.money.Price",
        "fields": [{"name": "cents", "type": "Cent"}, {"name": "day", "type": DAY}],
    }
    schema = record_of(price="com.money.Price", before=["null", "com.money.Price"])
    whole = record_of(
        price={**price, "fields": [{"name": "cents", "type": cent}, price["fields"][1]]},
        before=["null", "com.money.Price"],
    )
    event = {"price": {"cents": b"x", "day": dt.date(1970, 1, 2)}, "before": None}

    found = read(form_of(schema, price, cent), framed(1, whole, event))

    assert found == {"price": {"cents": "x", "day": 86_400.0}, "before": None}


DAY = {"type": "int", "logicalType": "date"}


def test_an_event_may_be_a_map_or_one_of_several_records() -> None:
    counts = {"type": "map", "values": "long"}
    either = [record_of(x="int"), {**record_of(y="int"), "name": "Other"}]

    assert read(form_of(counts), framed(1, counts, {"a": 1})) == {"a": 1}
    assert read(form_of(either), b"\0\0\0\0\1" + long(1) + long(5)) == {"y": 5}


def test_the_example_of_the_docs_is_read() -> None:
    text = Path(__file__).parents[2].joinpath("docs/events.md").read_text(encoding="utf-8")
    section = text.partition("\n## Avro\n")[2].partition("\n## ")[0]
    (example,) = re.findall(r"```json\n(.*?)```", section, re.DOTALL)
    event = {
        "at": MOMENT,
        "age": None,
        "country": "fr",
        "words": ["good", "film"],
        "paid": Decimal("19.99"),
        "bought": True,
    }

    found = read(form_of(example), framed(1, json.loads(example), event))

    assert found == event | {"at": SECONDS, "paid": 19.99}


FEATURES = (
    Feature("age", Kind.NUMERIC),
    Feature("car", Kind.NOMINAL),
    Feature("words", Kind.SPARSE),
)
LIST = {"type": "array", "items": "string"}
EVENT = record_of(
    key="string",
    age=["null", "double"],
    car=["null", "string", record_of(maker="string") | {"name": "Car"}],
    words=["null", LIST],
    w="double",
    label=["null", "string", "double"],
)


def decoded(*values: bytes | None, growing: bool = False) -> Decoded:
    form = form_of(EVENT)
    form.prepare(values)
    event = EventSettings(id_field="key", weight_field="w")
    schema = Schema(FEATURES)
    if growing:
        return GrowingDecoder(Encoder(schema, growing=True), event, 100, form).decode(values)
    return StructDecoder(schema, event, form).decode(values)


def event_of(**fields: Any) -> bytes:
    whole = {"key": "e-7", "age": 41.0, "car": "c1", "words": ["x"], "w": 2.0, "label": "old"}
    return framed(1, EVENT, whole | fields)


both = pytest.mark.parametrize("growing", [False, True])


@both
def test_events_become_rows_as_from_json(growing: bool) -> None:
    out = decoded(
        event_of(), None, event_of(age=None, car=None, words=None, label=1.0), growing=growing
    )

    assert [list(row) for row in out.rows] == [[41.0, "c1", ["x"]], [None, None, None]]
    assert (out.labels, out.weights, out.tombstones) == (["old", 1.0], [2.0, 2.0], 1)
    assert out.rejected == []


@both
@pytest.mark.parametrize(
    ("fields", "reason", "message"),
    [
        (
            {"car": {"maker": "x"}},
            "bad_feature",
            "feature 'car' is {'maker': 'x'}; expected a text, a number or a truth value",
        ),
        ({"label": None}, "bad_label", "label 'label' is None; expected a text"),
        ({"label": math.nan}, "bad_label", "label 'label' is None; expected a text"),
        ({"w": math.inf}, "bad_weight", "weight 'w' is None; expected a number above 0"),
        ({"w": -1.0}, "bad_weight", "weight 'w' is -1.0; expected a number above 0"),
    ],
)
def test_a_bad_event_is_set_aside_by_name_value_and_expectation(
    fields: dict[str, Any], reason: str, message: str, growing: bool
) -> None:
    out = decoded(event_of(), event_of(**fields), event_of(), growing=growing)

    assert out.places == [0, 2]
    (bad,) = out.rejected
    assert (bad.place, bad.id, policy_of(bad.error).reason) == (1, "e-7", reason)
    assert message in str(bad.error)


WHOLE = framed(1, record_of(x="string"), {"x": "abc"})


@pytest.mark.parametrize(
    ("value", "reason", "message"),
    [
        (b"", "not_avro", "record is b''; expected a byte 0, the id of a schema in 4 bytes"),
        (b"\0\0\0\0", "not_avro", "expected a byte 0, the id of a schema in 4 bytes"),
        (b'{"x": "abc"}', "not_avro", 'record is b\'{"x": "abc"}\'; expected a byte 0'),
        (b"\1" + WHOLE[1:], "not_avro", "expected a byte 0"),
        (WHOLE[:-1], "not_avro", "cannot be read with schema 1 (Expected 3 bytes, read 2)"),
        (WHOLE[:5], "not_avro", "record cannot be read with schema 1 (EOFError); expected Avro"),
        (WHOLE + b"!", "not_avro", "record has 1 bytes more than schema 1 says"),
        (WHOLE[:-1] + b"\xff", "not_avro", "record cannot be read with schema 1 ('utf-8' codec"),
        (
            b"\0\0\0\0\2",
            "unusable_schema",
            "written with schema 2, which cannot be used: schema 2 is not in the schema registry",
        ),
        (b"\0\xff\0\0\0", "unusable_schema", "schema 4278190080, which cannot be used: expected"),
        (WHOLE[:5] + long(500) + b"x" * 500, "too_large", "507 bytes long; expected at most 200"),
    ],
)
def test_bytes_that_are_no_event_are_rejected_with_the_reason(
    value: bytes, reason: str, message: str
) -> None:
    form = form_of(record_of(x="string"), max_bytes=200)

    with pytest.raises(DecodeError) as caught:
        read(form, value)

    assert policy_of(caught.value).reason == reason
    assert message in str(caught.value)


HOSTILE = [
    ("bytes", long(2**40)),
    ("bytes", long(2**62) + b"abc"),
    ("bytes", long(-1) + b"abc"),
    ("string", long(2**40) + b"abc"),
    ("string", b"\xff" * 40),
    ({"type": "fixed", "name": "F", "size": 2**40}, b"abc"),
    ({"type": "fixed", "name": "F", "size": 2**70}, b"abc"),
    ({"type": "array", "items": "int"}, long(2**40) + b"\2" * 100),
    ({"type": "array", "items": "int"}, long(-(2**40)) + long(2**40) + b"\2" * 100),
    ({"type": "array", "items": LIST}, (long(2**40)) * 50),
    ({"type": "map", "values": "int"}, long(2**40) + b"\2a\2" * 30),
    (["null", "int"], long(9)),
    (["null", "int"], long(-9)),
    (SUIT, long(9)),
    (MONEY, long(999_000) + b"\x7f" * 999_000),
]


@pytest.mark.parametrize(("kind", "tail"), HOSTILE)
def test_a_crafted_record_is_only_a_rejected_one(kind: Any, tail: bytes) -> None:
    with pytest.raises(DecodeError) as caught:
        read(form_of(record_of(x=kind)), b"\0\0\0\0\1" + tail)

    assert policy_of(caught.value).reason == "not_avro"
    assert len(str(caught.value)) < 400


def deep(levels: int) -> Any:
    """Return lists in lists."""
    schema: Any = "int"
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


def chain(levels: int) -> list[Any]:
    """Return records, each of which holds the one before by its name."""
    first = {"type": "record", "name": "R0", "fields": [{"name": "x", "type": "int"}]}
    return [first] + [
        {"type": "record", "name": f"R{i}", "fields": [{"name": "x", "type": f"R{i - 1}"}]}
        for i in range(1, levels)
    ]


def around(levels: int) -> Any:
    """Return records in records, with a single byte in the innermost."""
    schema: Any = "boolean"
    for i in range(levels):
        schema = {"type": "record", "name": f"A{i}", "fields": [{"name": "x", "type": schema}]}
    return schema


def bomb(levels: int) -> Any:
    """Return records that hold the one before twice."""
    schema: Any = {"type": "record", "name": "B0", "fields": [{"name": "x", "type": "int"}]}
    for i in range(1, levels):
        fields = [{"name": "x", "type": schema}, {"name": "y", "type": f"B{i - 1}"}]
        schema = {"type": "record", "name": f"B{i}", "fields": fields}
    return schema


def test_records_may_be_nested_and_be_in_lists() -> None:
    schema = record_of(deep=around(30), list={"type": "array", "items": around(2) | {"name": "L"}})
    event = b"\1" + long(2) + b"\0\1" + b"\0"

    assert read(form_of(schema), b"\0\0\0\0\1" + event)["list"] == [
        {"x": {"x": False}},
        {"x": {"x": True}},
    ]


EMPTY = {"type": "record", "name": "Empty", "fields": []}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (record_of(x=["null", "Event"]), "the type 'com.acme.Event', which holds itself"),
        (record_of(x={"type": "array", "items": "Event"}), "which holds itself"),
        (record_of(x={"type": "array", "items": "null"}), "such a value takes no bytes"),
        (record_of(x={"type": "array", "items": EMPTY}), "'com.acme.Empty' without fields"),
        (record_of(x={"type": "array", "items": {**FIXED, "size": 0}}), "of size 0"),
        (record_of(x="null"), "such a value takes no bytes"),
        (record_of(x={"type": "array", "items": around(3)}), "up to 4 values a byte; expected"),
        (record_of(x={"type": "map", "values": around(60)}), "values a byte; expected at most 3"),
        (bomb(30), "values; expected at most 100000"),
        (deep(100), "nested more than 64 levels"),
        ('{"type":"array","items":' * 50_000, "expected JSON ("),
        (chain(200), "nested more than 64 levels"),
        (record_of(x="Unknown"), "the type 'Unknown', which it does not define"),
        (record_of(x={**MONEY, "scale": 10**9}), "a decimal of scale 1000000000; expected 0 to"),
        (record_of(x={**MONEY, "scale": "2"}), "a decimal of scale '2'"),
        (
            record_of(x={"type": "enum", "name": "E", "symbols": "AB"}),
            "'com.acme.E' of 'AB'; expected",
        ),
        (record_of(x={"type": "enum", "name": "E", "symbols": ["1 2"]}), "schema is not Avro"),
        ({"type": "record", "name": "no name", "fields": [{"name": "x", "type": "int"}]}, ""),
        ({"type": "record", "name": 7, "fields": []}, "a type named 7; expected a text"),
        ({"type": "record", "name": "R", "fields": [7]}, "record 'R' has 7; expected a field"),
        ("{", "schema is '{'; expected JSON"),
        ("7", "schema has 7; expected the name of a type"),
        ("[]", ""),
        ({"type": "record"}, "a type named None"),
    ],
)
def test_a_schema_that_cannot_be_read_safely_is_refused(schema: Any, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read(form_of(schema), b"\0\0\0\0\1" + long(2**40) + b"\0" * 50)

    assert message in str(caught.value)
    assert policy_of(caught.value).reason in ("unusable_schema", "not_avro")
    assert len(str(caught.value)) < 500


ANY = record_of(
    n=["null", "int", "double", LIST, MONEY, {**FIXED, "name": "F9", "size": 9}],
    m={"type": "map", "values": ["boolean", "bytes", DAY, SUIT]},
    t={"type": "array", "items": record_of(at=DAY, s="string") | {"name": "Inner"}},
)


@given(st.binary(max_size=60), st.booleans())
def test_random_bytes_are_an_event_or_a_decode_error(tail: bytes, framed_right: bool) -> None:
    value = b"\0\0\0\0\1" + tail if framed_right else tail
    form = form_of(ANY)
    form.prepare([value])
    try:
        found = form.read(value)
    except DecodeError:
        return
    json.dumps(found, allow_nan=False)


@given(st.binary(max_size=60), st.booleans())
def test_random_bytes_are_a_row_or_rejected(tail: bytes, growing: bool) -> None:
    out = decoded(b"\0\0\0\0\1" + tail, growing=growing)

    assert len(out.rows) + len(out.rejected) == 1


WORDS = st.sampled_from(
    ["null", "int", "double", "bytes", "record", "enum", "fixed", "array", "map", "A", "n.A", ""]
)
KEYS = st.sampled_from(
    ["type", "name", "namespace", "fields", "items", "values", "symbols", "size", "logicalType"]
)
SCHEMAS = st.recursive(
    st.one_of(WORDS, st.none(), st.integers(-2, 2**70), st.booleans()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=6)),
    max_leaves=15,
)


@given(SCHEMAS, SCHEMAS, st.binary(max_size=20))
def test_a_random_schema_reads_an_event_or_gives_a_decode_error(
    schema: Any, referenced: Any, tail: bytes
) -> None:
    value = b"\0\0\0\0\1" + tail
    form = form_of(json.dumps(schema), referenced)
    form.prepare([value])
    with contextlib.suppress(DecodeError):
        json.dumps(form.read(value), allow_nan=False)


def test_each_schema_is_fetched_once() -> None:
    shelf = Shelf({1: record_of(x="string")})
    form = AvroFormat(shelf, 1000)

    for _ in range(3):
        form.prepare([WHOLE, None, b"", b"{}", WHOLE])

    assert shelf.asked == [1]


def test_a_schema_that_is_not_there_is_asked_for_again_later() -> None:
    shelf, now = Shelf({}), [0.0]
    form = AvroFormat(shelf, 1000, lambda: now[0])
    form.prepare([WHOLE])
    form.prepare([WHOLE])
    assert shelf.asked == [1]

    now[0], shelf.schemas[1] = 61.0, record_of(x="string")

    assert read(form, WHOLE) == {"x": "abc"}
    assert shelf.asked == [1, 1]


def test_many_unknown_schemas_are_fetched_in_turns_that_end() -> None:
    shelf, now = Shelf({}), [0.0]

    def clock() -> float:
        now[0] += 1.0
        return now[0]

    form = AvroFormat(shelf, 1000, clock)
    values = [b"\0" + i.to_bytes(4, "big") for i in range(300)]
    turns = 1
    while _raises(lambda: form.prepare(values)):
        turns += 1

    assert turns > 10
    assert shelf.asked == list(range(300))


def _raises(call: Callable[[], None]) -> bool:
    try:
        call()
    except RegistryUnreachable:
        return True
    return False


@pytest.mark.parametrize(
    "kind", [b"application/avro", b"avro/binary", b"application/vnd.apache.avro+binary", None]
)
def test_cloudevents_may_carry_avro(kind: bytes | None) -> None:
    headers: list[Any] = [("ce_specversion", b"1.0"), ("ce_id", b"e-1")]
    headers += [("content-type", kind)] if kind else []
    form = form_of(record_of(x="string"))

    out = open_all([Record("t", 0, 0, None, WHOLE, None, headers)], form, 1000)

    form.prepare(out.values)
    assert form.read(out.values[0] or b"") == {"x": "abc"}


def test_cloudevents_with_json_are_refused_where_avro_is_expected() -> None:
    headers: list[Any] = [("ce_specversion", b"1.0"), ("content-type", b"application/json")]

    out = open_all([Record("t", 0, 0, None, b"{}", None, headers)], form_of("string"), 1000)

    assert "data is 'application/json'; expected Avro" in str(out.refused[0].error)
