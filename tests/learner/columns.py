"""Numeric columns of a few slots without a tree around them, and what they should say."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from learner.kernels.bound import GINI
from learner.kernels.criterion import impurity
from learner.kernels.jit import kernel
from learner.kernels.numeric.bins import bin_log2_p, build_bins
from learner.kernels.numeric.entries import (
    close_columns,
    compact,
    make_room,
    observe_entries,
    open_columns,
)
from learner.kernels.numeric.intervals import entry_merits, look_again, prune
from learner.kernels.numeric.ordered import BELOW, RIGHT_CELLS, weight_at_most
from learner.kernels.rules import CUT, MERIT, SAMPLE, Rules, Scratch
from learner.kernels.tree import CLASSES, FIRST_BLOCK, NOWHERE, Tree
from learner.params import TreeParams
from learner.scratch import new_scratch
from learner.state import (
    FIRST_SIZES,
    new_tree,
    parts_of,
    resized,
    scratch_reference,
    tree_reference,
)

Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]
Event = tuple[tuple[float, ...], int, float]  # values, class, weight
Weights = dict[int, float]


@kernel
def learn_rows(
    tree: Tree, rules: Rules, scratch: Scratch, slot: int, x: Floats, y: Longs, w: Floats
) -> int:
    """Rows learned before the room ran out; the last of them still asks for it."""
    for row in range(len(y)):
        full = observe_entries(tree, slot, y[row], w[row], x, row)
        if full and not make_room(tree, rules, scratch, slot):
            return row + 1
    return len(y) + 1


@kernel
def ask_for_room(tree: Tree, rules: Rules, scratch: Scratch, slot: int) -> bool:
    return make_room(tree, rules, scratch, slot)


@kernel
def compact_all(tree: Tree, rules: Rules, scratch: Scratch, slot: int) -> None:
    for j in range(tree.column.shape[1]):
        compact(tree, rules, scratch, slot, j)


@kernel
def find_cuts(tree: Tree, rules: Rules, scratch: Scratch, slot: int, seen: Floats) -> None:
    own = impurity(rules.criterion, seen)
    entry_merits(tree, slot, seen, own, rules, scratch, 0, tree.column.shape[1], True)


@kernel
def review(
    tree: Tree,
    rules: Rules,
    scratch: Scratch,
    slot: int,
    seen: Floats,
    best: float,
    epsilon: float,
    n: float,
    opens: bool,
) -> None:
    if opens:
        look_again(tree, slot, seen, rules, scratch, best, epsilon, n, True)
    else:
        prune(tree, slot, seen, rules, scratch, best, epsilon, n)


@kernel
def count_at_most(tree: Tree, slot: int, j: int, cut: float, classes: int, out: Floats) -> None:
    weight_at_most(tree, slot, j, cut, classes, out)


@kernel
def make_bins(tree: Tree, rules: Rules, scratch: Scratch, slot: int, classes: int) -> None:
    build_bins(tree, rules, scratch, slot, classes)


@kernel
def bin_share(tree: Tree, slot: int, j: int, k: int, x: float) -> float:
    return bin_log2_p(tree, slot, j, k, x)


class Columns:
    """The arrays of a few slots, grown when a kernel asks for it as the shell does."""

    def __init__(
        self, columns: int, classes: int, *, entries: int = 0, slots: int = 2, **options: Any
    ) -> None:
        params = TreeParams(**options)
        self.rules = params.rules(has_numeric=True)
        self.sizes = FIRST_SIZES._replace(
            nodes=1,
            slots=slots,
            table=1,
            classes=classes,
            numeric=columns,
            features=columns,
            entries=entries or slots * columns * FIRST_BLOCK,
            longest=FIRST_BLOCK,
            histograms=0 if self.rules.observer == SAMPLE else slots * columns,
            parts=parts_of(self.rules)._replace(bins=True),
        )
        self.grown = 0
        self.seen = np.zeros((slots, classes))
        self.hold(new_tree(self.sizes))
        self.tree.counts[CLASSES] = classes

    def hold(self, tree: Tree) -> None:
        self.tree = tree
        self.scratch = new_scratch(self.sizes, self.rules)
        assert len(self.scratch.classes) > max(BELOW, RIGHT_CELLS)
        self.handed = tree_reference(tree), self.rules, scratch_reference(self.scratch)

    def grow(self) -> None:
        """Twice the room for entries and for sorting them."""
        self.grown += 1
        old = self.sizes
        self.sizes = old._replace(entries=2 * old.entries, longest=2 * old.longest)
        self.hold(resized(self.tree, old, self.sizes))

    def open(self, slot: int = 0) -> None:
        open_columns(self.handed[0], slot)
        self.seen[slot] = 0.0

    def close(self, slot: int = 0) -> None:
        close_columns(self.handed[0], slot)

    def learn(self, events: Sequence[Event], slot: int = 0) -> None:
        x = np.array([event[0] for event in events], np.float64)
        y = np.array([event[1] for event in events], np.int64)
        w = np.array([event[2] for event in events], np.float64)
        row = 0
        while row < len(y):
            row += learn_rows(*self.handed, slot, x[row:], y[row:], w[row:])
            if row <= len(y):
                self.grow()
                while not ask_for_room(*self.handed, slot):
                    self.grow()
        for _, k, weight in events:
            self.seen[slot, k] += weight

    def compact(self, slot: int = 0) -> None:
        compact_all(*self.handed, slot)

    def cuts(self, slot: int = 0) -> list[tuple[float, float]]:
        """(merit, cut) of every column."""
        find_cuts(*self.handed, slot, self.seen[slot])
        return self.found()

    def found(self) -> list[tuple[float, float]]:
        rows = self.scratch.numeric
        return [(float(rows[MERIT, j]), float(rows[CUT, j])) for j in range(self.sizes.numeric)]

    def review(self, best: float, epsilon: float, *, opens: bool) -> None:
        n = float(self.seen[0].sum())
        review(*self.handed, 0, self.seen[0], best, epsilon, n, opens)

    def at_most(self, cut: float, j: int = 0, slot: int = 0) -> list[float]:
        out = np.zeros(self.sizes.classes)
        count_at_most(self.handed[0], slot, j, cut, self.sizes.classes, out)
        return [float(weight) for weight in out]

    def bins(self) -> None:
        make_bins(*self.handed, 0, self.sizes.classes)

    def bin_share(self, j: int, k: int, x: float) -> float:
        return float(bin_share(self.handed[0], 0, j, k, x))

    def entries(self, j: int = 0, slot: int = 0) -> list[tuple[float, int, float]]:
        """(value, class, weight) in the order of the pool."""
        column = self.tree.column[slot, j]
        part = slice(int(column["start"]), int(column["start"] + column["used"]))
        return list(
            zip(
                self.tree.entry_value[part].tolist(),
                self.tree.entry_class[part].tolist(),
                self.tree.entry_weight[part].tolist(),
                strict=True,
            )
        )

    def histogram(self, j: int = 0, slot: int = 0) -> Floats | None:
        h = int(self.tree.column[slot, j]["histogram"])
        return None if h == NOWHERE else self.tree.histogram[h]

    def pruned(self, j: int = 0, slot: int = 0) -> list[int]:
        states: list[int] = self.tree.pruned[int(self.tree.column[slot, j]["histogram"])].tolist()
        return states

    def edges(self, j: int = 0, slot: int = 0) -> list[float]:
        column = self.tree.column[slot, j]
        low, step = float(column["low"]), float(column["step"])
        return [low + (i + 1) * step for i in range(self.rules.intervals - 1)]

    def blocks(self, slots: Sequence[int]) -> list[tuple[int, int]]:
        """(start, capacity) of every block of these slots and of every free one."""
        found = [
            (int(column["start"]), int(column["capacity"]))
            for slot in slots
            for column in self.tree.column[slot]
        ]
        for size, first in enumerate(self.tree.free_blocks.tolist()):
            while first != NOWHERE:
                found.append((first, 1 << size))
                first = int(self.tree.entry_value[first])
        return sorted(found)


def known(events: Sequence[Event], j: int = 0) -> list[tuple[float, int, float]]:
    """(value, class, weight) of the events that know column j."""
    return [(x[j], k, w) for x, k, w in events if not math.isnan(x[j])]


def table(events: Sequence[Event], j: int = 0) -> dict[tuple[float, int], float]:
    """Weight of every pair of value and class, summed in the order of the events."""
    out: dict[tuple[float, int], float] = {}
    for value, k, weight in known(events, j):
        out[value, k] = out.get((value, k), 0.0) + weight
    return out


def impurity_sum(weights: Weights, criterion: int) -> float:
    """Impurity times weight."""
    n = sum(weights.values())
    if n <= 0.0:
        return 0.0
    if criterion == GINI:
        return n - sum(w * w for w in weights.values()) / n
    return sum(w * math.log2(n / w) for w in weights.values() if w > 0.0)


def by_class(entries: Sequence[tuple[float, int, float]]) -> Weights:
    """Sum of the weights of each class."""
    out: Weights = {}
    for _, k, w in entries:
        out[k] = out.get(k, 0.0) + w
    return out


def merit_of(entries: Sequence[tuple[float, int, float]], cut: float, rules: Rules) -> float:
    """Impurity before minus after of the test x <= cut, times weight; -inf: not admissible."""
    left = by_class([entry for entry in entries if entry[0] <= cut])
    right = by_class([entry for entry in entries if entry[0] > cut])
    sides = sum(left.values()), sum(right.values())
    if min(sides) <= rules.min_branch_fraction * sum(sides) or not right:
        return -math.inf
    before = impurity_sum(by_class(entries), rules.criterion)
    return before - impurity_sum(left, rules.criterion) - impurity_sum(right, rules.criterion)


def best_merit(
    entries: Sequence[tuple[float, int, float]], cuts: Sequence[float], rules: Rules
) -> tuple[float, list[float]]:
    """The highest merit and the cuts that reach it within rounding."""
    merits = {cut: merit_of(entries, cut, rules) for cut in sorted(set(cuts))}
    best = max(merits.values(), default=-math.inf)
    return best, [cut for cut, merit in merits.items() if merit >= best - 1e-9 > -math.inf]


def corners(inside: Weights) -> list[Weights]:
    """Every way to give each class to the left whole or not at all."""
    ways = itertools.product((False, True), repeat=len(inside))
    return [
        {k: w for (k, w), taken in zip(inside.items(), way, strict=True) if taken} for way in ways
    ]
