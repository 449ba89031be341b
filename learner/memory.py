"""Bounded memory: only the most promising leaves keep observers.

Bytes by a model that does not depend on how arrays happen to be allocated: 256 a node and two
class vectors, 64 an observer, 8 a number that an observer keeps.
"""

from __future__ import annotations

import numpy as np

from learner.kernels.rules import Rules
from learner.kernels.tree import (
    CLASSES,
    DEACTIVATED,
    FREE_SLOTS,
    LEAF,
    MEMORY_CHECKS,
    MISSING,
    NODES,
    NOWHERE,
    REACTIVATED,
    SLOTS,
    TOKENS,
    Layout,
    Tree,
    reactivate,
)

NODE_BYTES = 256
OBSERVER_BYTES = 64
NUMBER_BYTES = 8


def leaf_bytes(tree: Tree, layout: Layout, values: int) -> int:
    """Bytes of one active leaf's observers, for the classes, values and tokens learned so far."""
    numeric, tokens = len(layout.numeric_position), int(tree.counts[TOKENS])
    numbers = (MISSING + 1) * numeric + values + tokens
    observers = numeric + len(layout.nominal_position) + tokens
    return NUMBER_BYTES * int(tree.counts[CLASSES]) * numbers + OBSERVER_BYTES * observers


def nodes_bytes(tree: Tree) -> int:
    """Bytes of all nodes without observers."""
    return int(tree.counts[NODES]) * (NODE_BYTES + 2 * NUMBER_BYTES * int(tree.counts[CLASSES]))


def model_bytes(tree: Tree, layout: Layout, values: int) -> int:
    """Bytes of the whole model."""
    active = int(tree.counts[SLOTS] - tree.counts[FREE_SLOTS])
    return nodes_bytes(tree) + active * leaf_bytes(tree, layout, values)


def enforce_memory(tree: Tree, layout: Layout, rules: Rules, values: int) -> None:
    """Keep observers at the leaves of most promise, as many as fit; take them from the rest.

    Promise is the weight that the majority gets wrong, n (1 - max_k p_k); ties go to the older
    leaf. A leaf that gets its observers back starts with n = 0, and what it saw becomes part of
    its prior votes.
    """
    tree.counts[MEMORY_CHECKS] += 1
    each = max(1, leaf_bytes(tree, layout, values))
    room = max(0, rules.max_memory_bytes - nodes_bytes(tree)) // each
    nodes = tree.node[: int(tree.counts[NODES])]
    leaves = np.flatnonzero(nodes["kind"] == LEAF)
    promise = nodes["n"][leaves] - tree.seen[leaves].max(axis=1)
    ranked = leaves[np.argsort(-promise, kind="stable")]
    keep = max(1, room)
    for leaf in ranked[keep:]:
        if nodes["slot"][leaf] != NOWHERE:
            tree.free[tree.counts[FREE_SLOTS]] = nodes["slot"][leaf]
            tree.counts[FREE_SLOTS] += 1
            nodes["slot"][leaf] = NOWHERE
            tree.counts[DEACTIVATED] += 1
    for leaf in ranked[:keep]:
        if nodes["slot"][leaf] == NOWHERE:
            reactivate(tree, layout, int(leaf), rules.audit_fraction)
            tree.counts[REACTIVATED] += 1
