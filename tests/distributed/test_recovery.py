"""A learner on a Ray cluster: deaths of all kinds, and in the end the same model."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.distributed.nodes import OBJECT_STORE_BYTES, Nodes, children
from tests.distributed.story import Story, is_alive, undisturbed
from tests.faults.served import wait

MODES: dict[str, dict[str, Any]] = {
    "sync": {"mode": "sync"},
    "wk": {"mode": "wk", "lag_events": 130, "keep_events": 60},
}


@pytest.fixture(scope="module")
def cluster(ray_there: None) -> Iterator[Nodes]:
    nodes = Nodes(2)
    yield nodes
    nodes.close()


def returned(story: Story, times: int) -> None:
    """The learner has gone back to the checkpoint, and goes on."""
    assert len(story.served.said("worker lost, going back to the checkpoint")) >= times
    assert len(story.served.said("workers ready")) > times


@pytest.mark.parametrize("mode", MODES)
def test_a_learner_outlives_its_workers_and_itself(
    mode: str, cluster: Nodes, tmp_path: Path
) -> None:
    joins = mode == "wk"  # the learner's machine becomes one more node, without room for workers
    ray = {"address": cluster.address, "join": joins, "object_store_bytes": OBJECT_STORE_BYTES}
    story = Story(tmp_path, ray, cluster.environment, MODES[mode])
    story.start()
    try:
        story.more()
        os.kill(story.workers()[0], signal.SIGKILL)
        story.more()
        returned(story, 1)
        if mode == "sync":  # the other node is needed
            cluster.nodes[-1].kill()
        else:
            os.kill(story.workers()[1], signal.SIGKILL)
        story.more()
        returned(story, 2)
        assert story.served.metric("livetree_vht_recoveries_total") >= 2

        own = children(story.served.process.pid)
        assert bool(own) is joins
        orphans = [*story.workers(), *own]
        story.served.kill()
        wait(lambda: not any(map(is_alive, orphans)), lambda: f"{orphans} linger")
        story.start()
        story.more()
        assert story.served.terminate() == 0, story.served.log
    finally:
        story.served.kill()

    assert story.hash() == undisturbed(4, MODES[mode])
