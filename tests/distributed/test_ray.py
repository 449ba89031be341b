"""Workers on Ray: the same tree as alone, and their death is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pytest

from app.distributed.pipes import OwnEnd
from app.distributed.threads import Threads
from learner import Encoder, LearnerError, StreamingTree, Vertical, VerticalTree, WorkerLost
from tests.distributed.stream import EAGER, EVENTS, fresh, in_process, learn
from tests.learner.concepts import Concept

if TYPE_CHECKING:
    from app.distributed.ray_workers import RayWorkers

# Ray leaves sockets and processes to end by themselves.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")


@pytest.fixture(params=["pipes", "calls"])
def line(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How orders reach workers; by calls of Ray as if these ran on other nodes."""
    if request.param == "calls":
        monkeypatch.setattr("app.distributed.ray_workers.IS_POSSIBLE", False)
    found: str = request.param
    return found


@pytest.mark.usefixtures("line")
@pytest.mark.parametrize("count", [1, 2, 3])
def test_on_ray_the_tree_is_that_of_one_thread(workers: RayWorkers, count: int) -> None:
    tree = learn(VerticalTree(fresh(), workers, Vertical(count)))

    assert tree.to_bytes() == learn(fresh()).to_bytes()
    assert tree.shape().nodes > 10
    load = workers.load()
    assert load.sent_bytes > EVENTS * 8
    assert len(load.busy_seconds) == count
    assert all(load.busy_seconds)


def test_workers_of_this_machine_get_orders_by_pipes_and_all_others_by_calls(
    workers: RayWorkers, line: str
) -> None:
    learn(VerticalTree(fresh(), workers, Vertical(2)), 0, 200)

    used = {type(found).__name__ for found in workers._lines}
    assert used == {"PipeLine" if line == "pipes" else "CallLine"}


def test_a_worker_that_does_not_reach_the_pipes_is_called(
    workers: RayWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hidden(OwnEnd):
        def __init__(self) -> None:
            super().__init__()
            self.others = self.others._replace(write=1 << 20)

    monkeypatch.setattr("app.distributed.ray_line.OwnEnd", Hidden)
    tree = learn(VerticalTree(fresh(), workers, Vertical(2)))

    assert {type(found).__name__ for found in workers._lines} == {"CallLine"}
    assert tree.hash() == learn(fresh()).hash()


def test_between_checkpoints_the_memory_of_events_is_used_again(workers: RayWorkers) -> None:
    tree = VerticalTree(fresh(), workers, Vertical(2))
    learn(tree, 0, 600)
    tree.to_bytes()
    rows = workers._rows
    assert not rows._held
    pieces = set(rows._free)

    learn(tree, 600, EVENTS).to_bytes()
    assert len(pieces) < 6
    assert len(pieces | set(rows._free)) < 6  # of twelve batches


@pytest.mark.usefixtures("line")
@pytest.mark.parametrize(
    "vertical",
    [Vertical(2, "wok", lag=70), Vertical(2, "wk", lag=70, keep=40)],
    ids=["wok", "wk"],
)
def test_late_decisions_are_the_same_in_process_in_threads_and_on_ray(
    workers: RayWorkers, vertical: Vertical
) -> None:
    threads = Threads()
    in_threads = learn(VerticalTree(fresh(), threads, vertical)).hash()
    threads.close()

    on_ray = learn(VerticalTree(fresh(), workers, vertical)).hash()

    assert on_ray == in_threads == in_process(vertical)


@pytest.mark.usefixtures("line")
@pytest.mark.parametrize(
    "vertical", [Vertical(2), Vertical(2, "wk", lag=70, keep=40)], ids=["sync", "wk"]
)
def test_a_killed_worker_is_noticed_and_the_checkpoint_goes_on_to_the_same_model(
    workers: RayWorkers, vertical: Vertical
) -> None:
    tree = learn(VerticalTree(fresh(), workers, vertical), 0, 500)
    barrier = tree.to_bytes()
    learn(tree, 500, 700)
    os.kill(workers.pids[1], signal.SIGKILL)
    with pytest.raises(WorkerLost, match="a worker on Ray is lost"):
        learn(tree, 700, EVENTS).to_bytes()

    tree = VerticalTree(StreamingTree.from_bytes(barrier), workers, vertical)
    assert learn(tree, 500, EVENTS).hash() == in_process(vertical)


@pytest.mark.usefixtures("line")
def test_what_is_wrong_with_events_is_told_as_what_it_is(workers: RayWorkers) -> None:
    alone = StreamingTree(Encoder(Concept(numeric=2, nominal=0).schema()), "vht", **EAGER)
    rows = np.array([[0.0, 1.0], [2.0, np.inf]])
    tree = VerticalTree(alone, workers, Vertical(2))

    with suppress(LearnerError):  # it may have been noticed already
        tree.learn(rows, np.array([0, 1]))
    with pytest.raises(LearnerError, match="infinite number"):
        tree.to_bytes()


def test_only_columns_that_are_there_travel(workers: RayWorkers) -> None:
    sparse = Concept(numeric=0, nominal=0, sparse=1, values=2000)
    rows, labels, _ = zip(*sparse.events(20), strict=True)
    tree = VerticalTree(StreamingTree(Encoder(sparse.schema()), "vht"), workers, Vertical(2))
    tree.learn(tree.encoder.encode(rows), tree.encoder.encode_labels(labels))
    before = workers.load().sent_bytes
    one_token = [[["t7"]]] * 100
    tree.learn(tree.encoder.encode(one_token), np.zeros(100, np.int32))

    assert tree.encoder.token_count > 1000
    assert workers.load().sent_bytes - before < 100 * 100


def test_without_ray_the_start_is_refused_in_one_line() -> None:
    hidden = "import sys; sys.modules['ray'] = None; from app.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", hidden, "serve"],
        env={**os.environ, "LIVETREE_VARIANT": "vht", "LIVETREE_EXECUTION": "ray"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 2
    assert "pip install 'livetree[ray]'" in ended.stderr
    assert "Traceback" not in ended.stderr
