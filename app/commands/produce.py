"""`livetree produce`: events of a generator or a file onto a topic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.commands.assignments import STREAM_NAMES, parse_assignments

if TYPE_CHECKING:
    from app.producer import Events


def produce(
    stream: Annotated[
        str | None,
        typer.Option(help=f"A generator: {STREAM_NAMES}.", show_default=False),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(help="A CSV or JSONL file instead; .gz is read too.", show_default=False),
    ] = None,
    topic: Annotated[
        str | None, typer.Option(help="Topic to write to.", show_default="livetree-events")
    ] = None,
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(help="Kafka brokers, host:port.", show_default="127.0.0.1:9092"),
    ] = None,
    rate: Annotated[
        float, typer.Option(min=0, help="Events a second; 0 = as fast as the broker takes them.")
    ] = 0.0,
    events: Annotated[
        int,
        typer.Option(min=0, help="How many; 0 = until the file ends, or Ctrl-C for a generator."),
    ] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of the generator.")] = 1,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="OPTION=VALUE", help="An option of the generator; repeatable."),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help="Label column of a file.", show_default="last column; 'label' in JSONL"),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="How events are written: json, or binary by the declared schema.",
            show_default="json, or binary where event.format says so",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="A YAML file with the Kafka settings, and the schema.", show_default=False
        ),
    ] = None,
) -> None:
    """Write events to a Kafka topic, one record each, and report what was delivered.

    Security settings of Kafka come from --config and the environment, as for serve. The label is
    written into the field that serve reads it from (event.label_field), whatever its column is
    called.

    [bold]Examples[/bold]

    livetree produce --stream agrawal --events 100000 --rate 5000 --option function=2

    livetree produce --file elec.csv --label class --topic elec
    """
    from app.binary import RowLayout
    from app.producer import EventProducer
    from app.screen import counting, error_console
    from app.settings import Settings

    settings = Settings.load(
        config,
        kafka={"topic": topic, "bootstrap_servers": bootstrap_servers},
        event={"format": form},
    )
    source = open_events(stream, file, seed, option or [], label, settings.event.label_field)
    encode = RowLayout.of(settings).records if settings.event.format == "binary" else None
    producer = EventProducer(settings.kafka.client_properties(), settings.kafka.topic, encode)
    producer.connect()
    console = error_console()
    try:
        with counting(console, f"to {settings.kafka.topic}", events or None) as progress:
            delivery = producer.run(source, rate=rate, limit=events, progress=progress)
    except KeyboardInterrupt:
        delivery = producer.finish()
    typer.echo(
        f"{delivery.delivered:,} events delivered to topic '{settings.kafka.topic}' in "
        f"{delivery.seconds:.1f} s, {delivery.failed:,} failed"
    )
    if delivery.failed:
        typer.echo(f"error: {delivery.last_error}", err=True)
        raise typer.Exit(3)


def open_events(
    stream: str | None,
    file: Path | None,
    seed: int,
    options: list[str],
    label: str | None,
    label_field: str,
) -> Events:
    """Return the source that the options name; exactly one of a stream and a file."""
    from app.feed import FileFeed
    from app.producer import Relabelled
    from streams import open_stream

    if (stream is None) == (file is None):
        raise typer.BadParameter("give either --stream NAME or --file FILE", param_hint="--stream")
    if file is None:
        opened = open_stream(str(stream), seed=seed, **parse_assignments(options, "--option"))
        return Relabelled(opened, opened.schema, "label", label_field)
    if options:
        raise typer.BadParameter("options are for --stream only", param_hint="--option")
    feed = FileFeed(file, label=label)
    return Relabelled(feed, feed.schema, feed.label, label_field)
