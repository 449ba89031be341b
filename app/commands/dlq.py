"""`livetree dlq`: the records that could not be learned; look at them, send them back."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from app.letter import LetterFilter
    from app.letterbox import Letterbox
    from app.redrive import Plan
    from app.settings import Settings

ABOUT = """
Look at the records that could not be learned, and send them back once they can be.

They are in the events' topic's [bold].dlq[/bold] topic, or in [bold]FILE.dlq[/bold] for a file
source; settings are read as [bold]livetree serve[/bold] reads them. Nothing here touches the
learner, its group or its checkpoints. Reading ends where the dead letters ended at the start.

[bold]Examples[/bold]

livetree dlq list --reason bad_feature --since 2h

livetree dlq show 0:17

livetree dlq redrive --reason bad_feature --dry-run
"""


class OutputFormat(StrEnum):
    """How letters are printed."""

    table = "table"
    json = "json"


class Order(StrEnum):
    """Which letters come first."""

    newest = "newest"
    oldest = "oldest"


class Stage(StrEnum):
    """Where a record was rejected."""

    decode = "decode"
    learn = "learn"


Config = Annotated[
    Path | None,
    typer.Option(
        help="A YAML file with settings; the environment (LIVETREE_...) wins over it.",
        show_default=False,
    ),
]
Topic = Annotated[
    str | None, typer.Option(help="Topic with the events.", show_default="livetree-events")
]
Servers = Annotated[
    str | None, typer.Option(help="Kafka brokers, host:port.", show_default="127.0.0.1:9092")
]
Reason = Annotated[
    str | None,
    typer.Option(
        help="Only of this reason, as in metrics (bad_feature), or this error (BadFeature).",
        show_default=False,
    ),
]
AtStage = Annotated[
    Stage | None, typer.Option(help="Only rejected at this stage.", show_default=False)
]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Only put aside since then: 2026-01-01T00:00:00Z, or 30m, 2h, 7d ago.",
        show_default=False,
    ),
]


def list_letters(
    limit: Annotated[int, typer.Option(min=0, help="How many to show; 0 = all.")] = 20,
    order: Annotated[Order, typer.Option(help="Which come first.")] = Order.newest,
    reason: Reason = None,
    stage: AtStage = None,
    since: Since = None,
    topic: Topic = None,
    bootstrap_servers: Servers = None,
    config: Config = None,
    format: Annotated[
        OutputFormat, typer.Option(help="table for people, json for programs.")
    ] = OutputFormat.table,
) -> None:
    """List dead letters, and count them by reason.

    A record that was put aside twice, which happens when a learner crashes before its next
    checkpoint, is shown once with the number of copies.

    [bold]Examples[/bold]

    livetree dlq list --limit 5 --topic clicks

    livetree dlq list --reason not_json --since 7d --format json
    """
    from app.letter_list import list_letters, listing_table
    from app.screen import counting, error_console

    wanted = parse_filter(reason, stage, since)
    with opened(config, topic, bootstrap_servers) as (_, box):
        with counting(error_console(), f"reading {box.name}", box.total) as progress:
            listing = list_letters(
                box, wanted, limit=limit, oldest_first=order is Order.oldest, progress=progress
            )
        if format is OutputFormat.json:
            typer.echo(json.dumps(listing.document(box.name), indent=2))
        else:
            typer.echo(listing_table(listing, box.name))
        tell_damaged(box)


def show(
    place: Annotated[
        str,
        typer.Argument(
            metavar="PARTITION:OFFSET",
            help="Its place among the dead letters, as the list shows it; OFFSET alone means 0.",
        ),
    ],
    raw: Annotated[
        bool, typer.Option("--raw", help="Write the value's exact bytes and nothing else.")
    ] = False,
    topic: Topic = None,
    bootstrap_servers: Servers = None,
    config: Config = None,
    format: Annotated[
        OutputFormat, typer.Option(help="table for people, json for programs.")
    ] = OutputFormat.table,
) -> None:
    """Show everything about one dead letter.

    The value is shown as text where it is UTF-8, else as a hex dump; control characters are
    escaped.

    [bold]Examples[/bold]

    livetree dlq show 0:17

    livetree dlq show 17 --raw > event.bin
    """
    from app.errors import OffsetOutOfRange, SettingsError
    from app.letter_list import letter_text

    partition, offset = parse_place(place)
    with opened(config, topic, bootstrap_servers) as (_, box):
        try:
            letter = box.letter_at(partition, offset)
        except OffsetOutOfRange as exc:
            raise SettingsError([str(exc)]) from exc
        if letter is None:
            raise SettingsError(
                [
                    f"nothing is at {partition}:{offset} of '{box.name}'; expected a place that "
                    "`livetree dlq list` shows"
                ]
            )
    if raw:
        typer.echo(letter.record.value or b"", nl=False)
    elif format is OutputFormat.json:
        typer.echo(json.dumps(letter.document(), indent=2))
    else:
        typer.echo(letter_text(letter))


def redrive(
    reason: Reason = None,
    stage: AtStage = None,
    since: Since = None,
    to_topic: Annotated[
        str | None,
        typer.Option(help="Send them here instead.", show_default="the topic they came from"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be sent, and what would not.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Send also what would be rejected again.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Send also what was redriven before.")
    ] = False,
    topic: Topic = None,
    bootstrap_servers: Servers = None,
    config: Config = None,
) -> None:
    """Send dead letters back to where they came from, each record once.

    Key, value, timestamp and headers are as they were; our error headers are taken off, and
    __livetree.redriven counts how often a record was sent back. Records that the settings of now
    would reject again are left where they are, unless --force.

    What was sent is noted among the dead letters, so a second redrive sends only what is new. If
    it is interrupted, at most the last 500 records may be sent a second time by the next one. For
    a file source the lines are appended to the file.

    [bold]Examples[/bold]

    livetree dlq redrive --dry-run

    livetree dlq redrive --reason bad_feature --since 7d --yes

    livetree dlq redrive --to-topic clicks-repair --force
    """
    from app.errors import SettingsError
    from app.redrive import judge_of, open_target, plan_redrive
    from app.redrive import redrive as send_back
    from app.screen import counting, error_console

    wanted, console = parse_filter(reason, stage, since), error_console()
    with opened(config, topic, bootstrap_servers) as (settings, box):
        if to_topic is not None and settings.source == "file":
            raise SettingsError(["--to-topic is for Kafka; a file's lines go back to the file"])
        judge = None if force else judge_of(settings)
        with counting(console, f"reading {box.name}", box.total) as progress:
            plan = plan_redrive(
                box, wanted, judge, again=again, to_topic=to_topic, progress=progress
            )
        typer.echo(plan_text(plan, box.name))
        tell_damaged(box)
        if dry_run or not plan.sending or not (yes or confirmed(len(plan.sending))):
            typer.echo("nothing was sent")
            return
        target = open_target(settings, to_topic)
        try:
            with counting(console, "sending", len(plan.sending)) as progress:
                sent = send_back(box, target, plan, ", ".join(plan.topics), progress)
        finally:
            target.close()
        typer.echo(f"{sent:,} records sent to {', '.join(sorted(plan.topics))}")


def plan_text(plan: Plan, name: str) -> str:
    """Return what a redrive would do."""
    from app.text_table import printable

    lines = [f"{plan.found:,} dead letters in '{name}'"]
    if plan.copies:
        lines.append(f"  {plan.copies:,} are copies of a record that was put aside before")
    if plan.foreign:
        lines.append(f"  {plan.foreign:,} are not ours and stay: nothing says where they belong")
    if plan.redriven:
        lines.append(f"  {plan.redriven:,} were redriven before and stay (--again sends them)")
    for reason, count in plan.rejected.most_common():
        example = printable(plan.messages[reason])
        lines.append(f"  {count:,} would be rejected again and stay, {reason}: {example}")
    topics = ", ".join(f"{count:,} to {name}" for name, count in sorted(plan.topics.items()))
    lines.append(f"  {len(plan.sending):,} can be sent{f': {topics}' if topics else ''}")
    if plan.loops:
        lines.append(
            f"  {plan.loops:,} of these came back after an earlier redrive: they may do so again"
        )
    return "\n".join(lines)


def confirmed(count: int) -> bool:
    """Ask whether to go on; where nobody can answer, --yes is required."""
    from app.errors import SettingsError

    try:
        return typer.confirm(f"Send {count:,} records?")
    except typer.Abort:
        if sys.stdin.isatty():
            raise
        raise SettingsError(["nobody answers here; expected --yes or --dry-run"]) from None


def parse_filter(reason: str | None, stage: Stage | None, since: str | None) -> LetterFilter:
    """Return the filter that the options describe; a reason that does not exist is refused."""
    from app.bound import parse_since
    from app.errors import REJECTIONS, SettingsError
    from app.letter import FOREIGN, LetterFilter

    known = {*REJECTIONS, *REJECTIONS.values(), FOREIGN}
    if reason is not None and reason not in known:
        names = ", ".join(sorted({*REJECTIONS.values(), FOREIGN}))
        raise SettingsError([f"--reason is '{reason}'; expected one of {names}"])
    moment = parse_since(since) if since is not None else None
    return LetterFilter(reason, stage.value if stage else None, moment)


def parse_place(text: str) -> tuple[int, int]:
    """Read PARTITION:OFFSET, or OFFSET alone in partition 0."""
    partition, colon, offset = text.rpartition(":")
    if not offset.isdecimal() or (colon and not partition.isdecimal()):
        raise typer.BadParameter(
            f"'{text}' is not a place; expected PARTITION:OFFSET, such as 0:17",
            param_hint="PARTITION:OFFSET",
        )
    return int(partition or 0), int(offset)


@contextmanager
def opened(
    config: Path | None, topic: str | None, servers: str | None
) -> Iterator[tuple[Settings, Letterbox]]:
    """Open the dead letters of the settings."""
    from app.letterbox import open_letterbox
    from app.log import configure
    from app.settings import Settings

    settings = Settings.load(config, kafka={"topic": topic, "bootstrap_servers": servers})
    configure("warning", "console", sys.stderr)
    box = open_letterbox(settings)
    try:
        yield settings, box
    finally:
        box.close()


def tell_damaged(box: Letterbox) -> None:
    """Say that something could not be read."""
    if box.damaged:
        typer.echo(f"warning: {box.damaged:,} entries of '{box.name}' are damaged", err=True)


COMMANDS: dict[str, Callable[..., None]] = {"list": list_letters, "show": show, "redrive": redrive}
