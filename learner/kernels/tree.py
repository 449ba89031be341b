"""The tree as arrays: what a node and a slot of observers hold, and how they are made.

node 0 is the root; the children of a split lie side by side

    kind     NUMERIC   LEAF   LEAF   ...
    child       1       .      .            first child
    slot        .       0      1            observers of an active leaf, -1 = none

a multiway split finds its child in a table: tables[table_start + value] = child, -1 = other
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learner.batch import Batch
from learner.kernels.jit import inner, int64, kernel

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
UInts = npt.NDArray[np.uint32]
Longs = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.int8]
Records = Any  # a record array; numpy's types have no names for its fields

# kinds of nodes
LEAF, NUMERIC, MULTIWAY, EQUALS, CONTAINS = 0, 1, 2, 3, 4
NOWHERE = -1

# fields of Tree.moments
MEAN, M2, LOW, HIGH, MISSING = 0, 1, 2, 3, 4

# why an attribute is not considered at a leaf
ON_PATH, POOR = 1, 2

# places in Tree.counts; PENDING is 1 + the node of a split that waits for room, 0 = none
(
    NODES,
    SLOTS,
    FREE_SLOTS,
    TABLE,
    NEXT_ID,
    CLASSES,
    TOKENS,
    LOGGED,
    PENDING,
    PENDING_BRANCHES,
    EVENTS,
    ATTEMPTS,
    SPLITS_BOUND,
    SPLITS_TIE,
    NO_SPLIT,
    PURE_CHECKS,
    EVALUATIONS,
    AUDITS,
    AUDITED_SPLITS,
    DEACTIVATED,
    REACTIVATED,
    MEMORY_CHECKS,
) = range(22)
COUNTS = 22


# What the walk of an event reads comes first: one cache line of 64 bytes. The record is as long as
# two, so that a node's place is found by a shift.
NODE = np.dtype(
    [
        ("cut", np.float64),  # threshold, or code of the value
        ("routed", np.float64),  # weight that came this way: the branch's estimate, then events
        ("table_start", np.int64),  # multiway: see the drawing above
        ("n", np.float64),  # weight observed since creation
        ("kind", np.int32),
        ("column", np.int32),  # numeric, nominal or token column of the test
        ("child", np.int32),  # first child
        ("branches", np.int32),  # children side by side
        ("table_length", np.int32),
        ("other", np.int32),  # multiway: child of missing and unseen values, NOWHERE until needed
        ("slot", np.int32),
        ("majority", np.int32),  # class with the most votes
        ("n_last", np.float64),  # n at the last check
        ("squares", np.float64),  # sum of squared weights, kept for the effective n only
        ("mc_right", np.float64),  # weight that majority / naive Bayes got right (adaptive)
        ("nb_right", np.float64),
        ("id", np.int64),  # stable name, never used twice
        ("value", np.int32),  # code by which a multiway parent reaches this node, -1 = other
        ("parent", np.int32),
        ("depth", np.int32),
        ("unused", np.int32, 3),
    ]
)
assert NODE.itemsize == 128

SLOT = np.dtype(
    [
        ("audit_first", np.float64),  # n at which the test first passed, -1 = not yet
        ("audit_count", np.int64),  # events since the leaf began, for the audit's step
        ("audited", np.int32),  # 1 if the split-delay audit watches this leaf
        ("gaps", np.int32),  # 1 once a numeric value was missing
    ]
)


class Tree(NamedTuple):
    """Everything that learning changes. One record a node keeps what a walk reads together."""

    node: Records  # [node] of NODE
    votes: Floats  # [node, class] prior + seen; at an inner node as it was when it split
    seen: Floats  # [node, class] observed since creation
    slot: Records  # [slot] of SLOT
    moments: Floats  # [slot, class, MEAN|M2|LOW|HIGH|MISSING, numeric column]
    values: Floats  # [slot, class, place of value] n_ijk of nominal attributes
    tokens: Floats  # [slot, class, token] weight of the events that hold the token
    barred: Bytes  # [slot, feature position] ON_PATH | POOR
    barred_tokens: Bytes  # [slot, token] POOR
    counts: Longs  # see the names above
    weight: Floats  # [0] weight of all events
    free: Ints  # stack of slots that no leaf owns
    tables: Ints  # children of multiway splits
    log: Floats  # [structural change, field], see LOG_FIELDS


LOG_FIELDS = 12
(
    LOG_EVENT,
    LOG_NODE,
    LOG_DEPTH,
    LOG_TIE,
    LOG_KIND,
    LOG_COLUMN,
    LOG_CUT,
    LOG_N,
    LOG_MERIT,
    LOG_SECOND,
    LOG_BOUND,
    LOG_DELAY,
) = range(LOG_FIELDS)


class Layout(NamedTuple):
    """Where attributes stand: positions in the schema and places of nominal values."""

    numeric_position: Ints  # [numeric column]
    nominal_position: Ints  # [nominal column]
    token_position: Ints  # [token column] position of its feature
    value_room: UInts  # [nominal column] places of its values
    value_start: Ints  # [nominal column + 1] first place of its values in Tree.values


@kernel
def audit_hash(node_id: int) -> float:
    """A number in [0, 1) from a node's id (splitmix64), the same on every machine."""
    z = np.uint64(node_id) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) / 9007199254740992.0


@inner
def clear_slot(tree: Tree, slot: int) -> None:
    """Empty tree, nothing barred."""
    tree.moments[slot, :, :LOW] = 0.0
    tree.moments[slot, :, LOW] = np.inf
    tree.moments[slot, :, HIGH] = -np.inf
    tree.moments[slot, :, MISSING] = 0.0
    tree.slot[slot].gaps = 0
    tree.values[slot] = 0.0
    tree.tokens[slot] = 0.0
    tree.barred[slot] = 0
    tree.barred_tokens[slot] = 0
    tree.slot[slot].audited = 0
    tree.slot[slot].audit_count = 0
    tree.slot[slot].audit_first = -1.0


@inner
def take_slot(tree: Tree) -> int:
    """A cleared slot: one that was given back, or a new one."""
    counts = tree.counts
    if counts[FREE_SLOTS] > 0:
        counts[FREE_SLOTS] -= 1
        slot = int64(tree.free[counts[FREE_SLOTS]])
    else:
        slot = counts[SLOTS]
        counts[SLOTS] += 1
    clear_slot(tree, slot)
    return slot


@inner
def give_back_slot(tree: Tree, node: int) -> None:
    """The node's observers are dropped."""
    tree.free[tree.counts[FREE_SLOTS]] = tree.node[node].slot
    tree.counts[FREE_SLOTS] += 1
    tree.node[node].slot = NOWHERE


@kernel
def new_leaf(tree: Tree, parent: int, audit_fraction: float) -> int:
    """An active leaf without votes below ``parent`` (NOWHERE for the root).

    Until it has votes it predicts its parent's majority.
    """
    counts = tree.counts
    node = counts[NODES]
    counts[NODES] += 1
    tree.node[node].id = counts[NEXT_ID]
    counts[NEXT_ID] += 1
    tree.node[node].parent = parent
    tree.node[node].depth = 0 if parent == NOWHERE else tree.node[parent].depth + 1
    tree.node[node].kind = LEAF
    tree.node[node].column = NOWHERE
    tree.node[node].cut = 0.0
    tree.node[node].child = NOWHERE
    tree.node[node].branches = 0
    tree.node[node].other = NOWHERE
    tree.node[node].table_start = 0
    tree.node[node].table_length = 0
    tree.node[node].value = NOWHERE
    tree.node[node].routed = 0.0
    tree.node[node].n = 0.0
    tree.node[node].n_last = 0.0
    tree.node[node].squares = 0.0
    tree.node[node].majority = 0 if parent == NOWHERE else tree.node[parent].majority
    tree.node[node].mc_right = 0.0
    tree.node[node].nb_right = 0.0
    tree.votes[node] = 0.0
    tree.seen[node] = 0.0
    slot = take_slot(tree)
    tree.node[node].slot = slot
    tree.slot[slot].audited = audit_hash(tree.node[node].id) < audit_fraction
    return node


@inner
def bar_path(tree: Tree, layout: Layout, leaf: int) -> None:
    """Bar the multiway attributes between the root and a leaf: they are sorted out above it.

    Also in the *other* branch, where the attribute may still vary: no attribute of a multiway
    split comes twice on a path.
    """
    slot = tree.node[leaf].slot
    node = tree.node[leaf].parent
    while node != NOWHERE:
        if tree.node[node].kind == MULTIWAY:
            tree.barred[slot, layout.nominal_position[tree.node[node].column]] |= ON_PATH
        node = tree.node[node].parent


@kernel
def reactivate(tree: Tree, layout: Layout, leaf: int, audit_fraction: float) -> None:
    """An inactive leaf gets observers again; all it has seen is prior from now on."""
    slot = take_slot(tree)
    tree.node[leaf].slot = slot
    tree.slot[slot].audited = audit_hash(tree.node[leaf].id) < audit_fraction
    bar_path(tree, layout, leaf)
    tree.node[leaf].n = 0.0
    tree.node[leaf].n_last = 0.0
    tree.node[leaf].squares = 0.0
    tree.seen[leaf] = 0.0


@inner
def holds_token(batch: Batch, row: int, token: int) -> bool:
    """Whether the row holds the token (its tokens are few and ascending)."""
    for place in range(batch.sparse_start[row], batch.sparse_start[row + 1]):
        if batch.sparse_index[place] >= token:
            return bool(batch.sparse_index[place] == token)
    return False


@inner
def heavier_branch(tree: Tree, node: int) -> int:
    """The numeric child that more weight went to; ties to the first."""
    first = int64(tree.node[node].child)
    return first + (1 if tree.node[first + 1].routed > tree.node[first].routed else 0)
