"""The order of a few entries by value and class, equals as they came.

Values are dealt into about as many buckets of equal width as there are entries: what is left to do
is to look at neighbours. Where nearly all of them meet in few buckets, runs are merged instead.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.kernels.jit import inner, int64, place
from learner.kernels.rules import Scratch

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]

_PATIENCE = 8  # places that an entry moves within its bucket, on average
_CHUNK = 8  # sorted by insertion before runs are merged


@inner
def put_in_order(value: Floats, klass: Ints, scratch: Scratch, first: int, end: int) -> None:
    """Sort entries first..end-1: values go to scratch.sort_value, where they were to sort_place."""
    if not _deal(value, klass, scratch, first, end):
        _merge(value, klass, scratch, first, end)


@inner
def _deal(value: Floats, klass: Ints, scratch: Scratch, first: int, end: int) -> bool:
    """Sort by buckets; False when it would take too long."""
    to_value, to_place, fill = scratch.sort_value, scratch.sort_place, scratch.sort_class
    count, low, high = end - first, value[first], value[first]
    for q in range(first + 1, end):
        v = value[q]
        low = v if v < low else low
        high = v if v > high else high
    buckets = int64(1)
    while 2 * buckets <= count:
        buckets *= 2
    scale = (buckets - 1) / (high - low) if high > low else 0.0
    if not scale < 1e300 or (scale == 0.0 and high > low):  # no bucket can be told from another
        return False
    for b in range(buckets):
        fill[b] = 0
    for q in range(first, end):
        fill[place(int64((value[q] - low) * scale))] += 1
    dealt = int64(0)
    for b in range(buckets):
        here = fill[b]
        fill[b] = dealt
        dealt += here
    for q in range(first, end):
        b = place(int64((value[q] - low) * scale))
        at = place(fill[b])
        fill[b] += 1
        to_value[at] = value[q]
        to_place[at] = q
    return _insert(klass, to_value, to_place, int64(0), int64(count), _PATIENCE * count)


@inner
def _insert(klass: Ints, value: Floats, origin: Ints, first: int, end: int, patience: int) -> bool:
    """Sort by insertion; False when entries had to move more than so many places in all."""
    moved = int64(0)
    for p in range(first + 1, end):
        v, at = value[p], origin[p]
        k = klass[place(at)]
        q = p
        while q > first:
            before = place(q - 1)
            u = value[before]
            if u < v or (u == v and klass[place(origin[before])] <= k):
                break
            value[q], origin[q] = u, origin[before]
            q -= 1
        value[place(q)], origin[place(q)] = v, at
        moved += p - q
        if moved > patience:
            return False
    return True


@inner
def _merge(value: Floats, klass: Ints, scratch: Scratch, first: int, end: int) -> None:
    """Sort by merging runs to and fro; the values' own places are the second buffer."""
    count = end - first
    values, places = scratch.sort_value[:count], scratch.sort_place[:count]
    for q in range(count):
        values[q], places[q] = value[first + q], first + q
    for left in range(0, count, _CHUNK):
        _insert(klass, values, places, left, min(left + _CHUNK, count), int64(_CHUNK * _CHUNK))
    to_value, to_place = value[first:end], scratch.sort_class[:count]
    width, swapped = int64(_CHUNK), False
    while width < count:
        for left in range(0, count, 2 * width):
            a, middle = left, min(left + width, count)
            b, stop = middle, min(left + 2 * width, count)
            for q in range(left, stop):
                lower = b >= stop
                if not lower and a < middle:
                    v, u = values[a], values[b]
                    lower = v < u or (v == u and klass[places[a]] <= klass[places[b]])
                p = a if lower else b
                a += lower
                b += not lower
                to_value[q], to_place[q] = values[p], places[p]
        values, to_value = to_value, values
        places, to_place = to_place, places
        swapped = not swapped
        width *= 2
    if swapped:
        for q in range(count):
            to_value[q], to_place[q] = values[q], places[q]
