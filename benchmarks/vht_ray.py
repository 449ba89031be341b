"""Trees with workers on Ray: what they cost the learner, and what they hold.

python -m benchmarks.vht_ray [--json] [--quick] [--rounds N] [--attributes 200,1000,10000]

Two workers on a Ray of this machine, mode sync, beside one thread on the same rows, in the same
batches. ``push`` has the learner lay out the columns for the workers, ``mesh`` an ingest actor. Its
rows are ready in its own memory before it begins, as the learner's are in the other runs.

``apart`` is the mesh with the ways of workers on other nodes, without a network between: columns by
Ray's object store, orders by its calls.

``waiting`` tells what of the learner's time is the machine's: each answer comes two milliseconds
late, as if events were wide, and another process adds arrays. The learner does the same as before.

All are measured in the middle of a run, when everybody has work: from the seventh batch on, since
the first ones find the memory that the others use again, and until as many batches are left as an
ingest actor is ahead, since it would have nothing to do behind these. Beside the clock stands the
CPU time of each process, in microseconds an event, that of Ray's own processes too. ``bound`` is
the local CPU time over that of the busiest process, which free cores can reach where nobody waits.
``held`` is the memory of the largest worker's statistics over that of the local tree's. The best
round of each counts; ``median`` is the ratio of the median rounds.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np

from app.distributed.load import Load
from app.distributed.ray_actor import Place
from app.distributed.ray_line import CallLine, Line
from app.distributed.ray_mesh import AHEAD, RayMesh
from app.distributed.ray_workers import RayWorkers
from app.log import configure
from app.vht_settings import RaySettings
from benchmarks.measurement import Measurement, interleaved, options, report
from benchmarks.neighbour import ADDING, neighbour
from benchmarks.vht import BATCH, Rows, dense_rows
from learner import (
    Beginning,
    Encoder,
    Events,
    LocalResult,
    LocalStatistics,
    StreamingTree,
    Vertical,
    VerticalTree,
)

WORKERS = 2
SETTINGS = RaySettings(cpus_per_worker=0.01, start_seconds=600, object_store_bytes=2**31)
TICKS = os.sysconf("SC_CLK_TCK")


FIRST = 6  # batch that is measured
LATE_SECONDS = 0.002


class Spent(NamedTuple):
    """What the measured batches of a run took, in seconds."""

    wall: float
    learner: float
    ingest: float = 0.0
    workers: tuple[float, ...] = ()
    ray: float = 0.0  # CPU time of all other processes of Ray
    held: tuple[int, ...] = ()
    fetches: int = 0
    questions: int = 0
    hash: str = ""

    @property
    def busiest(self) -> float:
        """CPU seconds of the process that has most to do."""
        return max(self.learner, self.ingest, *self.workers)


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far; one that is gone needs none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def below(pid: int) -> set[int]:
    """Processes that a process has started, and those that these have."""
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    children = {int(child) for thread in threads for child in thread.read_text().split()}
    return children.union(*map(below, children))


def measured_run(
    batches: Iterable[Any], count: int, learn: Callable[[Any], None], actors: list[int]
) -> Spent:
    """Learn all batches; returns what the measured ones took, first the ingest if there is one."""
    others = below(os.getpid()) - set(actors) if actors else set()

    def now() -> list[float]:
        of_ray = sum(map(cpu_seconds, others))
        return [perf_counter(), process_time(), of_ray, *map(cpu_seconds, actors)]

    started = ended = now()
    for number, batch in enumerate(batches):
        if number == FIRST:
            started = now()
        if number == count - AHEAD - 1:
            ended = now()
        learn(batch)
    wall, learner, of_ray, *spent = (end - start for end, start in zip(ended, started, strict=True))
    return Spent(wall, learner, 0.0, tuple(spent), of_ray)


def rows_of(attributes: int, events: int) -> Iterator[tuple[Events, Any]]:
    """What the ingest actor reads: all of it is there before the first batch is asked for."""
    _, batches = dense_rows(attributes, events)
    ready = [Events.of(batch, y, np.zeros(0)) for batch, y in batches]
    return ((events, None) for events in ready)


def local_run(rows: Rows) -> Spent:
    """One thread, no workers."""
    schema, batches = rows
    tree = StreamingTree(Encoder(schema), "vht")

    def learn(batch: Any) -> None:
        rows, y = batch
        tree.learn(rows, y, None, np.empty(len(y), np.int32))

    return measured_run(batches, len(batches), learn, [])._replace(hash=tree.hash())


def push_run(rows: Rows, workers: RayWorkers) -> Spent:
    """The learner lays out the columns."""
    schema, batches = rows
    tree = VerticalTree(StreamingTree(Encoder(schema), "vht"), workers, Vertical(WORKERS))

    def learn(batch: Any) -> None:
        rows, y = batch
        tree.learn(rows, y, None, np.empty(len(y), np.int32))

    spent = measured_run(batches, len(batches), learn, workers.pids)
    return spent._replace(hash=tree.hash(), held=workers.load().held_bytes)


class Apart(RayWorkers):
    """Workers that are reached as if they were on other nodes."""

    def _line(self, actor: Any, of: Place) -> Line:  # noqa: ARG002
        return CallLine(actor)

    def load(self) -> Load:
        """Return the totals, with nodes that nobody is on."""
        return super().load()._replace(nodes=("elsewhere",) * WORKERS)


class Waiting(RayWorkers):
    """Workers that take their time."""

    def answers(self, split_id: int) -> Sequence[LocalResult]:
        """Return them late."""
        time.sleep(LATE_SECONDS)
        return super().answers(split_id)


def waiting_run(rows: Rows, workers: RayWorkers, attributes: int) -> Spent:
    """The mesh, beside other work."""
    with neighbour(ADDING):
        return mesh_run(rows, workers, attributes)


def mesh_run(rows: Rows, workers: RayWorkers, attributes: int) -> Spent:
    """An ingest actor does."""
    schema, batches = rows
    tree = VerticalTree(StreamingTree(Encoder(schema), "vht"), workers, Vertical(WORKERS))
    reading = partial(rows_of, attributes, BATCH * len(batches))
    mesh = RayMesh(SETTINGS, reading, tree.shares, workers.load().nodes)

    def learn(batch: Any) -> None:
        tree.learn_distant(batch, np.empty(len(batch.events.y), np.int32))

    pids = [*workers.pids, mesh.pid]
    spent = measured_run(mesh.batches(tree), len(batches), learn, pids)
    mesh.close()
    *of_workers, ingest = spent.workers
    return spent._replace(
        workers=tuple(of_workers), ingest=ingest, held=workers.load().held_bytes,
        fetches=mesh.fetches, questions=tree.vertical_counters().questions, hash=tree.hash(),
    )  # fmt: skip


class Whole:
    """One worker in this process, which tells how much a tree without workers holds."""

    def __init__(self) -> None:
        self.bytes = 0

    def begin(self, beginnings: list[Beginning]) -> None:
        """Make it, and ask."""
        self.bytes = LocalStatistics(beginnings[0]).state_bytes


def local_bytes(rows: Rows) -> int:
    """Statistics of the tree after all rows, in one place."""
    schema, batches = rows
    tree, whole = StreamingTree(Encoder(schema), "vht"), Whole()
    for batch, y in batches:
        tree.learn(batch, y)
    VerticalTree(tree, whole, Vertical(1))  # type: ignore[arg-type]
    return whole.bytes


def speed(attributes: list[int], rounds: int, numbers: int) -> Iterator[Measurement]:
    """Events a second by the width of the events, best of the rounds."""
    workers, apart, waiting = RayWorkers(SETTINGS), Apart(SETTINGS), Waiting(SETTINGS)
    for d in attributes:
        edges = FIRST + AHEAD + 1  # batches that are not measured
        events = BATCH * max(10, min(40, numbers // d // BATCH))
        rows = dense_rows(d, events + edges * BATCH)
        few = (rows[0], rows[1][: edges + 1])
        local_run(few)  # kernels are loaded
        push_run(few, workers)
        mesh_run(few, workers, d)
        mesh_run(few, apart, d)
        mesh_run(few, waiting, d)
        runs = {
            "local": partial(local_run, rows),
            "ray push p=2 sync": partial(push_run, rows, workers),
            "ray mesh p=2 sync": partial(mesh_run, rows, workers, d),
            "ray mesh p=2 sync, apart": partial(mesh_run, rows, apart, d),
            "ray mesh p=2 sync, waiting": partial(waiting_run, rows, waiting, d),
        }
        spent = interleaved(runs, rounds, f"d = {d}")
        local, whole = min(run.wall for run in spent["local"]), local_bytes(rows)
        usual = median(run.wall for run in spent["local"])
        local_cpu = min(run.learner for run in spent["local"])
        assert len({run.hash for found in spent.values() for run in found}) == 1
        for contender, found in spent.items():
            best = min(found, key=lambda run: run.wall)
            facts: dict[str, Any] = {"events": events, "learner_us": 1e6 * best.learner / events}
            if best.workers:
                facts |= {
                    "median": usual / median(run.wall for run in found),
                    "ingest_us": 1e6 * best.ingest / events,
                    "worker_us": 1e6 * max(best.workers) / events,
                    "ray_us": 1e6 * best.ray / events,
                    "bound": local_cpu / best.busiest,
                    "held": max(best.held) / whole,
                    "fetches": best.fetches,
                    "questions": best.questions,
                }
            yield Measurement(
                "vht ray", contender, events / best.wall, "events/s", local / best.wall, f"d={d}",
                target=">= 0.9" if d >= 10_000 and contender.endswith("sync") else "", facts=facts,
            )  # fmt: skip
    for executor in (waiting, apart, workers):
        executor.close()


def main() -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("--attributes", default="200,1000,10000")
    given = parser.parse_args()
    configure("warning", "console", sys.stderr)
    widths = [int(d) for d in given.attributes.split(",")]
    numbers = 8_000_000 if given.quick else 400_000_000
    report(speed(widths, given.rounds, numbers), given.json)


if __name__ == "__main__":
    main()
