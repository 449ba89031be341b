"""`livetree replay`: a part of the topic learned again, offline, by any variant."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.commands.assignments import parse_assignments
from app.commands.evaluate import check_prefixes, parameters_of

if TYPE_CHECKING:
    from app.settings import Settings


class OutputFormat(StrEnum):
    """How results are printed."""

    table = "table"
    json = "json"


def replay(
    from_: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="PLACE",
            help="First record: earliest, an offset, PARTITION:OFFSET,..., or a time.",
        ),
    ] = "earliest",
    to: Annotated[
        str,
        typer.Option(
            metavar="PLACE",
            help="Where to end, not included: latest (as of now), checkpoint, or as --from.",
        ),
    ] = "latest",
    variant: Annotated[
        str | None,
        typer.Option(
            help="Variants to train, with commas between, or `all`; see `livetree variants`.",
            show_default="the settings'",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A parameter of every variant, or VARIANT.KEY=VALUE of one; repeatable.",
        ),
    ] = None,
    topic: Annotated[
        str | None, typer.Option(help="Topic with the events.", show_default="livetree-events")
    ] = None,
    partitions: Annotated[
        str | None, typer.Option(help="Only these, with commas between.", show_default="all")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Checkpoints that `checkpoint` means in --from and --to.",
            show_default="the settings'",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Write the model there as a checkpoint that a learner may go on from.",
            show_default=False,
        ),
    ] = None,
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(help="Kafka brokers, host:port.", show_default="127.0.0.1:9092"),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="A YAML file with settings; the environment (LIVETREE_...) wins over it.",
            show_default=False,
        ),
    ] = None,
    format: Annotated[
        OutputFormat, typer.Option(help="table for people, json for programs.")
    ] = OutputFormat.table,
) -> None:
    """Train any variant over a part of the topic, offline, in this process.

    The records take the way they take in the service, with the same settings. Rejected ones are
    counted and go nowhere. The learner is not touched: its group is not joined, its offsets are
    not committed.

    With [bold]--to checkpoint[/bold] the learner's own range is replayed: on one partition the
    hash is that of its model. Several partitions are read by timestamp, then partition; their
    order in the learner is not recorded.

    A file source is one partition whose offsets are bytes.

    [bold]Examples[/bold]

    livetree replay --variant vfdt,efdt,imac --from 2026-01-05T00:00:00Z

    livetree replay --to checkpoint --checkpoint checkpoints

    livetree replay --variant efdt --set n_min=100 --from 0:5000,1:4800 --out checkpoints-efdt
    """
    from app.bound import parse_bound
    from app.errors import SettingsError
    from app.log import configure
    from app.replay import (
        Run,
        choose_spans,
        open_log,
        read_checkpoint,
        replay_text,
        save,
    )
    from app.replay import replay as replay_log
    from app.screen import counting, error_console, waiting
    from app.settings import Settings
    from app.warmup import warm_up

    kafka = {"topic": topic, "bootstrap_servers": bootstrap_servers}
    settings = Settings.load(config, kafka=kafka)
    configure("warning", "console", sys.stderr)
    begin, end = parse_bound(from_, "--from"), parse_bound(to, "--to")
    wanted = parse_partitions(partitions)
    runs = [
        Run(Settings.load(config, kafka=kafka, variant=name, tree=tree))
        for name, tree in plan(settings, variant, parse_assignments(set_ or []))
    ]
    if out is not None and len(runs) > 1:
        raise SettingsError([f"--out holds one model; expected one variant, not {len(runs)}"])
    console, log = error_console(), open_log(settings)
    try:
        at_checkpoint = "checkpoint" in (begin.word, end.word)
        folder = checkpoint or settings.checkpoint.folder
        found = read_checkpoint(folder, log) if at_checkpoint or checkpoint is not None else None
        spans = choose_spans(log, begin, end, wanted, found)
        with waiting(console, "compiling kernels, first run only"):
            for run in runs:
                warm_up(run.settings.variant, run.settings.tree.given())
        total = sum(span.length for span in spans.values())
        with counting(console, f"replaying {log.topic}", total) as progress:
            compared = found if end.word == "checkpoint" else None
            replayed = replay_log(log, spans, runs, compared, progress)
        if out is not None:
            save(log, runs[0], out)
    finally:
        log.close()
    if format is OutputFormat.json:
        typer.echo(json.dumps(replayed.document(), indent=2))
    else:
        typer.echo(replay_text(replayed))
        if out is not None:
            typer.echo(f"checkpoint written to '{out}'")


def plan(
    settings: Settings, variants: str | None, assigned: dict[str, Any]
) -> list[tuple[str, dict[str, Any]]]:
    """Return each variant with the parameters that --set gives it."""
    from learner import VARIANTS

    named = [name.strip() for name in (variants or settings.variant).split(",") if name.strip()]
    names = list(VARIANTS) if "all" in named else list(dict.fromkeys(named))
    check_prefixes(assigned, set(names))
    return [(name, parameters_of(name, assigned)) for name in names]


def parse_partitions(text: str | None) -> list[int]:
    """Read a list of partitions; empty means all."""
    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    if not all(part.isdecimal() for part in parts):
        raise typer.BadParameter(
            f"'{text}' is not a list of partitions; expected numbers such as 0,2",
            param_hint="--partitions",
        )
    return [int(part) for part in parts]
