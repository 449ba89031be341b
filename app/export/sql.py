"""A tree as one SQL expression: CASE, with a WHEN for every end and the tests on the way in it.

Flat, because nested CASEs of a deep tree overflow the parsers of most databases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from app.errors import NotExportable
from app.export.document import ExportedTree, Feature, text_of
from app.export.region import Numbers, Part, Region, Tokens, Values, ends_of
from app.text_table import printable
from learner import Value


def sql_expression(tree: ExportedTree) -> str:
    """Return the expression with a heading of comments; NULL is a missing value."""
    written = labels_as_sql(tree.classes)
    lines = list(_heading(tree))
    ends = list(ends_of(tree))
    if len(ends) == 1:
        return "\n".join([*lines, written[ends[0][1].label]]) + "\n"
    lines.append("CASE")
    for region, node in ends:
        lines.append(f"  WHEN {condition(tree, region)} THEN {written[node.label]}")
    return "\n".join([*lines, "END"]) + "\n"


def _heading(tree: ExportedTree) -> Iterator[str]:
    yield f"-- livetree {printable(tree.snapshot)}"
    for feature in tree.tested:
        for name in columns_of(tree, feature):
            what = {"numeric": "number", "nominal": "value"}.get(feature.kind, "1 if held")
            yield f"-- {printable(quoted(name))}: {what}"


def columns_of(tree: ExportedTree, feature: Feature) -> list[str]:
    """Return the columns of a feature; a set has one for every token that a test looks at."""
    if feature.kind != "sparse_binary":
        return [feature.name]
    return [token_column(feature.name, token) for token in tree.tokens_of(feature.name)]


def token_column(feature: str, token: Value) -> str:
    """Return the name of the column that tells whether a token is held."""
    return f"{feature}={text_of(token)}"


def condition(tree: ExportedTree, region: Region) -> str:
    """Return what a record must be."""
    parts = [text for name, part in region.items() for text in _tests(tree.features[name], part)]
    return " AND ".join(parts) or "1 = 1"


def _tests(feature: Feature, part: Part) -> Iterator[str]:
    name = quoted(feature.name)
    if isinstance(part, Numbers):
        yield from _number_tests(name, part)
    elif isinstance(part, Tokens):
        for token in dict.fromkeys(part.held):
            yield f"{quoted(token_column(feature.name, token))} = 1"
        for token in dict.fromkeys(part.absent):
            column = quoted(token_column(feature.name, token))
            yield f"({column} <> 1 OR {column} IS NULL)"
    else:
        yield from _value_tests(feature, part)


def _number_tests(name: str, part: Numbers) -> Iterator[str]:
    tests = [f"{name} > {number(part.low)}"] if part.low > -float("inf") else []
    tests += [f"{name} <= {number(part.high)}"] if part.high < float("inf") else []
    if part.low >= part.high:
        yield f"{name} IS NULL"
    elif part.missing and tests:
        yield f"({' AND '.join(tests)} OR {name} IS NULL)"
    else:
        yield from tests


def _value_tests(feature: Feature, part: Values) -> Iterator[str]:
    name = quoted(feature.name)
    if part.listed is not None:
        yield f"{name} {_in(feature, part.listed, '=', 'IN')}"
    elif part.left_out:
        yield f"({name} {_in(feature, part.left_out, '<>', 'NOT IN')} OR {name} IS NULL)"


def _in(feature: Feature, values: tuple[Value, ...], one: str, many: str) -> str:
    written = [value_as_sql(feature, value) for value in values]
    return f"{one} {written[0]}" if len(written) == 1 else f"{many} ({', '.join(written)})"


def quoted(name: str) -> str:
    """Return an identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text; a NUL cannot be written."""
    if "\0" in text:
        raise NotExportable(f"value {text!r:.80} holds a NUL character, which SQL cannot write")
    return "'" + text.replace("'", "''") + "'"


def number(value: float) -> str:
    """Return a double; with an exponent, which makes it one by the standard."""
    shown = repr(float(value))
    return shown if "e" in shown else f"{shown}E0"


def value_as_sql(feature: Feature, value: Value) -> str:
    """Return a nominal value as its column has it; a column cannot mix types."""
    types = {bool if isinstance(v, bool) else str if isinstance(v, str) else float
             for v in feature.values}  # fmt: skip
    if len(types) > 1:
        shown = ", ".join(repr(v) for v in feature.values[:5])
        raise NotExportable(
            f"feature '{feature.name}' has values of several types ({shown:.80}); "
            "a column of SQL has one"
        )
    return _plain(value)


def _plain(value: Value) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value)
    return literal(value) if isinstance(value, str) else number(value)


def labels_as_sql(classes: Iterable[Value]) -> dict[Value, str]:
    """Return every label as SQL: numbers where all are numbers, otherwise text."""
    labels = list(classes)
    numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in labels)
    return {each: _plain(each) if numbers else literal(text_of(each)) for each in labels}
