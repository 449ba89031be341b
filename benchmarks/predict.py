"""Nanoseconds to predict a row: rows in arrays to labels, beside the peers that are installed.

python -m benchmarks.predict [--json] [--quick] [--rounds N] [--streams a,b]

Every contender has learned the same rows and predicts the same ones, in memory and encoded before
the clock starts, which is the CPU time of its own thread. MOA runs getVotesForInstance in its own
JVM (capymoa's jar; needs java), river its predict_one, scikit-learn its compiled tree, grown to the
same mean depth, with the rows as it likes them (float32). Depth and accuracy stand beside speed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import thread_time
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measurement import OURS, Measurement, interleaved, options, report
from learner import Batch, Encoder, Kind, Snapshot, StreamingTree
from streams import Stream, open_stream

QUESTION = "predict"
STREAMS: dict[str, Callable[[], Stream]] = {
    "agrawal": lambda: open_stream("agrawal", function=2),
    "rtg": lambda: open_stream("rtg", classes=2, nominal=5, numeric=5),
    "rbf10": lambda: open_stream("rbf", classes=5, attributes=10, centroids=50),
}
MOA_LEAVES = {"mc": "MC", "nba": "NBAdaptive"}
REPEATS = 5
RIVER_ROWS = 2000


class Data(NamedTuple):
    """The same rows in every form."""

    stream: Stream
    batch: Batch
    labels: Any
    matrix: Any  # [row, feature] in schema order, nominal values as codes
    trained: int  # rows that are learned; all are predicted


class Result(NamedTuple):
    """One contender."""

    nanoseconds: float
    facts: dict[str, Any]


def data_of(stream: Stream, trained: int) -> Data:
    """Take rows from a stream."""
    batch, labels = stream.take(trained)
    schema = stream.schema
    matrix = np.empty((trained, len(schema.features)))
    matrix[:, schema.of_kind(Kind.NUMERIC)] = batch.numeric
    matrix[:, schema.of_kind(Kind.NOMINAL)] = batch.nominal
    return Data(stream, batch, labels, matrix, trained)


def best_of(work: Callable[[], Any], rows: int) -> float:
    """Nanoseconds a row of the best repetition."""
    best = float("inf")
    for _ in range(REPEATS):
        began = thread_time()
        work()
        best = min(best, thread_time() - began)
    return best / rows * 1e9


def ours(data: Data, snapshot: Snapshot, depth: float, rows: int) -> Result:
    """Our labels, so many rows at a time."""
    parts = [data.batch.part(at, at + rows) for at in range(0, data.trained, rows)]
    right = float((snapshot.predict(data.batch) == data.labels).mean())
    took = best_of(lambda: [snapshot.predict(part) for part in parts], data.trained)
    return Result(took, {"depth": depth, "nodes": snapshot.shape.nodes, "accuracy": right})


def mean_depth(snapshot: Snapshot, batch: Batch) -> float:
    """Tests that a row passes."""
    depth = {view.id: view.depth for view in snapshot.walk()}
    return float(np.mean([depth[leaf] for leaf in snapshot.leaves(batch).tolist()]))


def moa(data: Data, file: Path, learner: str, passes: int) -> Result:
    """MOA's own loop in its own JVM."""
    jar = next(Path(str(find_spec("capymoa").submodule_search_locations[0])).rglob("moa.jar"))  # type: ignore[union-attr,index]
    driver = Path(__file__).with_name("MoaPredict.java")
    words = ["java", "-Xmx2g", "-cp", jar, driver, file, data.trained, passes, learner]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    took = found.pop("seconds") / data.trained * 1e9
    return Result(took, found)


def write_for_moa(data: Data, file: Path) -> None:
    """Rows as MoaPredict.java reads them."""
    features = data.stream.schema.features
    values = [len(f.values) if f.kind == Kind.NOMINAL else 0 for f in features]
    classes = len(data.stream.schema.classes)
    head = np.array([data.trained, len(features), classes, *values], "<i4")
    file.write_bytes(
        head.tobytes() + data.matrix.astype("<f8").tobytes() + data.labels.astype("<i4").tobytes()
    )


def river_model(data: Data, leaves: str) -> Callable[[], Result]:
    """River's tree, which learns a tenth of the rows and predicts a few, for it is slow."""
    from river import tree

    features = data.stream.schema.features
    names = [feature.name for feature in features]
    rows = [
        dict(zip(names, row, strict=True)) for row in data.matrix[: data.trained // 10].tolist()
    ]
    model = tree.HoeffdingTreeClassifier(
        grace_period=200, delta=1e-7, tau=0.05, leaf_prediction=leaves,
        nominal_attributes=[f.name for f in features if f.kind == Kind.NOMINAL],
    )  # fmt: skip
    for row, label in zip(rows, data.labels.tolist(), strict=False):
        model.learn_one(row, label)
    asked = rows[:RIVER_ROWS]
    facts = {"nodes": model.n_nodes}
    return lambda: Result(best_of(lambda: [model.predict_one(r) for r in asked], len(asked)), facts)


def sklearn_model(data: Data, depth: float) -> Any:
    """A compiled tree whose mean depth on the rows is next to ours."""
    from sklearn.tree import DecisionTreeClassifier

    rows = data.matrix.astype(np.float32)
    sizes = [round(2 ** (power / 2)) for power in range(4, 24)]
    best: tuple[float, Any, float] | None = None
    for leaves in sizes:
        model = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=1)
        model.fit(rows[:50_000], data.labels[:50_000])
        found = float(np.diff(model.decision_path(rows[:10_000]).indptr).mean()) - 1
        if best is None or abs(found - depth) < best[0]:
            best = abs(found - depth), model, found
        if found > depth:
            break
    assert best is not None
    return best[1:]


def sklearn_results(data: Data, depth: float) -> dict[str, Callable[[], Result]]:
    """Its predict, and below it the walk alone, which gives leaves and no labels."""
    model, found = sklearn_model(data, depth)
    rows = data.matrix.astype(np.float32)
    facts = {"depth": found, "nodes": model.tree_.node_count}

    def run(work: Callable[[Any], Any]) -> Result:
        return Result(best_of(lambda: work(rows), len(rows)), facts)

    return {
        "scikit-learn": partial(run, model.predict),
        "scikit-learn, tree_.apply": partial(run, model.tree_.apply),
    }


def measure(
    name: str, leaves: str, trained: int, rounds: int, folder: Path
) -> Iterator[Measurement]:
    """All contenders on one stream with one kind of leaves."""
    data = data_of(STREAMS[name](), trained)
    tree = StreamingTree(Encoder(data.stream.schema), leaf_predictor=leaves)
    tree.learn(data.batch, data.labels)
    snapshot = tree.snapshot()
    snapshot.predict(data.batch)  # compiled, and laid out, before the clock
    depth = mean_depth(snapshot, data.batch)
    contenders: dict[str, Callable[[], Result]] = {
        OURS: partial(ours, data, snapshot, depth, trained),
        f"{OURS}, 1,000 rows at a time": partial(ours, data, snapshot, depth, 1000),
    }
    if shutil.which("java") and find_spec("capymoa"):
        file = folder / f"{name}.bin"
        write_for_moa(data, file)
        learner = f"trees.HoeffdingTree -l {MOA_LEAVES[leaves]}"
        contenders["MOA"] = partial(moa, data, file, learner, 2 * REPEATS)
    if find_spec("river"):
        contenders["river"] = river_model(data, leaves)
    if find_spec("sklearn") and leaves == "mc":
        contenders |= sklearn_results(data, depth)
    results = interleaved(contenders, rounds, f"{name}, {leaves}")
    best = {who: min(found) for who, found in results.items()}
    for who, (took, facts) in best.items():
        ratio = None if who == OURS else took / best[OURS].nanoseconds
        goal = "> 1" if who in ("MOA", "river", "scikit-learn") else ""
        yield Measurement(QUESTION, who, took, "ns/row", ratio, f"{name}, {leaves}", goal, facts)


def main() -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("--streams", default=",".join(STREAMS), help="names, with commas")
    given = parser.parse_args()
    for peer in ("river", "sklearn", "capymoa"):
        if not find_spec(peer):
            print(f"{peer} is not installed, and left out", file=sys.stderr)
    trained, rounds = (50_000, 1) if given.quick else (200_000, given.rounds)
    with tempfile.TemporaryDirectory(prefix="livetree-predict-") as folder:
        report(
            (
                measurement
                for name in given.streams.split(",")
                for leaves in MOA_LEAVES
                for measurement in measure(name, leaves, trained, rounds, Path(folder))
            ),
            given.json,
        )


if __name__ == "__main__":
    main()
