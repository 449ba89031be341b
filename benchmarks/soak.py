"""Does it stay well for ever: many events through Apache Kafka, with predictions beside them.

python -m benchmarks.soak [--json] [--events N] [--variant NAME] [--requests N]
                          [--bootstrap-servers HOST:PORT] [--set key=value]

`livetree produce` writes, `livetree serve` learns and answers, each a process of its own. The
first part of the events is written as fast as the machine can, so that the learner has to catch
up; the rest at half the speed it then reached, which it must keep up with. Once a second memory,
lag and progress are read from /metrics; predictions are asked for at a fixed rate all the while,
and their time counts from when they were due, so that a stall is not hidden by waiting for it.
Without --bootstrap-servers a broker is fetched and started (Java 17 and Maven).
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from app.checkpoint import CheckpointFolder
from app.log import configure
from app.screen import counting, error_console
from benchmarks.measurement import Measurement, options, report
from streams import open_stream

QUESTION = "soak"
STREAM = "agrawal"
FULL_SPEED_SHARE = 0.8  # of the events; the others come at a pace
PATIENCE_SECONDS = 3600.0
# A bound that the tree soon reaches: memory is looked for that grows although nothing should.
MEMORY_BYTES = 1_000_000


class Sample(NamedTuple):
    """The service at one moment."""

    seconds: float
    learned: int
    lag: int
    memory_bytes: int
    tree_bytes: int


class Service:
    """A running `livetree serve`."""

    def __init__(self, settings: dict[str, Any], folder: Path) -> None:
        config, self.log = folder / "livetree.yaml", folder / "log.jsonl"
        config.write_text(json.dumps(settings))
        with self.log.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "app", "serve", "--config", str(config), "--port", "0"],
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        self.began = time.monotonic()
        self.port = int(self._wait_for(r'"listening".*"port": (\d+)'))

    def _wait_for(self, pattern: str) -> str:
        while True:
            found = re.search(pattern, self.log.read_text())
            if found:
                return found[1]
            self.require_alive()
            time.sleep(0.05)

    def require_alive(self) -> None:
        """Raise where the process has ended."""
        if self.process.poll() is not None:
            raise RuntimeError(f"the service ended: {self.log.read_text()[-2000:]}")

    def sample(self) -> Sample:
        """Read the metrics."""
        self.require_alive()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()

        def total(name: str) -> int:
            lines = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
            return int(sum(float(line) for line in lines))

        return Sample(
            time.monotonic() - self.began,
            total("livetree_events_learned_total"),
            total("livetree_consumer_lag_records"),
            total("process_resident_memory_bytes"),
            total("livetree_model_memory_bytes"),
        )

    def stop(self) -> int:
        """Stop in an orderly way; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(120)


class Client(threading.Thread):
    """Asks for predictions at a fixed rate, and notes how long each took."""

    def __init__(self, port: int, rate: float) -> None:
        super().__init__(daemon=True)
        self.milliseconds: list[float] = []
        self.failed = 0
        self._port, self._rate, self._done = port, rate, threading.Event()

    def run(self) -> None:
        """Ask until told to stop; not before the service is ready."""
        rows = open_stream(STREAM, seed=99).events(1000)
        bodies = [
            json.dumps({"features": {k: v for k, v in row.items() if k != "label"}}) for row in rows
        ]
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        while not self._done.is_set() and self._ask(connection, "GET", "/readyz") != 200:
            time.sleep(0.1)
        began, asked = time.perf_counter(), 0
        while not self._done.is_set():
            due = began + asked / self._rate
            time.sleep(max(0.0, due - time.perf_counter()))
            if self._ask(connection, "POST", "/predict", bodies[asked % len(bodies)]) != 200:
                self.failed += 1
            self.milliseconds.append((time.perf_counter() - due) * 1000)
            asked += 1

    def _ask(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: str = ""
    ) -> int:
        connection.request(method, path, body, {"content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        return answer.status

    def finish(self) -> None:
        """Stop asking."""
        self._done.set()
        self.join()


def produce(settings: dict[str, Any], events: int, seed: int, rate: float) -> subprocess.Popen[str]:
    """Start `livetree produce`."""
    kafka = settings["kafka"]
    return subprocess.Popen(
        [sys.executable, "-m", "app", "produce", "--stream", STREAM, "--seed", str(seed),
         "--events", str(events), "--rate", f"{rate:.0f}", "--topic", kafka["topic"],
         "--bootstrap-servers", kafka["bootstrap_servers"]],
        env={**os.environ, "LIVETREE_KAFKA__EXTRA": '{"compression.type": "lz4"}'},
        stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip


@contextmanager
def broker(given: str | None, folder: Path, topic: str) -> Iterator[str]:
    """Yield the address of a broker with the topic: the given one, or one of our own."""
    from confluent_kafka.admin import AdminClient, NewTopic

    from tests.kafka.broker import Kafka

    own = nullcontext() if given else Kafka(folder / "kafka")
    with own as started:
        address = given or str(getattr(started, "bootstrap_servers", ""))
        admin = AdminClient({"bootstrap.servers": address, "log_level": 3})
        topics = [NewTopic(topic, 1, 1), NewTopic(f"{topic}.dlq", 1, 1)]
        for future in admin.create_topics(topics).values():
            future.result(30)
        yield address


def watch(
    service: Service, producer: subprocess.Popen[str], until: int, samples: list[Sample], tell: Any
) -> None:
    """Sample once a second until so many events are learned."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        samples.append(service.sample())
        tell(samples[-1].learned)
        if samples[-1].learned >= until and producer.poll() is not None:
            return
        if producer.poll() not in (None, 0):
            raise RuntimeError(f"the producer ended with {producer.returncode}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"only {samples[-1].learned} of {until} events were learned")
        time.sleep(1)


def slope(samples: list[Sample], field: str, per: str) -> float:
    """Return the least-squares slope of one field over another."""
    x = np.array([getattr(sample, per) for sample in samples], float)
    y = np.array([getattr(sample, field) for sample in samples], float)
    return float(np.polyfit(x, y, 1)[0]) if len(samples) > 1 and np.ptp(x) > 0 else 0.0


def soak(arguments: argparse.Namespace, folder: Path) -> list[Measurement]:
    """Run the whole soak; returns its measurements."""
    topic = f"soak-{os.getpid()}"
    full = int(arguments.events * FULL_SPEED_SHARE)
    paced = arguments.events - full
    with broker(arguments.bootstrap_servers, folder, topic) as address:
        settings: dict[str, Any] = {
            "variant": arguments.variant,
            "kafka": {"bootstrap_servers": address, "topic": topic},
            "tree": {"max_memory_bytes": MEMORY_BYTES, **dict(arguments.set)},
            "checkpoint": {"folder": str(folder / "checkpoints"), "every_seconds": 10},
        }
        service = Service(settings, folder)
        client = Client(service.port, arguments.requests)
        client.start()
        catching_up: list[Sample] = []
        keeping_up: list[Sample] = []
        with counting(error_console(), "learned", arguments.events) as tell:
            began = time.monotonic()
            watch(service, produce(settings, full, 1, 0), full, catching_up, tell)
            speed = full / (time.monotonic() - began)
            started = len(client.milliseconds)
            watch(
                service,
                produce(settings, paced, 2, speed / 2),
                arguments.events,
                keeping_up,
                tell,
            )
        client.finish()
        exit_code = service.stop()
    kept = CheckpointFolder(folder / "checkpoints").load()
    samples = catching_up + keeping_up
    settled, late = (
        [sample for sample in samples if sample.learned > share * arguments.events]
        for share in (0.25, 0.5)
    )
    busy, steady = client.milliseconds[:started], client.milliseconds[started:]
    growth = "MB/million events"
    measured: list[tuple[str, float, str]] = [
        ("events learned, by the last checkpoint", kept.events if kept else 0, "events"),
        ("end to end, while writing at full speed", speed, "events/s"),
        ("end to end, paced", paced / (keeping_up[-1].seconds - keeping_up[0].seconds), "events/s"),
        ("lag at the end", keeping_up[-1].lag, "events"),
        ("lag, growth while paced", slope(keeping_up[3:], "lag", "seconds"), "events/s"),
        ("memory after a quarter", settled[0].memory_bytes / 1e6, "MB"),
        ("memory after half", late[0].memory_bytes / 1e6, "MB"),
        ("memory at the end", samples[-1].memory_bytes / 1e6, "MB"),
        ("memory, growth in the second half", slope(late, "memory_bytes", "learned"), growth),
        ("of it the tree's", slope(late, "tree_bytes", "learned"), growth),
        ("tree at the end", samples[-1].tree_bytes / 1e6, "MB"),
        ("predictions asked for", len(client.milliseconds), "requests"),
        ("predictions that failed", client.failed, "requests"),
        ("prediction p50, catching up", float(np.percentile(busy, 50)), "ms"),
        ("prediction p99, catching up", float(np.percentile(busy, 99)), "ms"),
        ("prediction p50, paced", float(np.percentile(steady, 50)), "ms"),
        ("prediction p99, paced", float(np.percentile(steady, 99)), "ms"),
        ("exit code", exit_code, ""),
    ]
    return [Measurement(QUESTION, what, value, unit) for what, value, unit in measured]


def assignment(text: str) -> tuple[str, str]:
    """Read key=value."""
    key, _, value = text.partition("=")
    return key, value


def main() -> None:
    """Run and print."""
    parser = options(__doc__)
    parser.add_argument("--events", type=int, help="default 10,000,000")
    parser.add_argument("--variant", default="vfdt")
    parser.add_argument("--requests", type=float, default=100, help="predictions a second")
    parser.add_argument("--bootstrap-servers", help="a broker; default: one of its own")
    parser.add_argument("--set", action="append", type=assignment, default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()
    arguments.events = arguments.events or (500_000 if arguments.quick else 10_000_000)
    configure("error", "console", sys.stderr)
    with tempfile.TemporaryDirectory(prefix="livetree-soak-") as folder:
        measured = soak(arguments, Path(folder))
    report(measured, arguments.json)


if __name__ == "__main__":
    main()
