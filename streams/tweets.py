"""Tweets (Bifet, Holmes & Pfahringer 2011): words by Zipf's law, sentiment by their majority."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner import Batch, Feature, Kind, Schema
from learner.kernels.jit import kernel
from streams.java_random import Random, new_random, next_double, next_gaussian
from streams.stream import Codes, Floats, Labels, Stream

_ZIPF_EXPONENT = 1.5
_MEAN_LENGTH = 15.0
_SHARE = 0.1  # of words that are positive, and of words that are negative
_POSITIVE, _NEGATIVE = 1, 2


class Tweets(Stream):
    """Sets of words out of ``words`` words; the class is the sentiment of most of them.

    MOA's own way is kept. A tweet without majority is written again, over the words it has. The
    word at place r of the law is token r + 1, the last one is not visible. The bisection of the
    law ends at the last place it looked at, so about a third of the words never occur.
    """

    def __init__(self, seed: int = 1, *, words: int = 1000) -> None:
        tokens = tuple(f"w{i}" for i in range(words))
        schema = Schema((Feature("words", Kind.SPARSE, tokens),), ("positive", "negative"))
        super().__init__("tweets", schema)
        self._random = new_random(seed)
        self._reached = _zipf_law(words)
        self._sentiment = _sentiments(self._random, words)

    def _draw(self, n: int) -> tuple[Batch, Labels]:
        start = np.zeros(n + 1, np.int64)
        index = np.empty(len(self._reached) + 24 * n, np.int32)
        labels = np.empty(n, np.int32)
        done = 0
        while done < n:
            done = _fill(self._random, start, index, labels, done, self._reached, self._sentiment)
            if done < n:
                index = np.concatenate((index, np.empty_like(index)))
        no_columns = np.empty((n, 0))
        tokens = index[: start[n]].copy()
        return Batch(no_columns, no_columns.astype(np.int32), start, tokens), labels


def _zipf_law(words: int) -> Floats:
    """The running sum of the probabilities 1 / r^1.5, scaled to end at 1."""
    share = 1.0 / np.arange(1, words + 1) ** _ZIPF_EXPONENT
    return np.cumsum(share / np.cumsum(share)[-1])


def _sentiments(random: Random, words: int) -> Codes:
    draws = [next_double(random) for _ in range(words)]
    return np.array(
        [_POSITIVE if u < _SHARE else _NEGATIVE if u < 2 * _SHARE else 0 for u in draws],
        np.int32,
    )


@kernel
def _fill(
    random: Random,
    start: npt.NDArray[np.int64],
    index: Codes,
    labels: Labels,
    done: int,
    reached: Floats,
    sentiment: Codes,
) -> int:
    """Write tweets from row ``done`` on; the row where the room for tokens ran out."""
    for row in range(done, len(labels)):
        if len(index) - start[row] < len(reached):
            return row
        balance = 0
        end = start[row]
        while balance == 0:
            length = int(_MEAN_LENGTH * (1.0 + next_gaussian(random)))
            for _ in range(max(length, 1)):
                place = _last_probe(reached, next_double(random))
                if sentiment[place] == _POSITIVE:
                    balance += 1
                elif sentiment[place] == _NEGATIVE:
                    balance -= 1
                if place + 1 < len(reached):
                    end = _insert(index, start[row], end, place + 1)
        start[row + 1] = end
        labels[row] = 0 if balance > 0 else 1
    return len(labels)


@kernel
def _last_probe(reached: Floats, u: float) -> int:
    """The place that a bisection of the law looked at last."""
    low = 0
    high = len(reached) - 1
    middle = 0
    while low <= high:
        middle = (low + high) // 2
        if reached[middle] > u:
            high = middle - 1
        elif reached[middle] < u:
            low = middle + 1
        else:
            return middle
    return middle


@kernel
def _insert(index: Codes, start: int, end: int, token: int) -> int:
    """Put a token in its place among index[start:end], once; the new end."""
    place = end
    while place > start and index[place - 1] > token:
        place -= 1
    if place > start and index[place - 1] == token:
        return end
    for i in range(end, place, -1):
        index[i] = index[i - 1]
    index[place] = token
    return end + 1
