"""Class weights of equally wide intervals of a numeric column.

    edge(i) = low + (i + 1) step       interval i holds edge(i - 1) < x <= edge(i)

The outer two are open: values beyond the range go there.   [JA03] Sec. 4, concise histogram.
"""

from __future__ import annotations

import numpy as np

from learner.kernels.jit import inlined, inner, int64
from learner.kernels.numeric.blocks import add_bytes, shrink_block
from learner.kernels.rules import ORDERED, Rules
from learner.kernels.tree import CLASSES, FREE_HISTOGRAMS, HISTOGRAMS, NOWHERE, Tree

# what Tree.pruned says of an interval: cuts inside are looked at, are not, or cannot be any more
INTACT, PRUNED, DROPPED = 0, 1, 2


@inlined
def interval_of(low: float, step: float, intervals: int, x: float) -> int:
    """The interval of x: a division guesses it, the edges decide."""
    last = intervals - 1
    guess = (x - low) / step
    i = int64(last)
    if guess < last:  # not so for NaN, where the step is 0 or infinite
        i = int64(guess) if guess >= 1.0 else int64(0)
    while i > 0 and x <= low + i * step:
        i -= 1
    while i < last and x > low + (i + 1) * step:
        i += 1
    return i


@inner
def lay_intervals(tree: Tree, rules: Rules, slot: int, j: int) -> None:
    """Lay intervals over the range of a compacted column and count its entries into them.

    An ordered column does not keep its entries: only the edges are cuts from now on. Without room
    for a histogram the column stays as it is.
    """
    counts, column = tree.counts, tree.column[slot, j]
    if counts[FREE_HISTOGRAMS] > 0:
        counts[FREE_HISTOGRAMS] -= 1
        h = int64(tree.free_histograms[counts[FREE_HISTOGRAMS]])
    elif counts[HISTOGRAMS] < len(tree.histogram):
        h = counts[HISTOGRAMS]
        counts[HISTOGRAMS] += 1
    else:
        return
    start, run = column.start, int64(column.run)
    value, weight = tree.entry_value[start : start + run], tree.entry_weight[start : start + run]
    klass, cells = tree.entry_class[start : start + run], tree.histogram[h]
    intervals = cells.shape[0]
    column.histogram = h
    column.low = value[0]
    column.step = (value[run - 1] - value[0]) / intervals
    if column.step == np.inf:  # the range itself is beyond every double
        column.step = value[run - 1] / intervals - value[0] / intervals
    low, step = column.low, column.step
    for i in range(intervals):
        tree.pruned[h, i] = DROPPED if rules.observer == ORDERED else INTACT
        for k in range(cells.shape[1]):
            cells[i, k] = 0.0
    for q in range(run):
        cells[interval_of(low, step, intervals, value[q]), klass[q]] += weight[q]
    add_bytes(tree, slot, 8 * intervals * counts[CLASSES])
    if rules.observer == ORDERED:
        column.run = 0
        column.used = 0
        shrink_block(tree, slot, j)


@inner
def give_histogram(tree: Tree, h: int) -> None:
    """The histogram is free for others."""
    if h != NOWHERE:
        tree.free_histograms[tree.counts[FREE_HISTOGRAMS]] = h
        tree.counts[FREE_HISTOGRAMS] += 1
