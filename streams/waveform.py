"""Waveforms (Breiman et al. 1984): each class mixes two of three triangles, plus normal noise."""

from __future__ import annotations

import numpy as np

from learner import Batch, Schema
from learner.kernels.jit import kernel
from streams.java_random import Random, new_random, next_double, next_gaussian, next_int
from streams.stream import (
    Floats,
    Labels,
    Stream,
    empty_rows,
    numbered,
    numeric_features,
    without_tokens,
)

_POINTS = 21
_IDLE = 19
_PEAKS = (6, 14, 10)
_TRIANGLES = np.array(
    [[max(0, 6 - abs(i - peak)) for i in range(_POINTS)] for peak in _PEAKS], np.float64
)


class Waveform(Stream):
    """Three classes of noisy waves at 21 points; ``idle`` appends 19 attributes of pure noise."""

    def __init__(self, seed: int = 1, *, idle: bool = False) -> None:
        self._width = _POINTS + (_IDLE if idle else 0)
        features = numeric_features(numbered("att", self._width))
        super().__init__(f"waveform{self._width}", Schema(features, numbered("class", 3)))
        self._random = new_random(seed)

    def _draw(self, n: int) -> tuple[Batch, Labels]:
        numeric, nominal, labels = empty_rows(n, self._width, 0)
        _fill(self._random, numeric, labels, _TRIANGLES)
        return without_tokens(numeric, nominal), labels


@kernel
def _fill(random: Random, numeric: Floats, labels: Labels, triangles: Floats) -> None:
    points = triangles.shape[1]
    for row in range(len(labels)):
        label = next_int(random, 3)
        first = triangles[1 if label == 2 else 0]
        second = triangles[1 if label == 0 else 2]
        share = next_double(random)
        for i in range(points):
            wave = share * first[i] + (1.0 - share) * second[i]
            numeric[row, i] = wave + next_gaussian(random)
        for i in range(points, numeric.shape[1]):
            numeric[row, i] = next_gaussian(random)
        labels[row] = label
