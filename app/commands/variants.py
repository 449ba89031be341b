"""`livetree variants`: which algorithms there are, and what each sets differently."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.commands.evaluate import OutputFormat

if TYPE_CHECKING:
    from learner import Variant

NARROWEST = 100  # columns, where no terminal says otherwise


def variants(
    name: Annotated[
        str | None,
        typer.Argument(help="Show this one alone, with its parameters.", show_default=False),
    ] = None,
    format: Annotated[
        OutputFormat, typer.Option(help="table for people, json for programs.")
    ] = OutputFormat.table,
) -> None:
    """List the algorithms: their papers, when to choose which, and what it costs.

    All of them are one tree with different parameters; a name shows what it sets differently from
    vfdt. Every parameter can be combined with every variant unless the start refuses it.

    [bold]Examples[/bold]

    livetree variants

    livetree variants imac

    livetree variants --format json
    """
    from learner import VARIANTS

    if name is not None and name not in VARIANTS:
        known = ", ".join(VARIANTS)
        raise typer.BadParameter(f"'{name}' is not a variant; expected one of {known}")
    if format is OutputFormat.json:
        shown = [document(variant) for variant in VARIANTS.values()]
        found: Any = shown if name is None else document(VARIANTS[name])
        typer.echo(json.dumps(found, indent=2))
    elif name is None:
        print_table(list(VARIANTS.values()))
    else:
        typer.echo(description(VARIANTS[name]))


def document(variant: Variant) -> dict[str, Any]:
    """Return a variant as plain data: its words, what it sets, and all its parameters."""
    return {
        "name": variant.name,
        "year": variant.year,
        "paper": variant.paper,
        "summary": variant.summary,
        "choose": variant.choose,
        "cost": variant.cost,
        "differs": differences(variant),
        "params": dataclasses.asdict(variant.params_from({})),
    }


def differences(variant: Variant) -> dict[str, Any]:
    """Return the parameters whose default is not that of vfdt."""
    from learner import VARIANTS

    plain = dataclasses.asdict(VARIANTS["vfdt"].params_from({}))
    own = dataclasses.asdict(variant.params_from({}))
    return {name: value for name, value in own.items() if value != plain[name]}


def description(variant: Variant) -> str:
    """Return one variant as text."""
    from learner import VARIANTS

    plain = dataclasses.asdict(VARIANTS["vfdt"].params_from({}))
    changed = differences(variant)
    lines = [
        f"{variant.name} ({variant.year})",
        f"  paper    {variant.paper}",
        f"  what     {variant.summary}",
        f"  choose   {variant.choose}",
        f"  cost     {variant.cost}",
        "",
    ]
    if not changed:
        return "\n".join([*lines, "Its parameters are the ones others are compared with."])
    rows = [("parameter", variant.name, "vfdt")]
    rows += [(name, _plain(value), _plain(plain[name])) for name, value in changed.items()]
    widths = [max(len(row[place]) for row in rows) for place in range(3)]
    lines += [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (rows[0], tuple("-" * width for width in widths), *rows[1:])
    ]
    return "\n".join(lines)


def _plain(value: object) -> str:
    """Return a value as it is written in settings."""
    return json.dumps(value).strip('"') if not isinstance(value, float) else f"{value:g}"


def print_table(found: list[Variant]) -> None:
    """Print all variants, wrapped to the terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, NARROWEST)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("variant", no_wrap=True)
    table.add_column("year", no_wrap=True)
    for title in ("paper", "when to choose it", "what it costs"):
        table.add_column(title, ratio=1)
    for variant in found:
        table.add_row(variant.name, str(variant.year), variant.paper, variant.choose, variant.cost)
    console.print(table)
