"""What the chart says of its values: the schema of livetree's own settings, and the table of all.

The settings come from the model in `app/settings.py`, in camelCase; the rest of the schema and all
words of values.yaml are written by hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from app.settings import Settings

CHART = Path(__file__).parents[1] / "helm/livetree"
# What each workload is told by the chart itself.
THE_CHARTS = {("role",)}
# A mapping that may hold secrets among other things: it may come from a Secret as a whole.
EITHER = {("kafka", "extra")}
REFERENCE = {
    "type": "object",
    "required": ["name", "key"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "description": "Name of the Secret."},
        "key": {"type": "string", "minLength": 1, "description": "Key in the Secret."},
    },
    "additionalProperties": False,
}

Schema = dict[str, Any]


def camel(name: str) -> str:
    """`poll_timeout_seconds` as the chart writes it: `pollTimeoutSeconds`."""
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)


def values_schema() -> str:
    """The schema of values.yaml, with the settings of today in their places."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    schema["properties"]["settings"], schema["properties"]["secrets"] = settings_schemas(Settings)
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def settings_schemas(model: type[BaseModel]) -> tuple[Schema, Schema]:
    """The schemas of all settings but the secret ones, and of references to those."""
    whole = model.model_json_schema(by_alias=True, schema_generator=_Quiet)
    definitions = whole.pop("$defs")
    open_ones = _object("livetree's settings, as in docs/settings.md but in camelCase.")
    secret_ones = _object("Settings that are secret, each by a Secret's name and a key in it.")
    _divide(whole, definitions, (), open_ones, secret_ones)
    return open_ones, secret_ones


class _Quiet(GenerateJsonSchema):
    """Says nothing about defaults that JSON does not have."""

    def emit_warning(self, kind: Any, detail: str) -> None:
        """Keep quiet."""


def _object(description: str) -> Schema:
    return {
        "type": "object",
        "description": description,
        "properties": {},
        "additionalProperties": False,
    }


def _divide(
    group: Schema, definitions: Schema, path: tuple[str, ...], plain: Schema, secret: Schema
) -> None:
    """Put every setting of a group among the plain ones or the secret ones."""
    for name, found in group["properties"].items():
        place = (*path, name)
        if place in THE_CHARTS:
            continue
        inner = _resolved(found, definitions)
        if "properties" in inner:
            inside = _object(found.get("description", inner.get("description", "")))
            hidden = _object(f"Secret settings of {'.'.join(place)}.")
            _divide(inner, definitions, place, inside, hidden)
            plain["properties"][camel(name)] = inside
            if hidden["properties"]:
                secret["properties"][camel(name)] = hidden
            continue
        reference = {**REFERENCE, "description": inner.get("description", "")}
        if not _is_secret(inner):
            plain["properties"][camel(name)] = inner
        if _is_secret(inner) or place in EITHER:
            secret["properties"][camel(name)] = reference


def _is_secret(schema: Any) -> bool:
    """Whether a value of this kind is never shown."""
    if isinstance(schema, dict):
        return schema.get("format") == "password" or any(map(_is_secret, schema.values()))
    return isinstance(schema, list) and any(map(_is_secret, schema))


def _resolved(schema: Any, definitions: Schema) -> Any:
    """A schema without references and titles."""
    if isinstance(schema, list):
        return [_resolved(inner, definitions) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        named = definitions[schema["$ref"].rpartition("/")[2]]
        return _resolved({**named, **{k: v for k, v in schema.items() if k != "$ref"}}, definitions)
    return {
        key: value if key in ("default", "enum", "const") else _resolved(value, definitions)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }


def values_table() -> str:
    """Every value of the chart with its default and its comment."""
    rows = ["| Value | Default | Meaning |", "|---|---|---|"]
    for path, default, words in described_values():
        rows.append(f"| `{'.'.join(path)}` | {default} | {words} |")
    return "\n".join(rows)


def described_values() -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Path, default and comment of every commented value, read off values.yaml line by line."""
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    values = yaml.safe_load(text)
    path: list[str] = []
    words: list[str] = []
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        key = re.match(r"([A-Za-z]\w*):", line.lstrip())
        if line.lstrip().startswith("# "):
            words.append(line.strip().removeprefix("# "))
            continue
        if key is not None:
            path[indent // 2 :] = [key[1]]
            if words:
                yield tuple(path), _default(values, path), " ".join(words).replace("|", "\\|")
        words = []


def _default(values: Any, path: list[str]) -> str:
    for key in path:
        values = values[key]
    if isinstance(values, dict) and values:
        return "see values.yaml"
    return f"`{json.dumps(values)}`"
