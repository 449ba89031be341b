"""A part of the log learned again, offline, by the same code as the learner's.

Several variants see the same records in the same order. Rejected records are counted, never put
aside. Nothing of the learner is touched: neither its group, nor its checkpoints, nor its topic.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from app.bound import Bound, resolve
from app.checkpoint import Checkpoint, CheckpointFolder, require_fit
from app.comparison import figures
from app.errors import (
    CheckpointMismatch,
    CheckpointUnreadable,
    CheckpointUnwritable,
    OffsetOutOfRange,
    SettingsError,
    SourceChanged,
)
from app.file_source import FileSource
from app.log_range import LogRange, Span
from app.settings import Settings
from app.settings_file import declared_schema
from app.source import Record, Start
from app.text_table import text_table
from app.training import Training, new_tree

BATCH = 1000
ORDER = "by timestamp, then partition; a learner may have seen the partitions in another order"


class Log(Protocol):
    """What can be replayed: a topic, or a file as one partition of bytes."""

    topic: str
    identity: str | None
    held: dict[int, Span]
    reached: dict[int, int]

    def at_time(self, milliseconds: int) -> dict[int, int]:
        """Return the first offset of each partition that is not older."""

    def check(self, spans: Mapping[int, Span]) -> None:
        """Raise OffsetOutOfRange unless all of these are held."""

    def read(self, spans: Mapping[int, Span]) -> Iterator[Sequence[Record]]:
        """Yield the records in batches."""

    def close(self) -> None:
        """Let go of everything."""


class FileRange:
    """A file of lines between two byte positions."""

    def __init__(self, settings: Settings) -> None:
        self._source = FileSource(settings.file)
        self._path = self._source.path
        self.topic, self.identity = self._source.topic, self._source.identity()
        self.reached: dict[int, int] = {}
        if not self._path.is_file():
            raise SettingsError([f"file '{self._path}' does not exist; expected a file of events"])
        self.held = {0: Span(0, self._path.stat().st_size)}

    def at_time(self, milliseconds: int) -> dict[int, int]:  # noqa: ARG002
        """Refuse: lines have no time of their own."""
        raise SettingsError(["a file has no timestamps; expected byte positions, or earliest"])

    def check(self, spans: Mapping[int, Span]) -> None:
        """Raise OffsetOutOfRange unless the file holds these bytes."""
        held = self.held[0]
        for partition, span in spans.items():
            if partition != 0 or (span.length and span.end > held.end):
                raise OffsetOutOfRange(
                    f"file '{self._path}': bytes {span.start} to {span.end} of partition "
                    f"{partition} are asked for, it holds 0 to {held.end} in partition 0"
                )

    def read(self, spans: Mapping[int, Span]) -> Iterator[Sequence[Record]]:
        """Yield the lines that begin inside the span; an unfinished last line is left out."""
        self.check(spans)
        span = spans.get(0, Span(0, 0))
        self.reached = {0: span.start}
        self._source.open(Start({0: span.start}))
        while self.reached[0] < span.end:
            records = self._source.poll(BATCH)
            inside = [record for record in records if record.offset < span.end]
            if not inside:
                return
            past = records[len(inside)].offset if len(inside) < len(records) else None
            self.reached[0] = self._source.positions()[0] if past is None else past
            yield inside

    def close(self) -> None:
        """Close the file."""
        self._source.close()


def open_log(settings: Settings) -> Log:
    """Return what the settings' learner reads."""
    return (
        FileRange(settings)
        if settings.source == "file"
        else LogRange(settings.kafka, settings.kafka.topic)
    )


def read_checkpoint(folder: Path, log: Log) -> Checkpoint:
    """Return the newest checkpoint of a learner of this log; the folder is not locked by this."""
    found = CheckpointFolder(folder).load()
    if found is None:
        raise CheckpointUnreadable(f"folder '{folder}' holds no checkpoint; expected one")
    if found.topic != log.topic:
        raise CheckpointMismatch(
            f"the checkpoint in '{folder}' is of topic '{found.topic}'; expected '{log.topic}'"
        )
    if found.identity and log.identity and found.identity != log.identity:
        raise SourceChanged(
            f"the checkpoint in '{folder}' was fed from '{found.identity}', this is "
            f"'{log.identity}'; expected the same cluster or file"
        )
    return found


def choose_spans(
    log: Log, begin: Bound, end: Bound, partitions: Sequence[int], checkpoint: Checkpoint | None
) -> dict[int, Span]:
    """Return what to read of each partition; raises OffsetOutOfRange with the numbers."""
    unknown = sorted(set(partitions) - set(log.held))
    if unknown:
        raise SettingsError(
            [
                f"--partitions names {unknown[0]}; topic '{log.topic}' has "
                f"{', '.join(map(str, log.held))}"
            ]
        )
    chosen = {p: span for p, span in log.held.items() if not partitions or p in partitions}
    starts = {partition: span.start for partition, span in chosen.items()}
    words = {"earliest": starts, "latest": {p: span.end for p, span in chosen.items()}}
    if checkpoint is not None:
        # A partition that the learner has not read yet is not in its checkpoint.
        words["checkpoint"] = {**starts, **checkpoint.offsets}
    first = resolve(begin, words["earliest"], words, log.at_time)
    last = resolve(end, words["latest"], words, log.at_time)
    named = (first.keys() | last.keys()) & (set(partitions) or first.keys() | last.keys())
    spans = {
        p: Span(first.get(p, last.get(p, 0)), last.get(p, first.get(p, 0))) for p in sorted(named)
    }
    backwards = [f"{p}: {s.start} to {s.end}" for p, s in spans.items() if s.start > s.end]
    if backwards:
        raise SettingsError([f"the range of partition {backwards[0]} ends before it begins"])
    log.check(spans)
    return spans


class Run:
    """One variant in training, with its stopwatch and its counts."""

    def __init__(self, settings: Settings) -> None:
        schema = declared_schema(settings.schema_)
        self.settings = settings
        self.training = Training(settings, new_tree(settings, schema) if schema else None)
        self.seconds = 0.0
        self.rejected: Counter[str] = Counter()
        self.tombstones = 0
        self._delays: list[float] = []

    def learn(self, records: Sequence[Record]) -> None:
        """Learn one batch."""
        started = time.perf_counter()
        outcome = self.training.learn(records)
        self.seconds += time.perf_counter() - started
        self.rejected.update(aside.reason.label for aside in outcome.rejected)
        self.tombstones += outcome.tombstones
        if self.training.tree is not None:
            splits = self.training.tree.take_splits()
            self._delays += [split.delay for split in splits if split.delay >= 0]

    def result(self, checkpoint: Checkpoint | None) -> dict[str, Any]:
        """Return everything measured; raises SettingsError where there was too little to learn."""
        tree = self.training.tree
        if tree is None:
            raise SettingsError(
                [
                    f"the range holds too few good events ({self.training.waiting_for()}); "
                    "expected more, a declared schema, or a smaller LIVETREE_SCHEMA__INFER_FROM"
                ]
            )
        found = {
            "variant": self.settings.variant,
            "rejected": dict(self.rejected.most_common()),
            "tombstones": self.tombstones,
            "split_delay_mean": float(np.mean(self._delays)) if self._delays else None,
            **figures(tree, self.training.evaluation, self.seconds),
        }
        if checkpoint is not None:
            same = found["tree_hash"] == checkpoint.model_hash
            found["equals_checkpoint"] = same if self._shaped_like(checkpoint) else None
        return found

    def _shaped_like(self, checkpoint: Checkpoint) -> bool:
        """Whether the same settings shape both trees; others cannot be compared."""
        before = self.settings.shaping_before(checkpoint.shaping)
        try:
            require_fit(checkpoint, self.settings.tree_shaping(), checkpoint.topic, before)
        except CheckpointMismatch:
            return False
        return True


class Replayed(NamedTuple):
    """What a replay was of, and what came out of it."""

    topic: str
    spans: dict[int, Span]
    records: int
    results: list[dict[str, Any]]

    def document(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "topic": self.topic,
            "partitions": {
                str(p): {"from": span.start, "to": span.end} for p, span in self.spans.items()
            },
            "order": ORDER if len(self.spans) > 1 else "as in the partition",
            "records": self.records,
            "runs": self.results,
        }


def replay(
    log: Log,
    spans: dict[int, Span],
    runs: Sequence[Run],
    checkpoint: Checkpoint | None = None,
    progress: Callable[[int], None] = lambda _done: None,
) -> Replayed:
    """Let all runs learn the same records."""
    records = 0
    for batch in log.read(spans):
        for run in runs:
            run.learn(batch)
        records += len(batch)
        progress(sum(log.reached[p] - span.start for p, span in spans.items()))
    spans = {p: Span(span.start, log.reached[p]) for p, span in spans.items()}
    return Replayed(log.topic, spans, records, [run.result(checkpoint) for run in runs])


def save(log: Log, run: Run, folder: Path) -> int:
    """Write the model as a checkpoint that a learner may go on from; returns its size.

    Its offsets are the end of what was read. The folder must hold no checkpoints: a learner's own
    are never replaced.
    """
    tree = run.training.tree
    assert tree is not None
    if set(log.reached) != set(log.held):
        raise SettingsError(
            [
                f"--out is a checkpoint of all {len(log.held)} partitions; expected no "
                "--partitions, since a learner would read the others from their beginning"
            ]
        )
    checkpoints = CheckpointFolder(folder)
    checkpoints.acquire()
    try:
        if checkpoints.files():
            raise CheckpointUnwritable(
                f"folder '{folder}' holds checkpoints already; expected an empty one for --out"
            )
        return checkpoints.save(
            Checkpoint.taken(
                model=tree.to_pieces(),
                offsets=log.reached,
                topic=log.topic,
                identity=log.identity,
                events=tree.counters().events,
                shaping=run.settings.tree_shaping(),
                evaluation=run.training.evaluation.to_dict(),
            )
        )
    finally:
        checkpoints.release()


def replay_text(replayed: Replayed) -> str:
    """Return the result as text: what was read, one line a variant, what was not learned."""
    compared = any("equals_checkpoint" in result for result in replayed.results)
    rows = [
        [
            str(result["variant"]),
            _number(result["accuracy"], ".4f"),
            _number(result["kappa"], ".4f"),
            f"{result['split_attempts']:,}",
            f"{result['splits']:,}",
            _number(result["split_delay_mean"], ".1f"),
            f"{result['nodes']:,}",
            f"{result['events']:,}",
            f"{sum(result['rejected'].values()):,}",
            f"{result['seconds']:.2f}",
            _number(result["events_per_second"], ",.0f"),
            str(result["tree_hash"])[:16],
            *([SAME[result["equals_checkpoint"]]] if compared else []),
        ]
        for result in replayed.results
    ]
    read = ", ".join(f"{p}: {span.start:,} to {span.end:,}" for p, span in replayed.spans.items())
    lines = [
        f"{replayed.topic}, partition {read}; {replayed.records:,} records, "
        f"{replayed.results[0]['tombstones']:,} without a value",
        text_table([*HEADING, *(["checkpoint"] if compared else [])], rows),
    ]
    if len(replayed.spans) > 1:
        lines.append(f"read {ORDER}")
    for result in replayed.results:
        if result["rejected"]:
            counted = ", ".join(f"{n:,} {reason}" for reason, n in result["rejected"].items())
            lines.append(f"{result['variant']} rejected {counted}")
    return "\n".join(lines)


HEADING = (
    "variant",
    "accuracy",
    "kappa",
    "attempts",
    "splits",
    "delay",
    "nodes",
    "learned",
    "rejected",
    "seconds",
    "events/s",
    "hash",
)
SAME = {True: "same", False: "DIFFERS", None: "-"}


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
