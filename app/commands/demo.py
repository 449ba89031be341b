"""`livetree demo`: everything in one process, without Kafka."""

from __future__ import annotations

from typing import Annotated

import typer

from app.commands.assignments import STREAM_NAMES


def demo(
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port of the API; 0 = any.")] = 8000,
    host: Annotated[str, typer.Option(help="Address of the API.")] = "127.0.0.1",
    stream: Annotated[str, typer.Option(help=f"The generator: {STREAM_NAMES}.")] = "agrawal",
    rate: Annotated[float, typer.Option(min=1, help="Events a second.")] = 2000.0,
    drift_every: Annotated[
        float,
        typer.Option(min=0, help="Seconds until the rule behind the events changes; 0 = never."),
    ] = 180.0,
    seed: Annotated[int, typer.Option(help="Seed of the generator.")] = 1,
) -> None:
    """Show a growing tree: broker, events, learner and API in one process.

    Needs no Kafka, no Docker and no settings; LIVETREE_ variables are not read. The broker lives
    in memory, checkpoints in a temporary folder: nothing is kept after Ctrl-C. The events follow
    a rule that changes every few minutes, so that the accuracy drops and the tree must follow.

    A port that is taken ends the command with exit code 2.

    [bold]Examples[/bold]

    livetree demo

    livetree demo --stream sea --rate 20000 --drift-every 30 --port 9000
    """
    from app.demo import DemoOptions, run_demo

    options = DemoOptions(host, port, stream, rate, drift_every, seed)
    raise typer.Exit(run_demo(options))
