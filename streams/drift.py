"""Concept drift: a stream that turns into another one, once or again and again."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from learner import Batch, Schema
from learner.kernels.jit import kernel
from streams.errors import BadOption, StreamError
from streams.java_random import Random, new_random, next_double
from streams.stream import Codes, Labels, Stream


class ConceptDrift(Stream):
    """MOA's drift: row t comes from the second stream with P = 1 / (1 + exp(-4 (t - p) / w)).

    p is the ``position`` (rows are counted from 1), w the ``width`` of the change.
    """

    def __init__(
        self, before: Stream, after: Stream, *, position: int, width: int, seed: int = 1
    ) -> None:
        names = f"{before.name}, {after.name}"
        super().__init__(f"drift({names})", _common_schema((before, after)))
        self._streams = (before, after)
        self._position = position
        self._width = width
        self._random = new_random(seed)
        self._given = 0

    def _draw(self, n: int) -> tuple[Batch, Labels]:
        chosen = np.empty(n, np.int32)
        _choose_once(self._random, chosen, self._given, self._position, self._width)
        self._given += n
        return _interleaved(self._streams, chosen)


class Drifting(Stream):
    """Takes turns between streams: a change every ``every`` rows, abrupt or over ``width`` rows.

    ``width`` 0 or 1 is abrupt. With ``cycle`` the first stream returns after the last one,
    continuing where it was; without it the last stream stays.
    """

    def __init__(
        self,
        streams: Sequence[Stream],
        every: int,
        width: int = 0,
        cycle: bool = True,
        *,
        seed: int = 1,
    ) -> None:
        if len(streams) < 2:
            raise StreamError(f"{len(streams)} streams to drift between; expected 2 or more")
        if every < 1:
            raise BadOption(f"option 'every' is {every}; expected a number of rows, 1 or more")
        if not 0 <= width <= every:
            raise BadOption(f"option 'width' is {width}; expected 0 to {every} rows ('every')")
        names = ", ".join(stream.name for stream in streams)
        super().__init__(f"drifting({names})", _common_schema(streams))
        self._streams = tuple(streams)
        self._every = every
        self._width = width
        self._cycle = cycle
        self._random = new_random(seed)
        self._given = 0

    def _draw(self, n: int) -> tuple[Batch, Labels]:
        concept = np.empty(n, np.int64)
        _choose_in_turn(self._random, concept, self._given, self._every, self._width)
        self._given += n
        count = len(self._streams)
        chosen = concept % count if self._cycle else np.minimum(concept, count - 1)
        return _interleaved(self._streams, chosen.astype(np.int32))


def _common_schema(streams: Sequence[Stream]) -> Schema:
    first = streams[0]
    for other in streams[1:]:
        if other.schema != first.schema:
            raise StreamError(
                f"stream '{other.name}' has other features or classes than '{first.name}'; "
                "expected the same schema"
            )
    return first.schema


@kernel
def _choose_once(random: Random, chosen: Codes, given: int, position: int, width: int) -> None:
    for row in range(len(chosen)):
        p_after = _share_of_new(given + row + 1 - position, width)
        chosen[row] = 0 if next_double(random) > p_after else 1


@kernel
def _choose_in_turn(
    random: Random, concept: npt.NDArray[np.int64], given: int, every: int, width: int
) -> None:
    for row in range(len(concept)):
        t = given + row
        if width <= 1:
            concept[row] = t // every
            continue
        change = max(1, (t + every // 2) // every)  # the nearest change; at the start there is none
        p_new = _share_of_new(t - change * every, width)
        concept[row] = change if next_double(random) < p_new else change - 1


@kernel
def _share_of_new(distance: int, width: int) -> float:
    """1 / (1 + exp(-4 distance / width)), without overflow far before the change."""
    return 1.0 / (1.0 + math.exp(min(-4.0 * float(distance) / float(width), 700.0)))


def _interleaved(streams: Sequence[Stream], chosen: Codes) -> tuple[Batch, Labels]:
    """Row by row the next row of the chosen stream."""
    n = len(chosen)
    drawn = [stream.take(int(np.count_nonzero(chosen == i))) for i, stream in enumerate(streams)]
    batches = [batch for batch, _ in drawn]
    # order[row] is where the row lies when the streams' rows are laid one after another.
    order = np.empty(n, np.int64)
    order[np.argsort(chosen, kind="stable")] = np.arange(n)
    numeric = np.concatenate([batch.numeric for batch in batches])[order]
    nominal = np.concatenate([batch.nominal for batch in batches])[order]
    start, index = _reordered_tokens(batches, order)
    labels = np.concatenate([labels for _, labels in drawn])[order]
    return Batch(numeric, nominal, start, index), labels


def _reordered_tokens(
    batches: Sequence[Batch], order: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], Codes]:
    counts = np.concatenate([np.diff(batch.sparse_start) for batch in batches])
    tokens = np.concatenate([batch.sparse_index for batch in batches])
    begins = (np.cumsum(counts) - counts)[order]
    start = np.zeros(len(order) + 1, np.int64)
    np.cumsum(counts[order], out=start[1:])
    places = np.repeat(begins - start[:-1], counts[order]) + np.arange(len(tokens))
    return start, tokens[places]
