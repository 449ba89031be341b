"""`livetree serve`: the service, until it is told to stop."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def serve(
    config: Annotated[
        Path | None,
        typer.Option(
            help="A YAML file with settings; the environment (LIVETREE_...) wins over it.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(help="Port to listen on; 0 takes any free one.", show_default="8000"),
    ] = None,
    topic: Annotated[
        str | None, typer.Option(help="Topic with the events.", show_default="livetree-events")
    ] = None,
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(help="Kafka brokers, host:port.", show_default="127.0.0.1:9092"),
    ] = None,
) -> None:
    """Learn from a topic and answer over HTTP, until SIGTERM or Ctrl-C.

    Instead of a topic it may be a growing file of JSON lines (source: file). Settings come from
    the options, the environment, a .env file and --config, in this order; all wrong ones are
    reported at once. On the first signal the service stops being ready, finishes its requests,
    writes a last checkpoint and exits 0; a second signal ends it at once.

    [bold]Examples[/bold]

    livetree serve --config livetree.yaml

    LIVETREE_KAFKA__TOPIC=clicks livetree serve --port 9000

    LIVETREE_SOURCE=file LIVETREE_FILE__PATH=events.jsonl livetree serve
    """
    from app.api.server import bind, check_access, leave, run
    from app.log import configure, get_logger
    from app.settings import Settings
    from app.warmup import warm_up, warm_up_answers, warm_up_workers
    from app.wiring import build

    settings = Settings.load(
        config,
        http={"host": host, "port": port},
        kafka={"topic": topic, "bootstrap_servers": bootstrap_servers},
    )
    configure(settings.log_level, settings.log_format)
    log = get_logger("app.serve")
    check_access(settings)
    listener = bind(settings.http.host, settings.http.port)
    address, bound_port = listener.getsockname()[:2]
    log.info("listening", host=address, port=bound_port, tls=settings.tls.enabled)

    if settings.http.workers > 1:
        from app.workers import run_workers

        leave(run_workers(settings, listener))

    def compile_kernels() -> None:
        log.info("compiling kernels; many seconds on the first run of a machine")
        if settings.role == "api":
            seconds = warm_up_answers()
        else:
            seconds = warm_up(settings.variant, settings.tree.given())
            if settings.execution != "local":
                seconds += warm_up_workers()
        log.info("kernels ready", seconds=round(seconds, 2))

    leave(run(build(settings), listener, before_learning=compile_kernels))
