"""Events a second of learning, beside the peers that are installed.

python -m benchmarks.learn [--json] [--events N] [--rounds N] [--streams a,b] [--set key=value]

Every contender gets the same rows, in memory, encoded before the clock starts. Rounds are
interleaved, the best of each counts, and the clock is the CPU time of the learning thread, so that
other load hits all alike. Accuracy and size stand beside speed: nobody wins by learning less.
River comes with the extra ``peers`` and learns a tenth of the events, since it is much slower.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from time import thread_time
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from learner import Batch, Codes, Encoder, Kind, StreamingTree
from streams import Stream, open_stream

STREAMS: dict[str, Callable[[], Stream]] = {
    "rtg": lambda: open_stream("rtg", classes=2, nominal=5, numeric=5),
    "sea": lambda: open_stream("sea"),
    "agrawal": lambda: open_stream("agrawal", function=2),
    "led": lambda: open_stream("led"),
    "rbf50": lambda: open_stream("rbf", classes=5, attributes=50, centroids=50),
    "waveform21": lambda: open_stream("waveform21"),
}
MOA_POLICIES = {"new_leaf": "inherit", "null_merit": "minus_inf"}


class Result(NamedTuple):
    """One contender on one stream."""

    events: int
    seconds: float
    accuracy: float
    nodes: int


def livetree(params: dict[str, Any]) -> Callable[[Stream, Batch, Codes], Result]:
    """Our tree with these parameters, trained in batches of 1,000 as the service does."""

    def run(stream: Stream, batch: Batch, labels: Codes) -> Result:
        tree = StreamingTree(Encoder(stream.schema), **params)
        parts = [
            (batch.part(at, min(at + 1000, len(labels))), labels[at : at + 1000])
            for at in range(0, len(labels), 1000)
        ]
        guesses = [np.empty(len(part_labels), np.int32) for _, part_labels in parts]
        began = thread_time()
        for (part, part_labels), guess in zip(parts, guesses, strict=True):
            tree.learn(part, part_labels, predicted=guess)
        seconds = thread_time() - began
        right = np.concatenate(guesses) == labels
        return Result(len(labels), seconds, float(right.mean()), tree.shape().nodes)

    return run


def river(stream: Stream, batch: Batch, labels: Codes) -> Result:
    """River's Hoeffding tree, majority leaves, test then train."""
    from river import tree as river_tree

    count = len(labels) // 10
    schema = stream.schema
    names = [feature.name for feature in schema.features]
    numeric = iter(batch.numeric[:count].T.tolist())
    nominal = iter(batch.nominal[:count].T.tolist())
    columns = [next(numeric if f.kind == Kind.NUMERIC else nominal) for f in schema.features]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    model = river_tree.HoeffdingTreeClassifier(
        grace_period=200,
        delta=1e-7,
        tau=0.05,
        split_criterion="info_gain",
        leaf_prediction="mc",
        nominal_attributes=[f.name for f in schema.features if f.kind == Kind.NOMINAL],
    )
    right = 0
    began = thread_time()
    for row, label in zip(rows, labels[:count].tolist(), strict=True):
        right += model.predict_one(row) == label
        model.learn_one(row, label)
    seconds = thread_time() - began
    return Result(count, seconds, right / count, model.n_nodes)


def contenders(params: dict[str, Any]) -> dict[str, Callable[[Stream, Batch, Codes], Result]]:
    """Ours with its defaults, ours with MOA's policies, and the peers that are installed."""
    found: dict[str, Callable[[Stream, Batch, Codes], Result]] = {
        "livetree": livetree(params),
        "livetree, MOA's policies": livetree(MOA_POLICIES | params),
    }
    if find_spec("river"):
        found["river"] = river
    return found


def measure(
    names: list[str], events: int, rounds: int, params: dict[str, Any]
) -> Iterator[tuple[str, str, Result]]:
    """The best of the interleaved rounds of every contender on every stream."""
    rivals = contenders(params)
    for name in track(names, "measuring", console=Console(stderr=True)):
        stream = STREAMS[name]()
        batch, labels = stream.take(events)
        livetree(params)(stream, batch.part(0, 500), labels[:500])  # compiled before the clock
        best: dict[str, Result] = {}
        for _ in range(rounds):
            for rival, run in rivals.items():
                result = run(stream, batch, labels)
                if rival not in best or result.seconds < best[rival].seconds:
                    best[rival] = result
        for rival, result in best.items():
            yield name, rival, result


def parsed(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="JSON lines instead of a table")
    parser.add_argument("--events", type=int, default=200_000, help="events of each stream")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved repetitions")
    parser.add_argument("--streams", default=",".join(STREAMS), help="names, with commas")
    parser.add_argument("--set", action="append", default=[], help="a parameter of our tree")
    return parser.parse_args(argv)


def main(argv: list[str]) -> None:
    """Measure and print."""
    given = parsed(argv)
    params = dict(pair.split("=", 1) for pair in given.set)
    typed = {name: _typed(text) for name, text in params.items()}
    rows = list(measure(given.streams.split(","), given.events, given.rounds, typed))
    ours = {name: r.events / r.seconds for name, rival, r in rows if rival == "livetree"}
    table = Table("stream", "contender", "events/s", "livetree is", "accuracy", "nodes")
    for name, rival, result in rows:
        speed = result.events / result.seconds
        if given.json:
            line = {
                "question": "learn",
                "stream": name,
                "contender": rival,
                "value": round(speed),
                "unit": "events/s",
                "ratio": round(ours[name] / speed, 3),
                "accuracy": round(result.accuracy, 5),
                "nodes": result.nodes,
            }
            print(json.dumps(line))
        else:
            ratio = f"{ours[name] / speed:.2f} x"
            accuracy, nodes = f"{result.accuracy:.4f}", str(result.nodes)
            table.add_row(name, rival, f"{speed:,.0f}", ratio, accuracy, nodes)
    if not given.json:
        Console().print(table)


def _typed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


if __name__ == "__main__":
    main(sys.argv[1:])
