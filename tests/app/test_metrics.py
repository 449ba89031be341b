"""Metrics: names that Prometheus's own rules accept, and what fills them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from app.metrics import BatchHistogram, Metrics

UNITS = (
    "seconds",
    "bytes",
    "ratio",
    "records",
    "events",
    "info",
    "nodes",
    "leaves",
    "depth",
    "second",
    "connected",  # a truth value: 0 or 1
)


def families(metrics: Metrics) -> dict[str, tuple[str, str]]:
    text = metrics.render()[0].decode()
    return {
        found.name: (found.type, found.documentation)
        for found in text_string_to_metric_families(text)
        if found.name.startswith(("livetree_", "http_"))
    }


def test_names_have_base_units_and_counters_end_in_total() -> None:
    metrics = Metrics()
    text = metrics.render()[0].decode()

    for name, (kind, documentation) in families(metrics).items():
        assert documentation.endswith("."), name
        if kind == "counter":
            assert f"# TYPE {name}_total counter" in text
        elif name != "http_requests_in_progress":
            assert name.endswith(UNITS), name
        assert not re.search(r"_(ms|milliseconds|kb|count|sum)$", name)


def test_no_label_can_have_unbounded_values() -> None:
    registry = Metrics().registry
    labels = {
        label
        for collector in list(registry._collector_to_names)
        for label in getattr(collector, "_labelnames", ())
    }

    assert labels <= {
        "code",
        "fate",
        "kind",
        "method",
        "model",
        "outcome",
        "outlet",
        "partition",
        "reason",
        "route",
        "topic",
        "variant",
        "version",
        "window",
        "worker",
    }


def test_two_services_in_a_process_do_not_share_metrics() -> None:
    one, other = Metrics(), Metrics(CollectorRegistry())

    one.tombstones.inc()

    assert other.registry.get_sample_value("livetree_tombstones_skipped_total") == 0


def test_a_batch_histogram_counts_like_the_clients_own() -> None:
    metrics = Metrics()
    values = np.array([0.0, 0.001, 0.0011, 0.2, 10.0, 11.0])
    ours = BatchHistogram("ours_seconds", "Ours.", (0.001, 0.25, 10.0))
    metrics.registry.register(ours)

    ours.observe_many(values[:3])
    ours.observe_many(values[3:])

    sample = metrics.registry.get_sample_value
    assert sample("ours_seconds_bucket", {"le": "0.001"}) == 2
    assert sample("ours_seconds_bucket", {"le": "0.25"}) == 4
    assert sample("ours_seconds_bucket", {"le": "10.0"}) == 5
    assert sample("ours_seconds_bucket", {"le": "+Inf"}) == 6
    assert sample("ours_seconds_count") == 6
    assert sample("ours_seconds_sum") == pytest.approx(values.sum())
