"""How long a snapshot takes to a replica, how large it is, and what more workers answer.

python -m benchmarks.replicas [--json] [--quick] [--rounds N] [--only size,delay,workers]

Size: the bytes of a snapshot beside those of the whole model, and packed as the topic packs them.
Delay: from the moment it was taken, packing included, until another process could answer from it,
checks included. By a topic of Apache Kafka, and by a folder; the contender sends the same bytes and
does not look at them. Workers: answers a second of one port with so many processes behind it; the
client runs beside them, on the same cores. Trees as in benchmarks.snapshot, with majority leaves
and with naive Bayes leaves, whose statistics travel too.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import Process, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from time import thread_time

import numpy as np

from app.follower import Inlet
from app.log import configure
from app.serving import Published
from app.settings import Settings
from app.snapshot_folder import FolderInlet, FolderOutlet
from app.snapshot_message import MessageReader, about, message_pieces
from app.snapshot_topic import TopicInlet, TopicOutlet
from benchmarks.load import hammer, post
from benchmarks.measurement import OURS, Measurement, options, report
from benchmarks.snapshot import events, grown
from benchmarks.soak import Service
from learner import Snapshot, StreamingTree, pack_snapshot
from learner.archive import SNAPSHOT, Array, unpack
from learner.kernels.tree import NODE

MODEL = "livetree"
NODES = (1_000, 10_000, 100_000)
QUIET_ROUNDS = 4  # of a second each, in which nobody was refused
WORKERS = (1, 2, 4)
BETWEEN = (1_000, 10_000, 100_000)  # events from one snapshot to the next
FORK = get_context("fork")


def message(of: Published, number: int) -> list[bytes | memoryview]:
    """The message of a snapshot."""
    return message_pieces(of, about(of, MODEL, f"{number:032x}"))


def sizes(tree: StreamingTree, case: str) -> Iterator[Measurement]:
    """Bytes of a snapshot, of the model, and of what some events change; the tree learns them."""
    snapshot, model_bytes = tree.snapshot(), len(tree.to_bytes())
    whole = b"".join(message(Published(snapshot, time.time()), 0))
    packed = len(zlib.compress(whole, 1))
    content, reader = memoryview(bytearray(whole)), MessageReader(MODEL)
    facts = {
        "packed": packed,
        "a_node": len(whole) / snapshot.shape.nodes,
        "write_cpu_ms": timed(lambda: message(Published(snapshot, 0.0), 0)),
        "read_cpu_ms": timed(lambda: reader.read(content)),
    }
    yield Measurement("snapshot size", OURS, len(whole), "bytes", case=case, facts=facts)
    yield Measurement(
        "snapshot size", "the whole model", model_bytes, "bytes", model_bytes / len(whole), case
    )
    before, learned = rows_of(snapshot), 0
    for count in BETWEEN:
        tree.learn(*events(10_000_000 + count, count - learned))
        learned, after = count, rows_of(tree.snapshot())
        changed = np.ones(len(after), np.bool_)
        changed[: len(before)] = (after[: len(before)] != before).any(axis=1)
        share, places = float(changed.mean()), np.flatnonzero(changed).astype(np.int32)
        facts = {"changed_nodes": len(places)}
        if "mc" in case:  # else the statistics would be a part of it
            facts["packed"] = len(zlib.compress(places.tobytes() + after[changed].tobytes(), 1))
        yield Measurement(
            "snapshot size", f"only what {count:,} events changed", share * len(whole), "bytes",
            share, case, facts=facts,
        )  # fmt: skip


def timed(work: Callable[[], object]) -> float:
    """CPU milliseconds of the best of three."""
    taken = []
    for _ in range(3):
        began = thread_time()
        work()
        taken.append(1e3 * (thread_time() - began))
    return min(taken)


def rows_of(snapshot: Snapshot) -> Array:
    """The nodes of a snapshot as they travel, but for the numbers of their statistics."""
    words = unpack(bytearray(b"".join(pack_snapshot(snapshot))), SNAPSHOT)["tree.node"]
    words.reshape(-1).view(NODE)["slot"] = 0  # one split renumbers all that follow
    return words


def follow(inlet: Callable[[], Inlet], checked: bool, told: Connection) -> None:
    """Be a replica: tell the time when each snapshot could answer."""
    following, reader, found = inlet(), MessageReader(MODEL), None
    while True:
        arrived = following.poll(0.2)
        if arrived is None:
            continue
        if checked:
            found = reader.read(arrived)
            told.send((time.time(), found.published_at))
        else:
            told.send((time.time(), None))


@contextmanager
def follower(inlet: Callable[[], Inlet], checked: bool) -> Iterator[Connection]:
    """Run a replica in a process of its own."""
    here, there = FORK.Pipe()
    process: Process = FORK.Process(target=follow, args=(inlet, checked, there), daemon=True)  # type: ignore[assignment]
    process.start()
    try:
        yield here
    finally:
        process.kill()
        process.join()


def delays(
    snapshot: Snapshot, way: str, settings: Settings, folder: Path, count: int, checked: bool
) -> list[float]:
    """Milliseconds from taken to answering, of so many snapshots one after the other."""
    outlet: TopicOutlet | FolderOutlet = FolderOutlet(folder, MODEL)
    inlet: Callable[[], Inlet] = lambda: FolderInlet(folder, MODEL, 1 << 40)  # noqa: E731
    if way == "topic":
        outlet, inlet = TopicOutlet(settings), lambda: TopicInlet(settings)
    ready = message(Published(snapshot, 0.0), 0)
    taken = []
    with follower(inlet, checked) as heard:
        for number in range(count + 2):
            time.sleep(0.05)
            began = time.time()
            pieces = message(Published(snapshot, began), number) if checked else ready
            outlet.send(pieces, f"{number:032x}")
            if not heard.poll(60):
                raise RuntimeError("the snapshot did not arrive")
            arrived, _ = heard.recv()
            while heard.poll(0):  # one that the topic still had
                arrived, _ = heard.recv()
            taken.append(1e3 * (arrived - began))
    outlet.close()
    return taken[2:]  # connections are made with the first


def propagation(
    snapshot: Snapshot, case: str, servers: str, folder: Path, count: int
) -> Iterator[Measurement]:
    """The delay by both ways, beside the same bytes unchecked."""
    for way in ("topic", "folder"):
        medians = {}
        for name, checked in ((OURS, True), ("the same bytes, unchecked", False)):
            topic = f"snapshots-{time.monotonic_ns()}"
            settings = Settings.load(
                environ={},
                kafka={"bootstrap_servers": servers, "fetch_wait_ms": 50},
                snapshots={"topic": topic},
            )
            found = delays(snapshot, way, settings, folder / topic, count, checked)
            medians[name] = float(np.median(found))
            yield Measurement(
                "propagation delay", name, medians[name], "ms, p50",
                None if checked else medians[name] / medians[OURS], f"{way}, {case}",
                facts={"p99_ms": float(np.percentile(found, 99)), "snapshots": count},
            )  # fmt: skip


def throughput(
    snapshot: Snapshot, folder: Path, seconds: float, rounds: int
) -> Iterator[Measurement]:
    """Answers a second by the number of workers."""
    FolderOutlet(folder, MODEL).send(message(Published(snapshot, time.time()), 0), "")
    rng = np.random.default_rng(1)
    requests = [
        post("/predict", json.dumps({"features": row}).encode())
        for row in ({f"x{i}": float(x) for i, x in enumerate(rng.random(5))} for _ in range(1000))
    ]
    first = None
    for workers in WORKERS:
        own = folder / str(workers)
        own.mkdir()
        settings = {
            "role": "api",
            "snapshots": {"transport": "folder", "folder": str(folder)},
            "http": {"workers": workers},
            "log_format": "json",
        }
        service = Service(settings, own)
        try:
            wait_until_ready(service)
            rates = []
            for _ in range(rounds):
                answers, took = hammer(service.port, requests, seconds, 32)
                rates.append(answers / took)
            first = first or max(rates)
            yield Measurement(
                "answers a second", f"{workers} workers" if workers > 1 else "1 worker", max(rates),
                "requests/s", max(rates) / first, f"{os.cpu_count()} cores, the client on them too",
                facts={"memory_bytes": memory(service.process.pid)},
            )  # fmt: skip
        finally:
            service.stop()


def wait_until_ready(service: Service) -> None:
    """Wait until all workers have the snapshot: the last one may listen seconds after the first."""
    ask = [b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n"]
    quiet = 0
    while quiet < QUIET_ROUNDS:
        service.require_alive()
        try:
            hammer(service.port, ask, 1.0, 32)
            quiet += 1
        except (OSError, RuntimeError):
            quiet = 0
            time.sleep(0.2)


def memory(pid: int) -> int:
    """Bytes of a process and its children, shared pages counted once."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    total = 0
    for each in (str(pid), *children):
        text = Path(f"/proc/{each}/smaps_rollup").read_text()
        total += next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return 1024 * total


def measure(only: Sequence[str], quick: bool, rounds: int) -> Iterator[Measurement]:
    """All that was asked for."""
    from tests.kafka.broker import Kafka

    nodes, count = (NODES[:2], 10) if quick else (NODES, 40)
    with tempfile.TemporaryDirectory(prefix="livetree-replicas-") as made:
        folder = Path(made)
        with Kafka(folder / "kafka") as broker:
            for leaves in ("mc", "nba"):
                for wanted in nodes:
                    tree = grown(wanted, leaves)
                    case = f"{wanted:,} nodes, {leaves}"
                    if "delay" in only:
                        snapshot = tree.snapshot()
                        yield from propagation(
                            snapshot, case, broker.bootstrap_servers, folder, count * rounds // 3
                        )
                    if "size" in only:
                        yield from sizes(tree, case)
        if "workers" in only:
            own = folder / "workers"
            own.mkdir()
            snapshot = grown(10_000, "mc").snapshot()
            yield from throughput(snapshot, own, 2.0 if quick else 6.0, rounds)


def main(argv: list[str]) -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("--only", default="size,delay,workers", help="parts, with commas")
    given = parser.parse_args(argv)
    configure("warning", "console", sys.stderr)
    report(measure(given.only.split(","), given.quick, given.rounds), given.json)


if __name__ == "__main__":
    main(sys.argv[1:])
