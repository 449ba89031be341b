"""Trees with workers: what a late decision costs in accuracy, and what workers bring in speed.

python -m benchmarks.vht [--json] [--quick] [--rounds N] [--questions modes,speed]
                         [--dense 50,200,...] [--sparse 100,1000,...] [--picture FILE.svg]

modes: accuracy and lost events of each mode on dense and sparse streams, beside one thread and
beside sharding: p whole trees, event i to tree i mod p, their majority answers.

speed: microseconds an event by the width of the events, beside one thread on the same rows, the
constants of benchmarks/vht_cost.py fitted to them, the error at widths that were held out, and what
the model says of more workers, with and without a network. Every batch counts with the fastest of
its rounds, since other work on the machine makes the others slower; every thread has a core of its
own where there are enough, since a busy machine's scheduler may put two on one. "two halves apart"
is what the cores give: two trees of half the columns, each in a thread, that never wait for the
other. Two virtual cores may be less than two: where it is not twice as fast as local, no pair of
workers can be.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

import numpy as np
import numpy.typing as npt

from app.distributed.load import Executor
from app.distributed.threads import Helper, Threads
from benchmarks.chart import lines
from benchmarks.measurement import Measurement, interleaved, options, report
from benchmarks.vht_cost import (
    Costs,
    Network,
    Point,
    errors,
    fit,
    pays_from,
    predicted,
    speed_up,
)
from learner import (
    Batch,
    Block,
    Encoder,
    Feature,
    InProcess,
    Kind,
    Schema,
    ShardedTrees,
    Share,
    StreamingTree,
    Vertical,
    VerticalTree,
)
from learner.message import Events
from learner.shares import known_to
from streams import open_stream

BATCH = 1000  # as the service learns
LAGS = (100, 1000, 5000)
STREAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "dense 10-10": ("dense", {"attributes": 10}),
    "dense 50-50": ("dense", {"attributes": 50}),
    "tweets 100": ("tweets", {"words": 100}),
    "tweets 1k": ("tweets", {"words": 1000}),
    "tweets 10k": ("tweets", {"words": 10_000}),
}

Labels = npt.NDArray[np.int32]
Rows = tuple[Schema, list[tuple[Batch, Labels]]]


def batches_of(batch: Batch, y: Labels) -> list[tuple[Batch, Labels]]:
    """Rows in the batches of the service."""
    return [
        (batch.part(at, min(at + BATCH, len(y))), y[at : at + BATCH])
        for at in range(0, len(y), BATCH)
    ]


# Modes -------------------------------------------------------------------------------------------


def accuracy(tree: StreamingTree, batches: list[tuple[Batch, Labels]]) -> float:
    """Share of events that were predicted right before they were learned."""
    right = 0
    for batch, y in batches:
        answers = np.empty(len(y), np.int32)
        tree.learn(batch, y, None, answers)
        right += int((answers == y).sum())
    return right / sum(len(y) for _, y in batches)


def sharded_accuracy(schema: Schema, batches: list[tuple[Batch, Labels]], shards: int) -> float:
    """The same for p whole trees."""
    trees, right = ShardedTrees(Encoder(schema), "vht", shards), 0
    for batch, y in batches:
        answers = np.empty(len(y), np.int32)
        trees.learn(batch, y, answers)
        right += int((answers == y).sum())
    return right / sum(len(y) for _, y in batches)


def modes(events: int) -> Iterator[Measurement]:
    """What becomes of the accuracy where decisions are late."""
    for case, (name, chosen) in STREAMS.items():
        stream = open_stream(name, **chosen)
        batch, y = stream.take(events)
        batches, schema = batches_of(batch, y), stream.schema
        local = accuracy(StreamingTree(Encoder(schema), "vht"), batches)
        yield Measurement("vht modes", "local", local, "accuracy", case=case)
        for lag in LAGS:
            for contender, mode, keep in (
                ("wok", "wok", 0), ("wk(0)", "wk", 0), ("wk(1000)", "wk", 1000),
                ("wk(20000)", "wk", 20_000),
            ):  # fmt: skip
                tree = VerticalTree(
                    StreamingTree(Encoder(schema), "vht"), InProcess(),
                    Vertical(2, mode, lag, keep),
                )  # fmt: skip
                found = accuracy(tree, batches)
                told = tree.vertical_counters()
                facts = {"points": round(100 * (found - local), 2), "lost": told.lost / events,
                         "replayed": told.replayed, "nodes": tree.shape().nodes}  # fmt: skip
                yield Measurement(
                    "vht modes", contender, found, "accuracy", case=f"{case}, lag {lag}",
                    facts=facts,
                )  # fmt: skip
        for shards in (2, 4):
            found = sharded_accuracy(schema, batches, shards)
            facts = {"points": round(100 * (found - local), 2)}
            yield Measurement(
                "vht modes", f"sharding p={shards}", found, "accuracy", case=case, facts=facts
            )


# Speed -------------------------------------------------------------------------------------------

N_MIN, SELDOM = 200, 1000  # the second one tells apart what events and what questions cost
APART = "two halves apart"
HELD_OUT = {"dense": (500, 2000, 10_000), "sparse": (1000,)}
PROJECTED = (2, 4, 8, 16, 32, 64)
# Between two machines, as Ray was measured: docs/variants/vht.md.
ROUND_TRIP, CALL, WIRE = 700.0, 200.0, 1.0 / 630.0


class PinnedThreads(Threads):
    """Threads with a core each, where there are enough, which tell their CPU time."""

    def __init__(self) -> None:
        super().__init__()
        self.cpu_seconds: dict[int, float] = {}

    def _run(self, helper: Helper) -> None:
        cores = sorted(CORES)
        os.sched_setaffinity(0, {cores[helper.worker % len(cores)]})
        super()._run(helper)
        self.cpu_seconds[helper.worker] = thread_time()


CORES = os.sched_getaffinity(0)
EXECUTORS: Mapping[str, Callable[[], Executor]] = {"threads": PinnedThreads}  # others go here


class Spent:
    """What one run took, batch by batch, and what happened in it."""

    def __init__(self, seconds: list[float], questions: int = 0, messages: int = 0) -> None:
        self.seconds, self.questions, self.messages = seconds, questions, messages


def dense_rows(attributes: int, events: int) -> Rows:
    """Numbers of which a few decide the class."""
    rng = np.random.default_rng(attributes)
    numbers = rng.normal(size=(events, attributes))
    signs = np.sign(numbers[:, :5]) @ rng.normal(size=5)
    noisy = signs + 0.4 * rng.normal(size=events) > 0
    features = tuple(Feature(f"x{i}", Kind.NUMERIC) for i in range(attributes))
    empty = np.zeros((events, 0), np.int32), np.zeros(events + 1, np.int64), np.zeros(0, np.int32)
    return Schema(features, ("no", "yes")), batches_of(
        Batch(numbers, *empty), noisy.astype(np.int32)
    )


def halves_apart(halves: tuple[Rows, Rows]) -> Spent:
    """Learn two halves of all columns in two threads at the same time, batch by batch."""
    batches = len(halves[0][1])
    seconds = np.zeros((len(halves), batches))
    together = threading.Barrier(len(halves))
    cores = sorted(CORES)

    def learn(half: int) -> None:
        os.sched_setaffinity(0, {cores[half % len(cores)]})
        schema, rows = halves[half]
        tree, buffer = StreamingTree(Encoder(schema), "vht", n_min=float(N_MIN)), None
        for i, (batch, y) in enumerate(rows):
            buffer = np.empty_like(batch.numeric) if buffer is None else buffer
            fresh, answers = buffer[: len(y)], np.empty(len(y), np.int32)
            fresh[:] = batch.numeric
            together.wait()
            started = perf_counter()
            tree.learn(batch._replace(numeric=fresh), y, None, answers)
            seconds[half, i] = perf_counter() - started

    threads = [threading.Thread(target=learn, args=(half,)) for half in range(len(halves))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Spent(seconds.max(axis=0).tolist())


def sparse_rows(words: int, events: int) -> Rows:
    """Sets of words."""
    stream = open_stream("tweets", words=words)
    return stream.schema, batches_of(*stream.take(events))


def run(rows: Rows, executor: str, workers: int, n_min: int) -> Spent:
    """Learn all batches, alone (no workers) or with them; each batch is warm, as just decoded."""
    schema, batches = rows
    encoder = Encoder(schema, max_values=1_000_000)
    tree, runner = StreamingTree(encoder, "vht", n_min=float(n_min)), None
    if workers:
        runner = EXECUTORS[executor]()
        tree = VerticalTree(tree, runner, Vertical(workers))
    os.sched_setaffinity(0, {min(CORES)})
    buffer, seconds = np.empty_like(batches[0][0].numeric), []
    for batch, y in batches:
        fresh, answers = buffer[: len(y)], np.empty(len(y), np.int32)
        fresh[:] = batch.numeric
        started = perf_counter()
        tree.learn(batch._replace(numeric=fresh), y, None, answers)
        seconds.append(perf_counter() - started)
    questions = tree.counters().split_attempts
    messages = tree.vertical_counters().messages if isinstance(tree, VerticalTree) else 0
    if runner is not None:
        runner.close()
    os.sched_setaffinity(0, CORES)
    return Spent(seconds, questions, messages)


def measured(kind: str, attributes: int, rounds: int, numbers: int) -> Iterator[tuple[str, Point]]:
    """One thread and workers on the same rows."""
    events = max(BATCH * 3, min(8_000, numbers // attributes) // BATCH * BATCH)
    rows = dense_rows(attributes, events) if kind == "dense" else sparse_rows(attributes, events)
    held = sum(len(batch.sparse_index) for batch, _ in rows[1])
    updates = float(attributes) if kind == "dense" else held / events
    cases = {
        f"{name}{'' if n_min == N_MIN else f', n_min {n_min}'}": (executor, workers, n_min)
        for n_min in (N_MIN, SELDOM)
        for name, executor, workers in (
            ("local", "", 0), *((f"{e} p={p}", e, p) for e in EXECUTORS for p in (1, 2))
        )
    }  # fmt: skip
    contenders = {name: partial(run, rows, *case) for name, case in cases.items()}
    if kind == "dense" and len(CORES) > 1:
        half = dense_rows(attributes // 2, events)
        contenders[APART] = partial(halves_apart, (half, half))
    for contender in contenders.values():
        contender()  # kernels are loaded
    for name, found in interleaved(contenders, rounds, f"{kind} {attributes}").items():
        best = np.array([spent.seconds for spent in found]).min(axis=0).sum()
        workers = cases[name][1] if name in cases else len(CORES)
        yield name, Point(
            attributes, updates, workers, found[0].questions / events,
            found[0].messages / events, 1e6 * float(best) / events,
        )  # fmt: skip


def copy_cost(attributes: int = 1000) -> float:
    """Microseconds a byte to cut a worker's columns out of a block."""
    schema, batches = dense_rows(attributes, BATCH)
    batch, y = batches[0]
    share = Share.of(0, 2, known_to(Encoder(schema)))
    block, best = Block(1, Events.of(batch, y, np.empty(0))), np.inf
    for _ in range(50):
        started = perf_counter()
        size = share.slice(block).events.numeric.nbytes
        best = min(best, (perf_counter() - started) / size)
    return 1e6 * float(best)


def speed(
    widths: Mapping[str, list[int]], rounds: int, numbers: int, picture: Path | None
) -> Iterator[Measurement]:
    """Runs, the model of them, and what it says of more workers."""
    network = Network(ROUND_TRIP, CALL, copy_cost(), WIRE)
    curves: dict[str, list[tuple[float, float]]] = {}
    for kind, of_kind in widths.items():
        points: list[tuple[str, Point]] = []
        for attributes in of_kind:
            found = list(measured(kind, attributes, rounds, numbers))
            points += [(name, point) for name, point in found if name != APART]
            of_case = {name: point.microseconds for name, point in found}
            for name, point in found:
                local = of_case[f"local, n_min {SELDOM}" if str(SELDOM) in name else "local"]
                if str(SELDOM) not in name and name != APART:
                    of_name = curves.setdefault(f"{kind} {name.removeprefix('threads ')}", [])
                    of_name.append((attributes, 1e6 / point.microseconds))
                yield Measurement(
                    "vht speed", name, 1e6 / point.microseconds, "events/s",
                    local / point.microseconds, f"{kind} d={attributes}",
                    facts={"us": round(point.microseconds, 3)},
                )  # fmt: skip
        yield from modelled(kind, points, network)
    if picture is not None:
        picture.write_text(lines("Trees with workers", "attributes", curves, "events/s"), "utf-8")


def modelled(kind: str, points: list[tuple[str, Point]], network: Network) -> Iterator[Measurement]:
    """The constants, their errors, and projections."""
    known = [point for _, point in points if point.attributes not in HELD_OUT[kind]]
    held_out = [point for _, point in points if point.attributes in HELD_OUT[kind]]
    if len(known) < len(Costs._fields):
        return
    costs = fit(known)
    for name, value in costs._asdict().items():
        yield Measurement("vht cost", name, value, "us", case=kind)
    for case, of_case in (("fitted", known), ("held out", held_out)):
        if of_case:
            off = np.abs(errors(costs, of_case))
            yield Measurement(
                "vht cost", f"error, {case}", float(np.median(off)), "share", case=kind,
                facts={"worst": float(off.max()), "points": len(off)},
            )  # fmt: skip
    twos = [point for name, point in points if point.workers == 2 and str(SELDOM) not in name]
    widest = max(twos, key=lambda point: point.attributes)
    for workers in PROJECTED:
        point = widest._replace(workers=workers)
        facts: dict[str, Any] = {
            "network": speed_up(costs, point, network),
            "alone_us": predicted(costs, point._replace(workers=0)),
        }
        if kind == "dense":
            facts["pays_from"] = pays_from(costs, point)
            facts["network_pays_from"] = pays_from(costs, point, network)
        yield Measurement(
            "vht projection", f"p={workers}", speed_up(costs, point), "times local",
            case=f"{kind} d={point.attributes}", facts=facts,
        )  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = options(__doc__, rounds=25)
    parser.add_argument("--questions", default="modes,speed")
    parser.add_argument("--dense", default="50,200,500,1000,2000,5000,10000,20000")
    parser.add_argument("--sparse", default="100,1000,10000,100000")
    parser.add_argument("--picture", type=Path, help="draw events/s by width into this file")
    given = parser.parse_args()
    asked = given.questions.split(",")

    def all_measured() -> Iterator[Measurement]:
        if "modes" in asked:
            yield from modes(20_000 if given.quick else 100_000)
        if "speed" in asked:
            widths = {
                kind: [int(d) for d in getattr(given, kind).split(",") if d]
                for kind in ("dense", "sparse")
            }
            numbers = 4_000_000 if given.quick else 20_000_000
            yield from speed(widths, given.rounds, numbers, given.picture)

    report(all_measured(), given.json)


if __name__ == "__main__":
    main()
