"""Workers in threads: the same tree as alone, in the service too, and failures that are told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from app.distributed.telemetry import SpreadTelemetry
from app.distributed.threads import Threads
from app.errors import SettingsError, policy_of
from app.metrics import Metrics
from app.settings import Settings
from app.settings_file import declared_schema
from app.training import Training, new_tree
from learner import (
    Batch,
    Done,
    Encoder,
    Feature,
    Kind,
    LearnerError,
    LocalStatistics,
    Schema,
    StreamingTree,
    Vertical,
    VerticalTree,
    WorkerLost,
)
from tests.app.conftest import FEATURES, events
from tests.app.test_training import records

Make = Callable[..., Settings]
WIDTH = 40


def numbers(count: int) -> tuple[Batch, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(7)
    matrix = rng.normal(size=(count, WIDTH))
    y = (matrix[:, 3] + matrix[:, 30] + 0.5 * rng.normal(size=count) > 0).astype(np.int32)
    empty = np.zeros((count, 0), np.int32), np.zeros(count + 1, np.int64), np.zeros(0, np.int32)
    return Batch(matrix, *empty), y


def fresh() -> StreamingTree:
    features = tuple(Feature(f"x{i}", Kind.NUMERIC) for i in range(WIDTH))
    return StreamingTree(Encoder(Schema(features, ("no", "yes"))), "vht", n_min=50.0, tau=0.2)


def taught(tree: StreamingTree) -> StreamingTree:
    batch, y = numbers(4000)
    for start in range(0, 4000, 500):
        tree.learn(batch.part(start, start + 500), y[start : start + 500])
    return tree


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_threads_learn_the_tree_of_one_thread(workers: int) -> None:
    threads = Threads()
    tree = taught(VerticalTree(fresh(), threads, Vertical(workers)))

    assert tree.shape().nodes > 5
    assert tree.hash() == taught(fresh()).hash()
    load = threads.load()
    assert len(load.busy_seconds) == workers
    assert all(load.busy_seconds)
    assert load.sent_bytes == 0
    threads.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("worker-")]


@pytest.mark.parametrize("mode", ["wok", "wk"])
def test_late_decisions_are_the_same_in_threads(mode: str) -> None:
    from learner import InProcess

    vertical, threads = Vertical(3, mode, lag=300, keep=50), Threads()
    late = taught(VerticalTree(fresh(), threads, vertical))

    assert late.hash() == taught(VerticalTree(fresh(), InProcess(), vertical)).hash()
    threads.close()


def trained(settings: Settings) -> Training:
    schema = declared_schema(settings.schema_)
    assert schema is not None
    training = Training(settings, new_tree(settings, schema))
    for start in range(0, 2000, 300):
        training.learn(records(events(2000))[start : start + 300])
    return training


def test_a_service_with_threads_learns_the_same_and_tells_its_metrics(make_settings: Make) -> None:
    chosen: dict[str, Any] = {"schema": {"features": FEATURES}, "tree": {"n_min": 50}}
    alone = trained(make_settings(variant="vht", **chosen))
    settings = make_settings(variant="vht", execution="threads", vht={"workers": 3}, **chosen)
    together = trained(settings)
    assert alone.tree is not None
    assert isinstance(together.tree, VerticalTree)
    assert together.tree.hash() == alone.tree.hash()
    metrics = Metrics()
    SpreadTelemetry(metrics, "m").tick(together.tree, together.executor)

    text = metrics.render()[0].decode()
    assert together.executor is not None
    assert together.executor.load().decision_seconds > 0.0
    assert 'livetree_vht_events_total{fate="sent",model="m"} 2000.0' in text
    assert 'livetree_vht_events_total{fate="lost",model="m"} 0.0' in text
    assert 'livetree_vht_worker_busy_seconds_total{model="m",worker="2"}' in text
    together.close()


def test_a_mode_without_threads_runs_in_the_process(make_settings: Make) -> None:
    settings = make_settings(
        variant="vht", vht={"mode": "wok", "lag_events": 100}, schema={"features": FEATURES},
        tree={"n_min": 50},
    )  # fmt: skip
    training = trained(settings)

    assert isinstance(training.tree, VerticalTree)
    assert training.executor is None
    assert training.tree.vertical_counters().lost > 0


class Failing(LocalStatistics):
    def take(self, number: int, message: Any) -> Any:
        if isinstance(message, Done):
            raise MemoryError("no room")
        return super().take(number, message)


def test_a_thread_that_fails_is_told_and_ends_the_learning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.distributed.threads.LocalStatistics", Failing)
    threads = Threads()
    tree = VerticalTree(fresh(), threads, Vertical(2))

    with pytest.raises(WorkerLost, match="MemoryError: no room"):
        taught(tree)

    assert policy_of(WorkerLost).exit_code == 5
    threads.close()


@pytest.mark.parametrize(("event", "column"), [(4, 33), (700, 33), (4, 3), (700, 3), (999, 33)])
def test_an_infinite_number_is_told_as_what_it_is(event: int, column: int) -> None:
    threads = Threads()
    tree = VerticalTree(fresh(), threads, Vertical(2))
    batch, y = numbers(1000)
    batch.numeric[event, column] = np.inf

    with pytest.raises(LearnerError, match="infinite number"):
        tree.learn(batch, y)
    threads.close()


@pytest.mark.parametrize("mode", ["sync", "wk"])
def test_who_answers_too_late_is_not_waited_for(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    class Slow(LocalStatistics):
        def arguments(self, block: int) -> tuple[Any, ...]:
            if self.share.worker == 1:
                gate.wait()
            return super().arguments(block)

    monkeypatch.setattr("app.distributed.threads.LocalStatistics", Slow)
    threads = Threads(timeout_seconds=0.01)
    tree = VerticalTree(fresh(), threads, Vertical(2, mode, lag=100, keep=10))
    batch, y = numbers(1000)
    release = threading.Timer(1.0, gate.set)
    release.start()
    tree.learn(batch, y)
    release.join()

    assert tree.vertical_counters().unanswered > 0
    assert tree.shape().nodes == 1
    threads.close()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"execution": "threads"}, "expected local with the variant 'vfdt'"),
        (
            {"variant": "vht", "execution": "threads", "tree": {"leaf_predictor": "nba"}},
            "'leaf_predictor' is 'nba' with workers; expected 'mc'",
        ),
        ({"variant": "vht", "vht": {"mode": "wk"}, "tree": {"audit_fraction": 0.5}}, "audit"),
        ({"variant": "vht", "vht": {"workers": 0}}, "vht.workers (LIVETREE_VHT__WORKERS) is 0"),
    ],
)
def test_settings_that_do_not_go_together_stop_the_start(given: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.load(environ={}, **given)

    assert named in str(caught.value)


def test_the_number_of_workers_may_change_at_a_restart_but_the_mode_may_not() -> None:
    def shaping(**vht: Any) -> dict[str, Any]:
        return Settings(variant="vht", vht=vht).tree_shaping()

    assert shaping(workers=2) == shaping(workers=7)
    assert shaping(lag_events=5) == shaping(lag_events=6)
    assert shaping(mode="wk", lag_events=5) != shaping(mode="wk", lag_events=6)
    assert "vht" not in Settings().tree_shaping()
