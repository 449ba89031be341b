"""How long learning stands still for a snapshot and for a checkpoint, and what both cost.

python -m benchmarks.snapshot [--json] [--quick] [--rounds N] [--nodes N]

A large tree with naive Bayes leaves, whose statistics are part of a snapshot, learns so many events
between two publications. Ours copies the rows that they changed, twice, because two copies take
turns. After each publication come its contenders, on the same tree: all of it copied, the rows that
changed gathered once by numpy, and as many bytes copied from one place. The clock is the CPU time
of the learning thread; a value is the median, and the 99th percentile stands beside it.

A checkpoint is a copy of the model, for which learning stands still, and a file that another thread
writes. The contender writes and syncs the same bytes, ready in memory; clocks are on the wall.
While ours is written the tree learns on: how fast, beside a tree that nobody saves, comes last.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter, process_time, thread_time
from typing import Any

import numpy as np

from app.checkpoint import Checkpoint, CheckpointFolder
from app.handover import Handover
from benchmarks.measurement import OURS, Measurement, interleaved, options, report
from learner import Batch, Codes, Encoder, Feature, Kind, Schema, StreamingTree, seal
from learner.publication import OF_NODES, OF_SLOTS, Publisher

NUMERIC, NOMINAL, VALUES, CLASSES = 5, 5, 5, 2
BETWEEN = (10, 100, 1000)  # events from one publication to the next
CHUNK = 20_000
GROWTH: dict[str, Any] = {"n_min": 100.0, "tau": 1.0, "leaf_predictor": "nba"}


def events(seed: int, count: int) -> tuple[Batch, Codes]:
    """Rows and labels that have nothing to do with each other: leaves split for ever."""
    rng = np.random.default_rng(seed)
    batch = Batch(
        rng.random((count, NUMERIC)),
        rng.integers(0, VALUES, (count, NOMINAL), np.int32),
        np.zeros(count + 1, np.int64),
        np.zeros(0, np.int32),
    )
    return batch, rng.integers(0, CLASSES, count, np.int32)


def grown(nodes: int, leaves: str = "nba") -> StreamingTree:
    """A tree of so many nodes or a few more, that answers by naive Bayes unless said otherwise."""
    values = tuple(f"v{v}" for v in range(VALUES))
    features = [Feature(f"x{i}", Kind.NUMERIC) for i in range(NUMERIC)]
    features += [Feature(f"c{i}", Kind.NOMINAL, values) for i in range(NOMINAL)]
    schema = Schema(tuple(features), tuple(range(CLASSES)))
    tree = StreamingTree(Encoder(schema), **GROWTH | {"leaf_predictor": leaves})
    seed = 0
    while tree.shape().nodes < nodes:
        tree.learn(*events(seed, min(CHUNK, nodes)))
        seed += 1
    return tree


def timed(work: Callable[[], Any]) -> float:
    """CPU seconds of this thread."""
    began = thread_time()
    work()
    return thread_time() - began


class Rows:
    """What the newest publication of a tree had to copy."""

    def __init__(self, tree: StreamingTree) -> None:
        missed = tree._publisher._copies[0]._missed  # of the one that waits for its turn
        nodes = missed[-1].nodes if missed else np.arange(tree.shape().nodes)
        slots = missed[-1].slots if missed else np.arange(tree.shape().active_leaves)
        arrays = tree._tree._asdict()
        parts = [(arrays[name], nodes) for name in OF_NODES]
        parts += [(arrays[name], slots) for name in OF_SLOTS]
        self._parts = [(part, rows) for part, rows in parts if part[:1].nbytes]
        self.size_bytes = sum(len(rows) * part[:1].nbytes for part, rows in self._parts)

    def gather(self) -> None:
        """Copy every row once."""
        for part, rows in self._parts:
            part.take(rows, axis=0)


def publications(tree: StreamingTree, between: int, count: int) -> Iterator[Measurement]:
    """Pauses of so many publications, each after so many events."""
    seconds: dict[str, list[float]] = {}
    changed, held = [], tree.snapshot()
    held = tree.snapshot()  # the second of the two copies
    memory, target = np.ones(1 << 27, np.uint8), np.ones(1 << 26, np.uint8)
    for seed in range(count):
        tree.learn(*events(1_000_000 + seed, between))

        def ours() -> None:
            nonlocal held
            held = tree.snapshot()

        def whole() -> None:
            Publisher().publish(
                tree._tree, tree._handles[:2], tree._sizes, tree._layout, tree.encoder,
                tree.variant, tree.params,
            )  # fmt: skip

        pauses = {OURS: timed(ours), "the whole tree copied": timed(whole)}
        rows = Rows(tree)
        at = seed * rows.size_bytes % len(target)  # elsewhere each time: not in a cache
        source = memory[at : at + min(rows.size_bytes, len(target))]
        pauses["its rows gathered once"] = timed(rows.gather)
        pauses["memory copy of as many bytes"] = timed(
            lambda source=source: np.copyto(target[: len(source)], source)
        )
        changed.append(rows.size_bytes)
        for name, pause in pauses.items():
            seconds.setdefault(name, []).append(pause)
    shape = held.shape
    for name, pauses_of in seconds.items():
        median = float(np.median(pauses_of))
        yield Measurement(
            "publication",
            name,
            1e3 * median,
            "ms",
            None if name == OURS else median / float(np.median(seconds[OURS])),
            case=f"{between} events, {shape.nodes // 1000 * 1000:,} nodes",
            facts={
                "p99_ms": 1e3 * float(np.percentile(pauses_of, 99)),
                "changed_bytes": int(np.median(changed)),
            },
        )


class Saving:
    """Checkpoints of one tree into one folder."""

    def __init__(self, tree: StreamingTree, folder: Path) -> None:
        self.tree = tree
        self.folder = CheckpointFolder(folder, keep=1)
        self.pauses: list[float] = []
        self._plain = folder / "plain"
        parts = list(tree.to_pieces())
        self._content = b"".join([*parts, seal(parts)[0]])

    def ours(self) -> tuple[float, float]:
        """Seconds until a checkpoint is safe, on the wall and of the CPU."""
        began, used = perf_counter(), process_time()
        self._begun().join()
        return perf_counter() - began, process_time() - used

    def plain(self) -> tuple[float, float]:
        """Seconds until as many bytes are safe, on the wall and of the CPU."""
        began, used = perf_counter(), process_time()
        with self._plain.open("wb") as file:
            file.write(self._content)
            file.flush()
            os.fsync(file.fileno())
        return perf_counter() - began, process_time() - used

    def _begun(self) -> threading.Thread:
        """The thread that writes a checkpoint whose model is copied by now."""
        began = perf_counter()
        parts, copied = self.tree.to_pieces(), Handover()
        events = self.tree.counters().events
        taken = Checkpoint.taken(copied, offsets={0: 1}, topic="t", identity=None, events=events)
        writer = threading.Thread(target=self.folder.save, args=(taken,))
        writer.start()
        copied.fill(parts)
        self.pauses.append(perf_counter() - began)
        return writer

    @property
    def size_bytes(self) -> int:
        """Size of the model."""
        return len(self._content)

    def learning(self, *, saving: bool) -> float:
        """Events learned a second, with or without checkpoints being written all the time."""
        batch, labels = events(7, CHUNK)
        writer = threading.Thread()
        learned, began = 0, perf_counter()
        while perf_counter() - began < 2.0:
            if saving and not writer.is_alive():
                writer = self._begun()
            for at in range(0, CHUNK, 1000):
                self.tree.learn(batch.part(at, at + 1000), labels[at : at + 1000])
            learned += CHUNK
        seconds = perf_counter() - began
        if writer.is_alive():
            writer.join()
        return learned / seconds


def checkpoints(tree: StreamingTree, rounds: int) -> Iterator[Measurement]:
    """The time until a checkpoint is safe, and how learning goes on meanwhile."""
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as folder:
        saving = Saving(tree, Path(folder))
        case = f"{tree.shape().nodes // 1000 * 1000:,} nodes"
        contenders = {OURS: saving.ours, "plain write and sync": saving.plain}
        took = interleaved(contenders, 3 * rounds, "saving")
        best = {name: [min(clock) for clock in zip(*of, strict=True)] for name, of in took.items()}
        (own, own_cpu), (plain, plain_cpu) = best.values()
        pause = 1e3 * float(np.median(saving.pauses))
        worst = 1e3 * float(np.percentile(saving.pauses, 99))
        facts = {"pause_ms": pause, "pause_p99_ms": worst, "bytes": saving.size_bytes}
        facts |= {"cpu_ms": 1e3 * own_cpu}
        yield Measurement("checkpoint", OURS, 1e3 * own, "ms", case=case, facts=facts)
        yield Measurement(
            "checkpoint", "plain write and sync", 1e3 * plain, "ms", plain / own, case,
            target=">= 0.67", facts={"cpu_ms": 1e3 * plain_cpu},
        )  # fmt: skip
        speeds = interleaved(
            {
                OURS: lambda: saving.learning(saving=True),
                "never saved": lambda: saving.learning(saving=False),
            },
            rounds,
            "learning",
        )
        saved, never = (max(found) for found in speeds.values())
        yield Measurement("learning while saving", OURS, saved, "events/s", case=case)
        yield Measurement(
            "learning while saving", "never saved", never, "events/s", saved / never, case=case
        )


def measure(sizes: Sequence[int], count: int, rounds: int) -> Iterator[Measurement]:
    """All questions, on trees of these sizes; checkpoints of the largest."""
    for nodes in sizes:
        tree = grown(nodes)
        for between in BETWEEN:
            yield from publications(tree, between, count * rounds)
    yield from checkpoints(tree, rounds)


def main(argv: list[str]) -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("--nodes", type=int, default=100_000, help="nodes of the larger tree")
    given = parser.parse_args(argv)
    nodes = min(given.nodes, 20_000) if given.quick else given.nodes
    count = 20 if given.quick else 70
    report(measure((nodes // 10, nodes), count, given.rounds), given.json)


if __name__ == "__main__":
    main(sys.argv[1:])
