"""Several trees on one stream, each event predicted before it is learned; no Kafka.

Every batch is read once and goes to every tree, so all of them see the same events in the same
order. Only predicting and learning are timed, not reading or making the events.

The split delay is measured by a second tree of the same parameters, off the clock. It is grown by
a reference that tests every leaf at every event, and each leaf goes on until its own timing would
have split it: the events in between are the delay. A tree that revises its splits, or that does
not keep every statistic, has no such reference; there every leaf is audited at every event
instead. Both cost many times what learning does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from app.errors import SettingsError
from app.evaluation import Prequential
from app.text_table import text_table
from learner import Batch, Codes, Encoder, ParamsError, ShardedTrees, StreamingTree
from streams import Stream

REFERENCE_FROM = 100.0  # events of a leaf before the reference begins to test
LONGEST_CURVE = 400  # points


class Run(NamedTuple):
    """One configuration to compare: a name, a variant and its parameters."""

    name: str
    variant: str
    params: dict[str, Any]
    shards: int = 1  # whole trees that share the events, where more than one


class Feed(Protocol):
    """Where batches come from: a generator stream or a file."""

    name: str
    encoder: Encoder

    def batches(self, size: int) -> Iterator[tuple[Batch, Codes]]:
        """Yield encoded batches and class codes."""


class StreamFeed:
    """A generator stream as a feed; endless."""

    def __init__(self, stream: Stream) -> None:
        self.name = stream.name
        self.encoder = Encoder(stream.schema)
        self._stream = stream

    def batches(self, size: int) -> Iterator[tuple[Batch, Codes]]:
        """Yield batches for ever."""
        while True:
            yield self._stream.take(size)


class Point(NamedTuple):
    """How a run stood after so many events."""

    events: int
    accuracy: float  # over the last window
    split_attempts: int


class Delays:
    """The tree beside the one on the clock, and the split delays it has found."""

    def __init__(self, run: Run, encoder: Encoder) -> None:
        self.tree, self.kind = _measuring_tree(run, encoder)
        self._found: dict[str, list[float]] = {"bound": [], "tie": []}

    def learn(self, batch: Batch, labels: Codes) -> None:
        """Learn one batch."""
        self.tree.learn(batch, labels)
        for split in self.tree.take_splits():
            if split.kind in self._found and split.delay >= 0:
                self._found[split.kind].append(split.delay)

    def result(self) -> dict[str, Any]:
        """Return what is known of the delays; None where there is no number."""
        bound, tie = self._found["bound"], self._found["tie"]
        by_reference = self.kind == "reference"
        return {
            "delay_kind": self.kind,
            "split_delay_mean": float(np.mean(bound)) if bound else None,
            "split_delay_median": float(np.median(bound)) if bound else None,
            "split_delay_tie_mean": float(np.mean(tie)) if tie else None,
            "split_delays_bound": len(bound),
            "split_delays_tie": len(tie),
            "split_delays_unresolved": self.tree.unresolved()
            if by_reference
            else self.tree.late_leaves(),
        }


NO_DELAYS: dict[str, Any] = dict.fromkeys(
    (
        "delay_kind",
        "split_delay_mean",
        "split_delay_median",
        "split_delay_tie_mean",
        "split_delays_bound",
        "split_delays_tie",
        "split_delays_unresolved",
    )
)


def _measuring_tree(run: Run, encoder: Encoder) -> tuple[StreamingTree, str]:
    """Return the tree that measures and how; the audit where the learner refuses a reference."""
    start = run.params.get("reference_from", REFERENCE_FROM)
    if start:
        try:
            params = {**run.params, "reference_from": start}
            return StreamingTree(encoder, run.variant, **params), "reference"
        except ParamsError:
            if "reference_from" in run.params:
                raise
    audited = {**run.params, "audit_fraction": 1.0, "audit_step": 1}
    return StreamingTree(encoder, run.variant, **audited), "audit"


class Contender:
    """One tree with its scores, its stopwatch and its curve; its delays are measured beside it."""

    def __init__(
        self, run: Run, encoder: Encoder, window: int, *, measure_delay: bool = True
    ) -> None:
        timed = {name: value for name, value in run.params.items() if name != "reference_from"}
        self.run = run
        self.tree: StreamingTree | ShardedTrees = (
            StreamingTree(encoder, run.variant, **timed)
            if run.shards == 1
            else ShardedTrees(encoder, run.variant, run.shards, **timed)
        )
        self.delays = Delays(run, encoder) if measure_delay and run.shards == 1 else None
        self.scores = Prequential(window)
        self.seconds = 0.0
        self.curve: list[Point] = []
        self._every = 1  # events between two points of the curve

    def learn(self, batch: Batch, labels: Codes) -> None:
        """Predict and learn one batch."""
        predicted = np.empty(len(labels), np.int32)
        started = time.perf_counter()
        self.tree.learn(batch, labels, predicted=predicted)
        self.seconds += time.perf_counter() - started
        self.tree.take_splits()
        self.scores.update(labels, predicted)
        self._note()
        if self.delays is not None:
            self.delays.learn(batch, labels)

    def trees(self) -> list[StreamingTree]:
        """Return one of each kind of tree: on the clock, and beside it."""
        on_the_clock = self.tree.trees[0] if isinstance(self.tree, ShardedTrees) else self.tree
        return [on_the_clock, *([self.delays.tree] if self.delays is not None else [])]

    def _note(self) -> None:
        """Add a point to the curve; a long curve loses every second one."""
        events, before = self.scores.events, self.curve[-1].events if self.curve else 0
        if events - before < self._every:
            return
        accuracy = self.scores.scores().window_accuracy or 0.0
        self.curve.append(Point(events, accuracy, self.tree.counters().split_attempts))
        if len(self.curve) > LONGEST_CURVE:
            self.curve = self.curve[1::2]
            self._every = self.curve[-1].events // len(self.curve)

    def result(self, stream: str) -> dict[str, Any]:
        """Return everything measured, JSON-ready; None where a number is not defined."""
        return {
            "name": self.run.name,
            "variant": self.run.variant,
            "params": self.run.params,
            "shards": self.run.shards,
            "stream": stream,
            **(NO_DELAYS if self.delays is None else self.delays.result()),
            **figures(self.tree, self.scores, self.seconds),
        }


def figures(
    tree: StreamingTree | ShardedTrees, scored: Prequential, seconds: float
) -> dict[str, Any]:
    """Return what a tree has done and what it is, JSON-ready; None where a number is undefined."""
    counters, shape, scores = tree.counters(), tree.shape(), scored.scores()
    return {
        "events": counters.events,
        "accuracy": scores.accuracy,
        "kappa": scores.kappa,
        "window_accuracy": scores.window_accuracy,
        "window_kappa": scores.window_kappa,
        "split_attempts": counters.split_attempts,
        "candidate_checks": counters.candidate_checks,
        "reevaluations": counters.reevaluations,
        "attribute_evaluations": counters.attribute_evaluations,
        "splits": counters.splits_bound + counters.splits_tie,
        "splits_tie": counters.splits_tie,
        "splits_replaced": counters.splits_replaced,
        "thresholds_moved": counters.thresholds_moved,
        "subtrees_collapsed": counters.subtrees_collapsed,
        "events_counted": counters.events_counted,
        "events_until_done": counters.events_until_done or None,
        "nodes": shape.nodes,
        "leaves": shape.leaves,
        "depth": shape.depth,
        "memory_bytes": tree.memory_bytes(),
        "seconds": seconds,
        "events_per_second": counters.events / seconds if seconds else None,
        "tree_hash": tree.hash(),
    }


def compare(
    feed: Feed,
    contenders: Sequence[Contender],
    *,
    events: int,
    batch: int = 1000,
    progress: Callable[[int], None] | None = None,
) -> list[dict[str, Any]]:
    """Run all contenders over the first events (0 = all there are) and return their results."""
    done = 0
    for rows, labels in cut(feed.batches(batch), events):
        for contender in contenders:
            contender.learn(rows, labels)
        done += len(labels)
        if progress is not None:
            progress(done)
    if not done:
        raise SettingsError([f"'{feed.name}' has no events; expected at least one"])
    return [contender.result(feed.name) for contender in contenders]


def enter(
    runs: Sequence[Run], encoder: Encoder, window: int = 1000, *, measure_delay: bool = True
) -> list[Contender]:
    """Return the contenders; raises SettingsError with all problems of all runs."""
    problems: list[str] = []
    contenders: list[Contender] = []
    for run in runs:
        try:
            contenders.append(Contender(run, encoder, window, measure_delay=measure_delay))
        except ParamsError as exc:
            problems += [f"{run.name}: {problem}" for problem in exc.problems]
    if problems:
        raise SettingsError(problems)
    return contenders


def cut(batches: Iterable[tuple[Batch, Codes]], events: int) -> Iterator[tuple[Batch, Codes]]:
    """Yield batches up to exactly so many events; 0 means all of them."""
    left = events
    for rows, labels in batches:
        if not events:
            yield rows, labels
            continue
        if len(labels) >= left:
            yield rows.part(0, left), labels[:left]
            return
        yield rows, labels
        left -= len(labels)


def table(results: Sequence[dict[str, Any]]) -> str:
    """Return the results as aligned text, one line a run; a note where a delay is an audit's."""
    columns = [
        column
        for column in COLUMNS
        if column.title not in SELDOM or any(result[SELDOM[column.title]] for result in results)
    ]
    heading = [column.title for column in columns]
    drawn = [text_table(heading, [[column.shown(run) for column in columns] for run in results])]
    if any(result["delay_kind"] == "audit" for result in results):
        drawn.append("* audited at the tree's own leaves: no reference tree exists for this run")
    return "\n".join(drawn)


class Column(NamedTuple):
    """One column of the table."""

    title: str
    shown: Callable[[dict[str, Any]], str]


def _number(key: str, form: str) -> Callable[[dict[str, Any]], str]:
    return lambda result: "-" if result[key] is None else format(result[key], form)


def _delay(result: dict[str, Any]) -> str:
    shown = _number("split_delay_mean", ".1f")(result)
    return f"{shown}*" if result["delay_kind"] == "audit" else shown


# Columns that only some variants fill, and what fills them.
SELDOM = {
    "checks": "candidate_checks",
    "revisits": "reevaluations",
    "replaced": "splits_replaced",
}

COLUMNS = (
    Column("run", lambda result: str(result["name"])),
    Column("accuracy", _number("accuracy", ".4f")),
    Column("kappa", _number("kappa", ".4f")),
    Column("last", _number("window_accuracy", ".4f")),
    Column("attempts", _number("split_attempts", ",")),
    Column("checks", _number("candidate_checks", ",")),
    Column("revisits", _number("reevaluations", ",")),
    Column("splits", _number("splits", ",")),
    Column("replaced", _number("splits_replaced", ",")),
    Column("evaluations", _number("attribute_evaluations", ",")),
    Column("delay", _delay),
    Column("nodes", _number("nodes", ",")),
    Column("depth", _number("depth", ",")),
    Column("bytes", _number("memory_bytes", ",")),
    Column("events/s", _number("events_per_second", ",.0f")),
    Column("tree", lambda result: str(result["tree_hash"])[:8]),
)
