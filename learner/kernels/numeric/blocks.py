"""The pool of entries that all numeric columns share, in blocks of powers of two.

    entry_value   [ block of column a | free, next = 64 | block of b | ... ENTRIES ... room ]

A free block keeps the start of the next one of its size in its first entry's value. Sizes in
bytes are a model: they do not depend on how large the pool happens to be.
"""

from __future__ import annotations

from learner.kernels.jit import inner, int64
from learner.kernels.tree import BLOCK_BYTES, ENTRIES, FIRST_BLOCK, NOWHERE, Tree

ENTRY_BYTES = 24


@inner
def add_bytes(tree: Tree, slot: int, more: int) -> None:
    """The slot's blocks and histograms became larger, or smaller."""
    at = tree.slot[slot]
    at.bytes += more
    at.peak = max(at.peak, at.bytes)
    tree.counts[BLOCK_BYTES] += more


@inner
def take_block(tree: Tree, capacity: int) -> int:
    """Where a block of this many entries begins; NOWHERE when the pool must grow first.

    A free block of the size, else the first part of the smallest larger one, else fresh room.
    """
    free, size = tree.free_blocks, 0
    while (1 << size) < capacity:
        size += 1
    found = size
    while found < len(free) and free[found] == NOWHERE:
        found += 1
    if found < len(free):
        start = free[found]
        free[found] = int64(tree.entry_value[start])
        while found > size:  # what is left over: halves, the largest last
            found -= 1
            give_block(tree, start + (1 << found), int64(1 << found))
        return start
    start = tree.counts[ENTRIES]
    if start + capacity > len(tree.entry_value):
        return NOWHERE
    tree.counts[ENTRIES] = start + capacity
    return start


@inner
def give_block(tree: Tree, start: int, capacity: int) -> None:
    """The block is free for others."""
    size = 0
    while (1 << size) < capacity:
        size += 1
    tree.entry_value[start] = tree.free_blocks[size]
    tree.free_blocks[size] = start


@inner
def shrink_block(tree: Tree, slot: int, j: int) -> None:
    """Give the upper halves of a block back while at most a quarter of it is used."""
    column = tree.column[slot, j]
    capacity = int64(column.capacity)
    while capacity > FIRST_BLOCK and 4 * column.used <= capacity:
        capacity //= 2
        give_block(tree, column.start + capacity, capacity)
        column.room = capacity - column.used
    add_bytes(tree, slot, ENTRY_BYTES * (capacity - column.capacity))
    column.capacity = capacity
