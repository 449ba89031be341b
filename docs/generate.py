"""Writes what can be told from the code: tables of the docs, files of the chart.

`python -m docs.generate` rewrites what stands between the two markers of each page, and nothing
else of it, and the files that are made as a whole; with `--check` it changes nothing and ends
with 1 when a file is out of date.
"""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from app.metrics import Metrics
from app.settings import FeatureSettings, Settings
from app.settings_file import variable_of
from docs.dashboard import dashboard_json
from learner import VARIANTS

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"

KINDS: dict[object, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    Path: "a path",
    SecretStr: "a text, never shown",
}
BOUNDS = {"gt": "above", "ge": "from", "lt": "below", "le": "at most"}


def settings_tables() -> str:
    """Every setting: one table for those without a group, then one for each group."""
    own = [(name, field) for name, field in Settings.model_fields.items() if not _group(field)]
    parts = ["## General", "", *_settings_table(own, ())]
    for path, group in _groups(Settings):
        own = [(name, field) for name, field in group.model_fields.items() if not _group(field)]
        parts += ["", f"{'#' * (len(path) + 1)} {'.'.join(path)}", "", _sentence(group), ""]
        parts += _settings_table(own, path)
    parts += ["", "### An entry of schema.features", "", _sentence(FeatureSettings), ""]
    parts += ["| Key | Default | Allowed | Meaning |", "|---|---|---|---|"]
    parts += [
        _row(f"`{name}`", _default(field), _allowed(field), field.description or "")
        for name, field in FeatureSettings.model_fields.items()
    ]
    return "\n".join(parts)


def metrics_table() -> str:
    """Every metric of ours, in the order of a record's walk."""
    rows = ["| Metric | Type | Labels | Meaning |", "|---|---|---|---|"]
    for metric in vars(Metrics()).values():
        if not hasattr(metric, "describe"):
            continue
        for family in metric.describe():
            name = f"{family.name}_total" if family.type == "counter" else family.name
            labels = ", ".join(f"`{label}`" for label in getattr(metric, "_labelnames", ()))
            rows.append(_row(f"`{name}`", family.type, labels, family.documentation))
    return "\n".join(rows)


PAGES: dict[str, Callable[[], str]] = {
    "docs/settings.md": settings_tables,
    "docs/metrics.md": metrics_table,
}
FILES: dict[str, Callable[[], str]] = {
    "helm/livetree/grafana/dashboard.json": dashboard_json,
}


def current(name: str) -> str:
    """The page or file as it should be; a page keeps its own words, around the table of today."""
    if name in FILES:
        return FILES[name]()
    text = written(name)
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{PAGES[name]()}\n\n{END}{after}"


def written(name: str) -> str:
    """The page or file as it is."""
    return (ROOT / name).read_text(encoding="utf-8")


def _groups(
    model: type[BaseModel], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], type[BaseModel]]]:
    """Every group of settings with its path; one inside another comes after it."""
    for name, field in model.model_fields.items():
        group = _group(field)
        if group is not None:
            path = (*above, field.alias or name)
            yield path, group
            yield from _groups(group, path)


def _group(field: FieldInfo) -> type[BaseModel] | None:
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _settings_table(fields: Any, above: tuple[str, ...]) -> Iterator[str]:
    yield "| Setting | Environment variable | Default | Allowed | Meaning |"
    yield "|---|---|---|---|---|"
    for name, field in fields:
        path = (*above, field.alias or name)
        yield _row(
            f"`{'.'.join(path)}`",
            f"`{variable_of(path)}`",
            _variants_default(name) if above == ("tree",) else _default(field),
            _names(VARIANTS) if path == ("variant",) else _allowed(field),
            field.description or "",
        )


def _variants_default(name: str) -> str:
    """The value that vfdt has, and those of the variants that differ from it."""
    plain, *others = (
        (variant.name, getattr(variant.params_from({}), name)) for variant in VARIANTS.values()
    )
    different = [f"{variant}: {_value(value)}" for variant, value in others if value != plain[1]]
    return "; ".join([_value(plain[1]), *different])


def _row(*cells: str) -> str:
    shown = (" ".join(cell.split()).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(shown)} |"


def _sentence(model: type[BaseModel]) -> str:
    return " ".join((model.__doc__ or "").split())


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    return "none" if field.default in (None, "", [], {}) else _value(field.default)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _names(choices: Iterable[str]) -> str:
    return ", ".join(f"`{choice}`" for choice in choices)


def _allowed(field: FieldInfo) -> str:
    """What a setting takes, in words: its choices, or its kind with the bounds."""
    kind = _without_none(field.annotation)
    if typing.get_origin(kind) is typing.Literal:
        return _names(typing.get_args(kind))
    origin = typing.get_origin(kind) or kind
    if origin in (list, dict):
        return "a list" if origin is list else "an object of texts"
    bounds = [
        f"{word} {_bound(getattr(rule, name))}"
        for rule in field.metadata
        for name, word in BOUNDS.items()
        if getattr(rule, name, None) is not None
    ]
    words = [KINDS[origin], " and ".join(bounds).replace(" and at most", " to")]
    for rule in field.metadata:
        if getattr(rule, "max_length", None):
            words.append(f"up to {rule.max_length} characters")
        if getattr(rule, "pattern", None):
            words.append(f"matching `{rule.pattern}`")
    return " ".join(word for word in words if word).replace("above 0 to", "above 0, to")


def _bound(value: float) -> str:
    if isinstance(value, int) and value >= 2**31:
        return f"2^{value.bit_length() - 1}"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _without_none(kind: Any) -> Any:
    if typing.get_origin(kind) not in (typing.Union, types.UnionType):
        return kind
    (found,) = (part for part in typing.get_args(kind) if part is not type(None))
    return _without_none(typing.get_args(found)[0]) if _is_annotated(found) else found


def _is_annotated(kind: Any) -> bool:
    return typing.get_origin(kind) is typing.Annotated


def main(check: bool) -> int:
    """Write or compare every page; returns the exit code."""
    stale = [name for name in (*PAGES, *FILES) if current(name) != written(name)]
    for name in stale:
        if check:
            sys.stderr.write(f"{name} is out of date; run: make docs\n")
        else:
            (ROOT / name).write_text(current(name), encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
