"""Prequential scores: every event is predicted before it is learned.

Accuracy and Cohen's kappa, overall and over the last events. Only marginal counts are kept, so
the cost does not depend on the number of classes squared. An event predicted when no class was
known (code -1) counts as wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from app.errors import CheckpointUnreadable
from app.kernels.tally import tally

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
        self._actual = _grown(self._actual, actual)
        self._predicted = _grown(self._predicted, predicted)
        self._correct += tally(actual, predicted, self._actual, self._predicted)
        self._last_actual = self._latest(self._last_actual, actual)
        self._last_predicted = self._latest(self._last_predicted, predicted)

    def _latest(self, before: Codes, codes: Codes) -> Codes:
        """Return the codes in the window, as a copy: those given are their giver's."""
        if len(codes) >= self.window:
            return codes[-self.window :].copy()
        return np.concatenate((before, codes))[-self.window :]

    def scores(self) -> Scores:
        """Return the scores as of now."""
        actual, predicted = self._last_actual, self._last_predicted
        classes, guesses = np.zeros_like(self._actual), np.zeros_like(self._predicted)
        correct = tally(actual, predicted, classes, guesses)
        overall = _scores(self.events, self._correct, self._actual, self._predicted)
        recent = _scores(len(actual), correct, classes, guesses)
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
        """Continue from ``to_dict``; another window than before keeps what still fits in it.

        Raises CheckpointUnreadable for what ``to_dict`` cannot have written.
        """
        try:
            found = msgspec.convert(state, _State)
            _require_consistent(found)
        except (ValueError, RecursionError) as exc:
            raise CheckpointUnreadable(f"its evaluation cannot be read: {exc}") from exc
        twin = cls(window or found.window)
        twin.events = found.events
        twin._correct = found.correct
        twin._actual = np.array(found.actual, np.int64)
        twin._predicted = np.array(found.predicted, np.int64)
        twin._last_actual = np.array(found.last_actual, np.int32)[-twin.window :]
        twin._last_predicted = np.array(found.last_predicted, np.int32)[-twin.window :]
        return twin


Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Code = Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)]  # -1: no class was known


class _State(msgspec.Struct, forbid_unknown_fields=True):
    window: Annotated[int, msgspec.Meta(ge=1, le=2**62)]
    events: Count
    correct: Count
    actual: list[Count]
    predicted: list[Count]
    last_actual: list[Code]
    last_predicted: list[Code]


def _require_consistent(state: _State) -> None:
    """Raise ValueError unless the numbers can be of the same events."""
    if sum(state.actual) != state.events or sum(state.predicted) > state.events:
        raise ValueError(
            f"{sum(state.actual)} events by class and {sum(state.predicted)} predictions; "
            f"expected those of {state.events} events"
        )
    if state.correct > state.events:
        raise ValueError(f"correct is {state.correct}; expected at most {state.events}")
    last = len(state.last_actual)
    most = min(state.window, state.events)
    if last != len(state.last_predicted) or last > most:
        raise ValueError(
            f"the window holds {last} events and {len(state.last_predicted)} predictions; "
            f"expected as many of both, at most {most}"
        )
    for name, codes, counts in (
        ("last_actual", state.last_actual, state.actual),
        ("last_predicted", state.last_predicted, state.predicted),
    ):
        if max(codes, default=-1) >= len(counts):
            raise ValueError(
                f"{name} holds the class {max(codes)}; expected less than {len(counts)}"
            )
    if min(state.last_actual, default=0) < 0:
        raise ValueError("last_actual holds the class -1; expected one that is known")


def _grown(counts: Counts, codes: Codes) -> Counts:
    """Return counts that have a place for every code."""
    most = int(codes.max(initial=-1)) + 1
    return counts if most <= len(counts) else np.pad(counts, (0, most - len(counts)))


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
