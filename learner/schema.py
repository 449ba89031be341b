"""What an event looks like: features with their kinds, and the classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from learner.errors import SchemaError

Value = str | int | float | bool
"""A nominal value, a token or a class label, as JSON has it."""


class Kind(StrEnum):
    """How a feature is observed."""

    NUMERIC = "numeric"
    NOMINAL = "nominal"
    SPARSE = "sparse_binary"


@dataclass(frozen=True)
class Feature:
    """One feature; ``values`` are the nominal values or tokens known in advance.

    A sparse_binary feature is set-valued: each of its tokens is a binary attribute, absent = 0.
    """

    name: str
    kind: Kind
    values: tuple[Value, ...] = ()

    def __post_init__(self) -> None:
        if not self.name:
            raise SchemaError("a feature has an empty name; expected some text")
        if self.kind not in tuple(Kind):
            kinds = ", ".join(Kind)
            raise SchemaError(f"feature '{self.name}' is of kind {self.kind!r}; expected {kinds}")
        if self.kind == Kind.NUMERIC and self.values:
            raise SchemaError(f"feature '{self.name}' is numeric but lists values; remove them")
        _require_distinct(f"feature '{self.name}'", self.values)


@dataclass(frozen=True)
class Schema:
    """Features in their order (ties between attributes go to the earlier one), and the classes.

    >>> Schema.infer([{"age": 41, "car": "c7"}]).features[1].kind
    <Kind.NOMINAL: 'nominal'>
    """

    features: tuple[Feature, ...]
    classes: tuple[Value, ...] = ()

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for feature in self.features:
            if feature.name in seen:
                raise SchemaError(f"feature '{feature.name}' is listed twice; expected one entry")
            seen.add(feature.name)
        _require_distinct("the class list", self.classes)

    def of_kind(self, kind: Kind) -> tuple[int, ...]:
        """Positions of the features of one kind, in schema order."""
        return tuple(i for i, feature in enumerate(self.features) if feature.kind == kind)

    @classmethod
    def infer(cls, records: Sequence[Mapping[str, object]]) -> Schema:
        """Read the kinds off records: number, text or truth value, list or object of tokens.

        A feature whose values disagree (numbers and texts) is nominal. One that is never known
        is left out. Numbers that mean categories must be declared: nothing in them tells.
        """
        kinds: dict[str, Kind | None] = {}
        for record in records:
            for name, value in record.items():
                if name:
                    kinds[name] = _joined(kinds.get(name), kind_of(value), name)
        return cls(tuple(Feature(name, kind) for name, kind in kinds.items() if kind is not None))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schema:
        """Build a schema from plain data: ``{"features": [{"name", "kind", "values"}], ...}``."""
        unknown = sorted(set(data) - {"features", "classes"})
        if unknown:
            raise SchemaError(f"schema has the key {unknown[0]!r}; expected features, classes")
        features = []
        for entry in data.get("features", ()):
            if not isinstance(entry, Mapping) or not {"name", "kind"} <= set(entry):
                raise SchemaError(f"feature entry is {entry!r}; expected a name and a kind")
            extra = sorted(set(entry) - {"name", "kind", "values"})
            if extra:
                raise SchemaError(
                    f"feature '{entry['name']}' has the key {extra[0]!r}; "
                    "expected name, kind, values"
                )
            if entry["kind"] not in tuple(Kind):
                raise SchemaError(
                    f"feature '{entry['name']}' is of kind {entry['kind']!r}; "
                    f"expected {', '.join(Kind)}"
                )
            values = tuple(entry.get("values") or ())
            features.append(Feature(str(entry["name"]), Kind(entry["kind"]), values))
        return cls(tuple(features), tuple(data.get("classes") or ()))

    def to_dict(self) -> dict[str, Any]:
        """Plain data that ``from_dict`` reads back."""
        features: list[dict[str, Any]] = []
        for feature in self.features:
            entry: dict[str, Any] = {"name": feature.name, "kind": feature.kind.value}
            if feature.values:
                entry["values"] = list(feature.values)
            features.append(entry)
        return {"features": features, "classes": list(self.classes)}


def kind_of(value: object) -> Kind | None:
    """The kind a single value suggests; None when it suggests nothing (missing)."""
    if value is None:
        return None
    if isinstance(value, bool | str):
        return Kind.NOMINAL
    if isinstance(value, int | float):
        return Kind.NUMERIC
    return Kind.SPARSE


def _joined(known: Kind | None, new: Kind | None, name: str) -> Kind | None:
    if known is None or new is None or known == new:
        return known if new is None else new
    if Kind.SPARSE in (known, new):
        raise SchemaError(
            f"feature '{name}' is a list in one event and a single value in another; "
            "expected one shape, or a declared schema"
        )
    return Kind.NOMINAL


def _require_distinct(what: str, values: Sequence[Value]) -> None:
    if len(set(values)) != len(values):
        twice = next(v for i, v in enumerate(values) if v in values[:i])
        raise SchemaError(f"{what} lists {twice!r} twice; expected distinct values")
