"""What would have to be different for another answer: the fewest changes, then the smallest.

Where leaves answer by their votes, the nearest leaf with a wanted answer is the answer: exact.
Where naive Bayes answers, the class depends on the values. Leaves are then tried from the nearest
on: with the changes that reach the leaf, and if these do not do, with more of them, one at a time,
each the one that helps most. What is found there was predicted before it is told. It is exact as
well if no leaf that is nearer was tried in vain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from learner.batch import Batch
from learner.kernels.tree import (
    BIN_COUNT,
    BIN_LOW,
    BIN_STEP,
    HIGH,
    LOW,
    MEAN,
    MOST_BINS,
    Bytes,
    Tree,
)
from learner.neighbourhood import Cost, Neighbourhood, Row, batch_of

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]
Evaluate = Callable[[Batch], tuple[Codes, Floats, Ids]]

MOST_LEAVES = 32  # that are tried where naive Bayes answers
MOST_CHANGES = 6  # that one of them is helped by
HALVINGS = 50


class Found(NamedTuple):
    """A row with a wanted answer."""

    row: Row
    cost: Cost
    exact: bool  # none with a wanted answer is nearer


def find_nearest_row(
    around: Neighbourhood,
    tree: Tree,
    evaluate: Evaluate,
    wanted: Collection[int],
    settled: Bytes,
    perhaps: Bytes,
) -> Found | None:
    """The nearest row whose class is a wanted one, None if there is none to be found.

    ``settled`` are the nodes that answer so by their votes, ``perhaps`` those of naive Bayes.
    """
    if perhaps.any():
        return _try_leaves(around, tree, evaluate, wanted, settled | perhaps)
    nearest = around.nearest(settled)
    return None if nearest is None else Found(nearest.row, nearest.cost, True)


def _try_leaves(
    around: Neighbourhood,
    tree: Tree,
    evaluate: Evaluate,
    wanted: Collection[int],
    accepted: Bytes,
) -> Found | None:
    """Leaves from the nearest on, until none can be better than what was found."""
    best, in_vain = None, False
    for _ in range(MOST_LEAVES):
        near = around.nearest(accepted)
        if near is None or (best is not None and near.cost >= best.cost):
            break
        accepted[near.node] = 0
        row: Row | None = near.row
        codes, _, _ = evaluate(batch_of([near.row]))
        if int(codes[0]) not in wanted:
            in_vain = True
            row = _persuaded(around, tree, evaluate, wanted, near.node, near.row)
        if row is not None and (best is None or around.cost(row) < best.cost):
            best = Found(row, around.cost(row), exact=not in_vain)
    return best


def _persuaded(
    around: Neighbourhood,
    tree: Tree,
    evaluate: Evaluate,
    wanted: Collection[int],
    node: int,
    row: Row,
) -> Row | None:
    """More changes, each the one that makes a wanted class likeliest, until one is the answer."""
    target = max(wanted, key=lambda k: float(tree.votes[node, k]))
    reached = float(evaluate(batch_of([row]))[1][0, target])
    for _ in range(MOST_CHANGES):
        steps = list(_steps(around, tree, node, target, row))
        if not steps:
            return None
        codes, probabilities, _ = evaluate(batch_of(steps))
        good = np.isin(codes, list(wanted))
        best = int(np.argmax(probabilities[:, target] + good))
        if good[best]:
            return _shrunk(around, evaluate, wanted, steps[best])
        if not probabilities[best, target] > reached:
            return None
        row, reached = steps[best], float(probabilities[best, target])
    return None


def _steps(around: Neighbourhood, tree: Tree, node: int, target: int, row: Row) -> Iterator[Row]:
    """Rows with one change more, to what the leaf knows of the wanted class."""
    columns, slot = len(row.x), int(tree.node["slot"][node])
    for j in range(min(columns, tree.moments.shape[3])):
        if not around.frozen[j]:
            for x in _numbers(tree, slot, target, j):
                if x != row.x[j]:
                    yield row.replaced(x={j: x})
    for a in range(len(row.code)):
        if not around.frozen[columns + a]:
            for code in range(around.known_values(a)):
                if code != row.code[a]:
                    yield row.replaced(code={a: code})
    for t in range(min(len(row.held), tree.tokens.shape[2])):
        if not around.frozen[columns + len(row.code) + t]:
            yield row.replaced(held={t: 1 - row.held[t]})


def _numbers(tree: Tree, slot: int, target: int, j: int) -> list[float]:
    """Numbers that speak for a class: its mean and ends, or the middles of the bins."""
    if len(tree.bin_shape) == 0:
        ends = (float(tree.moments[slot, target, part, j]) for part in (MEAN, LOW, HIGH))
        return [x for x in ends if np.isfinite(x)]
    low, step, count = (
        float(tree.bin_shape[slot, j, part]) for part in (BIN_LOW, BIN_STEP, BIN_COUNT)
    )
    if step < 0.0:  # neighbouring intervals share a bin
        step = -step * tree.histogram.shape[1] / MOST_BINS
    return [low + (b + 0.5) * step for b in range(int(count))]


def _shrunk(around: Neighbourhood, evaluate: Evaluate, wanted: Collection[int], row: Row) -> Row:
    """The same changes, the numbers as near to the record's as keeps the answer, one by one."""
    for j in np.flatnonzero(row.x != around.row.x).tolist():
        near, far = float(around.row.x[j]), float(row.x[j])
        for _ in range(HALVINGS):
            middle = 0.5 * near + 0.5 * far
            if not np.isfinite(middle) or middle in (near, far):
                break
            step = row.replaced(x={j: middle})
            if int(evaluate(batch_of([step]))[0][0]) in wanted:
                row, far = step, middle
            else:
                near = middle
    return row
