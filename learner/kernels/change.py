"""What changed since somebody last looked: found, and copied row by row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.kernels.jit import int64, kernel
from learner.kernels.tree import CONTAINS, EQUALS, LEAF, NOWHERE, NUMERIC, Ints, Longs, Tree

Words = npt.NDArray[np.uint64]


@kernel
def take_changed(
    tree: Tree, words: Longs, nodes: Ints, slots: Ints, tabled: Ints
) -> tuple[int, int, int]:
    """Nodes that were touched, and all above them; returns how many, and forgets them.

    Of these nodes also the slots of the leaves, and those with a table. An event changes every node
    on its way, but touches only where it ended. ``words`` are eight nodes of ``tree.touched`` at a
    time. Parents come before their children, so one that is touched and lies behind has had its own
    parents taken.
    """
    touched, count, leaves, tables = tree.touched, 0, 0, 0
    for word in range(len(words)):
        if words[word] == 0:
            continue
        for first in range(8 * word, 8 * word + 8):
            if touched[first] == 0:
                continue
            node = int64(first)
            while True:
                nodes[count] = node
                count += 1
                at = tree.node[node]
                if at.kind == LEAF:
                    if at.slot != NOWHERE:
                        slots[leaves] = at.slot
                        leaves += 1
                elif at.kind != NUMERIC and at.kind != EQUALS and at.kind != CONTAINS:
                    tabled[tables] = node
                    tables += 1
                node = int64(at.parent)
                if node == NOWHERE or touched[node] != 0:
                    break
                touched[node] = 1
    for i in range(count):
        touched[nodes[i]] = 0
    return count, leaves, tables


@kernel
def copy_rows(target: Words, source: Words, rows: Ints) -> None:
    """target[row] = source[row]."""
    for i in range(len(rows)):
        row = rows[i]
        for j in range(source.shape[1]):
            target[row, j] = source[row, j]


@kernel
def copy_tables(tree: Tree, target: Ints, nodes: Ints) -> None:
    """Copy the tables of these nodes."""
    for i in range(len(nodes)):
        at = tree.node[nodes[i]]
        for place in range(at.table_start, at.table_start + at.table_length):
            target[place] = tree.tables[place]
