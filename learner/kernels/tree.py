"""The tree as arrays: what a node and a slot of observers hold, and how they are made.

node 0 is the root; the children of a split lie side by side

    kind     NUMERIC   LEAF   LEAF   ...
    child       1       .      .            first child
    slot        .       0      1            statistics of a node that keeps some, -1 = none

a multiway split finds its child in a table: tables[table_start + value] = child, -1 = other;
a split on a set of values finds 1 there for the values of the set

which parts a tree has depends on its options; the arrays of the others are empty
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
LEAF, NUMERIC, MULTIWAY, EQUALS, CONTAINS, SUBSET = 0, 1, 2, 3, 4, 5
NOWHERE = -1

# what a leaf waits for where statistics are rationed by queues: in AQ, in Q, or done
ACTIVE, QUEUED, PURE, ENDED = 0, 1, 2, 3

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
    CANDIDATE_CHECKS,
    REEVALUATIONS,
    REPLACED,
    MOVED,
    COLLAPSED,
    COUNTED,  # events that went into statistics
    DONE_AT,  # events when no leaf was queued or active any more, 0 = not yet
    TICKETS,  # given to queued leaves so far
    PEAK_BYTES,  # sum over the nodes that had statistics and gave them back
    PEAK_NODES,
    ENTRIES,  # end of the used part of the pool of entries
    SHORT_OF_ROOM,  # the longest block of entries that found no room; 0 = nothing is lacking
    HISTOGRAMS,
    FREE_HISTOGRAMS,
    BLOCK_BYTES,  # of entries and histograms of all slots
    PENDING_DUE,  # 1 = the check that waits was due, 2 = it was not, 0 = ask again
    UNLOGGED,  # changes for which the log had no line left
) = range(39)
COUNTS = 39


# What an event reads and writes comes first: one cache line of 64 bytes. The record is as long as
# two, so that a node's place is found by a shift.
NODE = np.dtype(
    [
        ("cut", np.float64),  # threshold, or code of the value
        ("routed", np.float64),  # weight that came this way: the branch's estimate, then events
        ("n", np.float64),  # weight observed since creation
        ("n_last", np.float64),  # n at the last check
        ("wait", np.float64),  # weight from there to the next one
        ("kind", np.int32),
        ("column", np.int32),  # numeric, nominal or token column of the test
        ("child", np.int32),  # first child
        ("slot", np.int32),
        ("majority", np.int32),  # class with the most votes
        ("parent", np.int32),
        ("mc_right", np.float64),  # weight that majority / naive Bayes got right (adaptive)
        ("nb_right", np.float64),
        ("squares", np.float64),  # sum of squared weights, kept for the effective n only
        ("id", np.int64),  # stable name, never used twice
        ("table_start", np.int64),  # see the drawing above; the ticket of a queued leaf
        ("table_length", np.int32),
        ("branches", np.int32),  # children side by side
        ("other", np.int32),  # multiway: child of missing and unseen values, NOWHERE until needed
        ("value", np.int32),  # code by which a multiway parent reaches this node, -1 = other
        ("depth", np.int32),
        ("standing", np.int32),  # of a leaf, where queues ration statistics
    ]
)
assert NODE.itemsize == 128

# What a node was made by and when; written when the tree changes, read by people only.
FACT = np.dtype(
    [
        ("created", np.int64),  # events learned when the node was made
        ("event", np.int64),  # events when its test was installed; 0 at a leaf, as all below
        ("n", np.float64),  # weight the node had observed then
        ("merit", np.float64),
        ("second_merit", np.float64),
        ("bound", np.float64),
        ("second_cut", np.float64),  # the runner-up
        ("second_column", np.int32),  # NOWHERE = it was not to split
        ("second_kind", np.int32),
        ("reason", np.int64),  # BY_BOUND or BY_TIE
    ]
)

SLOT = np.dtype(
    [
        ("audit_first", np.float64),  # n at which the test first passed, -1 = not yet
        ("audited", np.int32),  # 1 if the split-delay audit watches this leaf
        ("gaps", np.int32),  # 1 once a numeric value was missing
        ("candidates", np.int32),  # how many are followed, 0 = none yet
        ("reference_tie", np.int32),  # whether the reference split by a tie
        ("n_check", np.float64),  # n at the last check of the candidates
        ("spread", np.float64),  # of the two best at their last evaluation, for the normal test
        ("bias", np.float64),  # how much more of the best's gain is bias, times n
        ("reference_n", np.float64),  # n at which the reference split here, -1 = not yet
        ("quiet_since", np.float64),  # n since when no attribute beats the bound, -1 = one does
        ("binned_n", np.float64),  # n at which the naive Bayes intervals were counted
        ("forecast", np.float64),  # n at which a split was due, by the last attempt; -1 = unknown
        ("arrivals", np.int64),  # events since the statistics began
        ("since", np.int64),  # events of the stream when they began
        ("bytes", np.int64),  # of the blocks and histograms of this slot
        ("peak", np.int64),
    ]
)

# One numeric attribute of a slot as a block of entries: [start, start + run) is sorted by value
# and class, each pair once; [start + run, start + used) came later, in the order of the events.
COLUMN = np.dtype(
    [
        ("start", np.int64),
        ("capacity", np.int32),
        ("run", np.int32),
        ("used", np.int32),
        ("histogram", np.int32),  # place of its intervals, NOWHERE = none laid
        ("low", np.float64),  # where the first interval begins
        ("step", np.float64),  # width of an interval
        ("room", np.int32),  # entries that may come before the block is looked at
    ]
)

# A test whose gain is followed event by event.
CANDIDATE = np.dtype(
    [
        ("kind", np.int32),
        ("column", np.int32),
        ("cut", np.float64),
        ("before", np.float64),  # impurity of the events that know the attribute, times weight
        ("after", np.float64),  # the same behind the test
        ("known", np.float64),  # their weight
        ("first", np.float64),  # weight of the first of two branches
        ("second", np.float64),
    ]
)


class Tree(NamedTuple):
    """Everything that learning changes. One record a node keeps what a walk reads together."""

    node: Records  # [node] of NODE
    votes: Floats  # [node, class] prior + seen; at an inner node as it was when it split
    seen: Floats  # [node, class] observed since creation
    fact: Records  # [node] of FACT
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
    column: Records  # [slot, numeric column] of COLUMN, where values are kept one by one
    entry_value: Floats  # the pool of entries
    entry_weight: Floats
    entry_class: Ints
    free_blocks: Longs  # [log2 of the capacity] first free block, NOWHERE = none
    histogram: Floats  # [histogram, interval, class]
    pruned: Bytes  # [histogram, interval] 1 = its entries are not looked at
    free_histograms: Ints  # stack of those that no column owns
    bins: Floats  # [slot, numeric column, class, interval] log2 of the share, times their number
    bin_shape: Floats  # [slot, numeric column, BIN_LOW|BIN_STEP|BIN_COUNT]
    bayes: Floats  # [slot, class, place] naive Bayes, see learner/kernels/bayes.py
    bayes_slot: Floats  # [slot, place] what its classes share
    candidate: Records  # [slot, place] of CANDIDATE
    sides: Floats  # [slot, place, branch, class] of candidates with two branches
    candidate_classes: Floats  # [slot, place, class] events that know the attribute
    quiet_until: Floats  # [slot] n before which no candidate can start an attempt
    value_weight: Floats  # [slot, place of value] sum of n_ijk over the classes, of candidates
    potential_numeric: Floats  # [slot, numeric column] last known gain; NaN = not potential
    potential_nominal: Floats  # [slot, nominal column]
    potential_tokens: Floats  # [slot, token]
    touched: Bytes  # [node] 1 = it changed since the last snapshot, its parents perhaps too


BIN_LOW, BIN_STEP, BIN_COUNT = 0, 1, 2
MOST_BINS = 10

FIRST_BLOCK = 16  # entries of a fresh column
BLOCK_SIZES = 32  # blocks are powers of two

# what happened, in LOG_CHANGE
BOUND, TIE, REPLACE, MOVE, COLLAPSE, DEACTIVATE, REACTIVATE = 0, 1, 2, 3, 4, 5, 6
LOG_FIELDS = 17
(
    LOG_EVENT,
    LOG_NODE,
    LOG_DEPTH,
    LOG_CHANGE,
    LOG_KIND,
    LOG_COLUMN,
    LOG_CUT,
    LOG_N,
    LOG_MERIT,
    LOG_SECOND,
    LOG_BOUND,
    LOG_DELAY,
    LOG_REASON,
    LOG_SECOND_KIND,
    LOG_SECOND_COLUMN,
    LOG_SECOND_CUT,
    LOG_FORECAST,
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


@inner
def outside_subset(tree: Tree, node: int, value: int) -> int:
    """0 for a value of the node's set, 1 for others, unseen and missing ones."""
    at = tree.node[node]
    if 0 <= value < at.table_length:
        return 1 - int64(tree.tables[at.table_start + value])
    return 1


@inner
def last_token(batch: Batch, row: int) -> int:
    """The highest token of an event, whose tokens are ascending; -1 = it has none."""
    end = batch.sparse_start[row + 1]
    return int64(batch.sparse_index[end - 1]) if end > batch.sparse_start[row] else int64(-1)
