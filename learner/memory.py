"""Bounded memory: only the most promising leaves keep statistics.

Bytes by a model that does not depend on how arrays happen to be allocated: 256 a node and two
class vectors, 64 an observer, 8 a number that it keeps; values that are kept one by one count by
the blocks they lie in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from learner.kernels.nodes import deactivate, reactivate
from learner.kernels.rules import Rules
from learner.kernels.tree import (
    BLOCK_BYTES,
    CLASSES,
    DEACTIVATED,
    FIRST_BLOCK,
    FREE_SLOTS,
    LEAF,
    MEMORY_CHECKS,
    MISSING,
    MOST_BINS,
    NODES,
    NOWHERE,
    REACTIVATED,
    SLOTS,
    TOKENS,
    Layout,
    Tree,
)

NODE_BYTES = 256
OBSERVER_BYTES = 64
NUMBER_BYTES = 8
ENTRY_BYTES = 24


def slot_bytes(tree: Tree, layout: Layout, values: int) -> int:
    """Bytes of one node's statistics, for the classes, values and tokens learned so far.

    Without the blocks of values that are kept one by one.
    """
    numeric, tokens = len(layout.numeric_position), int(tree.counts[TOKENS])
    nominal, classes = len(layout.nominal_position), int(tree.counts[CLASSES])
    of_class = (MISSING + 1) * numeric + values + tokens
    of_class += MOST_BINS * numeric if len(tree.bins) else 0
    others = 0
    if followed := tree.candidate.shape[1]:
        of_class += 3 * followed
        others = 7 * followed + values + numeric + nominal + tokens
    numbers = classes * of_class + others
    return NUMBER_BYTES * numbers + OBSERVER_BYTES * (numeric + nominal + tokens)


def nodes_bytes(tree: Tree) -> int:
    """Bytes of all nodes without statistics."""
    return int(tree.counts[NODES]) * (NODE_BYTES + 2 * NUMBER_BYTES * int(tree.counts[CLASSES]))


def model_bytes(tree: Tree, layout: Layout, values: int) -> int:
    """Bytes of the whole model."""
    kept = int(tree.counts[SLOTS] - tree.counts[FREE_SLOTS])
    blocks = int(tree.counts[BLOCK_BYTES])
    return nodes_bytes(tree) + kept * slot_bytes(tree, layout, values) + blocks


def enforce_memory(
    tree: Tree, handles: tuple[Any, Any], layout: Layout, rules: Rules, values: int
) -> list[int]:
    """Take statistics from all but the leaves of most promise, as many as fit.

    Returns the leaves that shall get some: ``give_statistics``, once there is room for them.

    Promise is the weight that the majority gets wrong, n (1 - max_k p_k); ties go to the older
    leaf. A leaf that gets its statistics back starts with n = 0, and what it saw becomes part of
    its prior votes. Inner nodes that keep statistics keep them. ``handles`` are the tree and the
    layout as kernels take them.
    """
    tree.counts[MEMORY_CHECKS] += 1
    nodes = tree.node[: int(tree.counts[NODES])]
    each = slot_bytes(tree, layout, values)
    kept = nodes["slot"] != NOWHERE
    blocks = np.full(
        len(nodes), ENTRY_BYTES * FIRST_BLOCK * tree.column.shape[1] * bool(len(tree.column))
    )
    blocks[kept] = tree.slot["bytes"][nodes["slot"][kept]]
    costs: npt.NDArray[np.int64] = np.maximum(1, each + blocks)
    leaves = np.flatnonzero(nodes["kind"] == LEAF)
    promise = nodes["n"][leaves] - tree.seen[leaves].max(axis=1)
    ranked = leaves[np.argsort(-promise, kind="stable")]
    inner = kept & (nodes["kind"] != LEAF)
    room = rules.max_memory_bytes - nodes_bytes(tree) - int(costs[inner].sum())
    fitting = max(1, int(np.searchsorted(np.cumsum(costs[ranked]), room, side="right")))
    for leaf in ranked[fitting:].tolist():
        if nodes["slot"][leaf] != NOWHERE:
            deactivate(*handles, leaf)
            tree.counts[DEACTIVATED] += 1
    return [leaf for leaf in ranked[:fitting].tolist() if nodes["slot"][leaf] == NOWHERE]


def give_statistics(tree: Tree, handles: tuple[Any, Any, Any], leaves: Sequence[int]) -> None:
    """Leaves without statistics get some; the arrays have room for all of them.

    ``handles`` are the tree, the layout and the rules as kernels take them.
    """
    for leaf in leaves:
        reactivate(*handles, leaf)
        tree.counts[REACTIVATED] += 1
