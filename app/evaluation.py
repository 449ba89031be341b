"""Prequential scores: every event is predicted before it is learned.

Accuracy and Cohen's kappa, overall and over the last events. Only marginal counts are kept, so
the cost does not depend on the number of classes squared. An event predicted when no class was
known (code -1) counts as wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int64]


class Scores(NamedTuple):
    """None where a score is not defined: no events, or a kappa whose chance agreement is 1."""

    accuracy: float | None
    kappa: float | None
    window_accuracy: float | None
    window_kappa: float | None


class Prequential:
    """Running scores from class codes.

    >>> scores = Prequential(window=2)
    >>> scores.update(np.array([0, 1, 1], np.int32), np.array([0, 0, 1], np.int32))
    >>> scores.scores().window_accuracy
    0.5
    """

    def __init__(self, window: int = 1000) -> None:
        self.window = window
        self.events = 0
        self._correct = 0
        self._actual = np.zeros(0, np.int64)  # events of each class
        self._predicted = np.zeros(0, np.int64)  # predictions of each class
        self._last_actual = np.zeros(0, np.int32)
        self._last_predicted = np.zeros(0, np.int32)

    def update(self, actual: Codes, predicted: Codes) -> None:
        """Take in a batch: the classes the events had, and those predicted before learning."""
        self.events += len(actual)
        self._correct += int(np.count_nonzero(actual == predicted))
        self._actual = _added(self._actual, actual)
        self._predicted = _added(self._predicted, predicted)
        self._last_actual = np.concatenate((self._last_actual, actual))[-self.window :]
        self._last_predicted = np.concatenate((self._last_predicted, predicted))[-self.window :]

    def scores(self) -> Scores:
        """Return the scores as of now."""
        actual, predicted = self._last_actual, self._last_predicted
        correct = int(np.count_nonzero(actual == predicted))
        none = np.zeros(0, np.int64)
        overall = _scores(self.events, self._correct, self._actual, self._predicted)
        recent = _scores(len(actual), correct, _added(none, actual), _added(none, predicted))
        return Scores(*overall, *recent)

    def to_dict(self) -> dict[str, Any]:
        """Return the whole state as plain data, for the checkpoint."""
        return {
            "window": self.window,
            "events": self.events,
            "correct": self._correct,
            "actual": self._actual.tolist(),
            "predicted": self._predicted.tolist(),
            "last_actual": self._last_actual.tolist(),
            "last_predicted": self._last_predicted.tolist(),
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any], window: int | None = None) -> Prequential:
        """Continue from ``to_dict``; another window than before keeps what still fits in it."""
        twin = cls(window or int(state["window"]))
        twin.events = int(state["events"])
        twin._correct = int(state["correct"])
        twin._actual = np.array(state["actual"], np.int64)
        twin._predicted = np.array(state["predicted"], np.int64)
        twin._last_actual = np.array(state["last_actual"], np.int32)[-twin.window :]
        twin._last_predicted = np.array(state["last_predicted"], np.int32)[-twin.window :]
        return twin


def _added(counts: Counts, codes: Codes) -> Counts:
    """Return counts with the codes counted in, longer where a new class appeared."""
    found = np.bincount(codes[codes >= 0], minlength=len(counts))
    found[: len(counts)] += counts
    return found


def _scores(
    events: int, correct: int, actual: Counts, predicted: Counts
) -> tuple[float | None, float | None]:
    if not events:
        return None, None
    accuracy = correct / events
    shared = min(len(actual), len(predicted))
    chance = float(np.dot(actual[:shared] / events, predicted[:shared] / events))
    kappa = (accuracy - chance) / (1 - chance) if chance < 1 else None
    return accuracy, kappa
