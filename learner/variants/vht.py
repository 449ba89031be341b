"""VHT: one aggregator owns the tree, workers own the statistics of the attributes.

Paper
    [KDBM16] N. Kourtellis, G. De Francisci Morales, A. Bifet, A. Murdopo: VHT: Vertical Hoeffding
    Tree. 2016.
Idea
    The statistics n_ijk of different attributes have nothing to do with each other. So the model
    aggregator sorts an event into its leaf, and p workers count it, each for its own attributes.
    When a leaf is due, every worker names its two best attributes; the best two of these are the
    best two of all, and the aggregator decides as VFDT does.
Differs from VFDT
    Where the statistics are, and when a decision takes effect. In mode ``sync`` it takes effect
    before the next event of its leaf: the tree is VFDT's, bit by bit. In the other modes it takes
    effect ``lag`` events later, and they say what becomes of the events of the leaf until then:
    ``wok`` leaves them out, ``wk`` counts them at the old leaf and keeps the first z of them, to
    be learned again below a split.
Symbols
    p workers; z events kept; X_a, X_b, X_0, G, epsilon, n_l as in VFDT.
Departures
    - Attributes travel in blocks of events, not one by one; a worker's columns are fixed, where
      the paper hashes leaf and attribute.
    - ``local-result`` also carries the classes of each branch, with which the new leaves begin.
    - Answers are applied at a fixed lag, not when they happen to arrive: the same events give the
      same tree whoever runs the workers.
    - Only the events of the leaf that waits are left out or kept, not those of others.
    - A missing answer counts as a failed attempt (``abort``), since that worker may hold X_a; the
      paper's way is ``partial``.
    - No replication of the aggregator.
    - Who runs the workers, and how messages travel, is the caller's business: the arrays are held
      by learner/vertical_tree.py and learner/local_statistics.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learner.kernels.ahead import AHEAD, bring_near
from learner.kernels.best_two import clear_ranking, offer, offer_null
from learner.kernels.counting import (
    count_class,
    count_values,
)
from learner.kernels.jit import flag, inner, int64, kernel, place
from learner.kernels.leaves import majority_above
from learner.kernels.nodes import bar_path, give_back_slot, has_room, new_leaf
from learner.kernels.predict import leaf_of
from learner.kernels.ranking import bound_weight, evaluate, is_pure, range_of_gain, test_ranking
from learner.kernels.rules import (
    BEST,
    BEST_COLUMN,
    BEST_CUT,
    BEST_KIND,
    BEST_PLACE,
    EVALUATED,
    SECOND,
    SECOND_COLUMN,
    SECOND_CUT,
    SECOND_KIND,
    SECOND_PLACE,
    SPREAD,
    Rules,
    Scratch,
)
from learner.kernels.share import FIRST_NOMINAL, FIRST_NUMERIC, WORKER, WORKERS, rename
from learner.kernels.splitting import makes_child, start_leaf, step_down
from learner.kernels.together import NOTED, count_noted, note
from learner.kernels.tree import (
    CLASSES,
    COUNTED,
    EVENTS,
    LEAF,
    MULTIWAY,
    NODES,
    NOWHERE,
    NUMERIC,
    PURE_CHECKS,
    TOKENS,
    Layout,
    Tree,
    last_token,
)
from learner.variants.vfdt import after_failure, best_branches, count_attempt, split_leaf

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.int8]
Events = Any  # of learner/message.py; what walks down the tree takes them for a Batch

SYNC, WOK, WK = 0, 1, 2  # what becomes of the events of a leaf that waits for its decision

# The model aggregator ----------------------------------------------------------------------------

# why it stopped: all events are sorted; arrays are full; answers are needed; a child was made
FINISHED, FULL, NEEDS_ANSWERS, MADE_CHILD = 0, 1, 2, 3
# what it remembers from one call to the next, places in ``flow``
(
    WHY,  # see above
    RESUME,  # node from which the event goes on that stopped half-way, 0 = none
    ANSWERED,  # whether it was predicted already
    PARENT,  # of the child that was made
    WAITING,  # leaves that wait for a decision
    DUE,  # events learned when the oldest decision takes effect
    ROOM,  # events that may still be kept
    LOST,  # events that no statistics know, so far
    SENT,  # length of the wave
    ASKED,
    KEPT,
) = range(11)
FLOW = 11
NEVER = np.iinfo(np.int64).max


class Desk(NamedTuple):
    """What the aggregator notes by node, and what it is about to send."""

    waits: Bytes  # [node] 1 = its decision is under way
    held: Longs  # [node] events kept since
    missed: Longs  # [node] events counted since, but not kept
    rows: Codes
    leaves: Codes
    asked: Codes
    asked_n: Floats  # [asked, n of the bound | range of the gain]
    asked_event: Longs
    kept: Codes  # places in ``rows`` of the events to keep


@kernel
def sort_events(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    scratch: Scratch,
    events: Events,
    start: int,
    origin: int,
    predicted: Codes,
    mode: int,
    lag: int,
    z: int,
    flow: Longs,
    desk: Desk,
) -> int:
    """Sort events into leaves, predict, count classes, note what to send; returns where it stopped.

    Events that are learned again begin at ``origin``, the node that has split (otherwise NOWHERE);
    they have been met and predicted before. In mode sync it stops as soon as an event depends on a
    decision: one that reaches the leaf, or that would change what the decision sees (a new class
    or token) or comes before it in the order of nodes (a new child). It also stops where the desk
    has no room for more events or questions.
    """
    counts, nodes, again = tree.counts, tree.node, origin != NOWHERE
    y, weights, numeric = events.y, events.weights, events.numeric
    flow[SENT], flow[ASKED], flow[KEPT] = 0, 0, 0
    flow[WHY] = NEEDS_ANSWERS
    walked = start
    for row in range(start, len(y)):
        if not has_room(tree, len(scratch.branch_counts)):
            flow[WHY] = FULL
            return row
        if counts[EVENTS] >= flow[DUE]:
            return row
        if flow[SENT] == len(desk.rows) or flow[ASKED] == len(desk.asked):
            return row
        k, weight = int64(y[row]), 1.0 if len(weights) == 0 else weights[row]
        holds = mode == SYNC and flow[WAITING] > 0
        if holds and (k >= counts[CLASSES] or last_token(events, row) >= counts[TOKENS]):
            return row
        if row >= walked and counts[NODES] > 1:
            walked = min(row + AHEAD, len(y))
            bring_near(tree, scratch, events, row, walked - row)
        node = max(flow[RESUME], int64(origin), int64(0))
        flow[RESUME] = 0
        while nodes[node].kind != LEAF:
            at = nodes[node]
            if at.kind == NUMERIC:
                x = numeric[place(row), place(at.column)]
                if x == x:
                    node = int64(at.child) + int64(x > at.cut)
                    nodes[node].routed += weight
                    continue
            parent, makes = node, makes_child(tree, rules, events, row, node)
            if makes and holds:
                flow[RESUME] = node
                return row
            if makes and len(predicted) > 0:
                asked = leaf_of(tree, events, row)
                predicted[row] = majority_above(tree, rules, scratch, asked)
            node = step_down(tree, layout, rules, events, row, node)
            nodes[node].routed += weight
            if makes:
                flow[RESUME], flow[ANSWERED], flow[PARENT] = node, 1, parent
                flow[WHY] = MADE_CHILD
                return row
        if holds and desk.waits[node]:
            flow[RESUME] = node
            return row
        tree.touched[node] = 1
        if len(predicted) > 0 and flow[ANSWERED] == 0:
            predicted[row] = nodes[node].majority if counts[CLASSES] > 0 else -1
        flow[ANSWERED] = 0
        is_new_class = k >= counts[CLASSES]
        if not again:
            _meet(tree, events, row, k, weight)
        if desk.waits[node] and mode == WOK:
            flow[LOST] += 1
            if is_new_class:
                _send(flow, desk, row, int64(NOWHERE))
            continue
        count_class(nodes, tree.votes, tree.seen, node, k, weight, rules.effective_n)
        counts[COUNTED] += 1
        tree.slot[nodes[node].slot].arrivals += 1
        _send(flow, desk, row, node)
        if desk.waits[node]:
            _keep(flow, desk, node, z)
        elif nodes[node].n - nodes[node].n_last >= nodes[node].wait:
            _ask(tree, rules, flow, desk, node, mode, lag)
    flow[WHY] = FINISHED
    return len(y)


@inner
def _meet(tree: Tree, events: Events, row: int, k: int, weight: float) -> None:
    """What the tree as a whole learns of an event."""
    counts = tree.counts
    counts[CLASSES] = max(counts[CLASSES], k + 1)
    counts[TOKENS] = max(counts[TOKENS], last_token(events, row) + 1)
    counts[EVENTS] += 1
    tree.weight[0] += weight


@inner
def _send(flow: Longs, desk: Desk, row: int, leaf: int) -> None:
    """The event goes to all workers."""
    desk.rows[flow[SENT]] = row
    desk.leaves[flow[SENT]] = leaf
    flow[SENT] += 1


@inner
def _keep(flow: Longs, desk: Desk, leaf: int, z: int) -> None:
    """An event of a leaf that waits: if it is among the first z, and there is room."""
    if desk.held[leaf] < z and flow[ROOM] > 0:
        desk.held[leaf] += 1
        flow[ROOM] -= 1
        desk.kept[flow[KEPT]] = flow[SENT] - 1
        flow[KEPT] += 1
    else:
        desk.missed[leaf] += 1


@inner
def _ask(tree: Tree, rules: Rules, flow: Longs, desk: Desk, leaf: int, mode: int, lag: int) -> None:
    """A check is due: have all workers judge the leaf, unless it is pure."""
    at = tree.node[leaf]
    at.n_last = at.n
    at.wait = rules.n_min
    if is_pure(tree, rules, leaf):
        tree.counts[PURE_CHECKS] += 1
        return
    asked, now = flow[ASKED], tree.counts[EVENTS]
    desk.waits[leaf] = 1
    desk.asked[asked] = flow[SENT] - 1
    desk.asked_n[asked, 0] = bound_weight(tree, rules, leaf)
    desk.asked_n[asked, 1] = range_of_gain(tree, rules)
    desk.asked_event[asked] = now
    flow[ASKED] += 1
    flow[WAITING] += 1
    if mode != SYNC and flow[DUE] == NEVER:
        flow[DUE] = now + lag


@kernel
def decide(rules: Rules, scratch: Scratch, results: Floats, n: float, R: float) -> int:
    """The best two of the workers' best two, with X_0, and whether they are apart.

    The best two of all attributes are each among the best two of their worker.
    """
    ranking, evaluated = scratch.ranking, 0.0
    ranking[:] = 0.0
    clear_ranking(ranking)
    for worker in range(len(results)):
        of = results[worker]
        evaluated += of[EVALUATED]
        if of[BEST_KIND] != LEAF:
            offer(
                ranking, of[BEST], int64(of[BEST_PLACE]), int64(of[BEST_KIND]),
                int64(of[BEST_COLUMN]), of[BEST_CUT],
            )  # fmt: skip
        if of[SECOND_KIND] != LEAF:
            offer(
                ranking, of[SECOND], int64(of[SECOND_PLACE]), int64(of[SECOND_KIND]),
                int64(of[SECOND_COLUMN]), of[SECOND_CUT],
            )  # fmt: skip
    ranking[EVALUATED] = evaluated
    offer_null(rules, ranking)
    return test_ranking(rules, ranking, R, n)


@kernel
def refuse(tree: Tree, layout: Layout, rules: Rules, scratch: Scratch, leaf: int) -> None:
    """The leaf stays a leaf."""
    count_attempt(tree, scratch)
    after_failure(tree, layout, rules, scratch, leaf, None)


@kernel
def carry_out(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    scratch: Scratch,
    leaf: int,
    outcome: int,
    branches: int,
    event: int,
) -> None:
    """The leaf splits, as of an event; scratch has the branches, and there is room for them."""
    now, tree.counts[EVENTS] = tree.counts[EVENTS], event
    split_leaf(tree, layout, rules, scratch, leaf, outcome, branches)
    tree.counts[EVENTS] = now


# Local statistics --------------------------------------------------------------------------------


@kernel
def keep_statistics(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    scratch: Scratch,
    events: Events,
    is_slice: bool,
    share: Longs,
    positions: Codes,
    rows: Codes,
    leaves: Codes,
    asked: Codes,
    rankings: Floats,
    branch_counts: Floats,
    branch_value: Codes,
) -> bool:
    """Count the worker's attributes of events at their leaves, and judge leaves where asked.

    For each question the ranking goes to ``rankings``, and the branches of the best attribute to
    the other two; columns and places are those of the whole schema, where ``positions`` has the
    worker's features. A slice of the events has only the worker's columns. Returns whether all
    numbers were finite or missing.
    """
    counts, question, finite, noted = tree.counts, 0, True, int64(0)
    numeric, y, weights = events.numeric, events.y, events.weights
    columns, classes = tree.moments.shape[3], tree.moments.shape[1]
    first = int64(0) if is_slice else share[FIRST_NUMERIC]
    first_nominal = int64(0) if is_slice else share[FIRST_NOMINAL]
    step, turn = (int64(1), int64(0)) if is_slice else (share[WORKERS], share[WORKER])
    for i in range(len(rows)):
        row, leaf = int64(rows[i]), int64(leaves[i])
        k = int64(y[row])
        weight = 1.0 if len(weights) == 0 else weights[row]
        counts[CLASSES] = max(counts[CLASSES], k + 1)
        if leaf == NOWHERE:
            continue
        of_class = count_class(tree.node, tree.votes, tree.seen, leaf, k, weight, rules.effective_n)
        slot = int64(tree.node[leaf].slot)
        if columns > 0:
            note(scratch, noted, row, slot * classes + k, weight, of_class)
            noted += 1
        count_values(
            tree.values, layout.value_room, layout.value_start, slot, k, weight, events.nominal,
            row, first_nominal,
        )  # fmt: skip
        for t in range(events.sparse_start[row], events.sparse_start[row + 1]):
            token = int64(events.sparse_index[t])
            if token % step == turn:
                tree.tokens[slot, k, token // step] += weight
                counts[TOKENS] = max(counts[TOKENS], token // step + 1)
        asks = question < len(asked) and asked[question] == i
        if asks or noted == NOTED:
            finite &= count_noted(tree, scratch, noted, numeric, first)
            noted = int64(0)
        if asks:
            evaluate(tree, layout, rules, scratch, leaf, flag(True), None)
            _answer(
                tree, layout, rules, scratch, share, positions, leaf, rankings[question],
                branch_counts[question], branch_value[question],
            )  # fmt: skip
            question += 1
    finite &= count_noted(tree, scratch, noted, numeric, first)
    return finite


@inner
def _answer(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    scratch: Scratch,
    share: Longs,
    positions: Codes,
    leaf: int,
    ranking: Floats,
    branch_counts: Floats,
    branch_value: Codes,
) -> None:
    """The best two, as scratch has them, and the branches of the best."""
    for i in range(len(ranking)):
        ranking[i] = scratch.ranking[i]
    ranking[BRANCHES] = 0.0
    if ranking[BEST_KIND] != LEAF:
        branches = best_branches(tree, layout, rules, scratch, leaf)
        ranking[BRANCHES] = branches
        classes = min(branch_counts.shape[1], scratch.branch_counts.shape[1])
        for branch in range(branches):
            for k in range(classes):
                branch_counts[branch, k] = scratch.branch_counts[branch, k]
        for v in range(min(len(branch_value), len(scratch.branch_value))):
            branch_value[v] = scratch.branch_value[v]
    rename(ranking, BEST_KIND, BEST_COLUMN, BEST_PLACE, share, positions)
    rename(ranking, SECOND_KIND, SECOND_COLUMN, SECOND_PLACE, share, positions)


BRANCHES = SPREAD  # a worker's ranking has no spread; it says how many branches the best has


@kernel
def drop_leaf(
    tree: Tree, layout: Layout, rules: Rules, leaf: int, barred: int, counts: Floats
) -> None:
    """The statistics of a leaf go, those of its children begin; ``barred`` as above."""
    give_back_slot(tree, layout, leaf)
    at = tree.node[leaf]
    at.kind = NUMERIC if barred == NOWHERE else MULTIWAY
    at.column = barred
    for branch in range(len(counts)):
        child = new_child(tree, layout, rules, leaf)
        if branch == 0:
            at.child = child
        start_leaf(tree, rules, counts[branch], child)


@kernel
def new_child(tree: Tree, layout: Layout, rules: Rules, parent: int) -> int:
    """A leaf below a split, with empty statistics."""
    child = new_leaf(tree, rules, parent)
    bar_path(tree, layout, child)
    return child
