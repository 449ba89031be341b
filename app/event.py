"""One record read plainly: what it holds, or what exactly is wrong with it. Pure."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeGuard

import msgspec

from app.errors import (
    BadFeature,
    BadLabel,
    BadWeight,
    NotAnObject,
    NotJson,
    NotText,
    RecordTooLarge,
)
from app.settings import EventSettings
from learner import HEAVIEST, Feature, Kind, Value

JsonValue = str | int | float | bool
ONE_VALUE = "a text, a number or a truth value"
EXPECTED = {
    Kind.NUMERIC: "a number",
    Kind.NOMINAL: ONE_VALUE,
    Kind.SPARSE: "a list of tokens, or an object of token: true",
}
LONGEST_NAME = 100  # characters of a field's name in an error message
# The same for a Struct that is made from a schema: what a decoder takes without being asked twice.
TYPES: dict[Kind, Any] = {
    Kind.NUMERIC: float | None,
    Kind.NOMINAL: JsonValue | None,
    Kind.SPARSE: list[JsonValue] | dict[str, Any] | None,
}
NEEDS_ESCAPE = re.compile(r'["\\\x00-\x1f]')  # msgspec finds fields by their bytes in the JSON
LARGEST = sys.float_info.max
MILLISECONDS_FROM = 1e11  # as seconds this would be the year 5138


def read_object(value: bytes, max_bytes: int) -> dict[str, Any]:
    """Read a record as a plain JSON object; raises a DecodeError that says what it is instead."""
    if len(value) > max_bytes:
        raise too_large(value, max_bytes)
    try:
        found = msgspec.json.decode(value)
    except msgspec.ValidationError as exc:
        found = _with_infinities(value, exc)
    except RecursionError as exc:
        raise NotJson("record is nested too deeply; expected a flat JSON object") from exc
    except UnicodeDecodeError as exc:
        raise NotText(f"record is not UTF-8 ({exc.reason}); expected a JSON object") from exc
    except msgspec.DecodeError as exc:
        try:
            value.decode()
        except UnicodeDecodeError as fault:
            raise NotText(
                f"record is not UTF-8 (byte {fault.start} is 0x{value[fault.start]:02x}); "
                "expected a JSON object"
            ) from exc
        raise NotJson(f"record is {short(value)}; expected a JSON object ({exc})") from exc
    if not isinstance(found, dict):
        raise NotAnObject(f"record is {short(found)}; expected a JSON object")
    return found


def _with_infinities(value: bytes, exc: msgspec.ValidationError) -> Any:
    """Read a record with a number beyond a float's range, so that the culprit can be named.

    Otherwise as strict as the quick way: no NaN, and no text that UTF-8 cannot hold.
    """
    try:
        found = json.loads(value, parse_int=float, parse_constant=_refuse_constant)
        json.dumps(found, ensure_ascii=False).encode()
        return found
    except (ValueError, RecursionError):
        raise NotJson(f"record is {short(value)}; expected a JSON object ({exc})") from exc


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def label_of(event: Mapping[str, Any], fields: EventSettings) -> Value:
    """Return the label; raises BadLabel."""
    name = fields.label_field
    if name not in event:
        raise BadLabel(f"label '{name}' is missing; expected {ONE_VALUE}", name)
    label = event[name]
    if not _is_value(label):
        raise BadLabel(f"label '{name}' is {short(label)}; expected {ONE_VALUE}", name)
    return label


def weight_of(event: Mapping[str, Any], fields: EventSettings) -> float:
    """Return the weight, 1 where events have none; raises BadWeight."""
    if fields.weight_field is None:
        return 1.0
    if fields.weight_field not in event:
        raise BadWeight(
            f"weight '{fields.weight_field}' is missing; expected a number above 0",
            fields.weight_field,
        )
    weight = event[fields.weight_field]
    number = isinstance(weight, int | float) and not isinstance(weight, bool)
    if not number or not 0 < weight <= HEAVIEST:
        raise bad_weight(fields, weight)
    return float(weight)


def features_of(event: Mapping[str, Any], fields: EventSettings) -> dict[str, Any]:
    """Return the features of an event by name; raises NotAnObject where they are no object."""
    if fields.features_field is None:
        return {name: value for name, value in event.items() if name not in fields.reserved}
    name = fields.features_field
    found = event.get(name)
    if not isinstance(found, dict):
        shown = short(found) if name in event else "missing"
        raise NotAnObject(f"field '{name}' is {shown}; expected an object with the features", name)
    return found


def check_features(features: Mapping[str, Any], known: Iterable[Feature]) -> None:
    """Raise BadFeature for the first known feature whose value is not of its kind."""
    for feature in known:
        value = features.get(feature.name)
        if value is not None and not _fits(feature.kind, value):
            name, expected = feature.name, EXPECTED[feature.kind]
            what = f"feature '{name:.{LONGEST_NAME}}'"  # a name may be as long as a record
            raise BadFeature(f"{what} is {short(value)}; expected {expected}", name)


def seconds_of(time: object) -> float | None:
    """Return an event's time as Unix seconds; None where it cannot be read."""
    if isinstance(time, bool):
        return None
    if isinstance(time, int | float):
        if not abs(time) <= LARGEST:  # JSON's integers may be larger than any float
            return None
        return time / 1000 if abs(time) >= MILLISECONDS_FROM else float(time)
    if not isinstance(time, str):
        return None
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _fits(kind: Kind, value: object) -> bool:
    if kind == Kind.NUMERIC:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return -LARGEST <= value <= LARGEST  # JSON's integers may be larger than any float
    if kind == Kind.NOMINAL:
        return _is_value(value)
    if isinstance(value, dict):
        return math.inf not in value.values() and -math.inf not in value.values()
    return isinstance(value, list) and all(_is_value(token) for token in value)


def _is_value(value: object) -> TypeGuard[Value]:
    """Whether JSON can hold it as a single value; a number out of range was read as infinite."""
    return isinstance(value, JsonValue) and value not in (math.inf, -math.inf)


def too_large(value: bytes, limit: int) -> RecordTooLarge:
    """Return the error of a record longer than the limit."""
    return RecordTooLarge(f"record is {len(value)} bytes long; expected at most {limit}")


def bad_weight(fields: EventSettings, weight: object) -> BadWeight:
    """Return the error of a weight that is no number above zero, or beyond all measure."""
    name = fields.weight_field
    expected = f"a number above 0 and at most {HEAVIEST:g}"
    return BadWeight(f"weight '{name}' is {short(weight)}; expected {expected}", name)


def short(value: object) -> str:
    """Return a value as an error message shows it."""
    try:
        text = repr(value[:100] if isinstance(value, str | bytes) else value)
    except RecursionError:
        return "nested very deeply"
    return text if len(text) <= 80 else f"{text[:77]}..."
