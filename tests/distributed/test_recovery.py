"""A learner on a Ray cluster: deaths of all kinds, and in the end the same model."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.distributed.nodes import OBJECT_STORE_BYTES, Nodes, children
from tests.distributed.story import Story, is_alive, undisturbed
from tests.faults.served import PATIENCE_SECONDS, wait

MODES: dict[str, dict[str, Any]] = {
    "sync": {"mode": "sync"},
    "wk": {"mode": "wk", "lag_events": 130, "keep_events": 60},
}


def returned(story: Story, times: int) -> None:
    """The learner has gone back to the checkpoint, and goes on.

    Where leaves ask nothing any more it gets to know at the next checkpoint, behind the events.
    """
    story.served.wait_for("worker lost, going back to the checkpoint", times)
    story.served.wait_for("workers ready", times + 1)


@pytest.mark.parametrize("mode", MODES)
def test_a_learner_outlives_its_workers_and_itself(
    mode: str, cluster: Nodes, tmp_path: Path
) -> None:
    cluster.restore(2)
    joins = mode == "wk"  # the learner's machine becomes one more node, without room for workers
    ray = {"address": cluster.address, "join": joins, "object_store_bytes": OBJECT_STORE_BYTES}
    story = Story(tmp_path, ray, cluster.environment, MODES[mode])
    story.start()
    try:
        story.more()
        os.kill(story.workers()[0], signal.SIGKILL)
        story.more()
        returned(story, 1)
        cluster.node_of(story.workers()[1]).kill()  # the other node is needed
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


def test_the_death_of_the_head_ends_a_learner_beside_it_and_another_one_goes_on(
    ray_there: None, tmp_path: Path
) -> None:
    clusters = [Nodes(1)]
    story = Story(tmp_path, {"address": clusters[0].address}, clusters[0].environment)
    story.start()
    try:
        story.more()
        orphans = story.workers()
        clusters[0].head.kill()
        assert story.served.process.wait(PATIENCE_SECONDS) != 0
        story.served.kill()
        wait(lambda: not any(map(is_alive, orphans)), lambda: f"{orphans} linger")
        clusters.append(Nodes(1))
        story.move(clusters[1].address, clusters[1].environment)
        story.start()
        story.more()
        assert story.served.terminate() == 0, story.served.log
    finally:
        story.served.kill()
        for cluster in clusters:
            cluster.close()

    assert story.hash() == undisturbed(2)
