"""Every Prometheus metric, each with its sentence; the registry is passed in.

The only importer of prometheus_client. No label has an unbounded set of values: no ids, leaves,
classes or features.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

# A second series for every counter, which nobody reads.
disable_created_metrics()  # type: ignore[no-untyped-call]

LATENCY = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
DELAY = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0, 3600.0)
EVENTS = (0.0, 1.0, 10.0, 25.0, 50.0, 100.0, 150.0, 200.0, 500.0, 1e3, 1e4, 1e5)


class BatchHistogram(Collector):
    """A histogram that takes a whole batch of values at once.

    The client's own costs about a microsecond a value, which is as much as learning an event.
    """

    def __init__(self, name: str, help_text: str, bounds: Sequence[float]) -> None:
        self.name, self.help_text = name, help_text
        self._bounds = np.array(bounds)
        self._counts = np.zeros(len(bounds) + 1, np.int64)
        self._sum = 0.0

    def observe_many(self, values: npt.NDArray[np.float64], count: int | None = None) -> None:
        """Count every value; one thread only. Fewer values than the count are an even sample."""
        wanted = len(values) if count is None else count
        if not wanted:
            return
        places = np.searchsorted(self._bounds, values, side="left")
        found = np.bincount(places, minlength=len(self._counts)) * (wanted // len(values))
        found[places[-1]] += wanted % len(values)
        self._counts = self._counts + found
        self._sum += float(values.mean()) * wanted

    def collect(self) -> Iterator[Metric]:
        """Yield the histogram as the exposition format has it."""
        totals = np.cumsum(self._counts)
        bounds = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        buckets = [(bound, float(total)) for bound, total in zip(bounds, totals, strict=True)]
        family = HistogramMetricFamily(self.name, self.help_text)
        family.add_metric([], buckets, self._sum)
        yield family

    def describe(self) -> Iterator[Metric]:
        """Yield the name alone, so that registering it twice is refused."""
        yield HistogramMetricFamily(self.name, self.help_text)


class LoopCounter(Collector):
    """A counter that only the event loop's thread counts.

    The client's own takes a lock and looks its labels up; all of them together took 12 us a
    request, as much as the rest of a prediction.
    """

    def __init__(self, name: str, help_text: str, labels: Sequence[str]) -> None:
        self.name, self.help_text, self._labelnames = name, help_text, labels
        self._counts: dict[tuple[str, ...], int] = {}

    def inc(self, labels: tuple[str, ...]) -> None:
        """Count one."""
        self._counts[labels] = self._counts.get(labels, 0) + 1

    def collect(self) -> Iterator[Metric]:
        """Yield all counts."""
        family = CounterMetricFamily(self.name, self.help_text, labels=self._labelnames)
        for labels, count in self._counts.copy().items():
            family.add_metric(labels, count)
        yield family

    def describe(self) -> Iterator[Metric]:
        """Yield the name alone, so that registering it twice is refused."""
        yield CounterMetricFamily(self.name, self.help_text)


class LoopHistogram(Collector):
    """A histogram of the same kind."""

    def __init__(
        self, name: str, help_text: str, labels: Sequence[str], bounds: Sequence[float]
    ) -> None:
        self.name, self.help_text, self._labelnames = name, help_text, labels
        self._bounds = bounds
        self._found: dict[tuple[str, ...], tuple[list[int], list[float]]] = {}

    def observe(self, labels: tuple[str, ...], value: float) -> None:
        """Count a value."""
        found = self._found.get(labels)
        if found is None:
            found = self._found[labels] = ([0] * (len(self._bounds) + 1), [0.0])
        found[0][bisect_left(self._bounds, value)] += 1
        found[1][0] += value

    def collect(self) -> Iterator[Metric]:
        """Yield the histogram of every combination of labels."""
        family = HistogramMetricFamily(self.name, self.help_text, labels=self._labelnames)
        bounds = [*map(str, self._bounds), "+Inf"]
        for labels, (counts, total) in self._found.copy().items():
            buckets = list(zip(bounds, map(float, accumulate(counts)), strict=True))
            family.add_metric(labels, buckets, total[0])
        yield family

    def describe(self) -> Iterator[Metric]:
        """Yield the name alone, so that registering it twice is refused."""
        yield HistogramMetricFamily(self.name, self.help_text)


class Metrics:
    """The metrics of one process, as attributes."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._consuming()
        self._learning()
        self._keeping()
        self._answering()

    def render(self) -> tuple[bytes, str]:
        """Return the exposition of all metrics and its content type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST

    def watch_snapshot(
        self, model: str, age_seconds: Callable[[], float], events: Callable[[], float]
    ) -> None:
        """Have age and events of the snapshot that answers computed whenever they are asked for."""
        self.snapshot_age.set_function(age_seconds)
        self.snapshot_events.labels(model).set_function(events)

    def lag(self) -> int | None:
        """Return how many records wait, as the learner told last; None where nobody did."""
        waiting = [sample.value for sample in _samples(self.consumer_lag_records)]
        return int(sum(waiting)) if waiting else None

    def mean_delay(self) -> float | None:
        """Return the mean delay of the splits by bound since the start; None without any."""
        bound = [each for each in _samples(self.split_delay) if each.labels.get("kind") == "bound"]
        total = sum(each.value for each in bound if each.name.endswith("_sum"))
        number = sum(each.value for each in bound if each.name.endswith("_count"))
        return total / number if number else None

    def _consuming(self) -> None:
        self.events_consumed = self._counter(
            "events_consumed", "Records taken from the source, rejected ones included.", ["topic"]
        )
        self.events_rejected = self._counter(
            "events_rejected", "Records that could not be learned, by reason.", ["reason"]
        )
        self.tombstones = self._counter(
            "tombstones_skipped", "Records without a value, which are passed over."
        )
        self.dead_letters = self._counter(
            "dead_letters", "Rejected records handed to the dead letters, by reason.", ["reason"]
        )
        self.consumer_lag_records = self._gauge(
            "consumer_lag_records",
            "Records in the topic that are not consumed yet (bytes for a file).",
            ["topic", "partition"],
        )
        self.consumer_lag_seconds = self._gauge(
            "consumer_lag_seconds", "Age of the last consumed record while others wait; else 0."
        )
        self.last_event_timestamp = self._gauge(
            "last_event_timestamp_seconds", "When the last consumed record was written, Unix time."
        )
        self.source_connected = self._gauge(
            "source_connected",
            "1 while the broker answers and the topic is there (or the file); else 0.",
            ["topic"],
        )
        self.offset_resets = self._counter(
            "offset_resets", "Times a position was given up by the policy offset_reset.", ["topic"]
        )

    def _learning(self) -> None:
        self.events_learned = self._counter(
            "events_learned", "Events that the tree has learned.", ["model"]
        )
        self.events_per_second = self._gauge(
            "events_per_second", "Events learned a second, over the last second or so.", ["model"]
        )
        self.learn_duration = self._histogram(
            "learn_duration_seconds", "Time to learn one batch of events.", [], LATENCY
        )
        self.event_to_learned = BatchHistogram(
            "livetree_event_to_learned_seconds",
            "From the event's time (or the broker's timestamp) until it is learned.",
            DELAY,
        )
        self.registry.register(self.event_to_learned)
        self.split_attempts = self._counter(
            "split_attempts",
            "Attempts to split a leaf, by outcome: split, tie_split, no_split.",
            ["model", "outcome"],
        )
        self.splits = self._counter(
            "splits",
            "Changes of the tree, by kind: bound, tie (a leaf split), replace, move, collapse.",
            ["model", "kind"],
        )
        self.candidate_checks = self._counter(
            "candidate_checks", "Checks of the attributes that a leaf follows (imac).", ["model"]
        )
        self.reevaluations = self._counter(
            "reevaluations", "Looks at a split that is already made (anytime).", ["model"]
        )
        self.attribute_evaluations = self._counter(
            "attribute_evaluations",
            "Merits computed for split attempts, candidate checks and re-evaluations.",
            ["model"],
        )
        self.split_delay = self._histogram(
            "split_delay_events",
            "Weight between the event at which a split was due and the split; audited leaves only.",
            ["model", "kind"],
            EVENTS,
        )
        self.split_forecast_error = self._histogram(
            "split_forecast_error_events",
            "Weight between a split and the last forecast of it, by outcome: early, late.",
            ["model", "outcome"],
            EVENTS,
        )
        self.late_leaves = self._gauge(
            "late_leaves",
            "Audited leaves whose test has passed and that wait for their next attempt.",
            ["model"],
        )
        self.vht_messages = self._counter(
            "vht_messages", "Messages to each worker of the tree (vht).", ["model"]
        )
        self.vht_questions = self._counter(
            "vht_questions", "Leaves that the workers were asked to judge (vht).", ["model"]
        )
        self.vht_unanswered = self._counter(
            "vht_unanswered", "Decisions that lacked the answer of a worker (vht).", ["model"]
        )
        self.vht_events = self._counter(
            "vht_events",
            "Events, by what became of them: sent, lost, kept, replayed (vht).",
            ["model", "fate"],
        )
        self.vht_decision_delay = self._counter(
            "vht_decision_delay_events",
            "Events between questions and their decisions, summed up (vht).",
            ["model"],
        )
        self.vht_decision_seconds = self._counter(
            "vht_decision_delay_seconds",
            "Time between questions and their answers, summed up (vht).",
            ["model"],
        )
        self.vht_held_bytes = self._gauge(
            "vht_worker_held_bytes",
            "Memory of the statistics that each worker on Ray holds (vht).",
            ["model", "worker"],
        )
        self.vht_recoveries = self._counter(
            "vht_recoveries", "Returns to the checkpoint after a lost worker (vht).", ["model"]
        )
        self.vht_waiting_leaves = self._gauge(
            "vht_waiting_leaves", "Leaves whose decision is under way (vht).", ["model"]
        )
        self.vht_buffered = self._gauge(
            "vht_buffered_events",
            "Events kept at the moment, to be learned again (vht).",
            ["model"],
        )
        self.vht_waited = self._counter(
            "vht_waited_seconds", "Time spent waiting for the workers' answers (vht).", ["model"]
        )
        self.vht_sent_bytes = self._counter(
            "vht_sent_bytes", "Bytes sent to the workers; none to threads (vht).", ["model"]
        )
        self.vht_busy = self._counter(
            "vht_worker_busy_seconds",
            "Time that each worker counted and judged (vht).",
            ["model", "worker"],
        )
        self.values_ignored = self._counter(
            "values_ignored",
            "Values taken as missing, by reason: infinite, or too_many (or too long) to take up.",
            ["model", "reason"],
        )
        self.tree_nodes = self._gauge(
            "tree_nodes", "Nodes, by kind: split, active_leaf, inactive_leaf.", ["model", "kind"]
        )
        self.tree_depth = self._gauge("tree_depth", "Depth of the deepest leaf.", ["model"])
        self.model_memory = self._gauge(
            "model_memory_bytes", "Memory that the tree takes, by its own account.", ["model"]
        )
        self.prequential_accuracy = self._gauge(
            "prequential_accuracy_ratio",
            "Share of events predicted right before they were learned.",
            ["model", "window"],
        )
        self.prequential_kappa = self._gauge(
            "prequential_kappa_ratio", "Cohen's kappa of the same predictions.", ["model", "window"]
        )

    def _keeping(self) -> None:
        self.checkpoints = self._counter(
            "checkpoints",
            "Checkpoints, by outcome: written, failed (tried again), unreadable (at the start).",
            ["outcome"],
        )
        self.checkpoint_duration = self._histogram(
            "checkpoint_duration_seconds", "Time to write a checkpoint.", [], LATENCY
        )
        self.checkpoint_pause = self._histogram(
            "checkpoint_pause_seconds", "Time that learning stood still to copy one.", [], LATENCY
        )
        self.checkpoint_size = self._gauge("checkpoint_size_bytes", "Size of the last checkpoint.")
        self.checkpoint_last_success = self._gauge(
            "checkpoint_last_success_timestamp_seconds", "When the last one was written, Unix time."
        )
        self.snapshots_published = self._counter(
            "snapshots_published", "Snapshots handed to the API.", ["model"]
        )
        self.snapshot_publish_duration = self._histogram(
            "snapshot_publish_duration_seconds", "Time to take and publish one.", [], LATENCY
        )
        self.snapshot_age = self._gauge(
            "snapshot_age_seconds", "Time since the answering snapshot was published; NaN: none."
        )
        self.snapshot_events = self._gauge(
            "snapshot_events",
            "Events that the answering snapshot has learned; NaN: none.",
            ["model"],
        )
        self.snapshots_sent = self._counter(
            "snapshots_sent",
            "Snapshots for replicas, by outlet (topic, folder) and outcome: sent, failed.",
            ["outlet", "outcome"],
        )
        self.snapshot_sent_bytes = self._gauge(
            "snapshot_sent_bytes", "Size of the last one that was sent, before it is packed."
        )
        self.snapshot_send_duration = self._histogram(
            "snapshot_send_duration_seconds", "Time until one was with all outlets.", [], LATENCY
        )
        self.snapshots_received = self._counter(
            "snapshots_received", "Snapshots of a learner that this replica answered from."
        )
        self.snapshot_received_bytes = self._counter(
            "snapshot_received_bytes", "Size of all of them."
        )
        self.snapshots_refused = self._counter(
            "snapshots_refused",
            "What came and was no snapshot to answer from, by reason; the one before stays.",
            ["reason"],
        )
        self.snapshot_source_connected = self._gauge(
            "snapshot_source_connected", "1 while the topic or folder of the snapshots is there."
        )
        self.snapshot_read_duration = self._histogram(
            "snapshot_read_duration_seconds", "Time to check one and to switch to it.", [], LATENCY
        )
        self.snapshot_delivery = self._histogram(
            "snapshot_delivery_seconds",
            "From its publication, by the learner's clock, to the first answer from it.",
            [],
            DELAY,
        )
        self.build_info = self._gauge(
            "build_info", "Always 1; the labels say what runs.", ["version", "variant", "model"]
        )

    def _answering(self) -> None:
        self.predictions = self._counter(
            "predictions", "Events predicted for clients, by outcome.", ["model", "outcome"]
        )
        self.http_requests = LoopCounter(
            "http_requests", "HTTP requests answered.", ["method", "route", "code"]
        )
        self.registry.register(self.http_requests)
        self.http_unauthorized = Counter(
            "http_unauthorized_total",
            "HTTP requests refused for their key, by reason: missing, wrong.",
            ["reason"],
            registry=self.registry,
        )
        self.http_request_duration = LoopHistogram(
            "http_request_duration_seconds",
            "Time to answer an HTTP request.",
            ["method", "route"],
            LATENCY,
        )
        self.registry.register(self.http_request_duration)
        self.http_requests_in_progress = Gauge(
            "http_requests_in_progress", "HTTP requests being answered.", registry=self.registry
        )

    def _counter(self, name: str, help_text: str, labels: Sequence[str] = ()) -> Counter:
        return Counter(f"livetree_{name}_total", help_text, labels, registry=self.registry)

    def _gauge(self, name: str, help_text: str, labels: Sequence[str] = ()) -> Gauge:
        return Gauge(f"livetree_{name}", help_text, labels, registry=self.registry)

    def _histogram(
        self, name: str, help_text: str, labels: Sequence[str], bounds: Sequence[float]
    ) -> Histogram:
        return Histogram(
            f"livetree_{name}", help_text, labels, buckets=bounds, registry=self.registry
        )


def _samples(metric: Gauge | Histogram) -> Iterator[Sample]:
    return (sample for family in metric.collect() for sample in family.samples)
