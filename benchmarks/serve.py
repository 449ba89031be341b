"""What an answer costs: beside a no-op of FastAPI, beside reading JSON, and beside learning.

python -m benchmarks.serve [--json] [--quick] [--rounds N] [--only one,many,latency] [--leaves mc]

Servers are processes of their own, one worker each with uvloop and httptools, asked over loopback.
Their cost is the CPU time that the process used for a request, which other load does not change.

one      one row, against a FastAPI route with the same body and answer as pydantic models
many     1,000 rows, against reading the same JSON into arrays (msgspec, or orjson where installed)
latency  99 of 100 answers at a fixed rate, with a learner that catches up at full speed in the same
         process, or in another one, against the same with a learner that has nothing to do; and
         beside processes that are no learner: one that counts, one that adds large arrays. As roles
         are split between machines too, the same once more with the client and the process that
         answers on one core, and the learner on another
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from time import thread_time
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import astuple

from benchmarks.load import cpu_seconds, hammer, paced, post
from benchmarks.measurement import OURS, Measurement, interleaved, options, report
from benchmarks.neighbour import ADDING, COUNTING, neighbour
from benchmarks.soak import Service
from streams import open_stream

QUESTION = "serve"
STREAM = "agrawal"
TRAINED = 200_000  # events that the tree has learned when it is asked
ROWS = 1000
RATE = 200.0  # requests a second while latency is measured
WARMING_SECONDS = 0.5
AHEAD = 1.4  # times what a learner is thought to learn meanwhile
TRIES = 5
# Neighbours that need the processor alone, and memory too.
CORES = os.sched_getaffinity(0)
CALM = "nothing to learn"
NUMBERS = ("salary", "commission", "age", "hvalue", "hyears", "loan")
NAMES = ("elevel", "car", "zipcode")


def rows(count: int) -> list[dict[str, Any]]:
    """Rows to predict."""
    events = open_stream(STREAM, seed=99).events(count)
    return [{k: v for k, v in event.items() if k != "label"} for event in events]


def lines(count: int) -> bytes:
    """Events to learn, as JSON lines."""
    events = open_stream(STREAM, function=2, seed=1).events(count)
    return b"".join(msgspec.json.encode(event) + b"\n" for event in events)


@contextmanager
def livetree(folder: Path, leaves: str) -> Iterator[tuple[Service, Path]]:
    """Run `livetree serve` on a file that it has learned; yields it and the file."""
    folder.mkdir()
    file = folder / "events.jsonl"
    file.write_bytes(lines(TRAINED))
    settings = {
        "source": "file",
        "file": {"path": str(file)},
        "tree": {"leaf_predictor": leaves},
        "checkpoint": {"enabled": False},
    }
    service = Service(settings, folder)
    try:
        wait_until_learned(service, TRAINED)
        yield service, file
    finally:
        service.stop()


@contextmanager
def standing_still(service: Service) -> Iterator[None]:
    """Let it do nothing meanwhile: it would learn what is being written for it."""
    service.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        service.process.send_signal(signal.SIGCONT)


@contextmanager
def on_core(core: int, *processes: int) -> Iterator[None]:
    """Keep all threads of processes on a core meanwhile; 0 is this one."""
    cores = os.sched_getaffinity(0)
    try:
        _keep_on({core}, processes)
        yield
    finally:
        _keep_on(cores, processes)


def _keep_on(cores: set[int], processes: Sequence[int]) -> None:
    for process in processes:
        for task in Path(f"/proc/{process or os.getpid()}/task").iterdir():
            os.sched_setaffinity(int(task.name), cores)


def write_all(learner: Service, file: Path, block: bytes, blocks: int) -> None:
    """Write events for a learner that stands still, until all of them are on the disk.

    What it has learned before leaves the disk, which gigabytes of every round would fill.
    """
    with standing_still(learner), file.open("ab") as out:
        learned = ["--offset", "0", "--length", str(out.tell()), str(file)]
        subprocess.run(["fallocate", "--punch-hole", *learned], check=True)
        for _ in range(blocks):
            out.write(block)
        out.flush()
        os.fsync(out.fileno())  # else it would be busy with that while something is measured


def wait_until_learned(service: Service, events: int) -> None:
    """Wait for the learner, and for the snapshot of what it learned."""
    while service.sample().learned < events:
        time.sleep(0.2)
    time.sleep(1.5)


@contextmanager
def noop() -> Iterator[tuple[int, int]]:
    """Run the no-op of FastAPI; yields its port and process id."""
    listener_port = free_port()
    words = "uvicorn benchmarks.noop_api:app --loop uvloop --http httptools --log-level error"
    process = subprocess.Popen(
        [sys.executable, "-m", *words.split(), "--no-access-log", "--port", str(listener_port)]
    )
    try:
        while True:
            try:
                hammer(listener_port, one_row_requests(1), 0.1, 1)
                break
            except OSError:
                if process.poll() is not None:
                    raise RuntimeError("uvicorn ended") from None
                time.sleep(0.1)
        yield listener_port, process.pid
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    """A port that nobody listens on."""
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def one_row_requests(count: int) -> list[bytes]:
    """Requests of one row each."""
    return [post("/predict", json.dumps({"features": row}).encode()) for row in rows(count)]


def many_rows_body() -> bytes:
    """The body of a request of many rows."""
    return json.dumps({"instances": rows(ROWS)}).encode()


def cost(
    port: int, pid: int, requests: Sequence[bytes], seconds: float, connections: int
) -> tuple[float, float]:
    """CPU microseconds of the server for a request, and requests a second as they came."""
    before = cpu_seconds(pid)
    answers, took = hammer(port, requests, seconds, connections)
    return (cpu_seconds(pid) - before) / answers * 1e6, answers / took


def one_row(service: Service, seconds: float, rounds: int) -> Iterator[Measurement]:
    """One row against the no-op."""
    requests = one_row_requests(1000)
    with noop() as (port, pid):
        results = interleaved(
            {
                OURS: partial(cost, service.port, service.process.pid, requests, seconds, 16),
                "FastAPI, pydantic, no-op": partial(cost, port, pid, requests, seconds, 16),
            },
            rounds,
            "one row",
        )
    ours = min(results[OURS])[0]
    for name, measured in results.items():
        cpu_us = min(measured)[0]
        yield Measurement(
            QUESTION, name, 1e6 / cpu_us, "requests/s of a core",
            None if name == OURS else cpu_us / ours, "one row", "" if name == OURS else ">= 2",
            {"cpu us": cpu_us, "requests/s here": max(rate for _, rate in measured)},
        )  # fmt: skip


def readers(body: bytes) -> dict[str, Callable[[], Any]]:
    """Ways to read the rows of a body into arrays: numbers, and codes of the nominal values."""
    features = [(name, float) for name in NUMBERS] + [(name, str) for name in NAMES]
    row_type = msgspec.defstruct("Row", features, gc=False)
    decoder = msgspec.json.Decoder(msgspec.defstruct("Many", [("instances", list[row_type])]))  # type: ignore[valid-type]
    numbers = itemgetter(*range(len(NUMBERS)))
    codes = [{value: i for i, value in enumerate(known)} for known in _known_values()]

    def arrays(found: Sequence[Sequence[Any]]) -> tuple[Any, Any]:
        nominal = [[coded[row[i]] for row in found] for i, coded in enumerate(codes, len(NUMBERS))]
        return np.array([numbers(row) for row in found]), np.array(nominal, np.int32)

    ways: dict[str, Callable[[], Any]] = {
        "reading with msgspec": lambda: arrays([astuple(r) for r in decoder.decode(body).instances])
    }
    if find_spec("orjson"):
        import orjson

        fields = itemgetter(*NUMBERS, *NAMES)
        ways["reading with orjson"] = lambda: arrays(
            [fields(row) for row in orjson.loads(body)["instances"]]
        )
    return ways


def _known_values() -> list[list[Any]]:
    features = {feature.name: feature for feature in open_stream(STREAM).schema.features}
    return [list(features[name].values) for name in NAMES]


def timed(work: Callable[[], Any], repeats: int = 20) -> float:
    """CPU microseconds of one call."""
    began = thread_time()
    for _ in range(repeats):
        work()
    return (thread_time() - began) / repeats * 1e6


def many_rows(service: Service, seconds: float, rounds: int) -> Iterator[Measurement]:
    """Many rows against reading them."""
    body = many_rows_body()
    plain = [post("/predict?probabilities=false", body)]
    ask = partial(cost, service.port, service.process.pid, seconds=seconds, connections=2)
    contenders: dict[str, Callable[[], float]] = {
        OURS: lambda: ask(requests=[post("/predict", body)])[0],
        f"{OURS}, labels only": lambda: ask(requests=plain)[0],
    }
    ways = {name: partial(timed, way) for name, way in readers(body).items()}
    results = interleaved(contenders | ways, rounds, f"{ROWS} rows")
    ours = min(results[OURS])
    fastest = min(ways, key=lambda name: min(results[name]))
    for name, measured in results.items():
        value = min(measured)
        yield Measurement(
            QUESTION, name, value, "CPU us", None if name == OURS else value / ours,
            f"{ROWS} rows", ">= 0.5" if name == fastest else "", {"rows/s": ROWS / value * 1e6},
        )  # fmt: skip


class Waited(NamedTuple):
    """Requests that were asked at a fixed rate."""

    milliseconds: list[float]
    cpu_us: float  # of the thread that answers, each


def thread_seconds(pid: int) -> float:
    """CPU time of a process's first thread."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


def latencies(
    folder: Path, service: Service, file: Path, leaves: str, seconds: float, rounds: int
) -> Iterator[Measurement]:
    """The 99th percentile with a learner at work, here or in another process, against none."""
    requests = one_row_requests(1000)
    block, len_block = lines(100_000), 100_000
    with ExitStack() as running:
        other, other_file = running.enter_context(livetree(folder / "other", leaves))

        def asked() -> Waited:
            """Ask, after a while in which whoever stood still gets going again."""
            paced(service.port, requests, RATE, WARMING_SECONDS)
            before = thread_seconds(service.process.pid)
            taken = paced(service.port, requests, RATE, seconds)
            after = thread_seconds(service.process.pid)
            return Waited(taken, (after - before) / len(taken) * 1e6)

        def beside(learner: Service, fed: Path) -> Waited:
            """Feed a learner with more than it can learn while it is measured."""
            nonlocal speed
            for _ in range(TRIES):
                target = learner.sample().learned
                blocks = round(AHEAD * (WARMING_SECONDS + seconds) * speed / len_block)
                write_all(learner, fed, block, blocks)
                target += blocks * len_block
                taken = asked()
                was_busy = learner.sample().learned < target
                wait_until_learned(learner, target)
                if was_busy:
                    return taken
                speed *= AHEAD  # it was faster than thought, and done before the end
            raise RuntimeError("the learner was done before the requests, each time")

        def beside_code(code: str) -> Waited:
            with neighbour(code):
                return asked()

        def apart(measure: Callable[[], Waited]) -> Waited:
            """Keep the other learner off the core on which is asked and answered."""
            first, last = min(CORES), max(CORES)
            with on_core(first, 0, service.process.pid), on_core(last, other.process.pid):
                return measure()

        speed = learning_speed(other, other_file, block)
        beside_other = partial(beside, other, other_file)
        cases: dict[str, Callable[[], Waited]] = {
            CALM: asked,
            "learning in the same process": partial(beside, service, file),
            "learning in another process": beside_other,
            "counting in another process": partial(beside_code, COUNTING),
            "adding arrays in another process": partial(beside_code, ADDING),
        }
        if len(CORES) > 1:
            cases |= {
                f"{CALM}, answers on one core": partial(apart, asked),
                "learning on another core": partial(apart, beside_other),
            }
        results = interleaved(cases, rounds, "latency")
    targets = {
        "learning in the same process": ">= 0.5",
        "learning in another process": ">= 0.83",
        "learning on another core": ">= 0.83",
    }
    taken = {
        name: np.concatenate([run.milliseconds for run in runs]) for name, runs in results.items()
    }
    p99s = {name: float(np.percentile(every, 99)) for name, every in taken.items()}
    for name, every in taken.items():
        p99 = p99s[name]
        calm = p99s[f"{CALM}, answers on one core" if name.endswith("another core") else CALM]
        yield Measurement(
            QUESTION, name, p99, "ms, p99", None if name.startswith(CALM) else calm / p99,
            "latency", targets.get(name, ""),
            {"p50": float(np.percentile(every, 50)), "p99.9": float(np.percentile(every, 99.9)),
             "cpu us": float(np.mean([run.cpu_us for run in results[name]])),
             "requests": len(every), "events/s": speed},
        )  # fmt: skip


def learning_speed(service: Service, file: Path, block: bytes) -> float:
    """Events a second of a service that catches up."""
    before = service.sample()
    write_all(service, file, block, 10)
    began = time.monotonic()
    while service.sample().learned < before.learned + 1_000_000:
        time.sleep(0.05)
    return 1_000_000 / (time.monotonic() - began)


def measurements(
    only: Sequence[str], leaves: str, rounds: int, quick: bool
) -> Iterator[Measurement]:
    """All that was asked for, as it comes."""
    seconds = 1.5 if quick else 4.0
    with (
        tempfile.TemporaryDirectory(prefix="livetree-serve-") as folder,
        livetree(Path(folder) / "own", leaves) as (service, file),
    ):
        if "one" in only:
            yield from one_row(service, seconds, rounds)
        if "many" in only:
            yield from many_rows(service, seconds, rounds)
        if "latency" in only:
            yield from latencies(Path(folder), service, file, leaves, seconds, rounds)


def main() -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("--only", default="one,many,latency", help="parts, with commas")
    parser.add_argument("--leaves", default="mc", help="mc, nb or nba")
    given = parser.parse_args()
    rounds = min(given.rounds, 2) if given.quick else given.rounds
    measured = measurements(given.only.split(","), given.leaves, rounds, given.quick)
    report(measured, given.json)


if __name__ == "__main__":
    main()
