"""Snapshots that are held for long: in arrays of their own, with no room to spare.

The arrays of a published snapshot are lent (learner/publication.py) and long enough for what the
tree may become; whoever holds one makes the publisher copy all of the next.
"""

from __future__ import annotations

from typing import Any

from learner.encoder import Encoder
from learner.kernels.tree import NODES, SLOTS, TABLE, Layout, Tree
from learner.publication import OF_NODES, OF_SLOTS
from learner.snapshot import Snapshot
from learner.state import Sizes, tree_reference


def set_apart(snapshot: Snapshot) -> Snapshot:
    """The same snapshot in arrays of its own, as long as they are used."""
    tree, *rest = snapshot.parts
    return _over(_trimmed(tree), *rest)


def reopened(snapshot: Snapshot) -> Snapshot:
    """The same snapshot, over the same arrays, without what its readers have derived from it.

    Only of one that was set apart: the arrays of others are lent to one reader.
    """
    return _over(*snapshot.parts)


def held_bytes(snapshot: Snapshot) -> int:
    """Bytes of the arrays."""
    return sum(part.nbytes for part in snapshot.parts[0])


def _over(
    tree: Tree, handle: Any, sizes: Sizes, layout: Layout, encoder: Encoder, *rest: Any
) -> Snapshot:
    return Snapshot(tree, (tree_reference(tree), handle), [], sizes, layout, encoder, *rest)


def _trimmed(tree: Tree) -> Tree:
    used = {
        **dict.fromkeys(OF_NODES, int(tree.counts[NODES])),
        **dict.fromkeys(OF_SLOTS, int(tree.counts[SLOTS])),
        "tables": int(tree.counts[TABLE]),
    }
    return Tree(
        *(part[: used.get(name, len(part))].copy() for name, part in tree._asdict().items())
    )
