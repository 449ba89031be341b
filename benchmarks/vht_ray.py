"""Trees with workers on Ray: what they cost the learner, and what they hold.

python -m benchmarks.vht_ray [--json] [--quick] [--rounds N] [--attributes 200,1000,10000]

Two workers on a Ray of this machine, mode sync, beside one thread on the same rows. ``push`` cuts
the columns in the learner, ``mesh`` in an ingest actor, whose columns go straight to the workers.
Where a machine has fewer free cores than processes, the clock says little: so the CPU time of each
process stands beside it, in microseconds an event; ``bound`` is the local CPU time over that of the
busiest process, which free cores can reach where nobody waits. ``held`` is the memory of the
largest worker's statistics over that of the local tree's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np

from app.distributed.ray_mesh import RayMesh
from app.distributed.ray_workers import RayWorkers
from app.vht_settings import RaySettings
from benchmarks.measurement import Measurement, interleaved, options, report
from benchmarks.vht import Rows, dense_rows
from learner import (
    Beginning,
    Encoder,
    Events,
    LocalStatistics,
    StreamingTree,
    Vertical,
    VerticalTree,
)

WORKERS = 2
SETTINGS = RaySettings(cpus_per_worker=0.01, start_seconds=600, object_store_bytes=2**31)
TICKS = os.sysconf("SC_CLK_TCK")


class Spent(NamedTuple):
    """What one run took."""

    wall: float
    learner: float
    ingest: float = 0.0
    workers: tuple[float, ...] = ()
    held: tuple[int, ...] = ()
    fetches: int = 0
    hash: str = ""

    @property
    def busiest(self) -> float:
        """CPU seconds of the process that has most to do."""
        return max(self.learner, self.ingest, *self.workers)


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def rows_of(attributes: int, events: int) -> Iterator[tuple[Events, Any]]:
    """What the ingest actor reads: all of it is there before the first batch is asked for."""
    _, batches = dense_rows(attributes, events)
    ready = [Events.of(batch, y, np.zeros(0)) for batch, y in batches]
    return ((events, None) for events in ready)


def local_run(rows: Rows) -> Spent:
    """One thread, no workers."""
    schema, batches = rows
    tree = StreamingTree(Encoder(schema), "vht")
    wall, cpu = perf_counter(), process_time()
    for batch, y in batches:
        tree.learn(batch, y, None, np.empty(len(y), np.int32))
    return Spent(perf_counter() - wall, process_time() - cpu, hash=tree.hash())


def push_run(rows: Rows, workers: RayWorkers) -> Spent:
    """The learner cuts the columns."""
    schema, batches = rows
    tree = VerticalTree(StreamingTree(Encoder(schema), "vht"), workers, Vertical(WORKERS))
    before = [cpu_seconds(pid) for pid in workers.pids]
    wall, cpu = perf_counter(), process_time()
    for batch, y in batches:
        tree.learn(batch, y, None, np.empty(len(y), np.int32))
    workers.settle()
    wall, cpu = perf_counter() - wall, process_time() - cpu
    spent = (cpu_seconds(pid) - was for pid, was in zip(workers.pids, before, strict=True))
    held = workers.load().held_bytes
    return Spent(wall, cpu, 0.0, tuple(spent), held, hash=tree.hash())


def mesh_run(rows: Rows, workers: RayWorkers, attributes: int, events: int) -> Spent:
    """An ingest actor cuts the columns."""
    schema, _ = rows
    tree = VerticalTree(StreamingTree(Encoder(schema), "vht"), workers, Vertical(WORKERS))
    reading = partial(rows_of, attributes, events)
    mesh = RayMesh(SETTINGS, reading, tree.shares, workers.load().nodes)
    pids = [mesh.pid, *workers.pids]
    before = [cpu_seconds(pid) for pid in pids]
    wall, cpu = perf_counter(), process_time()
    for batch in mesh.batches(tree):
        tree.learn_distant(batch, np.empty(len(batch.events.y), np.int32))
    workers.settle()
    wall, cpu = perf_counter() - wall, process_time() - cpu
    ingest, *spent = (cpu_seconds(pid) - was for pid, was in zip(pids, before, strict=True))
    mesh.close()
    held, hashed = workers.load().held_bytes, tree.hash()
    return Spent(wall, cpu, ingest, tuple(spent), held, mesh.fetches, hashed)


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
    workers = RayWorkers(SETTINGS)
    for d in attributes:
        events = max(4000, min(40_000, numbers // d) // 1000 * 1000)
        rows = dense_rows(d, events)
        few = (rows[0], rows[1][:2])
        local_run(few)  # kernels are loaded
        push_run(few, workers)
        mesh_run(few, workers, d, 2000)
        runs = {
            "local": partial(local_run, rows),
            "ray push p=2 sync": partial(push_run, rows, workers),
            "ray mesh p=2 sync": partial(mesh_run, rows, workers, d, events),
        }
        spent = interleaved(runs, rounds, f"d = {d}")
        local, whole = min(run.wall for run in spent["local"]), local_bytes(rows)
        local_cpu = min(run.learner for run in spent["local"])
        assert len({run.hash for found in spent.values() for run in found}) == 1
        for contender, found in spent.items():
            wall = min(run.wall for run in found)
            best = min(found, key=lambda run: run.busiest)
            facts: dict[str, Any] = {"events": events, "learner_us": 1e6 * best.learner / events}
            if best.workers:
                facts |= {
                    "ingest_us": 1e6 * best.ingest / events,
                    "worker_us": 1e6 * max(best.workers) / events,
                    "bound": local_cpu / best.busiest,
                    "held": max(best.held) / whole,
                    "fetches": best.fetches,
                }
            yield Measurement(
                "vht ray", contender, events / wall, "events/s", local / wall, f"d={d}",
                target=">= 0.9" if d >= 10_000 and best.workers else "", facts=facts,
            )  # fmt: skip
    workers.close()


def main() -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("--attributes", default="200,1000,10000")
    given = parser.parse_args()
    widths = [int(d) for d in given.attributes.split(",")]
    numbers = 8_000_000 if given.quick else 80_000_000
    report(speed(widths, given.rounds, numbers), given.json)


if __name__ == "__main__":
    main()
