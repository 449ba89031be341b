"""Naive Bayes over numeric values that are kept one by one: at most ten bins of equal width.

    P(x in bin q | k) = (count_qk + 1) / (n_k + B)       [GRM03] Sec. 3.2, with Laplace's correction

The table holds log2(B P): 0 for a class that never knew the column, as in a table never filled.
The factor B is the same for all classes.
"""

from __future__ import annotations

import math

from learner.kernels.elementary import log2
from learner.kernels.jit import inlined, inner, int64
from learner.kernels.numeric.entries import compact, distinct_values
from learner.kernels.numeric.histogram import interval_of
from learner.kernels.rules import Rules, Scratch
from learner.kernels.tree import BIN_COUNT, BIN_LOW, BIN_STEP, MOST_BINS, NOWHERE, Tree


@inner
def build_bins(tree: Tree, rules: Rules, scratch: Scratch, slot: int, classes: int) -> None:
    """Count the values seen so far into the bins of every column; none of a column never known."""
    for j in range(tree.column.shape[1]):
        compact(tree, rules, scratch, slot, j)
        column, shape, table = tree.column[slot, j], tree.bin_shape[slot, j], tree.bins[slot, j]
        start, run, h = column.start, int64(column.run), int64(column.histogram)
        shape[BIN_COUNT] = 0.0
        for k in range(table.shape[0]):
            for b in range(MOST_BINS):
                table[k, b] = 0.0
        if h != NOWHERE:
            intervals = tree.histogram.shape[1]
            shape[BIN_LOW] = column.low
            shape[BIN_STEP] = -column.step  # neighbouring intervals share a bin
            shape[BIN_COUNT] = MOST_BINS
            for i in range(intervals):
                for k in range(classes):
                    table[k, i * MOST_BINS // intervals] += tree.histogram[h, i, k]
        elif run > 0:
            low, bins = tree.entry_value[start], distinct_values(tree, slot, j, MOST_BINS)
            shape[BIN_LOW] = low
            shape[BIN_STEP] = (tree.entry_value[start + run - 1] - low) / bins
            shape[BIN_COUNT] = bins
            for q in range(start, start + run):
                b = _bin_between(low, shape[BIN_STEP], bins, tree.entry_value[q])
                table[tree.entry_class[q], b] += tree.entry_weight[q]
        bins = int64(shape[BIN_COUNT])
        for k in range(classes):
            known = 0.0
            for b in range(bins):
                known += table[k, b]
            for b in range(bins):
                table[k, b] = log2((table[k, b] + 1.0) * bins / (known + bins))


@inlined
def _bin_between(low: float, step: float, bins: int, x: float) -> int:
    """Bin b holds low + b step < x <= low + (b + 1) step; the outer bins are open."""
    above = (x - low) / step
    if not above > 1.0:
        return int64(0)
    return int64(bins - 1) if above >= bins else int64(math.ceil(above)) - 1


@inner
def bin_of(tree: Tree, slot: int, j: int, x: float) -> int:
    """The bin of a known value in a column that has a table (BIN_COUNT above 0)."""
    shape = tree.bin_shape[slot, j]
    if shape[BIN_STEP] < 0.0:
        intervals = tree.histogram.shape[1]
        return interval_of(shape[BIN_LOW], -shape[BIN_STEP], intervals, x) * MOST_BINS // intervals
    return _bin_between(shape[BIN_LOW], shape[BIN_STEP], int64(shape[BIN_COUNT]), x)


@inner
def bin_log2_p(tree: Tree, slot: int, j: int, k: int, x: float) -> float:
    """log2 of (count + 1) / (n_k + B), times B."""
    return tree.bins[slot, j, k, bin_of(tree, slot, j, x)]
