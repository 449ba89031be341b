"""The compiled reader of JSON gives what the careful one gives, for any bytes whatever."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.format import JsonFormat
from app.json_reader import JsonReader
from app.reader import PlainReader, Reader, Rows
from app.settings import Settings
from app.settings_file import declared_schema
from app.training import new_tree, reader_for
from learner import Encoder

FEATURES = [
    {"name": "age", "kind": "numeric"},
    {"name": "car", "kind": "nominal", "values": ["c1", 'a "b"', 1, True * 2, 2.5, "é", "\x01"]},
    {"name": "a long name indeed", "kind": "numeric"},
    {"name": "ü", "kind": "nominal"},
]
FIELDS: list[dict[str, Any]] = [
    {},
    {"weight_field": "w", "time_field": "at", "id_field": "id"},
    {"features_field": "features", "time_field": "at"},
    {"max_bytes": 40},
]


def made(fields: dict[str, Any], **schema: Any) -> tuple[Encoder, Settings, JsonFormat]:
    limits = {"max_classes": 4, "max_values": 8, **schema}
    wanted = Settings.load(environ={}, schema={"features": FEATURES, **limits}, event=fields)
    declared = declared_schema(wanted.schema_)
    assert declared is not None
    return new_tree(wanted, declared).encoder, wanted, JsonFormat(wanted.event.max_bytes)


def both(fields: dict[str, Any], **schema: Any) -> list[tuple[Reader, Encoder]]:
    plain, wanted, form = made(fields, **schema)
    quick, _, _ = made(fields, **schema)
    reader = reader_for(quick, wanted, form)
    assert isinstance(reader, JsonReader)
    return [(PlainReader(plain, wanted, form), plain), (reader, quick)]


def bits(array: np.ndarray[Any, Any] | None) -> object:
    return None if array is None else (array.dtype.str, array.shape, array.tobytes())


def told(rows: Rows) -> object:
    return (
        rows.places.tolist(),
        bits(rows.batch.numeric),
        rows.batch.nominal.tolist(),
        rows.labels.tolist(),
        bits(rows.weights),
        bits(rows.times),
        [(bad.place, type(bad.error), str(bad.error), bad.id, bad.stage) for bad in rows.rejected],
        rows.tombstones,
    )


def known(encoder: Encoder) -> object:
    values = [tuple(map(repr, feature.values)) for feature in encoder.schema.features]
    counts = encoder.rejected_values, encoder.overflowed_values
    return values, tuple(map(repr, encoder.classes)), counts


def check(values: Sequence[bytes | None], fields: dict[str, Any], size: int = 5) -> None:
    readers = both(fields)
    for start in range(0, len(values), size):
        (plain, quick) = (told(reader.read(values[start : start + size])) for reader, _ in readers)
        assert quick == plain
        assert known(readers[1][1]) == known(readers[0][1])


ODD = [
    b'{"label":1}', b'{"label":1.0}', b'{"label":true}', b'{"label":"1"}', b'{"label":1e0}',
    b'{"label":0}', b'{"label":-0}', b'{"label":-0.0}', b'{"label":false}', b'{"label":null}',
    b'{"label":"a","age":-0}', b'{"label":"a","age":-0.0}', b'{"label":"a","age":0e5}',
    b'{"label":"a","age":9007199254740993}', b'{"label":"a","age":18446744073709551616}',
    b'{"label":"a","age":1' + b"0" * 400 + b"}", b'{"label":"a","age":1e999}',
    b'{"label":"a","age":4.9e-324}', b'{"label":"a","age":2.2250738585072011e-308}',
    b'{"label":"a","age":1e-400}', b'{"label":"a","age":1.7976931348623157e308}',
    b'{"label":"a","age":0.1000000000000000055511151231257827021181583404541015625}',
    b'{"label":"a","age":0.00000000000000000000123}', b'{"label":"a","age":-0.0000000000000000000}',
    b'{"label":"a","age":0.000012345678901234567891}', b'{"label":"a","age":12.345678901234567890}',
    b'{"label":"a","age":01}', b'{"label":"a","age":1.}', b'{"label":"a","age":.5}',
    b'{"label":"a","age":+1}', b'{"label":"a","age":1e}', b'{"label":"a","age":1e+}',
    b'{"label":"a","age":-}', b'{"label":"a","age":NaN}', b'{"label":"a","age":Infinity}',
    b'{"label":"a","age":true}', b'{"label":"a","age":"1"}', b'{"label":"a","age":null}',
    b'{"label":"a","age":nul}', b'{"label":"a","age":1 2}', b'{"label":"a","age":1}x',
    b'{"label":"a","age":1} ', b' \r\n\t{ "label" : "a" , "age" : 1 } \n', b'{"label":"a",}',
    b'{"label":"a" "age":1}', b'{"label":"a","age"}', b'{"label":"a","age":}', b'{,"label":"a"}',
    b'{"label":"a","label":"b"}', b'{"age":1,"age":2,"label":"a"}', b'{"label":"a","age":1',
    b'{"label":"a', b'{"label', b"{", b"", b" ", b"null", b"[1]", b'"a"', b"{}", b"\0", b"{}\0{}",
    b'{"label":"a","x":"\0"}', b'\xef\xbb\xbf{"label":"a"}', b'{"label":"\xff"}',
    b'{"label":"a","x":"\xff"}', b'{"label":"a","\xff":1}', b'{"label":"a","x":{"y":[1,{}]}}',
    b'{"label":"a","x":[]}', b'{"label":"a","x":nope}', b'{"label":"a","x":1e999}',
    b'{"label":"a","x":"\\ud800"}', b'{"label":"a","x":"\\n"}', b'{"label":"a","x":"\n"}',
    b'{"label":"\\u0061"}', b'{"l\\u0061bel":"a"}', b'{"label":"a","car":"a \\"b\\""}',
    b'{"label":"a","car":"c1"}', b'{"label":"a","car":"c\\u0031"}', b'{"label":"a","car":1}',
    b'{"label":"a","car":1.0}', b'{"label":"a","car":true}', b'{"label":"a","car":2}',
    b'{"label":"a","car":2.5}', b'{"label":"a","car":25e-1}', b'{"label":"a","car":null}',
    b'{"label":"a","car":[]}', b'{"label":"a","car":{}}', '{"label":"a","car":"é"}'.encode(),
    b'{"label":"a","car":"\\u00e9"}', b'{"label":"a","car":"e\xcc\x81"}', b'{"label":"a","car":""}',
    b'{"label":"a","car":9007199254740993}', b'{"label":"a","car":9007199254740992}',
    b'{"label":"a","car":9007199254740992.0}', b'{"label":"a","car":1e22}',
    b'{"label":"a","car":10000000000000000000000}', b'{"label":"a","car":"\x01"}',
    b'{"label":"a","car":"\\u0001"}', '{"label":"a","ü":"x","car":7}'.encode(),
    b'{"label":"a","a long name indeed":1.5}', b'{"label":"a","a long name indee":1.5}',
    b'{"label":"a","a long name indeed!":1.5}', b'{"label":"' + b"x" * 1001 + b'"}',
    b'{"label":"a","w":1}', b'{"label":"a","w":0}', b'{"label":"a","w":-1}',
    b'{"label":"a","w":2e15}', b'{"label":"a","w":1,"at":[]}',
    b'{"label":"a","w":null}', b'{"label":"a","w":true}', b'{"label":"a","w":"1"}',
    b'{"label":"a","w":1,"at":1700000000}', b'{"label":"a","w":1,"at":1700000000123}',
    b'{"label":"a","w":1,"at":"2026-01-01T00:00:00Z"}', b'{"label":"a","w":1,"at":"soon"}',
    b'{"label":"a","w":1,"at":null}', b'{"label":"a","w":1,"at":true}',
    b'{"label":"a","w":1,"at":9007199254740993}', b'{"label":"a","w":1,"at":"\\u0032026"}',
    b'{"label":"a","w":1,"id":{"x":1}}', b'{"label":"a","w":1,"id":"e-1","age":"bad"}',
    b'{"label":"a","features":{"age":1,"car":"c1"}}', b'{"features":{"age":1},"label":"a"}',
    b'{"label":"a","features":{}}', b'{"label":"a","features":null}', b'{"label":"a","features":1}',
    b'{"label":"a","features":{"label":"b","age":1}}', b'{"features":{"age":1,"label":"b"}}',
    b'{"label":"a","features":{"age":1,"age":2}}',
    b'{"label":"a","features":{"age":1},"features":{"age":2}}',
    b'{"label":"a","features":{"features":{"age":1}}}', b'{"label":"a","features":{"age":1}',
    b'{"label":"a","features":{"age":1}}}', b'{"label":"a","features":{"age":1},"at":5}',
    b'{"label":"a","features":{"at":7,"age":1},"at":5}', None,
]  # fmt: skip


@pytest.mark.parametrize("fields", FIELDS)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_odd_values_are_read_alike(fields: dict[str, Any], size: int) -> None:
    check(ODD + ODD[::-1], fields, size)


@pytest.mark.parametrize(
    "pieces",
    [[b'{"label":"a', b',"age":1}', b"x\0y"], [b'{"label":"a","age', b":1}", b"x\0y"]],
)
def test_a_value_never_goes_on_in_the_next(pieces: list[bytes]) -> None:
    check([b'{"label":"a"}'] * 3 + pieces, {}, 3)


def test_what_was_met_once_is_read_at_a_glance() -> None:
    reader, encoder = both({}, max_values=20)[1]
    careful: list[int] = []
    values = [b'{"label":"%d","car":"n%d","age":%d.5}' % (i % 3, i % 2, i) for i in range(50)]

    class Watched:
        def read(self, values: Sequence[bytes | None]) -> Rows:
            careful.append(len(values))
            return own.read(values)

    own, reader._careful = reader._careful, Watched()  # type: ignore[attr-defined]
    for start in range(0, 50, 10):
        reader.read(values[start : start + 10])

    assert careful == [10]  # the first ten are met together
    assert encoder.classes == ("0", "1", "2")


numbers = st.one_of(
    st.integers().map(str),
    st.floats(allow_nan=True).map(repr),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(0, 2**64 - 1).map(lambda b: repr(struct.unpack("<d", struct.pack("<Q", b))[0])),
    st.from_regex(r"-?(0|[1-9][0-9]{0,21})(\.[0-9]{1,22})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.text("0123456789.eE+-", max_size=8),
    st.sampled_from(["1", "1.0", "true", "0", "-0", "false", "1e0", "2", "25e-1", "10e-1"]),
)
texts = st.one_of(
    st.sampled_from(["c1", "c2", "a", "b", "1", "é", "", 'a "b"', "\x01"]).map(json.dumps),
    st.sampled_from(["c1", "é", "naïve", "日本"]).map(lambda t: json.dumps(t, ensure_ascii=False)),
    st.text(max_size=12).map(json.dumps),
    st.text(max_size=12).map(lambda t: f'"{t}"'),
)
nested = st.sampled_from(["[]", "{}", "[1,[2]]", '{"age":1}', "null", "nul", ""])
values_of = st.one_of(numbers, numbers, texts, texts, nested, st.just("null"))
NAMES = ["age", "car", "a long name indeed", "ü", "label", "w", "at", "id", "features", "x"]
names = st.one_of(
    st.sampled_from(NAMES).map(lambda name: json.dumps(name, ensure_ascii=False)),
    st.sampled_from(['"\\u0061ge"', '"ag', '"age""', "age"]),
    st.text(max_size=5).map(json.dumps),
)
gaps = st.sampled_from(["", "", "", " ", "\n", " \t\r\n"])
members = st.tuples(gaps, names, gaps, st.just(":"), gaps, values_of, gaps).map("".join)
objects = st.lists(members, max_size=7).map(lambda found: "{" + ",".join(found) + "}")
whole = st.one_of(
    objects,
    objects.map(lambda text: '{"label":"a",' + text[1:]),
    objects.map(lambda text: '{"label":"b","w":1,"features":' + text + "} "),
)
written = whole.map(lambda text: text.encode("utf-8", "surrogatepass"))


def _spoiled(drawn: tuple[bytes, int, int, bytes]) -> bytes:
    event, at, cut, junk = drawn
    return event[: at % len(event)] + junk + event[at % len(event) + cut :]


cuts = st.integers(0, 300), st.integers(0, 3), st.binary(max_size=3)
spoiled = st.tuples(written, *cuts).map(_spoiled)


@pytest.mark.parametrize("fields", FIELDS)
@settings(max_examples=400)
@given(values=st.lists(st.one_of(written, written, spoiled, st.sampled_from(ODD)), max_size=12))
def test_both_readers_find_the_same(fields: dict[str, Any], values: list[bytes | None]) -> None:
    check(values, fields)


@given(st.lists(numbers, min_size=1))
def test_numbers_are_read_to_the_last_bit(written: list[str]) -> None:
    check([b'{"label":"a","age":%s}' % number.encode() for number in written], {}, 100)


def test_texts_that_collide_are_all_found_or_left_to_the_careful_reader() -> None:
    values = [f"v{i}" for i in range(3000)]
    events = [msgspec.json.encode({"label": 1, "ü": value}) for value in values]
    (plain, _), (quick, encoder) = both({}, max_values=10_000)

    for reader in (plain, quick):
        reader.read(events)
    again = [reader.read(events).batch.nominal[:, 1].tolist() for reader in (plain, quick)]

    assert again[0] == again[1] == list(range(3000))
    assert encoder.value_counts()[1] == 3000
