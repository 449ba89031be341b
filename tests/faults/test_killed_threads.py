"""A learner whose workers are threads dies with all of them; the next one goes on where it was.

The whole process is killed at random moments, while threads count and decisions are under way. The
model at the end is, bit for bit, that of a learner nobody disturbed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.learner_process import Learners
from tests.faults.test_exactly_once import (
    EVENTS,
    ends_of,
    finish,
    given,
    live_and_die,
    values,
)
from tests.kafka.broker import Kafka

KILLS = 8
MODES: dict[str, dict[str, Any]] = {
    "sync": {"workers": 3},
    "wk": {"workers": 3, "mode": "wk", "lag_events": 90, "keep_events": 30},
}


@pytest.fixture(scope="module")
def topic(kafka: Kafka) -> str:
    """Return a topic of one partition with all events."""
    name = kafka.topic()
    kafka.send(name, *values(EVENTS))
    return name


@pytest.fixture(scope="module")
def learners() -> Iterator[Learners]:
    with Learners("vht") as made:
        yield made


def threaded(
    kafka: Kafka, topic: str, folder: Path, poll_batch: int, vht: dict[str, Any]
) -> dict[str, Any]:
    settings = given(kafka, topic, "vht", folder, poll_batch)
    return {**settings, "execution": "threads", "vht": vht, "tree": {"n_min": 40}}


@pytest.mark.parametrize("mode", MODES)
def test_a_learner_killed_with_its_threads_ends_with_the_model_of_one_that_was_not(
    kafka: Kafka, topic: str, mode: str, learners: Learners, tmp_path: Path
) -> None:
    chance, vht = random.Random(mode), MODES[mode]
    ends, killed = ends_of(kafka, topic, 1), tmp_path / "killed"
    settings = [threaded(kafka, topic, killed, batch, vht) for batch in (1, 10, 64)]

    at_work = sum(live_and_die(learners, chance.choice(settings), chance) for _ in range(KILLS))
    resumed = finish(threaded(kafka, topic, killed, 500, {**vht, "workers": 2}), ends)
    straight = finish(threaded(kafka, topic, tmp_path / "straight", 1000, vht), ends)

    assert at_work >= KILLS // 3  # kills did hit learners that were learning
    assert resumed.model_hash == straight.model_hash
    assert resumed.evaluation == straight.evaluation
    assert resumed.events == straight.events == EVENTS
    if mode == "sync":
        alone = given(kafka, topic, "vht", tmp_path / "alone", 1000) | {"tree": {"n_min": 40}}
        assert finish(alone, ends).model_hash == straight.model_hash
