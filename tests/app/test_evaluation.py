"""Prequential scores against their definitions."""

from __future__ import annotations

import json

import numpy as np
import numpy.typing as npt
import pytest

from app.evaluation import Prequential

Codes = npt.NDArray[np.int32]


def stream(events: int, classes: int = 4) -> tuple[Codes, Codes]:
    random = np.random.default_rng(7)
    actual = random.integers(0, classes, events, dtype=np.int32)
    guess = random.integers(0, classes, events, dtype=np.int32)
    return actual, np.where(random.random(events) < 0.6, actual, guess).astype(np.int32)


def kappa_by_confusion(actual: Codes, predicted: Codes) -> float:
    classes = int(max(actual.max(), predicted.max())) + 1
    matrix = np.zeros((classes, classes))
    np.add.at(matrix, (actual, predicted), 1)
    n = len(actual)
    chance = float((matrix.sum(0) * matrix.sum(1)).sum()) / n**2
    return (float(np.trace(matrix)) / n - chance) / (1 - chance)


def test_scores_follow_their_definitions_overall_and_in_the_window() -> None:
    actual, predicted = stream(5000)
    scores = Prequential(window=1000)

    scores.update(actual, predicted)

    found = scores.scores()
    assert found.accuracy == pytest.approx(np.mean(actual == predicted))
    assert found.kappa == pytest.approx(kappa_by_confusion(actual, predicted))
    assert found.window_accuracy == pytest.approx(np.mean((actual == predicted)[-1000:]))
    assert found.window_kappa == pytest.approx(
        kappa_by_confusion(actual[-1000:], predicted[-1000:])
    )


@pytest.mark.parametrize("size", [1, 7, 1000, 2500])
def test_batch_size_does_not_change_the_scores(size: int) -> None:
    actual, predicted = stream(3000)
    whole, parts = Prequential(window=500), Prequential(window=500)

    whole.update(actual, predicted)
    for start in range(0, 3000, size):
        parts.update(actual[start : start + size], predicted[start : start + size])

    assert parts.to_dict() == whole.to_dict()


def test_a_new_class_may_appear_at_any_time() -> None:
    scores = Prequential(window=3)

    scores.update(np.array([0], np.int32), np.array([-1], np.int32))
    scores.update(np.array([5, 5], np.int32), np.array([0, 5], np.int32))

    assert scores.scores().accuracy == pytest.approx(1 / 3)


def test_scores_that_are_not_defined_are_none() -> None:
    scores = Prequential()
    assert scores.scores() == (None, None, None, None)

    scores.update(np.zeros(4, np.int32), np.zeros(4, np.int32))
    assert scores.scores() == (1.0, None, 1.0, None)


def test_a_resumed_evaluation_continues_as_if_never_stopped() -> None:
    actual, predicted = stream(3000)
    straight, first = Prequential(window=800), Prequential(window=800)
    straight.update(actual, predicted)

    first.update(actual[:1700], predicted[:1700])
    second = Prequential.from_dict(json.loads(json.dumps(first.to_dict())))
    second.update(actual[1700:], predicted[1700:])

    assert second.to_dict() == straight.to_dict()
    assert second.scores() == straight.scores()


def test_a_smaller_window_after_a_restart_keeps_the_newest_events() -> None:
    actual, predicted = stream(1000)
    wide, narrow = Prequential(window=1000), Prequential(window=100)
    wide.update(actual, predicted)
    narrow.update(actual, predicted)

    assert Prequential.from_dict(wide.to_dict(), window=100).scores() == narrow.scores()
