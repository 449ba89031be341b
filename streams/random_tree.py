"""Random trees (Domingos & Hulten 2000): rows labelled by a random decision tree."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from learner import Batch, Feature, Kind, Schema
from learner.kernels.jit import kernel
from streams.errors import BadOption
from streams.java_random import Random, new_random, next_double, next_int
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

_MOST_NODES = 1_000_000


class Concept(NamedTuple):
    """The labelling tree as arrays; the children of a node lie one after another."""

    attribute: Codes  # nominal attributes first, then numeric ones; -1 at a leaf
    threshold: Floats  # of a numeric test: below it to the first child
    first_child: Codes
    label: Codes  # of a leaf


class RandomTree(Stream):
    """Uniform nominal and numeric attributes; the class is the leaf of a random tree.

    From level ``first_leaf`` on, a node is a leaf with probability ``leaf_fraction``; at level
    ``depth`` always. ``seed`` draws the rows, ``tree_seed`` the concept.
    """

    def __init__(
        self,
        seed: int = 1,
        *,
        classes: int = 25,
        nominal: int = 200,
        numeric: int = 200,
        values: int = 5,
        depth: int = 5,
        first_leaf: int = 3,
        leaf_fraction: float = 0.15,
        tree_seed: int = 1,
    ) -> None:
        if numeric == 0 and nominal < depth:
            raise BadOption(
                f"options 'nominal' and 'numeric' of stream 'rtg' are {nominal} and 0; expected at "
                f"least {depth} nominal ('depth'), because a path tests each only once"
            )
        labels = numbered("value", values)
        features = tuple(Feature(n, Kind.NOMINAL, labels) for n in numbered("nominal", nominal))
        features += numeric_features(numbered("numeric", numeric))
        super().__init__("rtg", Schema(features, numbered("class", classes)))
        self._random = new_random(seed)
        self._shape = (numeric, nominal)
        self._values = values
        grower = _Grower(
            new_random(tree_seed),
            classes,
            nominal,
            numeric,
            values,
            depth,
            first_leaf,
            leaf_fraction,
        )
        self._concept = grower.concept()

    def _draw(self, n: int) -> tuple[Batch, Labels]:
        numeric, nominal, labels = empty_rows(n, *self._shape)
        _fill(self._random, numeric, nominal, labels, self._values, *self._concept)
        return without_tokens(numeric, nominal), labels


class _Grower:
    """Grows the labelling tree depth first, which fixes the order of the random draws."""

    def __init__(
        self,
        random: Random,
        classes: int,
        nominal: int,
        numeric: int,
        values: int,
        depth: int,
        first_leaf: int,
        leaf_fraction: float,
    ) -> None:
        self._random = random
        self._classes = classes
        self._nominal = nominal
        self._numeric = numeric
        self._values = values
        self._depth = depth
        self._first_leaf = first_leaf
        self._leaf_fraction = leaf_fraction
        self._attribute: list[int] = []
        self._threshold: list[float] = []
        self._first_child: list[int] = []
        self._label: list[int] = []

    def concept(self) -> Concept:
        """The whole tree."""
        low, high = np.zeros(self._numeric), np.ones(self._numeric)
        self._grow(self._add(1), 0, list(range(self._nominal)), low, high)
        return Concept(
            np.array(self._attribute, np.int32),
            np.array(self._threshold, np.float64),
            np.array(self._first_child, np.int32),
            np.array(self._label, np.int32),
        )

    def _add(self, count: int) -> int:
        first = len(self._attribute)
        if first + count > _MOST_NODES:
            raise BadOption(
                f"the labelling tree has more than {_MOST_NODES} nodes; "
                "expected a smaller 'depth' or fewer 'values'"
            )
        self._attribute += [-1] * count
        self._threshold += [0.0] * count
        self._first_child += [-1] * count
        self._label += [-1] * count
        return first

    def _grow(self, node: int, level: int, unused: list[int], low: Floats, high: Floats) -> None:
        if self._is_leaf(level):
            self._label[node] = next_int(self._random, self._classes)
            return
        choice = next_int(self._random, len(unused) + self._numeric)
        if choice < len(unused):
            self._split_nominal(node, level, unused, choice, low, high)
        else:
            self._split_numeric(node, level, unused, choice - len(unused), low, high)

    def _is_leaf(self, level: int) -> bool:
        if level >= self._depth:
            return True
        # Short-circuit: above the first leaf level no number is drawn.
        return level >= self._first_leaf and self._leaf_fraction >= 1.0 - next_double(self._random)

    def _split_nominal(
        self, node: int, level: int, unused: list[int], choice: int, low: Floats, high: Floats
    ) -> None:
        """One child per value; the attribute is not tested again below."""
        self._attribute[node] = unused[choice]
        rest = unused[:choice] + unused[choice + 1 :]
        first = self._first_child[node] = self._add(self._values)
        for value in range(self._values):
            self._grow(first + value, level + 1, rest, low, high)

    def _split_numeric(
        self, node: int, level: int, unused: list[int], i: int, low: Floats, high: Floats
    ) -> None:
        """Two children around a uniform threshold inside what the path leaves of [0, 1)."""
        threshold = (high[i] - low[i]) * next_double(self._random) + low[i]
        self._attribute[node] = self._nominal + i
        self._threshold[node] = threshold
        first = self._first_child[node] = self._add(2)
        below, above = high.copy(), low.copy()
        below[i] = above[i] = threshold
        self._grow(first, level + 1, unused, low, below)
        self._grow(first + 1, level + 1, unused, above, high)


@kernel
def _fill(
    random: Random,
    numeric: Floats,
    nominal: Codes,
    labels: Labels,
    values: int,
    attribute: Codes,
    threshold: Floats,
    first_child: Codes,
    leaf_label: Codes,
) -> None:
    nominals = nominal.shape[1]
    for row in range(len(labels)):
        for i in range(nominals):
            nominal[row, i] = next_int(random, values)
        for i in range(numeric.shape[1]):
            numeric[row, i] = next_double(random)
        node = 0
        while attribute[node] >= 0:
            i = attribute[node]
            if i < nominals:
                node = first_child[node] + nominal[row, i]
            else:
                below = numeric[row, i - nominals] < threshold[node]
                node = first_child[node] + (0 if below else 1)
        labels[row] = leaf_label[node]
