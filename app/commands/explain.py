"""`livetree explain`: why a service answers a record as it does, and what would change it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from app.commands.ask import HERE, ApiKey, At, CaFile, CertificateFile, KeyFile, Url, ask, trust_of
from app.commands.assignments import parse_assignments, parse_value


class ExplainFormat(StrEnum):
    """How an explanation is printed."""

    text = "text"
    json = "json"


def explain(
    record: Annotated[
        Path | None,
        typer.Argument(
            help="A file with the record as one JSON object; - reads it from standard input.",
            show_default=False,
        ),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="One feature, key=value; again for more. Comes after the file's own.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="The answer to look for instead.", show_default="the runner-up"),
    ] = None,
    frozen: Annotated[
        list[str] | None,
        typer.Option(help="A feature that must not change; again for more.", show_default=False),
    ] = None,
    format: Annotated[
        ExplainFormat, typer.Option(help="text: for people; json: what the service answers.")
    ] = ExplainFormat.text,
    at: At = None,
    url: Url = HERE,
    api_key: ApiKey = None,
    ca_file: CaFile = None,
    certificate_file: CertificateFile = None,
    key_file: KeyFile = None,
) -> None:
    """Say why a record is answered as it is, and what would have to be different.

    [bold]Examples[/bold]

    livetree explain --set age=32 --set salary=114436.23 --set car=c10

    livetree explain record.json --target B --frozen age

    echo '{"age": 32}' | livetree explain - --format json
    """
    trust = trust_of(ca_file, certificate_file, key_file)
    body = {
        "features": read_record(record) | parse_assignments(assignments or []),
        "target": None if target is None else parse_value(target),
        "frozen": frozen or [],
    }
    answer = ask(url, "/explain", {"at": at}, api_key, trust, body)
    if format is ExplainFormat.json:
        typer.echo(answer)
    else:
        typer.echo("\n".join(explained_text(json.loads(answer))))


def read_record(file: Path | None) -> dict[str, Any]:
    """Return the record of a file; one that is no JSON object is a wrong option."""
    if file is None:
        return {}
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        found = json.loads(text)
    except (OSError, ValueError) as exc:
        message = f"'{file}': expected one JSON object ({getattr(exc, 'strerror', None) or exc})"
        raise typer.BadParameter(message, param_hint="RECORD") from exc
    if not isinstance(found, dict):
        message = f"'{file}' holds {type(found).__name__}; expected one JSON object"
        raise typer.BadParameter(message, param_hint="RECORD")
    return found


def explained_text(answer: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of an explanation."""
    from app.text_table import printable

    likely = {json.dumps(each["label"]): each["probability"] for each in answer["probabilities"]}
    label = answer["label"]
    sure = f" {likely[json.dumps(label)]:.1%}" if label is not None else ""
    yield printable(f"{shown(label)}{sure}, by leaf #{answer['leaf']} of {answer['snapshot']}")
    if answer["path"]:
        yield "because"
        yield from _aligned([step_words(step) for step in answer["path"]])
    if answer["bayes"] is not None:
        yield "where naive Bayes weighs, in bits"
        yield from _weights(answer)
    yield from (printable(line) for line in counterfactual_lines(answer))


def step_words(step: dict[str, Any]) -> tuple[str, str]:
    """Return a test in words, and the events that went the same way."""
    observed = step["observed"]
    what = "is missing" if observed is None else f"is {shown(observed)}"
    operator, value = step["operator"], step.get("threshold", step.get("value"))
    if operator == "other":
        test = "other"
    elif operator in ("contains", "not contains"):
        what, test = "holds" if observed else "does not hold", shown(value)
    else:
        wanted = ", ".join(map(shown, value)) if isinstance(value, list) else shown(value)
        test = f"{operator} {wanted}"
    return f"  {step['feature']} {what}: {test}", f"{step['share']:.1%} of the events"


def counterfactual_lines(answer: dict[str, Any]) -> Iterator[str]:
    """Yield what would have to be different, or why nothing would do."""
    found = answer["counterfactual"]
    if found is None:
        yield f"no counterfactual: {answer['reason']}"
        return
    yield f"it would be {shown(found['label'])}, by leaf #{found['leaf']}, with"
    for change in found["changes"]:
        if "added" in change:
            parts = [f"+{shown(token)}" for token in change["added"]]
            parts += [f"-{shown(token)}" for token in change["removed"]]
            yield f"  {change['feature']}: {' '.join(parts)}"
        else:
            yield f"  {change['feature']}: {shown(change['to'])} instead of {shown(change['from'])}"
    if not found["exact"]:
        yield "  (tried and true; but since naive Bayes answers, perhaps not the nearest)"


def _weights(answer: dict[str, Any]) -> Iterator[str]:
    """Yield the table of naive Bayes, and the sums."""
    from app.text_table import printable, text_table

    labels = [shown(each["label"]) for each in answer["prior"]]
    columns = [("prior", answer["prior"])]
    columns += [(each["feature"], each["log_likelihoods"]) for each in answer["bayes"]]
    rows = [[name, *(_bits(each["value"]) for each in values)] for name, values in columns]
    sums = [
        None if any(values[k]["value"] is None for _, values in columns)
        else sum(values[k]["value"] for _, values in columns)
        for k in range(len(labels))
    ]  # fmt: skip
    table = text_table(["", *labels], [*rows, ["sum", *map(_bits, sums)]])
    yield from (f"  {printable(line)}" for line in table.splitlines())


def _bits(value: float | None) -> str:
    return "never" if value is None else f"{value:.3f}"


def _aligned(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    from app.text_table import printable

    width = max(len(words) for words, _ in rows)
    yield from (printable(f"{words:<{width}}  {share}") for words, share in rows)


def shown(value: object) -> str:
    """Return a value as a reader writes it: text bare, missing in words, all else as JSON."""
    if value is None:
        return "missing"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    return value if isinstance(value, str) else json.dumps(value)
