"""What the consumer tells the metrics: every batch, and once a second the state of the tree."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from app.distributed.telemetry import SpreadTelemetry
from app.errors import REJECTIONS
from app.log import Seldom, get_logger
from app.metrics import Metrics
from app.source import Record, Records, Source
from app.training import Outcome, SetAside, Training
from learner import SplitRecord

log = get_logger(__name__)

EVERY_SECONDS = 1.0

IGNORED = ("infinite", "too_many")
OUTCOMES = ("split", "tie_split", "no_split")
KINDS = ("bound", "tie", "replace", "move", "collapse")  # of a split, as a SplitRecord names them
SPLITS = ("bound", "tie")  # of a leaf
FORECASTS = ("early", "late")  # the split, beside what was foreseen


class Telemetry:
    """Turns the learner's running totals into metrics; used by the consumer's thread."""

    def __init__(self, metrics: Metrics, model: str) -> None:
        self._metrics, self._model = metrics, model
        self._work = {
            "attribute_evaluations": metrics.attribute_evaluations,
            "candidate_checks": metrics.candidate_checks,
            "reevaluations": metrics.reevaluations,
        }
        self._learned = metrics.events_learned.labels(model)  # finding a series takes longer
        self._consumed: dict[str, Any] = {}  # by topic
        self._seldom = Seldom()
        self._last_tick = time.monotonic()
        self._learned_since_tick = 0
        self._last_timestamp: float | None = None
        self._resets = 0
        self._counted: dict[str, int] = {}
        self._spread = SpreadTelemetry(metrics, model)
        self._begin_at_zero()

    def _begin_at_zero(self) -> None:
        """Show every series from the start: an alert on growth misses one that appears with 1."""
        metrics, model = self._metrics, self._model
        metrics.events_learned.labels(model)
        metrics.snapshots_published.labels(model)
        for outcome in ("written", "failed", "unreadable"):
            metrics.checkpoints.labels(outcome)
        for outcome in OUTCOMES:
            metrics.split_attempts.labels(model, outcome)
        for kind in KINDS:
            metrics.splits.labels(model, kind)
        for counter in self._work.values():
            counter.labels(model)
        for kind in SPLITS:
            metrics.split_delay.labels(model, kind)
        for outcome in FORECASTS:
            metrics.split_forecast_error.labels(model, outcome)
        for reason in IGNORED:
            metrics.values_ignored.labels(model, reason)
        for reason in sorted(set(REJECTIONS.values())):
            metrics.events_rejected.labels(reason)
            metrics.dead_letters.labels(reason)

    def resume(self, training: Training) -> None:
        """Count from here: what a checkpoint brought along happened in an earlier process."""
        if training.tree is not None:
            self._counted = _totals(training)
            self._spread.resume(training.tree)
            training.tree.take_splits()

    def batch(
        self, topic: str, records: Sequence[Record], outcome: Outcome, seconds: float
    ) -> None:
        """Count one batch."""
        metrics = self._metrics
        if topic not in self._consumed:
            self._consumed[topic] = metrics.events_consumed.labels(topic)
        self._consumed[topic].inc(len(records))
        metrics.tombstones.inc(outcome.tombstones)
        stamp = _newest(records)
        if stamp > 0:
            self._last_timestamp = stamp / 1000
            metrics.last_event_timestamp.set(self._last_timestamp)
        if outcome.learned:
            self._learned_since_tick += outcome.learned
            self._learned.inc(outcome.learned)
            metrics.learn_duration.observe(seconds)
        if outcome.times.size:
            ages = np.maximum(time.time() - outcome.times, 0.0)
            metrics.event_to_learned.observe_many(ages, outcome.timed)

    def rejected(self, aside: SetAside, *, kept: bool) -> None:
        """Count and log a record that was not learned."""
        record, reason = aside.record, aside.reason
        self._metrics.events_rejected.labels(reason.label).inc()
        if kept:
            self._metrics.dead_letters.labels(reason.label).inc()
        if self._seldom.due(reason.label):
            log.warning(
                "record rejected",
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                id=aside.id,
                reason=reason.label,
                message=str(reason.error),
            )

    def changes(self, changes: Sequence[SplitRecord]) -> None:
        """Measure how late splits came, and how far from where they were expected."""
        metrics, model = self._metrics, self._model
        for change in changes:
            if change.delay >= 0:
                metrics.split_delay.labels(model, change.kind).observe(change.delay)
            if change.forecast >= 0 and change.kind in SPLITS:
                error = change.n - change.forecast
                outcome = "late" if error > 0 else "early"
                metrics.split_forecast_error.labels(model, outcome).observe(abs(error))

    def tick(self, source: Source, training: Training) -> None:
        """Once a second: lag, rate, and how the tree stands."""
        now = time.monotonic()
        passed = now - self._last_tick
        if passed < EVERY_SECONDS:
            return
        rate = self._learned_since_tick / passed
        self._metrics.events_per_second.labels(self._model).set(rate)
        self._last_tick, self._learned_since_tick = now, 0
        self._lag(source)
        if training.tree is not None:
            self._tree(training)

    def _lag(self, source: Source) -> None:
        waiting = source.lag()
        for partition, count in waiting.items():
            self._metrics.consumer_lag_records.labels(source.topic, str(partition)).set(count)
        behind = self._last_timestamp is not None and any(waiting.values())
        age = time.time() - (self._last_timestamp or 0.0) if behind else 0.0
        self._metrics.consumer_lag_seconds.set(max(0.0, age))
        self._metrics.source_connected.labels(source.topic).set(source.connected)
        self._metrics.offset_resets.labels(source.topic).inc(source.resets - self._resets)
        self._resets = source.resets

    def _tree(self, training: Training) -> None:
        metrics, model, tree = self._metrics, self._model, training.tree
        assert tree is not None
        shape = tree.shape()
        metrics.tree_nodes.labels(model, "split").set(shape.nodes - shape.leaves)
        metrics.tree_nodes.labels(model, "active_leaf").set(shape.active_leaves)
        metrics.tree_nodes.labels(model, "inactive_leaf").set(shape.leaves - shape.active_leaves)
        metrics.tree_depth.labels(model).set(shape.depth)
        metrics.model_memory.labels(model).set(tree.memory_bytes())
        metrics.late_leaves.labels(model).set(tree.late_leaves())
        scores = training.evaluation.scores()
        window = str(training.evaluation.window)
        for name, accuracy, kappa in (
            ("all", scores.accuracy, scores.kappa),
            (window, scores.window_accuracy, scores.window_kappa),
        ):
            metrics.prequential_accuracy.labels(model, name).set(_number(accuracy))
            metrics.prequential_kappa.labels(model, name).set(_number(kappa))
        self._count(_totals(training))
        self._spread.tick(tree, training.executor)

    def _count(self, totals: dict[str, int]) -> None:
        """Add what the totals have grown by since the last time."""
        metrics, model = self._metrics, self._model
        for name, total in totals.items():
            grown = total - self._counted.get(name, 0)
            if name in IGNORED:
                metrics.values_ignored.labels(model, name).inc(grown)
            elif name in OUTCOMES:
                metrics.split_attempts.labels(model, name).inc(grown)
            elif name in KINDS:
                metrics.splits.labels(model, name).inc(grown)
            else:
                self._work[name].labels(model).inc(grown)
        self._counted = totals


def _newest(records: Sequence[Record]) -> float:
    """Return the time of the last record in milliseconds; below 1, or NaN: unknown."""
    if isinstance(records, Records):
        return float(records.timestamps_ms()[-1]) if len(records) else 0.0
    return records[-1].timestamp_ms or 0 if records else 0


def _totals(training: Training) -> dict[str, int]:
    assert training.tree is not None
    counters = training.tree.counters()
    return {
        "split": counters.splits_bound,
        "tie_split": counters.splits_tie,
        "no_split": counters.no_split,
        "bound": counters.splits_bound,
        "tie": counters.splits_tie,
        "replace": counters.splits_replaced,
        "move": counters.thresholds_moved,
        "collapse": counters.subtrees_collapsed,
        "candidate_checks": counters.candidate_checks,
        "reevaluations": counters.reevaluations,
        "attribute_evaluations": counters.attribute_evaluations,
        "infinite": training.tree.encoder.rejected_values,
        "too_many": training.tree.encoder.overflowed_values,
    }


def _number(score: float | None) -> float:
    return math.nan if score is None else score
