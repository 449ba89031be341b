"""How fast events come from Kafka into the tree, beside loops that do less, or the same otherwise.

python -m benchmarks.consume [--json] [--quick] [--rounds N] [--events N] [--case TEXT]
                             [--profile] [--bootstrap-servers HOST:PORT]

A topic is filled first; then each contender reads it from the beginning, in a process of its own,
with the same settings of the same client. The clock starts after the first tenth of the events:
connections, compiled code and first leaves are there by then. What counts is CPU time of the
consuming thread; wall time, and CPU time of the whole process with the client's own threads, stand
beside it.

  poll only      messages in batches, nothing is done with them: the limit
  poll, decode   the same, and msgspec, tuples, arrays, codes: what every consumer of JSON needs
  river          the same, and a Hoeffding tree of river that predicts, then learns
  livetree       what `livetree serve` runs: predict, learn, score, metrics, snapshots, checkpoints
  livetree serve the whole process from its start to the last event, the API included

`--profile` says instead where each microsecond of an event goes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path

import msgspec

from app.log import configure
from app.screen import counting, error_console
from benchmarks.consume_contender import BINARY, CONTENDERS, JSON, ROWS, Case, Result
from benchmarks.measurement import OURS, Measurement, interleaved, options, report
from streams import open_stream

QUESTION = "consume"
SERVE = "livetree serve"
CASES = (
    Case("agrawal", JSON, 1_000_000),
    Case("waveform21", JSON, 400_000),
    Case("agrawal", BINARY, 1_000_000),
    Case("agrawal", BINARY, 4_000_000, rows=ROWS),
)
QUICK_SHARE = 10
TARGETS = {
    (JSON, "poll, decode"): ">= 0.8",
    (JSON, "river"): ">= 20",
    (BINARY, "poll only"): ">= 0.7",
}


def fill(address: str, case: Case, topic: str) -> None:
    """Create the topic and write the events."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": address, "log_level": 3})
    for future in admin.create_topics(
        [NewTopic(t, 1, 1) for t in (topic, f"{topic}.dlq")]
    ).values():
        future.result(30)
    producer = Producer(
        {"bootstrap.servers": address, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000}
    )
    stream, write = open_stream(case.stream, seed=1), case.writer()
    with counting(error_console(), f"filling {topic}", case.events) as tell:
        for written in range(0, case.events, 10_000):
            for value in write(stream.events(10_000)):
                while True:
                    try:
                        producer.produce(topic, value)
                        break
                    except BufferError:
                        producer.poll(0.1)
            producer.poll(0)
            tell(written)
        producer.flush()


def run_contender(name: str, case: Case, address: str, topic: str, profile: bool = False) -> Result:
    """Let a contender read the topic, in a process of its own."""
    asked = {"name": name, "case": case._asdict(), "address": address, "topic": topic,
             "profile": profile}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.consume_contender", json.dumps(asked)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"{name} ended with {done.returncode}: {done.stderr[-2000:]}")
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Result)


def run_serve(case: Case, address: str, topic: str) -> Result:
    """Learn the topic with `livetree serve`, from the start of the process on."""
    from benchmarks.soak import Service

    with tempfile.TemporaryDirectory(prefix="livetree-consume-") as folder:
        began = time.perf_counter()
        service = Service(case.settings(address, topic, Path(folder)), Path(folder))
        while service.sample().learned < case.events:
            time.sleep(0.02)
        wall = time.perf_counter() - began
        fields = Path(f"/proc/{service.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        service.stop()
    return Result(case.events, wall, cpu, cpu)


@contextmanager
def broker(given: str | None, folder: Path) -> Iterator[str]:
    """Yield the address of a broker: the given one, or one of our own."""
    from tests.kafka.broker import Kafka

    with nullcontext() if given else Kafka(folder / "kafka") as started:
        yield given or str(getattr(started, "bootstrap_servers", ""))


def measure(case: Case, address: str, topic: str, rounds: int) -> Iterator[Measurement]:
    """The best round of every contender on one topic."""
    fill(address, case, topic)
    rivals = {
        name: (lambda name=name: run_contender(name, case, address, topic))
        for name, contender in CONTENDERS.items()
        if contender.reads(case) and (name != "river" or find_spec("river"))
    }
    if not case.rows:
        rivals[SERVE] = lambda: run_serve(case, address, topic)
    found = interleaved(rivals, rounds, str(case))
    best = {
        name: min(results, key=lambda r: r.thread / r.events) for name, results in found.items()
    }
    wall = {name: max(r.events / r.wall for r in results) for name, results in found.items()}
    ours = best[OURS]
    for name, result in best.items():
        ratio = (result.thread / result.events) / (ours.thread / ours.events)
        yield Measurement(
            QUESTION,
            name,
            result.thread / result.events * 1e6,
            "us/event",
            None if name in (OURS, SERVE) else ratio,
            str(case),
            "" if case.rows else TARGETS.get((case.form, name), ""),
            {
                "process_us": round(result.process / result.events * 1e6, 3),
                "wall_events_per_second": round(wall[name]),
                **result.facts,
            },
        )


def profile(case: Case, address: str, topic: str, rounds: int) -> Iterator[Measurement]:
    """Where the time of an event goes in the best of the rounds."""
    fill(address, case, topic)
    results = [run_contender(OURS, case, address, topic, profile=True) for _ in range(rounds)]
    best = min(results, key=lambda result: result.thread)
    for stage, seconds in best.stages.items():
        share = f"{seconds / best.thread:.0%}"
        yield Measurement(
            QUESTION, stage, seconds / best.events * 1e6, "us/event", None, str(case),
            facts={"share": share},
        )  # fmt: skip
    yield Measurement(QUESTION, "all", best.thread / best.events * 1e6, "us/event", None, str(case))


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = options(__doc__)
    parser.add_argument("--case", default="", help="only topics with this in their description")
    parser.add_argument("--events", type=int, help="events of each topic")
    parser.add_argument("--profile", action="store_true", help="where the time of an event goes")
    parser.add_argument("--bootstrap-servers", help="a broker; default: one of its own")
    return parser.parse_args()


def main() -> None:
    """Fill, measure, print."""
    given = parsed()
    configure("error", "console", sys.stderr)
    ask = profile if given.profile else measure

    def measured(address: str) -> Iterator[Measurement]:
        for number, case in enumerate(case for case in CASES if given.case in str(case)):
            events = given.events or case.events // (QUICK_SHARE if given.quick else 1)
            topic = f"consume-{os.getpid()}-{number}"
            yield from ask(case._replace(events=events), address, topic, given.rounds)

    with (
        tempfile.TemporaryDirectory(prefix="livetree-consume-") as folder,
        broker(given.bootstrap_servers, Path(folder)) as address,
    ):
        report(measured(address), given.json)


if __name__ == "__main__":
    main()
