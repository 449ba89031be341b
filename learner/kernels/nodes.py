"""Nodes and their statistics: made, given back, taken up again."""

from __future__ import annotations

import numpy as np

from learner.kernels.bayes import CURRENT
from learner.kernels.history import begin_facts, log_activity
from learner.kernels.jit import inner, int64, kernel
from learner.kernels.numeric.entries import close_columns, open_columns
from learner.kernels.rules import Rules
from learner.kernels.tree import (
    ACTIVE,
    CLASSES,
    DEACTIVATE,
    ENDED,
    ENTRIES,
    EVENTS,
    FIRST_BLOCK,
    FREE_SLOTS,
    HIGH,
    LEAF,
    LOGGED,
    LOW,
    MISSING,
    MULTIWAY,
    NEXT_ID,
    NODES,
    NOWHERE,
    ON_PATH,
    PEAK_BYTES,
    PEAK_NODES,
    QUEUED,
    REACTIVATE,
    SLOTS,
    TABLE,
    TICKETS,
    TOKENS,
    Layout,
    Tree,
    audit_hash,
)


@inner
def clear_slot(tree: Tree, slot: int) -> None:
    """Empty statistics, nothing barred."""
    tree.moments[slot, :, :LOW] = 0.0
    tree.moments[slot, :, LOW] = np.inf
    tree.moments[slot, :, HIGH] = -np.inf
    tree.moments[slot, :, MISSING] = 0.0
    tree.values[slot] = 0.0
    tree.tokens[slot] = 0.0
    tree.barred[slot] = 0
    tree.barred_tokens[slot] = 0
    at = tree.slot[slot]
    at.audited = 0
    at.audit_first = -1.0
    at.gaps = 0
    at.candidates = 0
    at.reference_tie = 0
    at.n_check = 0.0
    at.spread = 0.0
    at.bias = 0.0
    at.reference_n = -1.0
    at.quiet_since = -1.0
    at.binned_n = 0.0
    at.forecast = -1.0
    at.arrivals = 0
    at.since = tree.counts[EVENTS]
    at.bytes = 0
    at.peak = 0
    if len(tree.value_weight) > 0:
        tree.value_weight[slot] = 0.0
        tree.potential_numeric[slot] = np.nan
        tree.potential_nominal[slot] = np.nan
        tree.potential_tokens[slot] = np.nan
    if len(tree.bayes_slot) > 0:
        tree.bayes_slot[slot, CURRENT] = 0.0
    if len(tree.bin_shape) > 0:
        tree.bin_shape[slot] = 0.0
        tree.bins[slot] = 0.0
    if len(tree.column) > 0:
        open_columns(tree, slot)


@inner
def take_slot(tree: Tree, node: int, audit_fraction: float) -> None:
    """The node gets cleared statistics: a slot that was given back, or a new one."""
    counts = tree.counts
    if counts[FREE_SLOTS] > 0:
        counts[FREE_SLOTS] -= 1
        slot = int64(tree.free[counts[FREE_SLOTS]])
    else:
        slot = counts[SLOTS]
        counts[SLOTS] += 1
    clear_slot(tree, slot)
    tree.touched[node] = 1
    tree.node[node].slot = slot
    tree.slot[slot].audited = audit_hash(tree.node[node].id) < audit_fraction


@kernel
def give_back_slot(tree: Tree, layout: Layout, node: int) -> None:
    """The node's statistics are dropped; how large they were is remembered."""
    counts, slot = tree.counts, int64(tree.node[node].slot)
    counts[PEAK_NODES] += 1
    counts[PEAK_BYTES] += slot_bytes(tree, layout) + tree.slot[slot].peak
    if len(tree.column) > 0:
        close_columns(tree, slot)
    tree.free[counts[FREE_SLOTS]] = slot
    counts[FREE_SLOTS] += 1
    tree.touched[node] = 1
    tree.node[node].slot = NOWHERE


@kernel
def deactivate(tree: Tree, layout: Layout, leaf: int) -> None:
    """A leaf loses its statistics without having split."""
    log_activity(tree, leaf, int64(DEACTIVATE))
    give_back_slot(tree, layout, leaf)


@inner
def slot_bytes(tree: Tree, layout: Layout) -> int:
    """Bytes of a slot's fixed part, by the model of the memory bound, without nominal values."""
    numeric, tokens = len(layout.numeric_position), tree.counts[TOKENS]
    numbers = (MISSING + 1) * numeric + tokens
    observers = numeric + len(layout.nominal_position) + tokens
    return 8 * tree.counts[CLASSES] * numbers + 64 * observers


@kernel
def new_leaf(tree: Tree, rules: Rules, parent: int) -> int:
    """A leaf without votes below ``parent`` (NOWHERE for the root).

    Until it has votes it predicts its parent's majority. Where queues ration statistics it waits
    in the queue, or is done at once when it is too deep to split.
    """
    counts = tree.counts
    node = counts[NODES]
    counts[NODES] += 1
    at = tree.node[node]
    at.id = counts[NEXT_ID]
    counts[NEXT_ID] += 1
    at.parent = parent
    at.depth = 0 if parent == NOWHERE else tree.node[parent].depth + 1
    at.kind = LEAF
    at.column = NOWHERE
    at.cut = 0.0
    at.child = NOWHERE
    at.branches = 0
    at.other = NOWHERE
    at.table_start = 0
    at.table_length = 0
    at.value = NOWHERE
    at.routed = 0.0
    at.n = 0.0
    at.n_last = 0.0
    at.wait = rules.n_first
    at.squares = 0.0
    at.majority = 0 if parent == NOWHERE else tree.node[parent].majority
    at.mc_right = 0.0
    at.nb_right = 0.0
    at.slot = NOWHERE
    at.standing = ACTIVE
    tree.votes[node] = 0.0
    tree.seen[node] = 0.0
    begin_facts(tree, node)
    tree.touched[node] = 1
    if rules.queue_bytes == 0 or parent == NOWHERE:
        take_slot(tree, node, rules.audit_fraction)
    elif rules.stop_depth > 0 and at.depth >= rules.stop_depth:
        at.standing = ENDED
    else:
        join_queue(tree, node)
    return node


@inner
def join_queue(tree: Tree, node: int) -> None:
    """The leaf waits for statistics, behind all who wait already."""
    tree.touched[node] = 1
    tree.node[node].standing = QUEUED
    tree.node[node].table_start = tree.counts[TICKETS]
    tree.counts[TICKETS] += 1


@inner
def bar_path(tree: Tree, layout: Layout, leaf: int) -> None:
    """Bar the multiway attributes between the root and a leaf: they are sorted out above it.

    Also in the *other* branch, where the attribute may still vary: no attribute of a multiway
    split comes twice on a path.
    """
    slot = tree.node[leaf].slot
    if slot == NOWHERE or tree.barred.shape[1] == 0:
        return
    node = tree.node[leaf].parent
    while node != NOWHERE:
        if tree.node[node].kind == MULTIWAY:
            tree.barred[slot, layout.nominal_position[tree.node[node].column]] |= ON_PATH
        node = tree.node[node].parent


@kernel
def reactivate(tree: Tree, layout: Layout, rules: Rules, leaf: int) -> None:
    """A leaf without statistics gets some; all it has seen is prior from now on.

    One that gets them by the event that made it is not worth a line.
    """
    if tree.fact[leaf].created != tree.counts[EVENTS]:
        log_activity(tree, leaf, int64(REACTIVATE))
    take_slot(tree, leaf, rules.audit_fraction)
    bar_path(tree, layout, leaf)
    at = tree.node[leaf]
    at.standing = ACTIVE
    at.table_start = 0
    at.n = 0.0
    at.n_last = 0.0
    at.wait = rules.n_first
    at.squares = 0.0
    tree.seen[leaf] = 0.0


@inner
def has_room(tree: Tree, widest: int) -> bool:
    """Whether one more event fits: a lost child with its table, and records of two changes."""
    counts = tree.counts
    return bool(
        counts[NODES] < len(tree.node)
        and has_room_for_slots(tree, 1)
        and counts[TABLE] + 3 * widest <= len(tree.tables)
        and counts[LOGGED] + 1 < len(tree.log)
    )


@inner
def has_room_below(tree: Tree, branches: int) -> bool:
    """Whether a split into so many branches fits, and a lost child that may come after it."""
    more = branches + 1
    return tree.counts[NODES] + more <= len(tree.node) and has_room_for_slots(tree, more)


@inner
def has_room_for_slots(tree: Tree, more: int) -> bool:
    """Whether so many nodes can get statistics."""
    counts, columns = tree.counts, tree.column
    fresh = more * columns.shape[1] * FIRST_BLOCK if len(columns) > 0 else 0
    return counts[SLOTS] + more <= len(tree.slot) and counts[ENTRIES] + fresh <= len(
        tree.entry_value
    )
