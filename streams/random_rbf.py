"""Random radial basis functions: clouds around random centroids, each with one class."""

from __future__ import annotations

import math

import numpy as np

from learner import Batch, Schema
from learner.kernels.jit import kernel
from streams.java_random import Random, new_random, next_double, next_gaussian, next_int
from streams.stream import (
    Codes,
    Floats,
    Labels,
    Stream,
    empty_rows,
    numbered,
    numeric_features,
    without_tokens,
)


class RandomRbf(Stream):
    """Numeric rows around ``centroids``, which differ in weight, spread and class.

    ``seed`` draws the rows, ``centroid_seed`` the concept.
    """

    def __init__(
        self,
        seed: int = 1,
        *,
        classes: int = 15,
        attributes: int = 200,
        centroids: int = 100,
        centroid_seed: int = 1,
    ) -> None:
        features = numeric_features(numbered("att", attributes))
        super().__init__("rbf", Schema(features, numbered("class", classes)))
        self._random = new_random(seed)
        self._centre = np.empty((centroids, attributes))
        self._class = np.empty(centroids, np.int32)
        self._spread = np.empty(centroids)
        self._weight = np.empty(centroids)
        _place_centroids(
            new_random(centroid_seed),
            self._centre,
            self._class,
            self._spread,
            self._weight,
            classes,
        )

    def _draw(self, n: int) -> tuple[Batch, Labels]:
        numeric, nominal, labels = empty_rows(n, self._centre.shape[1], 0)
        _fill(
            self._random,
            numeric,
            labels,
            self._centre,
            self._class,
            self._spread,
            self._weight,
        )
        return without_tokens(numeric, nominal), labels


@kernel
def _place_centroids(
    random: Random,
    centre: Floats,
    classes: Codes,
    spread: Floats,
    weight: Floats,
    class_count: int,
) -> None:
    for c in range(len(centre)):
        for i in range(centre.shape[1]):
            centre[c, i] = next_double(random)
        classes[c] = next_int(random, class_count)
        spread[c] = next_double(random)
        weight[c] = next_double(random)


@kernel
def _fill(
    random: Random,
    numeric: Floats,
    labels: Labels,
    centre: Floats,
    classes: Codes,
    spread: Floats,
    weight: Floats,
) -> None:
    total = 0.0
    for c in range(len(weight)):
        total += weight[c]
    for row in range(len(labels)):
        c = _weighted_choice(random, weight, total)
        square = 0.0
        for i in range(centre.shape[1]):
            offset = next_double(random) * 2.0 - 1.0
            numeric[row, i] = offset
            square += offset * offset
        scale = next_gaussian(random) * spread[c] / math.sqrt(square)
        for i in range(centre.shape[1]):
            numeric[row, i] = centre[c, i] + numeric[row, i] * scale
        labels[row] = classes[c]


@kernel
def _weighted_choice(random: Random, weight: Floats, total: float) -> int:
    """The centroid where the running sum of weights passes a uniform share of their total."""
    goal = next_double(random) * total
    reached = weight[0]
    c = 0
    while reached <= goal and c < len(weight) - 1:
        c += 1
        reached += weight[c]
    return c
