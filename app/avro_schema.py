"""An Avro schema made fit for reading events: JSON-like values, and no record that hurts. Pure.

What a schema says beyond the shape of the bytes (defaults, docs, aliases) is left out, and each
logical type is given a name of ours, which app/avro.py has a function for:

    timestamp-*, date, time-*   seconds       decimal        a number
    bytes, fixed                text          uuid           text

A schema is refused with which a few bytes could become a huge value: one that holds itself, for
its records may be nested as deeply as they are long; one with values that take no bytes, for a
list may have any number of those; one with lists of many records around a single byte; and one
with more fields in fields than an event can sensibly have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from app.errors import UnusableSchema

DEEPEST = 64  # levels
MOST_VALUES = 100_000  # of an event, without those in its lists and maps
MOST_LOAD = 3  # values that one byte in a list or map may become
OURS = "livetree-"
LENGTHS = {"float": 4, "double": 8}  # in bytes; all others take at least one
PRIMITIVE = ("boolean", "int", "long", "float", "double", "bytes", "string")

# (type, logical type) -> what we make of it; a pair that is not here is read as its type alone.
MEANINGS = {
    ("int", "date"): "days",
    ("int", "time-millis"): "millis",
    ("long", "time-micros"): "micros",
    **{
        ("long", f"{zone}timestamp-{unit}"): unit
        for zone in ("", "local-")
        for unit in ("millis", "micros", "nanos")
    },
    ("bytes", "decimal"): "decimal",
    ("fixed", "decimal"): "decimal",
    ("fixed", "uuid"): "uuid",
}
# What becomes of types that JSON does not have.
UNTOLD = {"bytes": "text", "fixed": "text"}
MOST_SCALE = 300  # digits after the point; a float has no more


def readable(text: str, referenced: Iterable[str] = ()) -> Any:
    """Return the schema for fastavro, with what it refers to built in; raises UnusableSchema."""
    try:
        found = _Rewriting(map(_parsed, referenced)).schema(_parsed(text), "", 0)
    except RecursionError as exc:
        raise _too_deep() from exc
    if found.size > MOST_VALUES:
        raise UnusableSchema(f"schema has {found.size} values; expected at most {MOST_VALUES}")
    return found.schema


def _parsed(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as exc:
        word = text.strip()
        if word.isidentifier():  # a primitive type may be written without its quotes
            return word
        raise UnusableSchema(f"schema is {text!r:.60}; expected JSON ({exc})") from exc


class _Type(NamedTuple):
    """A type rewritten, and what its values can come to."""

    schema: Any
    height: int = 1  # levels
    least: int = 1  # bytes that a value takes at least
    load: float = 1.0  # values that one byte can become
    size: int = 1  # values in one, lists and maps not looked into


class _Rewriting:
    """One walk over one schema."""

    def __init__(self, referenced: Iterable[Any]) -> None:
        self._definitions: dict[str, tuple[Mapping[str, Any], str]] = {}  # with the namespace
        self._written: dict[str, _Type] = {}  # named types that are written out already
        self._open: list[str] = []  # named types that the walk is inside of
        for schema in referenced:
            self._collect(schema, "", 0)

    def _collect(self, schema: Any, namespace: str, depth: int) -> None:
        """Note the named types of a referenced schema."""
        if depth > 2 * DEEPEST:
            raise _too_deep()
        if isinstance(schema, list):
            for branch in schema:
                self._collect(branch, namespace, depth + 1)
        elif isinstance(schema, dict):
            if "name" in schema and "type" in schema:
                name, inner = _full_name(schema, namespace)
                self._definitions.setdefault(name, (schema, namespace))
                namespace = inner
            for part in ("type", "items", "values"):
                self._collect(schema.get(part), namespace, depth + 1)
            # A field is no type, but the type in it may be one with a name.
            fields = schema.get("fields")
            for field in fields if isinstance(fields, list) else ():
                if isinstance(field, dict):
                    self._collect(field.get("type"), namespace, depth + 1)

    def schema(self, schema: Any, namespace: str, depth: int) -> _Type:
        """Return a schema rewritten."""
        if depth > DEEPEST:
            raise _too_deep()
        if isinstance(schema, str):
            return self._word(schema, namespace, depth)
        if isinstance(schema, list):
            return self._union(schema, namespace, depth)
        if not isinstance(schema, dict):
            raise UnusableSchema(f"schema has {schema!r:.60}; expected the name of a type")
        kind = schema.get("type")
        if kind in ("record", "error", "enum", "fixed"):
            return self._named(schema, namespace, depth)
        if kind in ("array", "map"):
            return self._collection(schema, namespace, depth)
        if isinstance(kind, str) and kind in PRIMITIVE:
            return _primitive(kind, schema)
        return self.schema(kind, namespace, depth + 1)  # {"type": {"type": ...}}

    def _collection(self, schema: Mapping[str, Any], namespace: str, depth: int) -> _Type:
        part = "items" if schema["type"] == "array" else "values"
        inner = self.schema(schema.get(part), namespace, depth + 1)
        if inner.load > MOST_LOAD:
            raise UnusableSchema(
                f"schema has a list or map with up to {inner.load:g} values a byte; expected at "
                f"most {MOST_LOAD}"
            )
        return _Type(
            {"type": schema["type"], part: inner.schema}, inner.height + 1, load=inner.load
        )

    def _word(self, word: str, namespace: str, depth: int) -> _Type:
        """Return a primitive type, or a named one: written out at its first use."""
        if word in PRIMITIVE:
            return _primitive(word, {})
        if word == "null":
            raise UnusableSchema(
                "schema has a value of type null; expected null only as one of several types, "
                "since such a value takes no bytes"
            )
        name = word if "." in word or not namespace else f"{namespace}.{word}"
        if not any(name in known for known in (self._written, self._open, self._definitions)):
            name = word
        if name in self._open:
            raise UnusableSchema(
                f"schema has the type '{name}', which holds itself; expected one that does not, "
                "since its records may be nested without end"
            )
        if name in self._written:
            if depth + self._written[name].height > DEEPEST:
                raise _too_deep()
            return self._written[name]._replace(schema=name)
        if name not in self._definitions:
            raise UnusableSchema(f"schema has the type {word!r:.80}, which it does not define")
        definition, around = self._definitions[name]
        return self._named(definition, around, depth)

    def _union(self, branches: list[Any], namespace: str, depth: int) -> _Type:
        if not branches:
            raise UnusableSchema("schema has a choice of no types; expected at least one")
        found = [
            _Type("null", least=0)
            if _is_null(branch)
            else self.schema(branch, namespace, depth + 1)
            for branch in branches
        ]
        return _Type(
            [branch.schema for branch in found],
            1 + max(branch.height for branch in found),
            1 + min(branch.least for branch in found),
            max(branch.load for branch in found),
            max(branch.size for branch in found),
        )

    def _named(self, schema: Mapping[str, Any], namespace: str, depth: int) -> _Type:
        """Return a record, an enum or a fixed."""
        name, inner = _full_name(schema, namespace)
        if name in self._open or name in self._written:
            return self._word(name, "", depth)
        if schema["type"] == "enum":
            symbols = schema.get("symbols")
            if not isinstance(symbols, list):
                raise UnusableSchema(f"schema has '{name}' of {symbols!r:.60}; expected symbols")
            found = _Type({"type": "enum", "name": name, "symbols": symbols})
        elif schema["type"] == "fixed":
            size = schema.get("size")
            if not isinstance(size, int) or size < 1:
                raise UnusableSchema(f"schema has '{name}' of size {size!r}; expected at least 1")
            marked = _primitive("fixed", schema).schema
            found = _Type({**marked, "name": name, "size": size}, least=size)
        else:
            self._open.append(name)
            found = self._record(name, schema.get("fields"), inner, depth)
            self._open.pop()
        self._written[name] = found
        return found

    def _record(self, name: str, fields: Any, namespace: str, depth: int) -> _Type:
        if not isinstance(fields, list) or not fields:
            raise UnusableSchema(
                f"schema has the record '{name}' without fields; expected at least one, since "
                "such a value takes no bytes"
            )
        found: list[tuple[str, _Type]] = []
        for field in fields:
            if not isinstance(field, dict) or not isinstance(field.get("name"), str):
                raise UnusableSchema(f"record '{name}' has {field!r:.60}; expected a field")
            found.append((field["name"], self.schema(field.get("type"), namespace, depth + 1)))
        types = [held for _, held in found]
        least = sum(held.least for held in types)
        written = [{"name": field, "type": held.schema} for field, held in found]
        return _Type(
            {"type": "record", "name": name, "fields": written},
            1 + max(held.height for held in types),
            least,
            max(held.load for held in types) + 1 / least,
            1 + sum(held.size for held in types),
        )


def _is_null(branch: Any) -> bool:
    return branch == "null" or (isinstance(branch, dict) and branch.get("type") == "null")


def _primitive(kind: str, schema: Mapping[str, Any]) -> _Type:
    """Return a type that holds no other, with our name of what becomes of it."""
    least = LENGTHS.get(kind, 1)
    meaning = MEANINGS.get((kind, str(schema.get("logicalType"))), UNTOLD.get(kind))
    if meaning is None:
        return _Type(kind, least=least)
    out: dict[str, Any] = {"type": kind, "logicalType": OURS + meaning}
    if meaning == "decimal":
        scale = schema.get("scale", 0)
        if not isinstance(scale, int) or not 0 <= scale <= MOST_SCALE:
            raise UnusableSchema(f"schema has a decimal of scale {scale!r}; expected 0 to 300")
        out["scale"] = scale
    return _Type(out, least=least)


def _full_name(schema: Mapping[str, Any], around: str) -> tuple[str, str]:
    """Return the full name of a named type, and the namespace inside of it."""
    name, namespace = schema.get("name"), schema.get("namespace")
    if not isinstance(name, str) or not name:
        raise UnusableSchema(f"schema has a type named {name!r:.60}; expected a text")
    if "." in name:
        return name, name.rpartition(".")[0]
    inner = namespace if isinstance(namespace, str) else around
    return (f"{inner}.{name}" if inner else name), inner


def _too_deep() -> UnusableSchema:
    return UnusableSchema(f"schema is nested more than {DEEPEST} levels deep")
