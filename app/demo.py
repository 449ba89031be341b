"""The demo: an in-memory broker, a drifting generator, the learner and the API in one process.

Threads: the main one runs the API; the consumer's learns; the feeder's sends events; the
reporter's prints. Everything ends with the main one.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape

from app.api.server import bind, run
from app.embedded import EmbeddedBroker
from app.log import configure
from app.producer import EventProducer
from app.screen import waiting
from app.settings import Settings
from app.warmup import warm_up
from app.wiring import Service, build
from streams import STREAMS, Drifting, Stream, open_stream

TOPIC = "livetree-events"
STATUS_SECONDS = 5.0
DEFAULT_PORT = 8000
# Options that turn a generator into another rule over the same features, and their values.
CONCEPT_OPTIONS = ("function", "drift", "tree_seed", "centroid_seed")
UNBOUNDED_CONCEPTS = 5


@dataclass(frozen=True)
class DemoOptions:
    """What the command line asks for."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    stream: str = "agrawal"
    rate: float = 2000.0
    drift_every_seconds: float = 180.0
    seed: int = 1


def run_demo(options: DemoOptions) -> int:
    """Run until a signal; return the exit code."""
    console = Console(highlight=False, soft_wrap=True)
    # Warnings and errors only, and away from the text on standard output.
    configure("warning", "console", sys.stderr)
    stream = demo_stream(options)
    with bind(options.host, options.port) as listener:
        host, port = listener.getsockname()[:2]
        url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        console.print(opening_words(options, stream, url))
        with waiting(console, "compiling kernels (first run only; later starts take two seconds)"):
            warm_up()
            demo_stream(options).take(1)
        with (
            EmbeddedBroker() as broker,
            tempfile.TemporaryDirectory(prefix="livetree-demo-") as folder,
        ):
            broker.create_topic(TOPIC)
            service = build(demo_settings(options, stream, broker.bootstrap_servers, folder))
            feeder = Feeder(stream, options.rate, service)
            reporter = Reporter(console, service, first_steps(stream, options, url))
            with feeder.running(), reporter.running():
                return run(service, listener)


def demo_stream(options: DemoOptions) -> Stream:
    """Return the generator, drifting between its rules where it has more than one."""
    plain = open_stream(options.stream, seed=options.seed)
    concepts = concept_values(options.stream)
    if options.drift_every_seconds <= 0 or len(concepts) < 2:
        return plain
    rules = [open_stream(options.stream, seed=options.seed, **concept) for concept in concepts]
    return Drifting(rules, every=max(int(options.rate * options.drift_every_seconds), 1))


def concept_values(name: str) -> list[dict[str, int]]:
    """Return the options that make a generator follow another rule, one entry a rule."""
    for option in STREAMS[name].options:
        if option.name in CONCEPT_OPTIONS:
            bounded = option.high < float("inf")
            low = int(option.low) if bounded else int(option.default)
            high = int(option.high) if bounded else low + UNBOUNDED_CONCEPTS - 1
            return [{option.name: value} for value in range(low, high + 1)]
    return []


def demo_settings(
    options: DemoOptions, stream: Stream, bootstrap_servers: str, folder: str
) -> Settings:
    """Return the settings of the demo; the environment plays no part in them."""
    return Settings.load(
        environ={},
        name="demo",
        kafka={
            "bootstrap_servers": bootstrap_servers,
            "topic": TOPIC,
            # The broker keeps the last 5 MiB only: a learner that falls behind jumps ahead.
            "offset_reset": "earliest",
            "fetch_wait_ms": 10,
        },
        schema=stream.schema.to_dict(),
        tree={"audit_fraction": 1.0},
        checkpoint={"folder": folder},
        http={"host": options.host, "port": options.port, "shutdown_seconds": 5},
    )


class Feeder:
    """The thread that sends events at the demo's rate."""

    def __init__(self, stream: Stream, rate: float, service: Service) -> None:
        settings = service.settings.kafka
        self._stream = stream
        self._rate = rate
        self._producer = EventProducer(settings.client_properties(), settings.topic)
        self._stop = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send while the block runs."""
        thread = threading.Thread(target=self._run, name="livetree-feeder", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def _run(self) -> None:
        self._producer.run(self._stream, rate=self._rate, stop=self._stop)


class Reporter:
    """The thread that prints: first what to try, then one status line every few seconds."""

    def __init__(self, console: Console, service: Service, steps: str) -> None:
        self._console = console
        self._service = service
        self._steps = steps
        self._stop = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Print while the block runs."""
        thread = threading.Thread(target=self._run, name="livetree-reporter", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()
            self._console.print("stopped; nothing was kept")

    def _run(self) -> None:
        while not self._service.ready()[0]:
            if self._stop.wait(0.1):
                return
        self._console.print(self._steps)
        before, since = 0, time.monotonic()
        while not self._stop.wait(STATUS_SECONDS):
            published = self._service.serving.current()
            if published is None or not self._console.is_terminal:
                continue
            now = time.monotonic()
            events = published.snapshot.events
            speed = (events - before) / (now - since)
            before, since = events, now
            self._console.print(
                status_line(
                    events,
                    speed,
                    published.window_accuracy,
                    published.snapshot.shape.nodes,
                    published.snapshot.shape.depth,
                    self._service.metrics.lag() or 0,
                )
            )


def status_line(
    events: int, speed: float, accuracy: float | None, nodes: int, depth: int, lag: int
) -> str:
    """Return one line about how it goes."""
    shown = "-" if accuracy is None else f"{accuracy:.1%}"
    return (
        f"{events:>11,} events  {speed:>8,.0f}/s  accuracy of the last 1,000 {shown:>6}  "
        f"{nodes:>5,} nodes  depth {depth:>2}  lag {lag:,}"
    )


def opening_words(options: DemoOptions, stream: Stream, url: str) -> str:
    """Return what runs and where, before anything runs."""
    change = (
        f"the rule behind them changes every {options.drift_every_seconds:g} s"
        if isinstance(stream, Drifting)
        else "the rule behind them does not change"
    )
    return (
        "[bold]livetree demo[/bold]\n"
        f"  events   {options.rate:,.0f} a second of '{options.stream}'; {change}\n"
        "  broker   inside this process and in memory only; nothing is kept\n"
        f"  page     {url}  (the tree as it grows, in a browser; the API is there too)\n"
        "  stop     Ctrl-C"
    )


def first_steps(stream: Stream, options: DemoOptions, url: str) -> str:
    """Return commands to try, with the real names of the features."""
    row = open_stream(options.stream, seed=options.seed + 1).events(1)[0]
    features = {
        name: round(value, 2) if isinstance(value, float) else value
        for name, value in row.items()
        if name != "label"
    }
    shown = dict(list(features.items())[:12])
    body = json.dumps({"features": shown})
    at = f" --url {url}" if options.port != DEFAULT_PORT else ""
    steps = {
        "a prediction, and why": (
            f"curl -s '{url}/predict?path=true' -H 'content-type: application/json' "
            f"-d {_quoted(body)}"
        ),
        "the tree": f"curl -s '{url}/tree?format=text&depth=3'",
        "the tree as it grows, in a browser": url,
        "the same in a terminal": f"livetree tree --watch --depth 4{at}",
        "how it goes": f"curl -s {url}/model",
        "Prometheus metrics": f"curl -s {url}/metrics",
        "the API in a browser": f"{url}/docs",
    }
    lines = [f"  [dim]{words}[/dim]\n    {command}" for words, command in steps.items()]
    return "\n".join(
        [
            f"\n[bold]Ready.[/bold] {len(stream.schema.features)} features, "
            f"{len(stream.schema.classes)} classes. Try, in another terminal:",
            *lines,
            "",
        ]
    )


def _quoted(text: str) -> str:
    single = text.replace("'", "'\\''")
    return escape(f"'{single}'")
