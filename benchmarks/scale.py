"""Does learning stay as fast and as small as the tree, the events and the vocabulary grow.

python -m benchmarks.scale [--json] [--quick] [--data FOLDER]

leaves   10 million events and 100,000 leaves: nanoseconds an event, their slope by doublings of
         the leaves, bytes of the arrays beside the bytes of the counts in them, and the peak
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
PIXELS, DIGITS = 784, 10


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


def held_bytes(tree: StreamingTree) -> int:
    """Bytes of all arrays of the tree, with their reserve."""
    return sum(array.nbytes for array in tree._tree)


def peak_bytes() -> int:
    """The most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def leaves(quick: bool) -> Iterator[Measurement]:
    """Grow a tree for as long as it takes."""
    events, rng = QUICK_EVENTS if quick else EVENTS, np.random.default_rng(1)
    stream = open_stream("rtg", classes=5, nominal=10, numeric=10)
    tree = StreamingTree(Encoder(stream.schema), "vfdt", **GROWING)
    learn(StreamingTree(Encoder(stream.schema), "vfdt", **GROWING), *stream.take(CHUNK))
    found, base = [], peak_bytes()
    with counting(error_console(), "learned", events) as tell:
        for done in range(0, events, CHUNK):
            batch, y = stream.take(CHUNK)
            random = rng.integers(0, 5, CHUNK).astype(np.int32)
            y = np.where(rng.random(CHUNK) < NOISE, random, y)
            seconds, shape = learn(tree, batch, y), tree.shape()
            found.append((done + CHUNK, shape.leaves, seconds / CHUNK * 1e9, shape.depth))
            tell(done + CHUNK)
    step = max(1, len(found) // 8)
    for end in range(step, len(found) + 1, step):
        learned, size, _, depth = found[end - 1]
        median = float(np.median([line[2] for line in found[end - step : end]]))
        yield Measurement("scale, leaves", "vfdt", median, "ns/event", case=f"{learned:,} events",
                          facts={"leaves": size, "depth": depth})  # fmt: skip
    settled = found[len(found) // 20 :]
    slope = np.polyfit(np.log2([line[1] for line in settled]), [line[2] for line in settled], 1)[0]
    yield Measurement("scale, leaves", "vfdt", float(slope), "ns/doubling of the leaves")
    held, counts = held_bytes(tree), count_bytes(tree)
    yield Measurement(
        "scale, memory", "bytes of the counts", held, "bytes", counts / held, "all arrays",
        ">= 0.83", {"over_counts": held / counts, "of_a_leaf": held / tree.shape().leaves},
    )  # fmt: skip
    peak = peak_bytes() - base
    yield Measurement("scale, memory", "bytes of the arrays", peak, "bytes", held / peak,
                      "peak of the process while it grew")  # fmt: skip


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
