"""The arrays of a tree: made, grown, trimmed. No kernel allocates; this file does it for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learner.encoder import Encoder
from learner.kernels.jit import JIT_DISABLED
from learner.kernels.rules import Rules, Scratch
from learner.kernels.tree import (
    COUNTS,
    HIGH,
    LEAF,
    LOG_FIELDS,
    LOW,
    MISSING,
    NODE,
    NODES,
    PENDING,
    PENDING_BRANCHES,
    SLOT,
    SLOTS,
    TABLE,
    Layout,
    Tree,
)
from learner.schema import Kind

LOG_LINES = 1024

Array = npt.NDArray[Any]


class Sizes(NamedTuple):
    """Room of the arrays along each axis."""

    nodes: int
    slots: int
    table: int
    classes: int
    numeric: int
    values: tuple[int, ...]  # of each nominal column
    tokens: int
    features: int

    @property
    def widest(self) -> int:
        """The most branches a split can have."""
        return max((2, *self.values))


FIRST_SIZES = Sizes(64, 64, 256, 2, 0, (), 0, 0)
FIRST_BYTES = 8 * 2**20  # of observers: a small tree never grows its arrays


def sizes_for(encoder: Encoder, old: Sizes = FIRST_SIZES) -> Sizes:
    """Room for all that the encoder knows; what is too small is doubled."""
    counts = encoder.value_counts()
    rooms = old.values + tuple(max(1, count) for count in counts[len(old.values) :])
    tokens = encoder.token_count
    return old._replace(
        classes=roomier(old.classes, len(encoder.classes)),
        numeric=len(encoder.positions(Kind.NUMERIC)),
        values=tuple(map(roomier, rooms, counts)),
        tokens=roomier(max(16, old.tokens), tokens) if tokens else 0,
        features=encoder.feature_count,
    )


def first_sizes(encoder: Encoder) -> Sizes:
    """Room for all that the encoder knows and a small tree."""
    sizes = sizes_for(encoder)
    numbers = (MISSING + 1) * sizes.numeric + sum(sizes.values) + sizes.tokens
    fitting = FIRST_BYTES // max(1, 8 * sizes.classes * numbers)
    slots = max(sizes.slots, min(512, fitting))
    return sizes._replace(slots=slots, nodes=2 * slots, table=8 * slots)


def with_room(sizes: Sizes, tree: Tree) -> Sizes:
    """Enough for a lost child, and for the split that waits for room."""
    counts = tree.counts
    more = 1 + (int(counts[PENDING_BRANCHES]) if counts[PENDING] else 0)
    return sizes._replace(
        nodes=roomier(sizes.nodes, int(counts[NODES]) + more),
        slots=roomier(sizes.slots, int(counts[SLOTS]) + more),
        table=roomier(sizes.table, int(counts[TABLE]) + 3 * sizes.widest),
    )


def roomier(room: int, needed: int) -> int:
    """The room, doubled until what is needed fits."""
    while room < needed:
        room *= 2
    return room


def layout_for(encoder: Encoder, sizes: Sizes) -> Layout:
    """Where the encoder's attributes stand."""
    tokens = np.zeros(sizes.tokens, np.int32)
    tokens[: encoder.token_count] = [position for position, _ in encoder.tokens]
    return Layout(
        np.array(encoder.positions(Kind.NUMERIC), np.int32),
        np.array(encoder.positions(Kind.NOMINAL), np.int32),
        tokens,
        np.array(sizes.values, np.uint32),
        value_starts(sizes),
    )


def value_starts(sizes: Sizes) -> npt.NDArray[np.int32]:
    """First place of each nominal column's values, and the end of all."""
    return np.concatenate([[0], np.cumsum(sizes.values)]).astype(np.int32)


def _records(count: int, dtype: np.dtype[np.void]) -> Array:
    """Records whose fields kernels read by name; numpy alone needs its slower class for that."""
    plain = np.zeros(count, dtype)
    return plain.view(np.recarray) if JIT_DISABLED else plain


def new_tree(sizes: Sizes) -> Tree:
    """Zeroed arrays, not even a root."""
    n, s, c = sizes.nodes, sizes.slots, sizes.classes
    return Tree(
        node=_records(n, NODE),
        votes=np.zeros((n, c)),
        seen=np.zeros((n, c)),
        slot=_records(s, SLOT),
        moments=np.zeros((s, c, MISSING + 1, sizes.numeric)),
        values=np.zeros((s, c, sum(sizes.values))),
        tokens=np.zeros((s, c, sizes.tokens)),
        barred=np.zeros((s, sizes.features), np.int8),
        barred_tokens=np.zeros((s, sizes.tokens), np.int8),
        counts=np.zeros(COUNTS, np.int64),
        weight=np.zeros(1),
        free=np.zeros(s, np.int32),
        tables=np.zeros(sizes.table, np.int32),
        log=np.zeros((LOG_LINES, LOG_FIELDS)),
    )


def resized(tree: Tree, old: Sizes, new: Sizes) -> Tree:
    """The same tree in arrays of other sizes.

    A numeric column that is new counts as missing in all that was seen before it.
    """
    room = new_tree(new)
    slots = int(tree.counts[SLOTS])
    room.moments[:slots, :, LOW] = np.inf
    room.moments[:slots, :, HIGH] = -np.inf
    for target, source in zip(room, tree, strict=True):
        if source is not tree.values:
            copy_into(target, source)
    copy_values(room.values, value_starts(new), tree.values, value_starts(old), old.values)
    if new.numeric > old.numeric:
        _mark_missing(room, old.numeric)
    return room


def copy_into(target: Array, source: Array) -> None:
    """Copy an array into the corner of a larger one."""
    target[tuple(slice(0, size) for size in source.shape)] = source


def copy_values(
    target: Array, starts: Array, source: Array, had: Array, counts: Sequence[int]
) -> None:
    """Copy n_ijk, whose attributes begin elsewhere in the target."""
    slots, classes, _ = source.shape
    for a, count in enumerate(counts):
        part = target[:slots, :classes, starts[a] : starts[a] + count]
        part[...] = source[:, :, had[a] : had[a] + count]


def _mark_missing(tree: Tree, first_new: int) -> None:
    for node in np.flatnonzero(active_leaves(tree)):
        slot = tree.node["slot"][node]
        tree.moments[slot, :, MISSING, first_new:] = tree.seen[node][:, None]
        tree.slot["gaps"][slot] |= tree.node["n"][node] > 0.0


def active_leaves(tree: Tree) -> npt.NDArray[np.bool_]:
    """For each node in use whether it is a leaf with observers."""
    used = tree.node[: int(tree.counts[NODES])]
    mask: npt.NDArray[np.bool_] = (used["slot"] >= 0) & (used["kind"] == LEAF)
    return mask


def new_scratch(sizes: Sizes, rules: Rules) -> Scratch:
    """Working space for a tree of these sizes."""
    columns = sizes.numeric
    return Scratch(
        points=np.zeros((7, rules.split_points * columns)),
        numeric=np.zeros((8, columns)),
        nominal=np.zeros((4, len(sizes.values))),
        values=np.zeros((3, sum(sizes.values))),
        tokens=np.zeros((4, sizes.tokens)),
        branch_value=np.zeros(sizes.widest, np.int32),
        classes=np.zeros((4, sizes.classes)),
        branch_counts=np.zeros((sizes.widest, sizes.classes)),
        ranking=np.zeros(8),
    )
