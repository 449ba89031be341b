"""`livetree evaluate`: variants and parameters compared on one stream, without Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.commands.assignments import STREAM_NAMES, parse_assignments

if TYPE_CHECKING:
    from app.comparison import Contender, Feed, Run


MOST_SHARDS = 256  # as many as vht.workers


class OutputFormat(StrEnum):
    """How results are printed."""

    table = "table"
    json = "json"


def evaluate(
    stream: Annotated[
        str | None,
        typer.Option(help=f"A generator: {STREAM_NAMES}.", show_default=False),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(help="A CSV or JSONL file instead; .gz is read too.", show_default=False),
    ] = None,
    events: Annotated[
        int | None,
        typer.Option(min=0, help="How many events.", show_default="100000; a file's whole length"),
    ] = None,
    variants: Annotated[
        str | None,
        typer.Option(
            help="Variants to compare, with commas between, or `all`; see `livetree variants`.",
            show_default="vfdt",
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
    run: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:KEY=VALUE,...",
            help="A configuration of its own name; `variant=` among the keys names its variant "
            "(else vfdt). Repeatable; without --variants only these run.",
        ),
    ] = None,
    shards: Annotated[
        str | None,
        typer.Option(
            metavar="P,...",
            help="Also every run as P whole trees that take turns at the events and vote, for "
            "each P of 2 or more.",
            show_default=False,
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="OPTION=VALUE", help="An option of the generator; repeatable."),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help="Label column of a file.", show_default="last column; 'label' in JSONL"),
    ] = None,
    nominal: Annotated[
        str | None,
        typer.Option(
            help="Columns of a file that are nominal though they hold numbers, with commas.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the generator.")] = 1,
    batch: Annotated[
        int, typer.Option(min=1, help="Events learned at once; changes the speed, not the tree.")
    ] = 1000,
    window: Annotated[
        int, typer.Option(min=1, help="Events in the window of the last accuracy.")
    ] = 1000,
    delay: Annotated[
        bool,
        typer.Option(
            "--delay/--no-delay",
            help="Measure how late splits come; takes most of the waiting time.",
        ),
    ] = True,
    picture: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.svg",
            help="Draw accuracy, split attempts and delays into this file.",
            show_default=False,
        ),
    ] = None,
    format: Annotated[
        OutputFormat, typer.Option(help="table for people, json for programs.")
    ] = OutputFormat.table,
) -> None:
    """Compare variants and parameters: each event is predicted before it is learned.

    All runs see the same events. Events per second count predicting and learning, not the making
    or reading of events.

    The split delay is how much later a leaf splits than one would that is tested at every event.
    It is measured by a second tree off the clock; [bold]--no-delay[/bold] leaves it out. Trees
    that revise their splits or ration their statistics are audited at their own leaves instead.

    A wrong parameter is answered with a list of those that exist.

    [bold]Examples[/bold]

    livetree evaluate --stream agrawal --events 200000

    livetree evaluate --stream sea --run "slow:n_min=1000" --run "fast:n_min=50,tau=0.1"

    livetree evaluate --stream led_g --variants all --picture led.svg

    livetree evaluate --stream dense --variants vht --shards 2,4 --no-delay

    livetree evaluate --file elec.csv.gz --label class --set leaf_predictor=nba --format json
    """
    import dataclasses
    import json

    from app.comparison import compare, enter, table
    from app.screen import counting, error_console, waiting
    from app.warmup import warm_up

    if picture is not None:
        check_writable(picture)
    runs = plan(variants, parse_assignments(set_ or []), run or [])
    runs += sharded(runs, shards)
    feed, total = open_feed(stream, file, events, option or [], seed, label, nominal)
    contenders = enter(runs, feed.encoder, window, measure_delay=delay)
    console = error_console()
    with waiting(console, "compiling kernels, first run only"):
        for contender in contenders:
            for tree in contender.trees():
                warm_up(tree.variant, dataclasses.asdict(tree.params))
    with counting(console, feed.name, total or None) as progress:
        results = compare(feed, contenders, events=total, batch=batch, progress=progress)
    if picture is not None:
        draw(picture, contenders, results, window)
    if format is OutputFormat.json:
        typer.echo(json.dumps(results, indent=2))
    else:
        typer.echo(f"{feed.name}, {results[0]['events']:,} events")
        typer.echo(table(results))


def plan(variants: str | None, assigned: dict[str, Any], runs: Sequence[str]) -> list[Run]:
    """Return the configurations that the options describe, each with a name of its own."""
    from app.comparison import Run
    from learner import VARIANTS

    named = [name.strip() for name in (variants or "").split(",") if name.strip()]
    if "all" in named:
        named = list(VARIANTS)
    if not named and not runs:
        named = ["vfdt"]
    planned = [Run(name, name, parameters_of(name, assigned)) for name in named]
    for text in runs:
        name, _, rest = text.partition(":")
        own = parse_assignments([part for part in rest.split(",") if part.strip()], "--run")
        variant = str(own.pop("variant", "vfdt"))
        planned.append(Run(name.strip(), variant, {**parameters_of(variant, assigned), **own}))
    names = [run.name for run in planned]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not all(names):
        what = f"'{twice[0]}' names two runs" if twice else "a run has no name"
        raise typer.BadParameter(f"{what}; expected a name of its own for each", param_hint="--run")
    check_prefixes(assigned, {run.variant for run in planned})
    return planned


def sharded(runs: Sequence[Run], shards: str | None) -> list[Run]:
    """Return every run once more for each number of shards."""
    added = []
    for text in filter(None, map(str.strip, (shards or "").split(","))):
        if not text.isdecimal() or not 2 <= int(text) <= MOST_SHARDS:
            raise typer.BadParameter(
                f"'{text}' is no number of shards; expected 2 to {MOST_SHARDS}, with commas "
                "between several",
                param_hint="--shards",
            )
        added += [run._replace(name=f"{run.name} x{text}", shards=int(text)) for run in runs]
    return added


def parameters_of(variant: str, assigned: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters for one variant; VARIANT.KEY wins over KEY."""
    common = {key: value for key, value in assigned.items() if "." not in key}
    own = {
        key.partition(".")[2]: value
        for key, value in assigned.items()
        if key.partition(".")[0] == variant and "." in key
    }
    return {**common, **own}


def check_prefixes(assigned: dict[str, Any], variants: set[str]) -> None:
    """Refuse VARIANT.KEY for a variant that does not run: a typing error must not pass silently."""
    for key in assigned:
        prefix, dot, _ = key.partition(".")
        if dot and prefix not in variants:
            raise typer.BadParameter(
                f"'{key}' is for variant '{prefix}', which does not run here", param_hint="--set"
            )


def check_writable(path: Path) -> None:
    """Refuse a picture that could not be written before the hours of measuring, not after."""
    if path.is_dir() or not path.resolve().parent.is_dir():
        raise typer.BadParameter(
            f"'{path}' cannot be written; expected a file in a folder that exists",
            param_hint="--picture",
        )


def draw(
    path: Path, contenders: Sequence[Contender], results: Sequence[dict[str, Any]], window: int
) -> None:
    """Write the picture of a comparison."""
    from app.picture import Series, picture

    series = [
        Series(
            result["name"],
            [point.events for point in contender.curve],
            [point.accuracy for point in contender.curve],
            [point.split_attempts for point in contender.curve],
            result["split_delay_mean"],
            result["delay_kind"],
        )
        for contender, result in zip(contenders, results, strict=True)
    ]
    heading = f"{results[0]['stream']}, {results[0]['events']:,} events"
    path.write_text(picture(heading, series, window), encoding="utf-8")


def open_feed(
    stream: str | None,
    file: Path | None,
    events: int | None,
    options: list[str],
    seed: int,
    label: str | None,
    nominal: str | None,
) -> tuple[Feed, int]:
    """Return where the events come from and how many are wanted (0 = all of a file)."""
    from app.comparison import StreamFeed
    from app.feed import FileFeed
    from streams import open_stream

    if (stream is None) == (file is None):
        raise typer.BadParameter("give either --stream NAME or --file FILE", param_hint="--stream")
    if file is not None:
        columns = [name.strip() for name in (nominal or "").split(",") if name.strip()]
        feed = FileFeed(file, label=label, nominal=columns)
        return feed, min(events or feed.rows or 0, feed.rows or events or 0)
    if events == 0:
        raise typer.BadParameter(
            "a generator has no end; expected 1 or more", param_hint="--events"
        )
    opened = open_stream(str(stream), seed=seed, **parse_assignments(options, "--option"))
    return StreamFeed(opened), 100_000 if events is None else events
