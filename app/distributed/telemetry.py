"""What the metrics are told of a tree with workers."""

from __future__ import annotations

from app.distributed.load import Executor
from app.metrics import Metrics
from learner import StreamingTree, VerticalTree

FATES = {"sent": "rows", "lost": "lost", "kept": "kept", "replayed": "replayed"}


class SpreadTelemetry:
    """Turns running totals into metrics; a tree without workers has none."""

    def __init__(self, metrics: Metrics, model: str) -> None:
        self._metrics, self._model = metrics, model
        self._counters = {
            "messages": metrics.vht_messages,
            "questions": metrics.vht_questions,
            "unanswered": metrics.vht_unanswered,
            "delay": metrics.vht_decision_delay,
        }
        metrics.vht_recoveries.labels(model)
        self._counted: dict[str, float] = {}
        for counter in self._counters.values():
            counter.labels(model)
        for fate in FATES:
            metrics.vht_events.labels(model, fate)

    def resume(self, tree: StreamingTree) -> None:
        """Count from here: what a checkpoint brought along happened in an earlier process."""
        if isinstance(tree, VerticalTree):
            self._counted |= {k: float(v) for k, v in tree.vertical_counters()._asdict().items()}

    def tick(self, tree: StreamingTree, executor: Executor | None) -> None:
        """Tell how things stand."""
        if not isinstance(tree, VerticalTree):
            return
        metrics, model = self._metrics, self._model
        totals = tree.vertical_counters()
        metrics.vht_waiting_leaves.labels(model).set(totals.waiting)
        metrics.vht_buffered.labels(model).set(totals.buffered)
        for name, counter in self._counters.items():
            counter.labels(model).inc(self._grown(name, getattr(totals, name)))
        for fate, name in FATES.items():
            metrics.vht_events.labels(model, fate).inc(self._grown(name, getattr(totals, name)))
        if executor is None:
            return
        load = executor.load()
        metrics.vht_waited.labels(model).inc(self._grown("waited", load.waited_seconds))
        metrics.vht_sent_bytes.labels(model).inc(self._grown("bytes", load.sent_bytes))
        seconds = self._grown("decisions", load.decision_seconds)
        metrics.vht_decision_seconds.labels(model).inc(seconds)
        for worker, held in enumerate(load.held_bytes):
            metrics.vht_held_bytes.labels(model, str(worker)).set(held)
        for worker, seconds in enumerate(load.busy_seconds):
            grown = self._grown(f"busy {worker}", seconds)
            metrics.vht_busy.labels(model, str(worker)).inc(grown)

    def _grown(self, name: str, total: float) -> float:
        """Return how much more there is than the last time; all of it where it began anew."""
        before = self._counted.get(name, 0.0)
        self._counted[name] = total
        return total - before if total >= before else total
