"""Walk several events down the tree at once, before they are learned one by one.

One walk is a chain of loads in which each waits for the one before it, half the time of an event;
the chains of several events wait together. What an event learns may split the leaf of a later one,
which then goes on from there: a split only makes paths longer. So every node is passed by the same
events in the same order, however many are walked at once.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.kernels.jit import inlined, inner, int64, place
from learner.kernels.tree import (
    LOGGED,
    MULTIWAY,
    NODES,
    NUMERIC,
    SLOTS,
    TABLE,
    Records,
    Tree,
)

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]

AHEAD = 16  # events


@inner
def has_room_ahead(tree: Tree, widest: int) -> bool:
    """Whether so many events fit, even if each of them splits its leaf."""
    counts, more = tree.counts, AHEAD * (widest + 1)
    return bool(
        counts[NODES] + more <= len(tree.node)
        and counts[SLOTS] + more <= len(tree.slot)
        and counts[TABLE] + AHEAD * 3 * widest <= len(tree.tables)
        and counts[LOGGED] + AHEAD < len(tree.log)
    )


@inlined
def walk_ahead(
    nodes: Records,
    numeric: Floats,
    nominal: Codes,
    weights: Floats,
    row: int,
    count: int,
    ahead: Longs,
) -> None:
    """From the root to the leaves, or to where a step is not a plain one; nothing is missing.

    Every event takes a step, then every event the next one. There are no branches to guess.
    """
    has_numeric, has_nominal = numeric.shape[1] > 0, nominal.shape[1] > 0
    unit = len(weights) == 0
    for i in range(count):
        ahead[i] = 0
    moved = int64(1)
    while moved != 0:
        moved = int64(0)
        for i in range(count):
            here, node = place(row + i), ahead[i]
            at = nodes[place(node)]
            step, moves = int64(0), int64(0)
            if has_numeric:
                moves = int64(at.kind == NUMERIC)
                column = at.column if moves else 0
                step = int64(numeric[here, place(column)] > at.cut)
            if has_nominal:
                by_value = int64(at.kind == MULTIWAY) & int64(at.table_length == at.branches)
                column = at.column if by_value else 0
                value = int64(nominal[here, place(column)])
                by_value &= int64(value >= 0) & int64(value < at.table_length)
                step = value if by_value else step
                moves |= by_value
            node = int64(at.child) + step if moves else node
            weight = 1.0 if unit else weights[here]
            nodes[place(node)].routed += weight if moves else 0.0
            ahead[i] = node
            moved |= moves
