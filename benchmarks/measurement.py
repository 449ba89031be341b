"""What every benchmark shares: one measurement, interleaved rounds, a table or JSON lines.

A measurement is a value of a contender, and the ratio of ours to it: above 1 where we are ahead,
whatever the unit is. ``target`` is what was set out to reach, where something was.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from app.screen import error_console

T = TypeVar("T")
OURS = "livetree"


class Measurement(NamedTuple):
    """One contender's answer to one question."""

    question: str  # which row of docs/benchmarks.md it belongs to
    contender: str
    value: float
    unit: str
    ratio: float | None = None  # ours over the contender's; above 1 we are ahead
    case: str = ""  # the stream, the size, the route, …
    target: str = ""  # what the ratio should reach, e.g. ">= 12"
    facts: Mapping[str, Any] = {}  # what stands beside it: accuracy, nodes, bytes

    def line(self) -> str:
        """As one line of JSON."""
        fields = self._asdict()
        facts = fields.pop("facts")
        kept = {name: value for name, value in fields.items() if value not in ("", None)}
        return json.dumps({"ratio": None, **kept, **facts}, default=float)


def options(doc: str | None, rounds: int = 3) -> argparse.ArgumentParser:
    """A command line with what all benchmarks understand; the first line of the doc is its help."""
    parser = argparse.ArgumentParser(description=(doc or "").split("\n", 1)[0])
    parser.add_argument("--json", action="store_true", help="JSON lines instead of a table")
    parser.add_argument("--quick", action="store_true", help="less data: minutes become seconds")
    parser.add_argument("--rounds", type=int, default=rounds, help="interleaved repetitions")
    return parser


def interleaved(
    contenders: Mapping[str, Callable[[], T]], rounds: int, words: str = "measuring"
) -> dict[str, list[T]]:
    """Run all contenders in turn, round after round, so that a slow moment hits them alike."""
    results: dict[str, list[T]] = {name: [] for name in contenders}
    console = error_console()
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task(words, total=rounds * len(contenders))
        for _ in range(rounds):
            for name, run in contenders.items():
                progress.update(task, description=f"{words}: {name}")
                results[name].append(run())
                progress.advance(task)
    return results


def geometric_mean(values: Sequence[float]) -> float:
    """The mean of ratios.

    >>> geometric_mean([2.0, 8.0])
    4.0
    """
    return math.exp(sum(map(math.log, values)) / len(values))


def report(measurements: Iterable[Measurement], as_json: bool) -> None:
    """Print measurements as they come, or as a table at the end."""
    if as_json:
        for measurement in measurements:
            print(measurement.line(), flush=True)
        return
    table = Table("question", "case", "contender")
    for heading in ("value", "unit", "ours is", "target"):
        table.add_column(heading, justify="left" if heading in ("unit", "target") else "right")
    table.add_column("beside it")
    for m in measurements:
        ratio = "" if m.ratio is None else f"{m.ratio:.3g} x"
        facts = ", ".join(f"{name} {_short(value)}" for name, value in m.facts.items())
        table.add_row(
            m.question, m.case, m.contender, _short(m.value), m.unit, ratio, m.target, facts
        )
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
