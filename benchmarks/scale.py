"""Does learning stay as fast and as small as the tree, the events and the vocabulary grow.

python -m benchmarks.scale [--json] [--quick] [--data FOLDER]

leaves   10 million events and 100,000 leaves: nanoseconds an event, beside those of a second tree
         that is not asked to split while it is timed, and of a loop that knows the leaves and only
         writes there; their slope by doublings of the leaves, bytes of the arrays beside the bytes
         of the counts in them, and the peak
width    784 numbers and 10 classes (mnist.csv.gz of the folder, or made-up images)
sparse   sets of words out of 100, 1,000 and 10,000: an event should cost what it holds
"""

from __future__ import annotations

import gzip
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from time import thread_time

import numba
import numpy as np
import numpy.typing as npt

from app.screen import counting, error_console
from benchmarks.measurement import Measurement, options, report
from learner import Batch, Codes, Encoder, Feature, Kind, Schema, StreamingTree
from learner.kernels.tree import MISSING, NODES, SLOTS
from streams import open_stream

EVENTS, QUICK_EVENTS = 10_000_000, 600_000
CHUNK = 100_000
BATCH = 1000
NOISE = 0.3  # of the labels: no leaf is ever pure, and all go on splitting
GROWING = {"n_min": 100.0, "tau": 1.0}  # every attempt ends in a tie, and splits
MIXED = {"classes": 5, "nominal": 10, "numeric": 10}
PIXELS, DIGITS = 784, 10

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


def learn(tree: StreamingTree, batch: Batch, y: Codes) -> float:
    """CPU seconds to learn a chunk in batches."""
    parts = [(batch.part(at, at + BATCH), y[at : at + BATCH]) for at in range(0, len(y), BATCH)]
    began = thread_time()
    for part, labels in parts:
        tree.learn(part, labels)
    return thread_time() - began


def count_bytes(tree: StreamingTree) -> int:
    """Bytes of the counts themselves: of known classes, values and tokens, of nodes in use."""
    arrays, encoder = tree._tree, tree.encoder
    of_class = (MISSING + 1) * arrays.moments.shape[3] + sum(encoder.value_counts())
    of_class += encoder.token_count
    slots, nodes, classes = int(arrays.counts[SLOTS]), int(arrays.counts[NODES]), encoder.classes
    return 8 * len(classes) * (slots * of_class + 2 * nodes)


def attempts_of(tree: StreamingTree) -> int:
    """How often a leaf was asked to split."""
    counters = tree.counters()
    return counters.splits_bound + counters.splits_tie + counters.no_split


@numba.njit
def write_rows(
    node: Floats, votes: Floats, moments: Floats, values: Floats, leaf: Places, label: Places
) -> None:
    """What an event writes to at its leaf, and nothing else."""
    for i in range(len(leaf)):
        at, k = leaf[i], label[i]
        node[at, 0] += 1.0
        votes[at, k] += 1.0
        for j in range(moments.shape[2] - 1):  # not those of gaps
            for column in range(moments.shape[3]):
                moments[at, k, j, column] += 1.0
        for column in range(0, values.shape[2], 5):
            values[at, k, column] += 1.0


def writing_alone(tree: StreamingTree, chunks: list[tuple[Batch, Codes]]) -> float:
    """Nanoseconds an event of a loop that knows its leaf, and writes as much in such arrays."""
    of, snapshot = tree._tree, tree.snapshot()
    used, slots = int(of.counts[NODES]), int(of.counts[SLOTS])
    place = np.zeros(int(of.node["id"][:used].max()) + 1, np.int64)
    place[of.node["id"][:used]] = np.arange(used)
    leaf = [of.node["slot"][place[snapshot.leaves(batch)]].astype(np.int64) for batch, _ in chunks]
    arrays = (
        np.zeros((slots, 16)),
        *(np.zeros((slots, *array.shape[1:])) for array in (of.votes, of.moments, of.values)),
    )
    seconds = []
    for at, (_, y) in zip(leaf, chunks, strict=True):  # the first one compiles
        label = y.astype(np.int64)
        began = thread_time()
        write_rows(*arrays, at, label)
        seconds.append(thread_time() - began)
    return float(np.median(seconds[1:])) / CHUNK * 1e9


def held_bytes(tree: StreamingTree) -> int:
    """Bytes of all arrays of the tree, with their reserve."""
    return sum(array.nbytes for array in tree._tree)


def peak_bytes() -> int:
    """The most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def noisy_chunks(events: int) -> Iterator[tuple[Batch, Codes]]:
    """The stream that the tree grows on."""
    stream, rng = open_stream("rtg", **MIXED), np.random.default_rng(1)
    for _ in range(0, events, CHUNK):
        batch, y = stream.take(CHUNK)
        random = rng.integers(0, 5, CHUNK).astype(np.int32)
        yield batch, np.where(rng.random(CHUNK) < NOISE, random, y)


def standing_still(schema: Schema, events: int, step: int) -> Iterator[Measurement]:
    """What an event costs a tree of any size that is not asked to split, and what memory does."""
    tree, probe = StreamingTree(Encoder(schema), "vfdt", **GROWING), open_stream("rtg", **MIXED)
    probes = [probe.take(CHUNK) for _ in range(4)]
    for number, chunk in enumerate(noisy_chunks(events), 1):
        learn(tree, *chunk)
        if number % step:
            continue
        size, wait = tree.shape().leaves, tree._tree.node["wait"].copy()
        tree._tree.node["wait"] = np.inf
        seconds = [learn(tree, *other) for other in probes]
        tree._tree.node["wait"] = wait
        assert tree.shape().leaves == size
        case, facts = f"{size:,} leaves, no attempts", {"leaves": size}
        ours = float(np.median(seconds[1:])) / CHUNK * 1e9
        alone = writing_alone(tree, probes)
        yield Measurement("scale, leaves", "vfdt", ours, "ns/event", case=case, facts=facts)
        yield Measurement("scale, leaves", "writing to the same leaves", alone, "ns/event",
                          alone / ours, case)  # fmt: skip


def leaves(quick: bool) -> Iterator[Measurement]:
    """Grow a tree for as long as it takes."""
    events = QUICK_EVENTS if quick else EVENTS
    schema = open_stream("rtg", **MIXED).schema
    tree = StreamingTree(Encoder(schema), "vfdt", **GROWING)
    learn(StreamingTree(Encoder(schema), "vfdt", **GROWING), *next(noisy_chunks(CHUNK)))
    found, base = [], peak_bytes()
    with counting(error_console(), "learned", events) as tell:
        for number, (batch, y) in enumerate(noisy_chunks(events)):
            done, before = number * CHUNK, attempts_of(tree)
            seconds, shape = learn(tree, batch, y), tree.shape()
            tried = (attempts_of(tree) - before) / CHUNK
            found.append((done + CHUNK, shape.leaves, seconds / CHUNK * 1e9, shape.depth, tried))
            tell(done + CHUNK)
    peak = peak_bytes() - base
    step = max(1, len(found) // 8)
    for end in range(step, len(found) + 1, step):
        learned, size, _, depth, _ = found[end - 1]
        part = found[end - step : end]
        median = float(np.median([line[2] for line in part]))
        facts = {"leaves": size, "depth": depth, "attempts": float(np.mean([p[4] for p in part]))}
        case = f"{learned:,} events"
        yield Measurement("scale, leaves", "vfdt", median, "ns/event", case=case, facts=facts)
    settled = np.array(found[len(found) // 20 :])
    doublings, ns, tried = np.log2(settled[:, 1]), settled[:, 2], settled[:, 4]
    slope = np.polyfit(doublings, ns, 1)[0]
    yield Measurement("scale, leaves", "vfdt", float(slope), "ns/doubling of the leaves")
    # Arrays that grow make single chunks slow: a fit to the calm half of the chunks, twice.
    fit = np.column_stack([doublings, tried, np.ones(len(ns))])
    calm = np.ones(len(ns), bool)
    for _ in range(2):
        weights = np.linalg.lstsq(fit[calm], ns[calm], rcond=None)[0]
        off = np.abs(ns - fit @ weights)
        calm = off <= np.median(off)
    case = "at equal attempts"
    yield Measurement("scale, leaves", "vfdt", weights[0], "ns/doubling of the leaves", case=case)
    yield Measurement("scale, leaves", "vfdt", weights[1], "ns/attempt that splits", case=case)
    held, counts = held_bytes(tree), count_bytes(tree)
    yield Measurement(
        "scale, memory", "bytes of the counts", held, "bytes", counts / held, "all arrays",
        ">= 0.83", {"over_counts": held / counts, "of_a_leaf": held / tree.shape().leaves},
    )  # fmt: skip
    yield Measurement("scale, memory", "bytes of the arrays", peak, "bytes", held / peak,
                      "peak of the process while it grew")  # fmt: skip
    del tree
    yield from standing_still(schema, events, step)


def images(folder: Path | None, count: int) -> tuple[npt.NDArray[np.float64], Codes, str]:
    """Digits of a folder, or made-up ones: a blurred stroke of each class and noise."""
    if folder is not None:
        with gzip.open(folder / "mnist.csv.gz", "rt") as lines:
            table = np.loadtxt(lines, delimiter=",", skiprows=1, max_rows=count)
        return np.ascontiguousarray(table[:, :PIXELS]), table[:, PIXELS].astype(np.int32), "mnist"
    rng = np.random.default_rng(1)
    shapes = np.clip(rng.normal(0.0, 1.0, (DIGITS, PIXELS)), 0.0, None) * 128.0
    y = rng.integers(0, DIGITS, count).astype(np.int32)
    pixels = shapes[y] * rng.random((count, PIXELS)) + rng.normal(0.0, 20.0, (count, PIXELS))
    return np.clip(np.round(pixels), 0.0, 255.0), y, "made-up images"


def width(folder: Path | None, rounds: int, quick: bool) -> Iterator[Measurement]:
    """All pixels, and a tenth of them: the cost of an event should be in proportion."""
    X, y, name = images(folder, 5000 if quick else 30_000)
    each: dict[int, float] = {}
    for columns in (PIXELS // 10, PIXELS):
        features = tuple(Feature(f"p{i}", Kind.NUMERIC) for i in range(columns))
        schema = Schema(features, tuple(str(digit) for digit in range(DIGITS)))
        part = np.ascontiguousarray(X[:, :: PIXELS // columns][:, :columns])
        batch = Batch(part, np.empty((len(y), 0), np.int32), np.zeros(len(y) + 1, np.int64),
                      np.empty(0, np.int32))  # fmt: skip
        best = min(
            learn(tree := StreamingTree(Encoder(schema), "vfdt"), batch, y) for _ in range(rounds)
        )
        each[columns] = best / len(y) * 1e9 / columns
        yield Measurement(
            "scale, width", "vfdt", best / len(y) * 1e9, "ns/event", None,
            f"{name}, {columns} numbers",
            facts={"ns_a_number": each[columns], "leaves": tree.shape().leaves,
                   "attempts": tree.counters().split_attempts,
                   "held_over_counts": held_bytes(tree) / count_bytes(tree)},
        )  # fmt: skip
    few, many = each.values()
    yield Measurement("scale, width", "a tenth of the numbers", many, "ns/number", few / many, name)


def sparse(rounds: int, quick: bool) -> Iterator[Measurement]:
    """Vocabularies of three sizes; without attempts, and with those of vfdt."""
    count, each = 20_000 if quick else 200_000, {}
    for words in (100, 1000, 10_000):
        stream = open_stream("tweets", words=words)
        batch, y = stream.take(count)
        held = len(batch.sparse_index) / count
        for n_min in (1e9, 200.0):
            best = min(
                learn(tree := StreamingTree(Encoder(stream.schema), "vfdt", n_min=n_min), batch, y)
                for _ in range(rounds)
            )
            each[words, n_min] = best / count * 1e9 / held
            yield Measurement(
                "scale, sparse", "vfdt", best / count * 1e9, "ns/event", None,
                f"{words:,} words, {'no attempts' if n_min > 1e6 else 'n_min 200'}",
                facts={"tokens_held": held, "ns_a_token": each[words, n_min],
                       "leaves": tree.shape().leaves},
            )  # fmt: skip
    few, many = each[100, 1e9], each[10_000, 1e9]
    yield Measurement("scale, sparse", "100 words", many, "ns/token held", few / many,
                      "10,000 words, no attempts")  # fmt: skip


def main(argv: list[str]) -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("--data", type=Path, help="a folder with mnist.csv.gz")
    parser.add_argument("--only", choices=("leaves", "width", "sparse"), help="one of the three")
    given = parser.parse_args(argv)
    parts = {
        "leaves": lambda: leaves(given.quick),
        "width": lambda: width(given.data, given.rounds, given.quick),
        "sparse": lambda: sparse(given.rounds, given.quick),
    }
    chosen = [given.only] if given.only else list(parts)
    report((line for name in chosen for line in parts[name]()), given.json)


if __name__ == "__main__":
    main(sys.argv[1:])
