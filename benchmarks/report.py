"""All benchmarks in one go, and the page that tells what came out.

python -m benchmarks.report [--quick] [--only learn,serve] [--write] [--render]

Without --write the tables are printed and nothing is kept. With it the measurements go to
benchmarks/results.jsonl, and docs/benchmarks.md with its pictures is made from them and from
benchmarks/remarks.md, which says what stands behind the numbers. --only runs some scripts and
keeps the earlier results of the others; --render runs none.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.chart import Bar, bars, lines
from benchmarks.measurement import Measurement, options, report

SCRIPTS = ("learn", "cost", "scale", "consume", "serve", "predict", "snapshot", "start")
FOLDER = Path(__file__).parent
RESULTS, REMARKS = FOLDER / "results.jsonl", FOLDER / "remarks.md"
PAGE = FOLDER.parent / "docs" / "benchmarks.md"
PICTURES = FOLDER.parent / "docs" / "pictures"
OWN = ("question", "case", "contender", "value", "unit", "ratio", "target", "script", "curve")

Line = dict[str, Any]


def machine() -> Line:
    """What the numbers were measured on."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        found = re.search(r"model name\s*:\s*(.+)", info.read_text())
        model = found[1] if found else model
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    facts: Line = {
        "date": time.strftime("%Y-%m-%d"),
        "processor": model,
        "cores": os.cpu_count(),
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }
    for package in ("numba", "numpy", "river", "capymoa", "scikit-learn", "confluent-kafka"):
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = "not installed"
    if shutil.which("java"):
        said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
        facts["java"] = said.stderr.splitlines()[0].split('"')[1]
    return facts


def run(script: str, quick: bool, rounds: int) -> Iterator[Line]:
    """Yield the measurements of one script as they come; its progress goes to standard error."""
    command = [sys.executable, "-m", f"benchmarks.{script}", "--json"]
    command += ["--rounds", str(rounds)] if rounds else []
    with subprocess.Popen(
        command + ["--quick"] * quick, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for text in process.stdout:
            if text.startswith("{"):
                yield {**json.loads(text), "script": script}
    if process.returncode:
        raise SystemExit(f"benchmarks.{script} ended with {process.returncode}")


def as_measurement(line: Line) -> Measurement:
    """For the table on the terminal."""
    facts = {name: value for name, value in line.items() if name not in OWN}
    return Measurement(
        line["question"], line["contender"], line["value"], line["unit"], line["ratio"],
        line.get("case", ""), line.get("target", ""), facts,
    )  # fmt: skip


def wanted(target: str) -> float | None:
    """The ratio that a target names.

    >>> wanted(">= 12, each >= 7")
    12.0
    """
    found = re.search(r">=?\s*([\d.]+)", target)
    return float(found[1]) if found else None


def reached(line: Line) -> bool:
    """Whether a measurement is where it should be.

    A target may also bound the value itself, the ``least`` of several ratios and the share of
    ``memory``:

    >>> reached({"ratio": None, "value": 2.5, "target": "< 3 s"})
    True

    >>> reached({"ratio": 12.5, "least": 6.0, "target": ">= 12, each >= 7"})
    False
    >>> reached({"ratio": 12.5, "memory": 0.4, "target": ">= 12, memory <= 0.5"})
    True
    """
    target, ratio = line["target"], line["ratio"]
    below = re.match(r"<\s*([\d.]+)", target)
    if below:
        return bool(line["value"] < float(below[1]))
    each = re.search(r"each >=?\s*([\d.]+)", target)
    most = re.search(r"memory <=\s*([\d.]+)", target)
    if each and line.get("least", ratio) < float(each[1]):
        return False
    if most and line["memory"] > float(most[1]):
        return False
    first = wanted(target)
    return first is None or bool(ratio >= first)


def remarks() -> dict[str, str]:
    """What is said by hand about each question."""
    parts = re.split(r"^## (.+)$", REMARKS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {name.strip(): text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def page(facts: Line, found: Sequence[Line]) -> str:
    """docs/benchmarks.md."""
    said = remarks()
    out = [
        "# Benchmarks",
        "",
        "Made by `make bench-full` from a run; do not edit. The numbers are in",
        "`benchmarks/results.jsonl`, the words in `benchmarks/remarks.md`.",
        "",
        said.get("How to read this", ""),
        "",
        "| machine | |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in facts.items()),
        "",
        "## What was set out to reach",
        "",
        "![ratios to the peers, with what was set out to reach](pictures/benchmarks.svg)",
        "",
        *_table(
            ("question", "case", "against", "ours is", "target", "reached"),
            [
                (
                    line["question"],
                    line.get("case", ""),
                    line["contender"],
                    times(line["ratio"]) or f"{number(line['value'])} {line['unit']}",
                    line["target"],
                    "yes" if reached(line) else "**no**",
                )
                for line in found
                if line.get("target")
            ],
            right=(3,),
        ),
    ]
    for question in dict.fromkeys(line["question"] for line in found):
        rows = [line for line in found if line["question"] == question]
        names = list(dict.fromkeys(name for line in rows for name in line if name not in OWN))
        out += ["", f"## {question}", "", said.get(question, ""), ""]
        if _curves(rows):
            out += [f"![{question}](pictures/benchmarks-{_slug(question)}.svg)", ""]
        out += _table(
            ("case", "contender", "value", "unit", "ours is", *names),
            [
                (
                    line.get("case", ""),
                    line["contender"],
                    number(line["value"]),
                    line["unit"],
                    times(line["ratio"]),
                    *(number(line.get(name, "")) for name in names),
                )
                for line in rows
            ],
            right=range(2, 5 + len(names)),
        )
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)) + "\n"


def pictures(found: Sequence[Line]) -> dict[str, str]:
    """File names and their SVG."""
    chosen = [line for line in found if line["ratio"] and ">" in line.get("target", "")]
    drawn = {}
    if chosen:
        rows = [Bar(_name(line), line["ratio"], wanted(line["target"])) for line in chosen]
        drawn["benchmarks.svg"] = bars("Ours over the contender, and the target of each", rows)
    for question in dict.fromkeys(line["question"] for line in found):
        series = _curves([line for line in found if line["question"] == question])
        if series:
            axis = next(line["curve"][1] for line in found if line["question"] == question)
            unit = next(line["unit"] for line in found if line["question"] == question)
            drawn[f"benchmarks-{_slug(question)}.svg"] = lines(question, axis, series, unit)
    return drawn


def _curves(rows: Sequence[Line]) -> dict[str, list[tuple[float, float]]]:
    """Measurements with a ``curve`` (x, name of x) are points of their contender's curve."""
    series: dict[str, list[tuple[float, float]]] = {}
    for line in rows:
        if "curve" in line:
            series.setdefault(line["contender"], []).append((line["curve"][0], line["value"]))
    return series


def _name(line: Line) -> str:
    """A measurement in the picture; that a ratio is a mean stands in the table."""
    case = line.get("case", "")
    middle = f", {case}" if case and case != "geometric mean" else ""
    return f"{line['question']}{middle}: {line['contender']}"


def _slug(question: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", question.lower()).strip("-")


def times(ratio: float | None) -> str:
    """A ratio as people write it."""
    return "" if ratio is None else f"{ratio:.3g} x"


def number(value: object) -> str:
    """A number as people write it.

    >>> number(1234567.0), number(0.12345), number(3)
    ('1,234,567', '0.1235', '3')
    """
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _table(
    heading: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] | range
) -> list[str]:
    rule = ["--:" if place in right else "---" for place in range(len(heading))]
    return [f"| {' | '.join(row)} |" for row in (heading, rule, *rows)]


def kept() -> tuple[Line, list[Line]]:
    """The machine and the measurements of the last run that was written."""
    first, *rest = RESULTS.read_text(encoding="utf-8").splitlines()
    return json.loads(first), [json.loads(line) for line in rest]


def write(facts: Line, found: Sequence[Line]) -> None:
    """Keep the results and make the page."""
    RESULTS.write_text("".join(f"{json.dumps(line)}\n" for line in (facts, *found)), "utf-8")
    render()


def render() -> None:
    """Make the page from what is kept."""
    facts, found = kept()
    PAGE.write_text(page(facts, found), encoding="utf-8")
    PICTURES.mkdir(exist_ok=True)
    for name, svg in pictures(found).items():
        (PICTURES / name).write_text(svg, encoding="utf-8")


def main(argv: list[str]) -> None:
    """Run, print, and write where asked to."""
    parser = options(__doc__, rounds=0)
    parser.add_argument("--only", default=",".join(SCRIPTS), help="scripts to run, with commas")
    parser.add_argument("--write", action="store_true", help="keep the results, make the page")
    parser.add_argument("--render", action="store_true", help="make the page anew, run nothing")
    given = parser.parse_args(argv)
    if given.render:
        render()
        return
    console, facts, chosen = Console(stderr=True), machine(), given.only.split(",")
    found = [] if not RESULTS.exists() or not given.write else kept()[1]
    for script in chosen:
        console.print(f"[bold]{script}[/bold]")
        measured = list(run(script, given.quick, given.rounds))
        report(map(as_measurement, measured), given.json)
        found = [line for line in found if line["script"] != script] + measured
        found.sort(key=lambda line: SCRIPTS.index(line["script"]))
        if given.write:
            write(facts, found)


if __name__ == "__main__":
    main(sys.argv[1:])
