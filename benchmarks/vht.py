"""Trees with workers: what a late decision costs in accuracy, and what workers bring in speed.

python -m benchmarks.vht [--json] [--quick] [--rounds N] [--questions modes,speed]
                         [--attributes 50,200,1000,5000,20000]

modes: accuracy and lost events of each mode on dense and sparse streams, beside one thread and
beside sharding: p whole trees, event i to tree i mod p, their majority answers.

speed: events a second, beside one thread on the same rows. Where a machine has other load, cores
are not free and the clock says little; so the CPU time of the aggregator and of the busiest worker
stand beside it. They take turns in mode sync, so their sum bounds what free cores would reach:
``free_cores`` is the local CPU time over that sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from time import perf_counter, thread_time
from typing import Any

import numpy as np
import numpy.typing as npt

from app.distributed.threads import Threads
from benchmarks.measurement import Measurement, interleaved, options, report
from learner import (
    Batch,
    Encoder,
    Feature,
    InProcess,
    Kind,
    Schema,
    StreamingTree,
    Vertical,
    VerticalTree,
)
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
        predicted = np.empty(len(y), np.int32)
        tree.learn(batch, y, None, predicted)
        right += int((predicted == y).sum())
    return right / sum(len(y) for _, y in batches)


def sharded_accuracy(schema: Schema, batches: list[tuple[Batch, Labels]], shards: int) -> float:
    """The same for p whole trees; they vote at the beginning of each batch."""
    trees = [StreamingTree(Encoder(schema), "vht") for _ in range(shards)]
    right = 0
    for batch, y in batches:
        votes = np.zeros((len(y), len(schema.classes)))
        for tree in trees:
            votes[np.arange(len(y)), np.maximum(0, tree.snapshot().predict(batch))] += 1
        right += int((votes.argmax(axis=1) == y).sum())
        for shard, tree in enumerate(trees):
            rows = np.arange(shard, len(y), shards, dtype=np.int32)
            tree.learn(batch.take(rows), y[rows])
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


class TimedThreads(Threads):
    """Threads that tell the CPU time of each."""

    def __init__(self) -> None:
        super().__init__()
        self.cpu_seconds: dict[int, float] = {}

    def _run(self, worker: int) -> None:
        super()._run(worker)
        self.cpu_seconds[worker] = thread_time()


class Spent:
    """What one run took."""

    def __init__(self, wall: float, main: float, workers: tuple[float, ...] = ()) -> None:
        self.wall, self.main, self.workers = wall, main, workers

    @property
    def turns(self) -> float:
        """CPU seconds where aggregator and workers take turns."""
        return self.main + max(self.workers, default=0.0)


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


def learn(tree: StreamingTree, batches: list[tuple[Batch, Labels]]) -> tuple[float, float]:
    """Wall and CPU seconds of the thread that learns."""
    wall, cpu = perf_counter(), thread_time()
    for batch, y in batches:
        tree.learn(batch, y, None, np.empty(len(y), np.int32))
    return perf_counter() - wall, thread_time() - cpu


def local_run(schema: Schema, batches: list[tuple[Batch, Labels]]) -> Spent:
    """One thread, no workers."""
    return Spent(*learn(StreamingTree(Encoder(schema), "vht"), batches))


def threads_run(schema: Schema, batches: list[tuple[Batch, Labels]], vertical: Vertical) -> Spent:
    """Workers in threads."""
    workers = TimedThreads()
    tree = VerticalTree(StreamingTree(Encoder(schema), "vht"), workers, vertical)
    wall, main = learn(tree, batches)
    workers.close()
    return Spent(wall, main, tuple(workers.cpu_seconds.values()))


def speed(attributes: list[int], rounds: int, numbers: int) -> Iterator[Measurement]:
    """Events a second by the width of the events, best of the rounds."""
    for d in attributes:
        events = max(BATCH * 4, min(40_000, numbers // d) // BATCH * BATCH)
        schema, batches = dense_rows(d, events)
        local_run(schema, batches[:2])  # kernels are loaded
        threads_run(schema, batches[:2], Vertical(2))
        late = Vertical(2, "wk", lag=1000, keep=1000)
        runs = {
            "local": partial(local_run, schema, batches),
            "threads p=1 sync": partial(threads_run, schema, batches, Vertical(1)),
            "threads p=2 sync": partial(threads_run, schema, batches, Vertical(2)),
            "threads p=2 wk(1000), lag 1000": partial(threads_run, schema, batches, late),
        }
        spent = interleaved(runs, rounds, f"d = {d}")
        local = min(run.wall for run in spent["local"])
        local_cpu = min(run.main for run in spent["local"])
        for contender, found in spent.items():
            wall = min(run.wall for run in found)
            best = min(found, key=lambda run: run.turns)
            facts: dict[str, Any] = {"events": events, "cpu_us": 1e6 * best.main / events}
            if best.workers:
                facts["worker_us"] = 1e6 * max(best.workers) / events
                busy = best.turns if "sync" in contender else max(best.main, *best.workers)
                facts["free_cores"] = local_cpu / busy
            yield Measurement(
                "vht speed", contender, events / wall, "events/s", local / wall, f"d={d}",
                facts=facts,
            )  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("--questions", default="modes,speed")
    parser.add_argument("--attributes", default="50,200,1000,5000,20000")
    given = parser.parse_args()
    asked = given.questions.split(",")

    def measured() -> Iterator[Measurement]:
        if "modes" in asked:
            yield from modes(20_000 if given.quick else 100_000)
        if "speed" in asked:
            widths = [int(d) for d in given.attributes.split(",")]
            yield from speed(widths, given.rounds, 8_000_000 if given.quick else 40_000_000)

    report(measured(), given.json)


if __name__ == "__main__":
    main()
