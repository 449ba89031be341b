"""SEA concepts (Street & Kim 2001): the class depends on the sum of two of three numbers."""

from __future__ import annotations

from learner import Batch, Schema
from learner.kernels.jit import kernel
from streams.java_random import Random, new_random, next_double, next_int
from streams.stream import (
    Floats,
    Labels,
    Stream,
    empty_rows,
    numbered,
    numeric_features,
    without_tokens,
)

_THRESHOLDS = (8.0, 9.0, 7.0, 9.5)


class Sea(Stream):
    """Three numbers on [0, 10); class A when the first two add up to a threshold at most.

    ``function`` 1 to 4 chooses the threshold 8, 9, 7 or 9.5. ``noise`` is the share of flipped
    classes, in whole percents. With ``balance`` the classes alternate (before the noise).
    """

    def __init__(
        self, seed: int = 1, *, function: int = 1, noise: float = 0.1, balance: bool = False
    ) -> None:
        super().__init__("sea", Schema(numeric_features(numbered("attrib", 3)), ("A", "B")))
        self._random = new_random(seed)
        self._threshold = _THRESHOLDS[function - 1]
        self._noise_percent = round(100 * noise)
        self._balance = balance
        self._next_class = 1

    def _draw(self, n: int) -> tuple[Batch, Labels]:
        numeric, nominal, labels = empty_rows(n, 3, 0)
        self._next_class = _fill(
            self._random,
            numeric,
            labels,
            self._threshold,
            self._noise_percent,
            self._balance,
            self._next_class,
        )
        return without_tokens(numeric, nominal), labels


@kernel
def _fill(
    random: Random,
    numeric: Floats,
    labels: Labels,
    threshold: float,
    noise_percent: int,
    balance: bool,
    next_class: int,
) -> int:
    for row in range(len(labels)):
        label = -1
        while label < 0 or (balance and label != next_class):
            for i in range(3):
                numeric[row, i] = 10.0 * next_double(random)
            label = 0 if numeric[row, 0] + numeric[row, 1] <= threshold else 1
        if balance:
            next_class = 1 - next_class
        if 1 + next_int(random, 100) <= noise_percent:
            label = 1 - label
        labels[row] = label
    return next_class
