"""Several trees on one stream, each event predicted before it is learned; no Kafka.

Every batch is read once and goes to every tree, so all of them see the same events in the same
order. Only predicting and learning are timed, not reading or making the events.

Measuring the split delay at every leaf costs several times what learning does. It is therefore
measured on a second tree of the same parameters, off the clock; auditing never changes a tree.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np

from app.errors import SettingsError
from app.evaluation import Prequential
from learner import Batch, Codes, Encoder, ParamsError, StreamingTree
from streams import Stream


class Run(NamedTuple):
    """One configuration to compare: a name, a variant and its parameters."""

    name: str
    variant: str
    params: dict[str, Any]


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


class Contender:
    """One tree with its scores and its stopwatch, and its twin that measures the split delay.

    A run that sets audit_fraction has no twin: its own tree measures as much as it was told to.
    """

    def __init__(self, run: Run, encoder: Encoder, window: int) -> None:
        self.run = run
        self.tree = StreamingTree(encoder, run.variant, **run.params)
        self.audited = self.tree
        if "audit_fraction" not in run.params:
            audit_all = {**run.params, "audit_fraction": 1.0}
            self.audited = StreamingTree(encoder, run.variant, **audit_all)
        self.scores = Prequential(window)
        self.seconds = 0.0
        self.delays: list[float] = []

    def learn(self, batch: Batch, labels: Codes) -> None:
        """Predict and learn one batch."""
        predicted = np.empty(len(labels), np.int32)
        started = time.perf_counter()
        self.tree.learn(batch, labels, predicted=predicted)
        self.seconds += time.perf_counter() - started
        self.scores.update(labels, predicted)
        if self.audited is not self.tree:
            self.audited.learn(batch, labels)
            self.tree.take_splits()
        self.delays += [split.delay for split in self.audited.take_splits() if split.delay >= 0]

    def result(self, stream: str) -> dict[str, Any]:
        """Return everything measured, JSON-ready; None where a number is not defined."""
        counters, shape, scores = self.tree.counters(), self.tree.shape(), self.scores.scores()
        return {
            "name": self.run.name,
            "variant": self.run.variant,
            "params": self.run.params,
            "stream": stream,
            "events": counters.events,
            "accuracy": scores.accuracy,
            "kappa": scores.kappa,
            "window_accuracy": scores.window_accuracy,
            "window_kappa": scores.window_kappa,
            "split_attempts": counters.split_attempts,
            "splits": counters.splits_bound + counters.splits_tie,
            "splits_tie": counters.splits_tie,
            "attribute_evaluations": counters.attribute_evaluations,
            "split_delay_mean": float(np.mean(self.delays)) if self.delays else None,
            "audited_splits": self.audited.counters().audited_splits,
            "nodes": shape.nodes,
            "leaves": shape.leaves,
            "depth": shape.depth,
            "memory_bytes": self.tree.memory_bytes(),
            "seconds": self.seconds,
            "events_per_second": counters.events / self.seconds if self.seconds else None,
            "tree_hash": self.tree.hash(),
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


def enter(runs: Sequence[Run], encoder: Encoder, window: int = 1000) -> list[Contender]:
    """Return the contenders; raises SettingsError with all problems of all runs."""
    problems: list[str] = []
    contenders: list[Contender] = []
    for run in runs:
        try:
            contenders.append(Contender(run, encoder, window))
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
    """Return the results as aligned text, one line a run."""
    heading = [title for title, _ in COLUMNS]
    lines = [heading, *([shown(result) for _, shown in COLUMNS] for result in results)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
    rule = ["-" * width for width in widths]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (lines[0], rule, *islice(lines, 1, None))
    )


def _number(key: str, form: str) -> Callable[[dict[str, Any]], str]:
    return lambda result: "-" if result[key] is None else format(result[key], form)


COLUMNS: tuple[tuple[str, Callable[[dict[str, Any]], str]], ...] = (
    ("run", lambda result: str(result["name"])),
    ("accuracy", _number("accuracy", ".4f")),
    ("kappa", _number("kappa", ".4f")),
    ("last", _number("window_accuracy", ".4f")),
    ("attempts", _number("split_attempts", ",")),
    ("splits", _number("splits", ",")),
    ("evaluations", _number("attribute_evaluations", ",")),
    ("delay", _number("split_delay_mean", ".1f")),
    ("nodes", _number("nodes", ",")),
    ("depth", _number("depth", ",")),
    ("bytes", _number("memory_bytes", ",")),
    ("events/s", _number("events_per_second", ",.0f")),
    ("tree", lambda result: str(result["tree_hash"])[:8]),
)
