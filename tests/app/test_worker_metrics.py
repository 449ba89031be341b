"""Metrics of several processes: every one of them answers for all."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.worker_metrics import WorkerMetrics, merged


def families(body: bytes) -> dict[str, dict[tuple[str, ...], float]]:
    """Parse an exposition; a metric that comes twice is an error."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(body.decode()):
        assert family.name not in found, family.name
        found[family.name] = {
            (sample.name, *map("=".join, sorted(sample.labels.items()))): sample.value
            for sample in family.samples
        }
    return found


def test_samples_of_all_workers_stand_under_one_head() -> None:
    one = b'# HELP a Some.\n# TYPE a counter\na_total{b="}"} 1.0\n# TYPE c gauge\nc NaN\n'
    two = b'# HELP a Some.\n# TYPE a counter\na_total{b="}"} 2.0\n# TYPE d gauge\nd 3\n'

    assert merged({"0": one, "1": two}).decode().splitlines() == [
        "# HELP a Some.",
        "# TYPE a counter",
        'a_total{worker="0",b="}"} 1.0',
        'a_total{worker="1",b="}"} 2.0',
        "# TYPE c gauge",
        'c{worker="0"} NaN',
        "# TYPE d gauge",
        'd{worker="1"} 3',
    ]


@pytest.fixture
def workers(tmp_path: Path) -> list[WorkerMetrics]:
    return [WorkerMetrics(tmp_path, name) for name in ("0", "1", "receiver")]


def test_whoever_is_asked_answers_for_all_that_have_written(workers: list[WorkerMetrics]) -> None:
    for count, metrics in enumerate(workers, 1):
        metrics.predictions.labels("m", "answered").inc(count)
        metrics.http_request_duration.observe(("GET", "/"), 0.01 * count)
        metrics.write()
    workers[0].predictions.labels("m", "answered").inc(10)

    found = families(workers[0].render()[0])
    counted = found["livetree_predictions"]

    name = "livetree_predictions_total", "model=m", "outcome=answered"
    assert [counted[(*name, f"worker={w}")] for w in ("0", "1", "receiver")] == [11, 2, 3]
    sums = {k: v for k, v in found["http_request_duration_seconds"].items() if "_sum" in k[0]}
    assert sorted(sums.values()) == pytest.approx([0.01, 0.02, 0.03])


def test_a_process_that_ended_is_not_told_of(tmp_path: Path, workers: list[WorkerMetrics]) -> None:
    for metrics in workers:
        metrics.write()
    (tmp_path / "1.prom").unlink()

    body = workers[0].render()[0]

    assert b'worker="0"' in body
    assert b'worker="receiver"' in body
    assert b'worker="1"' not in body
