"""A learner that starts a Ray of its own: what it tells, and what it leaves behind."""

from __future__ import annotations

import os
from pathlib import Path

from tests.distributed.nodes import children
from tests.distributed.story import PART, Story, is_alive, undisturbed
from tests.faults.served import wait


def test_a_ray_of_its_own_tells_what_it_costs_and_ends_with_the_learner(
    ray_there: None, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    small = {"cpus_per_worker": 0.5, "object_store_bytes": 80_000_000}
    compiled = os.environ.get("NUMBA_CACHE_DIR", str(Path.home() / ".cache" / "livetree"))
    story = Story(tmp_path, small, {"HOME": str(home), "NUMBA_CACHE_DIR": compiled})
    story.start()
    try:
        story.more()
        metric = story.served.metric
        story.served.wait(lambda: metric("livetree_vht_events_total", fate="sent") == PART)
        assert metric("livetree_vht_messages_total") > 2
        assert metric("livetree_vht_sent_bytes_total") > PART * 8
        assert metric("livetree_vht_questions_total") > 0
        assert metric("livetree_vht_decision_delay_seconds_total") > 0
        for worker in "01":
            assert metric("livetree_vht_worker_busy_seconds_total", worker=worker) > 0
            assert metric("livetree_vht_worker_held_bytes", worker=worker) > 0
        assert metric("livetree_vht_recoveries_total") == 0

        left = [*children(story.served.process.pid), *story.workers()]
        assert len(left) > 4
        story.served.kill()
        wait(lambda: not any(map(is_alive, left)), lambda: f"of {left} some linger")
        story.start()
        story.more()
        left = [*children(story.served.process.pid), *story.workers()]
        assert story.served.terminate() == 0, story.served.log
        assert "SIGTERM received" not in story.served.log  # Ray would abort the end after 3 seconds
        wait(lambda: not any(map(is_alive, left)), lambda: f"of {left} some linger")
    finally:
        story.served.kill()

    assert story.hash() == undisturbed(2)
    assert not (home / ".ray").exists()
