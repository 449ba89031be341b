"""What the metrics say about learning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from app import telemetry
from app.metrics import Metrics
from app.settings import Settings
from app.settings_file import declared_schema
from app.source import Record
from app.telemetry import Telemetry
from app.training import Outcome, Training, new_tree
from learner import StreamingTree
from tests.app.conftest import FEATURES, events
from tests.app.test_history import record

Make = Callable[..., Settings]


class Still:
    """A source with something waiting."""

    topic = "t"
    resets = 2
    connected = True

    def lag(self) -> dict[int, int]:
        return {0: 7, 1: 0}


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "EVERY_SECONDS", 0.0)


@pytest.fixture
def training(make_settings: Make) -> Training:
    settings = make_settings(
        schema={"features": FEATURES}, tree={"n_min": 50, "audit_fraction": 1.0}
    )
    schema = declared_schema(settings.schema_)
    assert schema is not None
    return Training(settings, new_tree(settings, schema))


def learn(training: Training, seed: int, timestamp_ms: int = 1_700_000_000_000) -> Outcome:
    values = events(1000, seed)
    return training.learn([Record("t", 0, i, None, v, timestamp_ms) for i, v in enumerate(values)])


def tick(watching: Telemetry, training: Training) -> None:
    source: Any = Still()
    watching.tick(source, training)


def test_the_tree_its_splits_and_its_scores_are_shown(training: Training) -> None:
    metrics = Metrics()
    watching = Telemetry(metrics, "m")
    watching.resume(training)
    learn(training, 1)
    assert training.tree is not None
    changes = training.tree.take_splits()

    watching.changes(changes)
    tick(watching, training)
    tick(watching, training)

    def value(name: str, **labels: str) -> float:
        return metrics.registry.get_sample_value(f"livetree_{name}", {"model": "m", **labels}) or 0

    tree = training.tree
    assert tree is not None
    counters, shape = tree.counters(), tree.shape()
    assert value("split_attempts_total", outcome="split") == counters.splits_bound > 0
    assert value("split_attempts_total", outcome="no_split") == counters.no_split
    assert value("splits_total", kind="bound") == counters.splits_bound
    assert value("splits_total", kind="tie") == counters.splits_tie
    assert value("attribute_evaluations_total") == counters.attribute_evaluations > 0
    assert value("tree_nodes", kind="active_leaf") == shape.active_leaves
    assert value("tree_nodes", kind="split") == shape.nodes - shape.leaves
    assert value("tree_depth") == shape.depth
    assert value("model_memory_bytes") == tree.memory_bytes()
    assert value("split_delay_events_count", kind="bound") == counters.splits_bound
    scores = training.evaluation.scores()
    assert value("prequential_accuracy_ratio", window="all") == scores.accuracy
    assert value("prequential_kappa_ratio", window="1000") == scores.window_kappa


def test_a_split_is_set_against_its_forecast() -> None:
    metrics = Metrics()
    watching = Telemetry(metrics, "m")

    watching.changes(
        [
            record("bound", n=100.0, forecast=130.0),
            record("tie", n=100.0, forecast=60.0),
            record("tie", n=100.0, forecast=95.0),
            record("bound", n=100.0, forecast=-1.0),  # at its first attempt
            record("replace", n=100.0, forecast=95.0),
        ]
    )

    def value(part: str, outcome: str) -> float | None:
        name = f"livetree_split_forecast_error_events_{part}"
        return metrics.registry.get_sample_value(name, {"model": "m", "outcome": outcome})

    assert (value("count", "early"), value("sum", "early")) == (1, 30.0)
    assert (value("count", "late"), value("sum", "late")) == (2, 45.0)


def test_what_only_some_variants_do_is_counted_too(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = Metrics()
    watching = Telemetry(metrics, "m")
    tree = training.tree
    assert tree is not None
    counted = tree.counters()._replace(
        candidate_checks=2, reevaluations=3, splits_replaced=4, thresholds_moved=5,
        subtrees_collapsed=6,
    )  # fmt: skip
    monkeypatch.setattr(tree, "counters", lambda: counted)

    tick(watching, training)
    tick(watching, training)

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"livetree_{name}", {"model": "m", **labels})

    assert value("candidate_checks_total") == 2
    assert value("reevaluations_total") == 3
    kinds = ("replace", "move", "collapse")
    assert [value("splits_total", kind=kind) for kind in kinds] == [4, 5, 6]


def test_what_a_checkpoint_brings_along_is_not_counted_again(training: Training) -> None:
    learn(training, 1)
    assert training.tree is not None
    resumed = Training(training.settings, StreamingTree.from_bytes(training.tree.to_bytes()))
    metrics = Metrics()
    watching = Telemetry(metrics, "m")

    watching.resume(resumed)
    tick(watching, resumed)

    labels = {"model": "m", "outcome": "split"}
    assert metrics.registry.get_sample_value("livetree_split_attempts_total", labels) == 0


def test_batches_lag_and_delay_are_counted(training: Training) -> None:
    metrics = Metrics()
    watching = Telemetry(metrics, "m")
    outcome = learn(training, 1)

    watching.batch("t", [Record("t", 0, 9, None, b"", 1_700_000_000_000)], outcome, 0.5)
    tick(watching, training)

    sample = metrics.registry.get_sample_value
    assert sample("livetree_events_learned_total", {"model": "m"}) == 1000
    assert sample("livetree_event_to_learned_seconds_count") == 1000
    assert sample("livetree_last_event_timestamp_seconds") == 1_700_000_000
    assert sample("livetree_consumer_lag_records", {"topic": "t", "partition": "0"}) == 7
    assert (sample("livetree_consumer_lag_seconds") or 0) > 0
    assert sample("livetree_offset_resets_total", {"topic": "t"}) == 2
    assert sample("livetree_source_connected", {"topic": "t"}) == 1
    assert sample("livetree_learn_duration_seconds_sum") == 0.5


def test_every_series_of_learning_begins_at_zero() -> None:
    metrics = Metrics()
    Telemetry(metrics, "m")

    text = metrics.render()[0].decode()

    for series in (
        'livetree_split_attempts_total{model="m",outcome="tie_split"} 0.0',
        'livetree_split_delay_events_count{kind="bound",model="m"} 0.0',
        'livetree_splits_total{kind="replace",model="m"} 0.0',
        'livetree_candidate_checks_total{model="m"} 0.0',
        'livetree_reevaluations_total{model="m"} 0.0',
        'livetree_events_rejected_total{reason="not_json"} 0.0',
        'livetree_events_rejected_total{reason="too_many_classes"} 0.0',
        'livetree_checkpoints_total{outcome="failed"} 0.0',
    ):
        assert series in text


def test_values_taken_as_missing_are_counted_from_zero(training: Training) -> None:
    metrics = Metrics()
    watching = Telemetry(metrics, "m")

    def ignored(reason: str) -> float | None:
        labels = {"model": "m", "reason": reason}
        return metrics.registry.get_sample_value("livetree_values_ignored_total", labels)

    before = ignored("infinite"), ignored("too_many")
    learn(training, 1)
    assert training.tree is not None
    training.tree.encoder.max_values = 0
    training.tree.encoder.encode_records([{"car": "never seen before"}])
    tick(watching, training)

    assert before == (0.0, 0.0)
    assert (ignored("infinite"), ignored("too_many")) == (0.0, 1.0)
