"""The tables of naive Bayes, kept beside the counts: log2 P(k) + sum_i log2 P(x_i | k).

    numeric   height - sharpness (x - mean)^2      log2 of the normal density, its spread floored
    nominal   log2(n_ivk + 1) - log2(n_ik + V_i)   V_i the distinct values seen at the leaf

A row of Tree.bayes belongs to one class of a slot, a row of Tree.bayes_slot to all its classes:

    BASE, sharpness and height by column, n_ik by attribute, log2(n_ijk + 1) by value, 0
    CURRENT, WHOLE, lowest, highest, sharpest and alone by column, V_i by attribute

BASE is what no event changes: log2 of the votes, all heights, all log2(n_ik + V_i). So an event is
scored by one multiply-add a number, and to learn it changes the row of its class only: with
adaptive leaves an event of the random-tree stream takes 216 ns instead of 862. Everything here
follows from the counts, so it is not part of a model: a tree that was loaded or grew makes it anew
when it is asked for, and a snapshot makes it in working space, or once for many rows.

What an event adds goes in four lanes, in an order that does not depend on the machine.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from learner.kernels.elementary import log2
from learner.kernels.jit import fma, inlined, inner, int64, place
from learner.kernels.rules import Scratch
from learner.kernels.tree import HIGH, LOW, M2, MEAN, MISSING, Layout, Tree

Codes = npt.NDArray[np.int32]
UInts = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

BASE = 0  # in a row of Tree.bayes
CURRENT, WHOLE = 0, 1  # in a row of Tree.bayes_slot: it follows the counts; every n_ijk is whole

_LOG2_E = 1.4426950408889634
_HALF_LOG2_E = 0.5 * _LOG2_E
_HEIGHT = 0.5 * math.log2(2.0 / _LOG2_E) - 0.5 * math.log2(2.0 * math.pi)
_SPREAD_FLOOR = 1e-3 / math.sqrt(12.0)  # of the range of the values seen at the leaf
_LEAST_SPREAD = 1e-9


def class_width(numeric: int, nominal: int, values: int) -> int:
    """Numbers in a row of Tree.bayes."""
    return 1 + 2 * numeric + nominal + values + 1


def slot_width(numeric: int, nominal: int) -> int:
    """Numbers in a row of Tree.bayes_slot."""
    return 2 + 4 * numeric + nominal


@inlined
def sum_at(rows: Floats, own: int, k: int, places: Places, count: int) -> float:
    """Numbers at these places of a row."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    quads = count & ~3
    for q in range(0, quads, 4):
        a += rows[own, k, place(places[q])]
        b += rows[own, k, place(places[q + 1])]
        c += rows[own, k, place(places[q + 2])]
        d += rows[own, k, place(places[q + 3])]
    for q in range(quads, count):
        a += rows[own, k, place(places[place(q)])]
    return (a + b) + (c + d)


@inlined
def distance(
    rows: Floats, own: int, moments: Floats, slot: int, k: int, x: Floats, row: int
) -> float:
    """Sum of sharpness (x - mean)^2 over the numeric columns."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    count = moments.shape[3]  # x may have one that nobody tests, where there are no numbers
    quads = count & ~3
    for q in range(0, quads, 4):
        away = x[row, q] - moments[slot, k, MEAN, q]
        a = fma(away * rows[own, k, q + 1], away, a)
        away = x[row, q + 1] - moments[slot, k, MEAN, q + 1]
        b = fma(away * rows[own, k, q + 2], away, b)
        away = x[row, q + 2] - moments[slot, k, MEAN, q + 2]
        c = fma(away * rows[own, k, q + 3], away, c)
        away = x[row, q + 3] - moments[slot, k, MEAN, q + 3]
        d = fma(away * rows[own, k, q + 4], away, d)
    for r in range(quads, count):
        q = place(r)
        away = x[row, q] - moments[slot, k, MEAN, q]
        a = fma(away * rows[own, k, place(r + 1)], away, a)
    return (a + b) + (c + d)


@inlined
def find_places(
    rooms: UInts, starts: Codes, first: int, nominal: Codes, row: int, places: Places
) -> bool:
    """Where the row's nominal values lie in a row of Tree.bayes; False when one is missing.

    A value that the tree has no room for yet was never seen: it finds the 0 at the end.
    """
    missing, count = int64(0), len(rooms)
    end = first + int64(starts[count])
    for a in range(count):
        code = int64(nominal[row, a])
        missing |= code
        inside = np.uint32(code) < rooms[a]
        places[a] = first + int64(starts[a]) + code if inside else end
    return missing >= 0


@inlined
def best_class(
    rows: Floats,
    moments: Floats,
    slot: int,
    classes: int,
    x: Floats,
    row: int,
    places: Places,
) -> int:
    """The class of the highest score of a complete row, the first on ties; -1 = none stands out."""
    own, here = place(slot), place(row)
    best, top, total = int64(-1), -np.inf, 0.0
    for k in range(classes):
        label = place(k)
        score = rows[own, label, BASE] - distance(rows, own, moments, own, label, x, here)
        score += sum_at(rows, own, label, places, len(places))
        total += score
        if score > top:
            best, top = int64(k), score
    return best if total == total else int64(-1)


@inlined
def _renew(
    rows: Floats,
    own: int,
    of_slot: Floats,
    moments: Floats,
    slot: int,
    k: int,
    votes: float,
    class_weight: float,
    drawn: int,
    attributes: int,
    numbers: Floats,
    logs: Floats,
) -> None:
    """Bells and BASE of a class, -inf without votes; a class that never knew a column is uniform.

    All logarithms are taken in one sweep, whatever they are for; ``numbers`` has room for eight
    more, so that even a few are taken by whole vectors. The first ``attributes`` of them are the
    caller's. ``drawn`` is the number of columns, or 0 where their values are kept one by one.
    """
    columns = moments.shape[3]
    sharpest, alone, distinct = 2 + 2 * columns, 2 + 3 * columns, 2 + 4 * columns
    shares, bells = attributes, 2 * attributes
    count = bells + drawn + 1
    for a in range(attributes):
        different = of_slot[own, place(distinct + a)]
        total = rows[own, k, place(1 + 2 * columns + a)] + different
        numbers[place(shares + a)] = total if different > 0.0 else 1.0
    for j in range(drawn):
        known = class_weight - moments[slot, k, MISSING, j]
        sharp = _HALF_LOG2_E * (known - 1.0) / moments[slot, k, M2, j]
        limit = of_slot[own, place(sharpest + j)]
        sharp = sharp if known > 1.0 and sharp < limit else limit
        numbers[place(bells + j)] = sharp if known > 0.0 else 0.0
    numbers[place(bells + drawn)] = votes
    for i in range((count + 7) & ~7):
        logs[i] = log2(numbers[i])
    base = logs[place(bells + drawn)]
    for j in range(drawn):
        sharp = numbers[place(bells + j)]
        height = 0.5 * logs[place(bells + j)] + _HEIGHT
        height = height if sharp > 0.0 else of_slot[own, place(alone + j)]
        rows[own, k, place(1 + j)] = sharp
        rows[own, k, place(1 + columns + j)] = height
        base += height
    for a in range(attributes):
        base -= logs[place(shares + a)]
    rows[own, k, BASE] = base if votes > 0.0 else -np.inf


@inner
def _widen(rows: Floats, of_slot: Floats, slot: int, own: int, x: Floats, row: int) -> bool:
    """Let the ranges of the columns reach to the event; False if another class depends on them."""
    columns, free = x.shape[1], True
    for j in range(columns):
        low, high = of_slot[slot, 2 + j], of_slot[slot, 2 + columns + j]
        if not (x[row, j] < low or x[row, j] > high):
            continue
        before = of_slot[slot, 2 + 2 * columns + j]
        _set_range(of_slot, slot, columns, j, min(low, x[row, j]), max(high, x[row, j]))
        for k in range(rows.shape[1]):
            sharp = rows[slot, k, 1 + j]
            depends = k != own and (sharp >= before or sharp == 0.0)
            free = free and not (depends and rows[slot, k, BASE] > -np.inf)
    return free


@inner
def _set_range(of_slot: Floats, own: int, columns: int, j: int, low: float, high: float) -> None:
    """The range of a column, the sharpest bell it allows, and log2 of the uniform density."""
    reach = high - low
    floor = max(_SPREAD_FLOOR * reach, _LEAST_SPREAD)
    of_slot[own, 2 + j] = low
    of_slot[own, 2 + columns + j] = high
    of_slot[own, 2 + 2 * columns + j] = _HALF_LOG2_E / (floor * floor)
    of_slot[own, 2 + 3 * columns + j] = -log2(max(reach, _LEAST_SPREAD)) if reach >= 0.0 else 0.0


@inlined
def keep_current(
    rows: Floats,
    of_slot: Floats,
    moments: Floats,
    values: Floats,
    votes: Floats,
    places: Places,
    numbers: Floats,
    logs: Floats,
    slot: int,
    node: int,
    k: int,
    weight: float,
    class_weight: float,
    x: Floats,
    row: int,
    bells: bool,
) -> None:
    """After an event of class k was counted: renew the row of its class.

    What changes other classes too, a nominal value never seen here for one, makes the rows of the
    slot wait until they are asked for. ``find_places`` has found the event's values.
    """
    own, label, here = place(slot), place(k), place(row)
    columns, attributes, ends = x.shape[1], len(places), values.shape[2]
    known, first = 1 + 2 * columns, 1 + 2 * columns + attributes
    stays = of_slot[own, CURRENT] != 0.0
    if stays and bells:
        beyond = int64(0)
        for j in range(columns):
            value = x[here, j]
            below = value < of_slot[own, place(2 + j)]
            above = value > of_slot[own, place(2 + columns + j)]
            beyond |= int64(below) | int64(above)
        if beyond != 0:
            stays = _widen(rows, of_slot, slot, k, x, row)
    if stays and attributes > 0:
        new = int64(of_slot[own, WHOLE] == 0.0) | int64(weight != np.floor(weight))
        for a in range(attributes):
            at = places[a] - first
            inside = at < ends
            count = values[own, label, place(at if inside else 0)]
            numbers[a] = count + 1.0 if inside else 1.0
            rows[own, label, place(known + a)] += weight if inside else 0.0
            new |= int64(count == weight)
        if new != 0:
            stays = _was_seen(of_slot, values, slot, k, weight, places, first)
    if stays:
        votes_of_class = votes[place(node), label]
        _renew(
            rows, own, of_slot, moments, own, label, votes_of_class, class_weight,
            columns if bells else 0, attributes, numbers, logs,
        )  # fmt: skip
        for a in range(attributes):
            rows[own, label, place(places[a])] = logs[a]
    of_slot[own, CURRENT] = 1.0 if stays else 0.0


@inner
def _was_seen(
    of_slot: Floats,
    values: Floats,
    slot: int,
    k: int,
    weight: float,
    places: Places,
    first: int,
) -> bool:
    """Whether all of the event's nominal values came by before, and all weights are whole."""
    seen = of_slot[slot, WHOLE] != 0.0 and weight == np.floor(weight)
    for a in range(len(places)):
        at = places[a] - first
        if at < values.shape[2] and values[slot, k, at] == weight:
            others = 0.0
            for other in range(values.shape[1]):
                others += values[slot, other, at]
            seen = seen and others != weight
    return seen


@inner
def describe(
    tree: Tree, layout: Layout, scratch: Scratch, rows: Floats, of_slot: Floats, at: int, node: int
) -> None:
    """All of a slot but the logarithms of its n_ijk, from the counts."""
    moments, values, classes = tree.moments, tree.values, tree.values.shape[1]
    slot, own, numbers = place(tree.node[node].slot), place(at), scratch.numbers
    columns, attributes, starts = moments.shape[3], len(layout.value_room), layout.value_start
    known, distinct = 1 + 2 * columns, 2 + 4 * columns
    drawn = columns if len(tree.bin_shape) == 0 else 0
    for j in range(columns):
        low, high = np.inf, -np.inf
        for k in range(classes):
            low, high = min(low, moments[slot, k, LOW, j]), max(high, moments[slot, k, HIGH, j])
        _set_range(of_slot, at, columns, j, low, high)
    whole = 1.0
    for a in range(attributes):
        numbers[a] = 1.0
        of_slot[own, distinct + a] = 0.0
        for k in range(classes):
            rows[own, k, known + a] = 0.0
        for v in range(starts[a], starts[a + 1]):
            total = 0.0
            for k in range(classes):
                count = values[slot, k, v]
                rows[own, k, known + a] += count
                total += count
                whole = whole if count == np.floor(count) else 0.0
            of_slot[own, distinct + a] += 1.0 if total > 0.0 else 0.0
    for k in range(classes):
        votes, class_weight = tree.votes[node, k], tree.seen[node, k]
        _renew(
            rows, own, of_slot, moments, slot, place(k), votes, class_weight, drawn, attributes,
            numbers, scratch.logs,
        )  # fmt: skip
    of_slot[own, WHOLE] = whole
    of_slot[own, CURRENT] = 1.0


@inner
def make_current(tree: Tree, layout: Layout, scratch: Scratch, node: int) -> None:
    """Make the rows of a slot anew, if something happened that concerns all of them."""
    slot, rows, values = int64(tree.node[node].slot), tree.bayes, tree.values
    if tree.bayes_slot[slot, CURRENT] != 0.0:
        return
    describe(tree, layout, scratch, rows, tree.bayes_slot, slot, node)
    first = 1 + 2 * tree.moments.shape[3] + len(layout.value_room)
    for k in range(values.shape[1]):
        for v in range(values.shape[2]):
            rows[slot, k, place(first + v)] = log2(values[slot, k, v] + 1.0)
