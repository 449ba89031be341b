"""Count one event at one node: class weights, moments, n_ijk.

These disappear into the loops that call them, which take the arrays out of their groups once.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.kernels.jit import (
    JIT_DISABLED,
    address_of,
    apart,
    fetch,
    inlined,
    inner,
    int64,
    kernel,
    place,
)
from learner.kernels.tree import HIGH, LOW, M2, MEAN, MISSING, Records, Tree

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]
UInts = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]

FETCHED = 1024  # bytes of a row ahead; the processor goes on by itself


@kernel
def look_over(numeric: Floats, codes: Codes) -> tuple[bool, int]:
    """Whether all numbers are finite, and the highest class code, where a negative one is huge."""
    broken, highest = int64(0), np.uint32(0)
    numbers = numeric.reshape(numeric.size)
    for i in range(len(numbers)):
        broken |= int64(numbers[i] - numbers[i] != 0.0)
    for i in range(len(codes)):
        code = np.uint32(codes[i])
        highest = code if code > highest else highest
    return broken == 0, int64(highest) if len(codes) > 0 else int64(-1)


@inlined
def count_class(
    nodes: Records,
    votes: Floats,
    seen: Floats,
    node: int,
    k: int,
    weight: float,
    squares: bool,
) -> float:
    """n, n_k and votes; the majority moves when it is overtaken. Returns the new n_k."""
    leaf, label = place(node), place(k)
    at = nodes[leaf]
    at.n += weight
    if squares:
        at.squares += weight * weight
    mine = votes[leaf, label] + weight
    lead = votes[leaf, place(at.majority)]
    votes[leaf, label] = mine
    if k != at.majority and (mine > lead or (mine == lead and k < at.majority)):
        at.majority = k
    class_weight = seen[leaf, label] + weight
    seen[leaf, label] = class_weight
    return class_weight


@inlined
def moved(
    mean: float, m2: float, low: float, high: float, value: float, weight: float, share: float
) -> tuple[float, float, float, float]:
    """Welford: mean += (x - mean) w / W, M2 += w (x - old mean) (x - mean)."""
    delta = value - mean
    mean += delta * share
    m2 += weight * delta * (value - mean)
    return mean, m2, value if value < low else low, value if value > high else high


@apart
def move_by_one(
    means: Floats,
    m2s: Floats,
    lows: Floats,
    highs: Floats,
    values: Floats,
    weight: float,
    share: float,
) -> None:
    """Welford's update by one event, column by column."""
    for j in range(len(means)):
        mean, m2, low, high = moved(means[j], m2s[j], lows[j], highs[j], values[j], weight, share)
        means[j], m2s[j], lows[j], highs[j] = mean, m2, low, high


@inlined
def count_moments(
    moments: Floats,
    slot: int,
    k: int,
    weight: float,
    class_weight: float,
    x: Floats,
    row: int,
    first: int,
) -> None:
    """Weighted Welford update of all numeric columns, where no value is or was missing.

    They are the columns of x from ``first`` on.
    """
    of_class = moments[place(slot), place(k)]
    values = x[place(row), first : first + moments.shape[3]]
    move_by_one(
        of_class[MEAN], of_class[M2], of_class[LOW], of_class[HIGH], values, weight,
        weight / class_weight,
    )  # fmt: skip


@inlined
def count_values(
    values: Floats,
    rooms: UInts,
    starts: Codes,
    slot: int,
    k: int,
    weight: float,
    nominal: Codes,
    row: int,
    first: int,
) -> None:
    """n_ijk of all nominal columns: those of the batch from ``first`` on."""
    own, label, here = place(slot), place(k), place(row)
    for a in range(len(rooms)):
        code = np.uint32(nominal[here, place(first + a)])  # missing becomes huge
        if code < rooms[a]:
            values[own, label, place(starts[a]) + code] += weight


@inlined
def count_tokens(
    tokens: Floats, slot: int, k: int, weight: float, start: Places, index: Codes, row: int
) -> None:
    """Weight of the tokens that the event holds."""
    for t in range(start[row], start[row + 1]):
        tokens[slot, k, index[t]] += weight


@inner
def count_with_gaps(
    tree: Tree,
    slot: int,
    k: int,
    weight: float,
    class_weight: float,
    x: Floats,
    row: int,
    first: int,
) -> None:
    """Weighted Welford update of one event, where values are or were missing (NaN)."""
    columns = tree.moments.shape[3]
    count_between_gaps(tree, slot, k, weight, class_weight, x, row, first, 0, columns)


@inner
def count_between_gaps(
    tree: Tree,
    slot: int,
    k: int,
    weight: float,
    class_weight: float,
    x: Floats,
    row: int,
    first: int,
    start: int,
    end: int,
) -> None:
    """The same for the columns start..end-1.

    ``class_weight`` is the weight of class k at the node, this event included; what of it was
    missing in a column is kept in that column.
    """
    m = tree.moments
    for j in range(start, end):
        value = x[row, first + j]
        if value != value:
            m[slot, k, MISSING, j] += weight
            tree.slot[slot].gaps = 1
            continue
        known = class_weight - m[slot, k, MISSING, j]
        delta = value - m[slot, k, MEAN, j]
        mean = m[slot, k, MEAN, j] + delta * (weight / known)
        if m[slot, k, LOW, j] > m[slot, k, HIGH, j]:
            mean = value  # the first one: no spread, whatever the difference above is rounded to
        m[slot, k, MEAN, j] = mean
        m[slot, k, M2, j] += weight * delta * (value - mean)
        m[slot, k, LOW, j] = min(m[slot, k, LOW, j], value)
        m[slot, k, HIGH, j] = max(m[slot, k, HIGH, j], value)


@inner
def fetch_row(x: Floats, row: int, first: int, columns: int) -> None:
    """Have the cache get the beginning of the worker's part of a row.

    Parts of rows lie apart, and each begins with a wait that no other worker shares.
    """
    if not JIT_DISABLED:
        start = address_of(x) + 8 * (row * x.shape[1] + first)
        for line in range(0, min(8 * columns, FETCHED), 64):
            fetch(start + line)


@inner
def is_whole(x: Floats, row: int, first: int, columns: int) -> bool:
    """Whether all numbers of the worker are finite."""
    values, broken = x[row, first : first + columns], int64(0)
    for j in range(len(values)):
        broken |= int64(values[j] - values[j] != 0.0)
    return bool(broken == 0)


@inner
def has_no_infinity(x: Floats, row: int, first: int, columns: int) -> bool:
    """Whether they are at least finite or missing."""
    infinite = 0
    for j in range(first, first + columns):
        infinite += np.isinf(x[row, j])
    return bool(infinite == 0)
