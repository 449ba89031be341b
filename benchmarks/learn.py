"""Events a second of learning, beside MOA and river.

python -m benchmarks.learn [--json] [--quick] [--rounds N] [--events N] [--streams a,b]
                           [--questions vfdt,nba,efdt,vfdtc]

Every contender gets the same rows, in memory, encoded before the clock starts. Rounds are
interleaved, the best of each counts, and the clock is the CPU time of the learning thread, so that
other load hits all alike. Accuracy and size stand beside speed: nobody wins by learning less.

MOA runs in a JVM of its own, warm, without Python; river in this process, as many events as it
learns in a few seconds, from the beginning of the stream, where it is quickest. Both come with the
extra ``peers``; a peer that is not installed is left out, with a line that says so. streamDM was
measured once beside MOA on these six streams (C++, built from source); here it is MOA's speed times
that ratio.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from time import thread_time
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from benchmarks.measurement import OURS, Measurement, geometric_mean, interleaved, options, report
from benchmarks.moa import moa_jar, rows_file, run_moa
from benchmarks.river_tree import river_is_there, run_river
from benchmarks.workload import STREAMS, Rows, rows_of
from learner import Encoder, StreamingTree

BATCH = 1000  # as the service learns
MOA_POLICIES = {"new_leaf": "inherit", "null_merit": "minus_inf"}
RIVER_SECONDS = 4.0
STREAMDM_OVER_MOA = {
    "rtg": 3.66, "sea": 1.98, "agrawal": 1.63, "led": 1.06, "rbf50": 1.27, "waveform21": 1.43,
}  # fmt: skip


class Question(NamedTuple):
    """What is learned, by whom, and what ratio is wanted."""

    ours: dict[str, dict[str, Any]]  # contender -> parameters; the first one is set against peers
    peers: dict[str, str]  # which MOA and which river learner
    predicts: bool  # each event is predicted before it is learned, inside the clock
    targets: dict[str, str]
    streams: tuple[str, ...] = tuple(STREAMS)
    events: int = 200_000  # at most
    passes: int = 4  # of MOA, the first ones cold


QUESTIONS = {
    "vfdt": Question(
        {OURS: MOA_POLICIES, f"{OURS}, its own policies": {}},
        {"MOA": "HoeffdingTree", "river": "HoeffdingTree"},
        False,
        {"MOA": ">= 12, each >= 7", "river": ">= 150", "streamDM": "each > 1"},
    ),
    "nba": Question(
        {OURS: {**MOA_POLICIES, "leaf_predictor": "nba"}},
        {"MOA": "NBAdaptive", "river": "NBAdaptive"},
        True,
        {"MOA": ">= 10"},
    ),
    "efdt": Question(
        {
            OURS: {"variant": "efdt", "leaf_predictor": "mc"},
            f"{OURS}, nba leaves": {"variant": "efdt", "leaf_predictor": "nba"},
        },
        {"MOA": "EFDT", "river": "EFDT"},
        False,
        {"MOA": ">= 10", "river": ">= 150"},
    ),
    "vfdtc": Question(
        {OURS: {**MOA_POLICIES, "variant": "vfdtc", "leaf_predictor": "mc"}},
        {"MOA": "exhaustive"},
        False,
        {"MOA": ">= 10, memory <= 0.5"},
        ("rtg", "sea", "agrawal", "waveform21"),
        100_000,
        2,
    ),
}


class Run(NamedTuple):
    """One contender on one stream."""

    events: int
    seconds: float
    accuracy: float  # predicted before learned
    nodes: int
    bytes: int | None = None

    @property
    def speed(self) -> float:
        """Events a second."""
        return self.events / self.seconds


def run_ours(rows: Rows, params: dict[str, Any], predicts: bool) -> Run:
    """Our tree, in batches as the service learns them."""
    given = dict(params)
    tree = StreamingTree(Encoder(rows.schema), given.pop("variant", "vfdt"), **given)
    count = len(rows.labels)
    parts = [
        (rows.batch.part(at, min(at + BATCH, count)), rows.labels[at : at + BATCH])
        for at in range(0, count, BATCH)
    ]
    guesses = [np.empty(len(labels), np.int32) for _, labels in parts]
    began = thread_time()
    for (part, labels), guess in zip(parts, guesses, strict=True):
        tree.learn(part, labels, predicted=guess if predicts else None)
    seconds = thread_time() - began
    right = float((np.concatenate(guesses) == rows.labels).mean()) if predicts else float("nan")
    return Run(count, seconds, right, tree.shape().nodes, tree.memory_bytes())


def contenders(question: Question, rows: Rows, events: int) -> dict[str, Callable[[], Run]]:
    """Ours, and the peers that are installed."""
    found: dict[str, Callable[[], Run]] = {}
    for name, params in question.ours.items():
        found[name] = lambda params=params: run_ours(rows, params, question.predicts)  # type: ignore[misc]
    jar, learner = moa_jar(), question.peers["MOA"]
    if jar is not None:

        def moa() -> Run:
            with rows_file(rows.schema, rows.batch, rows.labels) as file:
                run = run_moa(jar, file, learner, question.passes)
            seconds = run.prequential if question.predicts else run.train
            return Run(events, seconds, run.accuracy, run.nodes, run.bytes)

        found[f"MOA {learner}"] = moa
    if "river" in question.peers and river_is_there():
        name = question.peers["river"]
        found[f"river {name}"] = lambda: Run(
            *run_river(rows, name, RIVER_SECONDS, question.predicts)
        )
    return found


def measure(name: str, streams: list[str], events: int, rounds: int) -> Iterator[Measurement]:
    """One question on every stream, then the geometric means."""
    question = QUESTIONS[name]
    ratios: dict[str, list[float]] = {}
    memory: dict[str, list[float]] = {}
    for stream in streams:
        if stream not in question.streams:
            continue
        rows = rows_of(stream, min(events, question.events))
        for params in question.ours.values():
            run_ours(rows.first(5000), params, question.predicts)  # compiled before the clock
        found = contenders(question, rows, len(rows.labels))
        runs = interleaved(found, rounds, f"{name}, {stream}")
        best = {
            who: min(each, key=lambda run: run.seconds / run.events) for who, each in runs.items()
        }
        if not question.predicts:
            best |= {
                who: best[who]._replace(accuracy=run_ours(rows, params, predicts=True).accuracy)
                for who, params in question.ours.items()
            }
        for who, run in best.items():
            ratio = best[OURS].speed / run.speed
            yield _measurement(name, stream, who, run, ratio)
            ratios.setdefault(who, []).append(ratio)
            if run.bytes:
                memory.setdefault(who, []).append((best[OURS].bytes or 0) / run.bytes)
            if who == "MOA HoeffdingTree":
                ratio /= STREAMDM_OVER_MOA[stream]
                ratios.setdefault("streamDM", []).append(ratio)
    for who, each in ratios.items():
        if who != OURS:
            target = question.targets.get(who.split(" ")[0], "")
            mean, facts = geometric_mean(each), {"least": min(each)}
            if who in memory:
                facts["memory"] = max(memory[who])  # ours over theirs, where it is worst
            yield Measurement(
                f"learn {name}", who, mean, "x", mean, "geometric mean", target, facts
            )


def _measurement(name: str, stream: str, who: str, run: Run, ratio: float) -> Measurement:
    facts: dict[str, Any] = {"events": run.events, "nodes": run.nodes}
    if run.accuracy == run.accuracy:
        facts["accuracy"] = round(run.accuracy, 4)
    if run.bytes is not None:
        facts["bytes"] = run.bytes
    return Measurement(f"learn {name}", who, run.speed, "events/s", ratio, stream, "", facts)


def main(argv: list[str]) -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("--events", type=int, help="of each stream, at most")
    parser.add_argument("--streams", default=",".join(STREAMS), help="names, with commas")
    parser.add_argument("--questions", default=",".join(QUESTIONS), help="names, with commas")
    given = parser.parse_args(argv)
    events = given.events or (50_000 if given.quick else 200_000)
    rounds = 1 if given.quick else given.rounds
    missing = [who for who, there in (("MOA", moa_jar()), ("river", river_is_there())) if not there]
    if missing:
        words = f"not installed, left out: {', '.join(missing)} (make bench-setup brings them)"
        Console(stderr=True).print(words)
    streams = given.streams.split(",")
    report(
        (
            measurement
            for name in given.questions.split(",")
            for measurement in measure(name, streams, events, rounds)
        ),
        given.json,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
