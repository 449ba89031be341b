"""How a tree stands: one pass over its nodes."""

from __future__ import annotations

from learner.kernels.jit import kernel
from learner.kernels.tree import LEAF, NODES, NOWHERE, Tree, audit_hash


@kernel
def count_nodes(tree: Tree) -> tuple[int, int, int, int]:
    """Nodes, leaves, leaves with statistics, and the greatest depth."""
    nodes = tree.counts[NODES]
    leaves = active = depth = 0
    for node in range(nodes):
        at = tree.node[node]
        leaves += at.kind == LEAF
        active += at.kind == LEAF and at.slot != NOWHERE
        depth = max(depth, at.depth)
    return nodes, leaves, active, depth


@kernel
def count_late(tree: Tree, audit_fraction: float) -> int:
    """Audited leaves whose test has passed already and that have not split yet."""
    late = 0
    for node in range(tree.counts[NODES]):
        at = tree.node[node]
        if at.kind == LEAF and at.slot != NOWHERE and audit_hash(at.id) < audit_fraction:
            late += tree.slot[at.slot].audit_first >= 0.0
    return late
