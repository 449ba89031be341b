"""StreamTree: statistics for as many nodes as memory holds, and only where a split may still come.

Paper
    [JA03] R. Jin, G. Agrawal: Efficient Decision Tree Construction on Streaming Data. KDD 2003.
Idea
    Numeric attributes are kept as equal intervals; an interval in which no cut can win any more is
    pruned, and its values need not be looked at (numerical interval pruning, NIP). The split test
    uses the normal distribution of the gains instead of Hoeffding's bound. Nodes that collect
    statistics share a memory budget; the others queue.
Differs from VFDT
    Two queues: AQ, the active nodes, and Q, those that wait. A node stops for good when it is pure
    enough, deep enough or hardly reached. Nominal tests are binary.
Symbols
    AQ, Q as in the paper; TIR events read until both are empty (events_until_done), IAP events that
    went into statistics (events_counted); n_first, n_step = n_min.
Departures
    - The variance of the normal test has the factors that the printed one lacks, and by default the
      smaller of both radii decides (normal_min): Theorem 4 then holds by construction.
    - A service never ends: learning goes on after both queues are empty. reopen lets a node that is
      no longer pure queue again.
    - The share of a node is measured since it became active, after 100 / stop_share events; nodes
      that get no events are looked at every so often too.
    - Over budget, the node that became active last queues again without its statistics.
    - n_first 1,000 and n_step 500, a tenth of the paper's: a service should not wait that long.
"""

from __future__ import annotations

import numpy as np

from learner.kernels.jit import inner, int64
from learner.kernels.nodes import (
    deactivate,
    has_room_for_slots,
    join_queue,
    reactivate,
    slot_bytes,
)
from learner.kernels.rules import Rules
from learner.kernels.tree import (
    ACTIVE,
    BLOCK_BYTES,
    CLASSES,
    DONE_AT,
    ENDED,
    EVENTS,
    FREE_SLOTS,
    LEAF,
    NODES,
    NOWHERE,
    PEAK_BYTES,
    PEAK_NODES,
    PURE,
    QUEUED,
    SHORT_OF_ROOM,
    SLOTS,
    Layout,
    Tree,
)

PURE_FROM = 1000.0  # weight before a node can be called pure
SHARE_FROM = 100.0  # arrivals expected before a node can be called hardly reached


@inner
def stops(tree: Tree, layout: Layout, rules: Rules, node: int) -> bool:
    """An active node that is done gives its statistics back.   [JA03] Sec. 3, the stop rules."""
    standing = _standing(tree, rules, node)
    if standing == ACTIVE:
        return False
    deactivate(tree, layout, node)
    tree.node[node].standing = standing
    return True


@inner
def _standing(tree: Tree, rules: Rules, node: int) -> int:
    """What an active node is by now: still active, pure, or ended."""
    at = tree.node[node]
    full = at.n >= PURE_FROM and rules.stop_purity > 0.0
    if full and _majority_weight(tree, node) >= rules.stop_purity * at.n:
        return int64(PURE)
    return int64(ENDED) if _is_hardly_reached(tree, rules, node) else int64(ACTIVE)


@inner
def _is_hardly_reached(tree: Tree, rules: Rules, node: int) -> bool:
    watch = tree.slot[tree.node[node].slot]
    events = tree.counts[EVENTS] - watch.since
    if rules.stop_share <= 0.0 or events < SHARE_FROM / rules.stop_share:
        return False
    return watch.arrivals < rules.stop_share * events


@inner
def _majority_weight(tree: Tree, node: int) -> float:
    """The weight of the most frequent class since the node's statistics began."""
    most = 0.0
    for k in range(tree.counts[CLASSES]):
        most = max(most, tree.seen[node, k])
    return most


@inner
def tend_queues(tree: Tree, layout: Layout, rules: Rules, node: int, changed: bool) -> None:
    """After an event: who stops, who waits, who may begin.   [JA03] Fig. 2.

    ``changed`` says that the event's own node has split or stopped.
    """
    counts, at = tree.counts, tree.node[node]
    reopens = rules.reopen and at.kind == LEAF and at.standing == PURE
    if reopens and _majority_weight(tree, node) < rules.stop_purity * at.n:
        join_queue(tree, node)
        changed = True
    if rules.stop_share > 0.0:
        period = int64(np.ceil(SHARE_FROM / rules.stop_share))
        if counts[EVENTS] % period == 0:
            for other in range(counts[NODES]):
                if tree.node[other].slot != NOWHERE and _is_hardly_reached(tree, rules, other):
                    deactivate(tree, layout, other)
                    tree.node[other].standing = ENDED
                    changed = True
    while _memory(tree, layout) > rules.queue_bytes and _active(tree) > 1:
        newest = _newest(tree)
        deactivate(tree, layout, newest)
        join_queue(tree, newest)
    if changed:
        fill(tree, layout, rules)


@inner
def fill(tree: Tree, layout: Layout, rules: Rules) -> None:
    """Move nodes from Q to AQ while the budget allows; at least one is always active."""
    counts = tree.counts
    while True:
        node = _next_in_queue(tree, rules)
        if node == NOWHERE:
            if _active(tree) == 0 and counts[DONE_AT] == 0:
                counts[DONE_AT] = counts[EVENTS]
            return
        if _active(tree) > 0 and _memory(tree, layout) + _reserve(tree, layout) > rules.queue_bytes:
            return
        if not has_room_for_slots(tree, 1):
            counts[SHORT_OF_ROOM] = 1  # the shell makes room, and fill goes on
            return
        reactivate(tree, layout, rules, node)


@inner
def _next_in_queue(tree: Tree, rules: Rules) -> int:
    """The node that waits longest, or the one that errs most; NOWHERE when nobody waits."""
    found, promise = int64(NOWHERE), -1.0
    for node in range(tree.counts[NODES]):
        at = tree.node[node]
        if at.kind != LEAF or at.standing != QUEUED:
            continue
        mine = at.n - _majority_weight(tree, node) if rules.queue_by_promise else 0.0
        earlier = found != NOWHERE and at.table_start < tree.node[found].table_start
        if found == NOWHERE or mine > promise or (mine == promise and earlier):
            found, promise = int64(node), mine
    return found


@inner
def _active(tree: Tree) -> int:
    """How many nodes have statistics."""
    return tree.counts[SLOTS] - tree.counts[FREE_SLOTS]


@inner
def _memory(tree: Tree, layout: Layout) -> int:
    """Bytes of the statistics of all active nodes."""
    return _active(tree) * slot_bytes(tree, layout) + tree.counts[BLOCK_BYTES]


@inner
def _reserve(tree: Tree, layout: Layout) -> int:
    """Bytes that one more node is expected to need: what others needed before it."""
    counts = tree.counts
    known = counts[PEAK_BYTES] // max(1, counts[PEAK_NODES])
    return max(slot_bytes(tree, layout), known)


@inner
def _newest(tree: Tree) -> int:
    """The node whose statistics began last; the higher id on ties."""
    found = int64(NOWHERE)
    for node in range(tree.counts[NODES]):
        slot = tree.node[node].slot
        if slot == NOWHERE:
            continue
        if found != NOWHERE:
            other = tree.node[found]
            if tree.slot[slot].since < tree.slot[other.slot].since:
                continue
            if (
                tree.slot[slot].since == tree.slot[other.slot].since
                and tree.node[node].id < other.id
            ):
                continue
        found = int64(node)
    return found
