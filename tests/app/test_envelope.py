"""CloudEvents: what is opened, what is refused, and what an envelope tells."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.envelope import Opened, open_all
from app.errors import policy_of
from app.format import JsonFormat
from app.source import Record

EVENT = b'{"age": 41, "label": "old"}'
Headers = list[tuple[str, Any]]


def record(value: bytes | None, headers: Headers | None = None) -> Record:
    return Record("t", 0, 0, None, value, None, headers)


def opened(*records: Record, max_bytes: int = 10_000) -> Opened:
    return open_all(records, JsonFormat(max_bytes), max_bytes)


def binary(value: bytes | None = EVENT, **headers: bytes) -> Record:
    """Return a CloudEvent of the binary mode; `content_type` is the header content-type."""
    said = {"ce_specversion": b"1.0", "ce_id": b"e-1", "ce_source": b"/s", "ce_type": b"t"}
    named = {name.replace("content_type", "content-type"): v for name, v in headers.items()}
    return record(value, list((said | named).items()))


def structured(kind: str = "application/cloudevents+json", **fields: Any) -> Record:
    said = {"specversion": "1.0", "id": "e-1", "source": "/s", "type": "t", **fields}
    given = {name: value for name, value in said.items() if value is not ...}
    return record(json.dumps(given).encode(), [("content-type", kind.encode())])


def test_plain_records_are_handed_on_as_they_are() -> None:
    records = [record(EVENT), record(None), record(b"\xff", [])]

    out = open_all(records, JsonFormat(100), 100)

    assert list(out.records) == records
    assert list(out.values) == [EVENT, None, b"\xff"]
    assert (out.stamps, out.refused) == ({}, [])


@pytest.mark.parametrize(
    "headers",
    [
        [("trace", b"\x01")],
        [("content-type", b"text/plain")],
        [("content-type", None)],
        [("ce_id", b"e-1"), ("ce_time", b"2026-01-01T00:00:00Z")],
    ],
)
def test_headers_that_make_no_envelope_are_not_read(headers: Headers) -> None:
    out = opened(record(EVENT, headers))

    assert (list(out.values), out.stamps, out.refused) == ([EVENT], {}, [])


def test_an_envelope_is_told_by_its_headers_alone() -> None:
    looks_like_one = structured(data={"age": 1}).value

    out = opened(record(looks_like_one), binary())

    assert list(out.values) == [looks_like_one, EVENT]
    assert list(out.stamps) == [1]


@pytest.mark.parametrize(
    "kind", [None, b"application/json", b"Application/JSON; charset=utf-8", b"a/b+json"]
)
def test_the_value_of_the_binary_mode_is_the_event(kind: bytes | None) -> None:
    more = {} if kind is None else {"content_type": kind}

    out = opened(binary(ce_time=b"2026-01-01T00:00:00Z", **more))

    assert list(out.values) == [EVENT]
    assert out.stamps[0] == ("e-1", 1_767_225_600.0)


@pytest.mark.parametrize(
    "kind",
    ["application/cloudevents+json", "Application/CloudEvents+JSON; charset=UTF-8"],
)
def test_the_event_of_the_structured_mode_is_its_data(kind: str) -> None:
    out = opened(structured(kind, data=json.loads(EVENT), time="2026-01-01T00:00:00Z"))

    assert list(out.values) == [EVENT]
    assert out.stamps[0] == ("e-1", 1_767_225_600.0)


def test_data_may_be_in_base64() -> None:
    out = opened(structured(data_base64=base64.b64encode(EVENT).decode()))

    assert list(out.values) == [EVENT]


def test_a_tombstone_is_one_in_any_envelope() -> None:
    kind = [("content-type", b"application/cloudevents+json")]

    out = opened(binary(None), record(None, kind))

    assert (list(out.values), out.refused) == ([None, None], [])


def test_what_an_envelope_leaves_out_is_left_out() -> None:
    out = opened(record(EVENT, [("ce_specversion", b"1.0")]), structured(id=7, time="soon", data=1))

    assert out.stamps == {0: (None, None), 1: (None, None)}


def test_the_examples_of_the_docs_are_one_and_the_same_event() -> None:
    text = Path(__file__).parents[2].joinpath("docs/events.md").read_text(encoding="utf-8")
    section = text.partition("\n## CloudEvents\n")[2].partition("\n## ")[0]
    first, second = re.findall(r"```(?:json)?\n(.*?)```", section, re.DOTALL)
    said, _, value = first.partition("\n\n")
    headers = [tuple(line.encode().split(b": ", 1)) for line in said.splitlines()]
    named = [(name.decode(), header) for name, header in headers]
    kind = [("content-type", b"application/cloudevents+json")]

    out = opened(record(value.strip().encode(), named), record(second.encode(), kind))

    assert out.refused == []
    assert out.values[0] == out.values[1]
    assert out.stamps[0] == out.stamps[1] == ("e17", 1_794_801_780.5)


BAD = [
    (binary(ce_specversion=b"0.3"), "specversion of the CloudEvent is '0.3'; expected '1.0'"),
    (binary(content_type=b"text/xml"), "data is 'text/xml'; expected JSON"),
    (binary(content_type=b"application/avro"), "expected JSON, as LIVETREE_EVENT__FORMAT says"),
    (binary(b""), "CloudEvent has no data; expected an event in JSON"),
    (structured(specversion=1.0, data=1), "specversion of the CloudEvent is 1.0; expected '1.0'"),
    (structured(specversion=..., data=1), "specversion of the CloudEvent is None"),
    (structured(), "CloudEvent has no data"),
    (structured(data=None), "CloudEvent has no data"),
    (structured(data=1, data_base64="AA=="), "has data and data_base64; expected one of them"),
    (structured(data_base64="!"), "data_base64 of the CloudEvent is '!'; expected base64"),
    (structured(data="x", datacontenttype="text/xml"), "data is 'text/xml'; expected JSON"),
    (structured(data=1, datacontenttype=7), "expected a JSON object with specversion and data"),
    (
        structured("application/cloudevents-batch+json", data=1),
        "CloudEvents on Kafka have no batches",
    ),
    (structured("application/cloudevents+avro", data=1), "expected application/cloudevents+json"),
    (record(b"[]", [("content-type", b"application/cloudevents+json")]), "CloudEvent is b'[]'"),
    (record(b"{", [("content-type", b"application/cloudevents+json")]), "CloudEvent is b'{'"),
]


@pytest.mark.parametrize(("bad", "message"), BAD)
def test_a_bad_envelope_costs_only_its_record_and_says_why(bad: Record, message: str) -> None:
    out = opened(record(EVENT), bad, binary())

    assert list(out.values) == [EVENT, EVENT]
    assert list(out.stamps) == [1]
    (refused,) = out.refused
    assert refused.record is bad
    assert policy_of(refused.error).reason == "bad_envelope"
    assert message in str(refused.error)
    assert len(str(refused.error)) < 400


def test_a_refused_envelope_keeps_its_id() -> None:
    out = opened(binary(content_type=b"text/xml"), structured(specversion="2.0", data=1))

    assert [refused.id for refused in out.refused] == ["e-1", "e-1"]


def test_an_envelope_too_large_is_not_opened() -> None:
    out = opened(structured(data="x" * 500), max_bytes=400)

    assert policy_of(out.refused[0].error).reason == "too_large"


def test_parts_keep_each_stamp_with_its_record() -> None:
    whole = opened(record(EVENT), binary(ce_id=b"b"), record(EVENT), binary(ce_id=b"d"), binary())

    parts = list(whole.parts(2))

    assert [len(part.records) for part in parts] == [2, 2, 1]
    assert [{p: s.id for p, s in part.stamps.items()} for part in parts] == [
        {1: "b"},
        {1: "d"},
        {0: "e-1"},
    ]


@given(
    st.binary(max_size=40),
    st.sampled_from([b"application/cloudevents+json", b"application/cloudevents", b"", b"\xff"]),
    st.one_of(st.none(), st.binary(max_size=8)),
)
def test_no_bytes_do_anything_but_open_or_be_refused(
    value: bytes, kind: bytes, version: bytes | None
) -> None:
    out = opened(record(value, [("content-type", kind), ("ce_specversion", version)]))

    assert len(out.values) + len(out.refused) == 1


@pytest.mark.parametrize("depth", [100, 2_000, 100_000])
def test_no_depth_of_an_envelope_breaks_anything(depth: int) -> None:
    value = b'{"specversion": "1.0", "data": ' + b"[" * depth + b"]" * depth + b"}"
    kind = [("content-type", b"application/cloudevents+json")]

    out = opened(record(value, kind), max_bytes=1_000_000)

    assert len(out.values) + len(out.refused) == 1
