"""The walk of an event, shared by all variants: sort it into a leaf, predict, count, check.

Where only leaves keep statistics an event is counted once, at the end of its path: this loop.
Where inner nodes keep them too, because their splits are looked at again or a reference is
measured, it is counted at every node on the way: learner/paths.py.

Both learn rows from ``start`` on, one at a time, and return the row to go on with. They stop early
for the shell to do what they cannot: before a row that might not fit, at a split that waits for
room (and is made first thing next time), and when a memory check is due. ``weights`` is empty when
every event weighs 1; ``predicted`` is empty, or takes the class predicted before each event is
learned; ``no_gaps`` promises that no numeric value of the batch is missing. ``extras`` is None
where VFDT's own parts are enough, ``bayesian`` where leaves answer by majority: the compiler then
leaves all others out, and is done in half the time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.batch import Batch
from learner.kernels.ahead import (
    AHEAD,
    climb,
    fetch_ahead,
    has_room_ahead,
    lay_strides,
    settle_passes,
    walk_ahead,
)
from learner.kernels.bayes import CURRENT, best_class, find_places, keep_current
from learner.kernels.candidate import follow
from learner.kernels.counting import (
    count_class,
    count_moments,
    count_tokens,
    count_values,
    count_with_gaps,
)
from learner.kernels.jit import flag, inner, int64, kernel, place
from learner.kernels.leaves import answer, choose, predict_first
from learner.kernels.nodes import has_room
from learner.kernels.numeric.entries import make_room, observe_entries
from learner.kernels.predict import leaf_of
from learner.kernels.quick import count_block
from learner.kernels.quiet import is_silent, stays_silent
from learner.kernels.rules import (
    ADAPTIVE,
    FOLLOWED,
    GAUSSIAN,
    MAJORITY,
    Rules,
    Scratch,
)
from learner.kernels.splitting import lost_child
from learner.kernels.tree import (
    CLASSES,
    COUNTED,
    EQUALS,
    EVENTS,
    FREE_HISTOGRAMS,
    HISTOGRAMS,
    LEAF,
    MULTIWAY,
    NODES,
    NOWHERE,
    NUMERIC,
    PENDING,
    SHORT_OF_ROOM,
    SUBSET,
    TOKENS,
    Layout,
    Tree,
    heavier_branch,
    holds_token,
    outside_subset,
)
from learner.variants.imac import attempt_is_due, squared_bound
from learner.variants.streamtree import fill, stops, tend_queues
from learner.variants.vfdt import consider
from learner.variants.vfdtc import count_intervals

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


@kernel
def learn_at_leaves(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    scratch: Scratch,
    batch: Batch,
    y: Codes,
    weights: Floats,
    start: int,
    predicted: Codes,
    no_gaps: bool,
    extras: bool | None,
    bayesian: bool | None,
) -> int:
    """Count events at their leaves only.   [DH00] Table 1.

    Where they weigh 1 and the nodes are few, those above a leaf are told of them at the end; not
    where a number is missing, which goes where most events went.
    """
    lazily = len(weights) == 0 and no_gaps and tree.counts[NODES] <= len(y) - start
    row = _learn_rows(
        tree, layout, rules, scratch, batch, y, weights, start, predicted, no_gaps, lazily, extras,
        bayesian,
    )  # fmt: skip
    if lazily:
        settle_passes(tree, scratch)
    return row


@inner
def _learn_rows(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    scratch: Scratch,
    batch: Batch,
    y: Codes,
    weights: Floats,
    start: int,
    predicted: Codes,
    no_gaps: bool,
    lazily: bool,
    extras: bool | None,
    bayesian: bool | None,
) -> int:
    """Learn rows one by one until something has to be done first; returns the next one."""
    # Taken out of their groups once: inside the loop each would be counted in and out every time.
    node_of, slot_of, votes, seen = tree.node, tree.slot, tree.votes, tree.seen
    moments, values, tokens = tree.moments, tree.values, tree.tokens
    counts, all_weight, tables, touched = tree.counts, tree.weight, tree.tables, tree.touched
    numeric, nominal, value_start = batch.numeric, batch.nominal, layout.value_start
    sparse_start, sparse_index = batch.sparse_start, batch.sparse_index
    columns, sparse = numeric.shape[1], len(sparse_index) > 0
    unit, predicts = len(weights) == 0, len(predicted) > 0
    by_majority, effective = rules.predictor == MAJORITY, rules.effective_n
    bayes, of_slot, predictor = tree.bayes, tree.bayes_slot, rules.predictor
    places, numbers, logs = scratch.places, scratch.numbers, scratch.logs
    first_share = 1 + 2 * columns + len(places)
    scores = not by_majority and (predicts or predictor == ADAPTIVE)
    gaussian, followed, queues = (
        rules.observer == GAUSSIAN, rules.timing == FOLLOWED, rules.queue_bytes > 0
    )  # fmt: skip
    candidate, sides, candidate_classes = tree.candidate, tree.sides, tree.candidate_classes
    value_weight, looked_up, criterion = tree.value_weight, scratch.xlog2x, rules.criterion
    mu, tau, classes, needed = rules.mu, rules.tau, counts[CLASSES], 0.0
    if extras is not None and followed:
        needed = squared_bound(rules, classes)
    value_room, grow_unseen = layout.value_room, rules.grow_unseen
    widest, checked = len(scratch.branch_counts), -1
    ahead, walked_from, walked_to, roomy = scratch.ahead, start, start, False
    strides, passes = scratch.strides, scratch.passes
    late, quiet_until = rules.measured_late, tree.quiet_until
    plain = extras is None and no_gaps and rules.max_memory_bytes == 0
    quick = unit and not sparse and not effective and counts[TOKENS] == 0
    if extras is not None and counts[SHORT_OF_ROOM] > 0:
        if not find_room(tree, layout, rules, scratch):
            return start
    if counts[PENDING] > 0:
        node = counts[PENDING] - 1
        counts[PENDING] = 0
        consider(tree, layout, rules, scratch, node, flag(True), flag(False), extras)
        if extras is not None and queues:
            tend_queues(tree, layout, rules, node, node_of[node].kind != LEAF)
        if memory_check_is_due(tree, rules) or counts[SHORT_OF_ROOM] > 0:
            return start
    row = start
    while row < len(y):
        if counts[NODES] != checked:
            if not has_room(tree, widest):
                return row
            checked = counts[NODES]
            roomy = plain and checked > 1 and has_room_ahead(tree, widest)
            if roomy:
                lay_strides(tree, scratch)
        if roomy and row >= walked_to:
            walked_from, walked_to = row, min(row + AHEAD, len(y))
            walk_ahead(strides, numeric, nominal, row, walked_to - row, ahead)
            if not lazily:
                fetch_ahead(tree, strides, y, row, walked_to - row, ahead)
        if quick and row < walked_to:
            row = count_block(
                tree, layout, rules, scratch, batch, y, predicted, walked_from, row, walked_to,
                lazily, bayesian,
            )  # fmt: skip
            if row == walked_to:
                continue
        weight = 1.0 if unit else weights[row]
        here = place(row)
        k = int64(y[here])
        # Sort the example into a leaf.
        node = int64(0)
        asked = int64(NOWHERE)  # who answers where this event makes its own leaf
        if row < walked_to:
            node = ahead[place(row - walked_from)]
        at = node_of[place(node)]
        while at.kind != LEAF:
            if at.kind == NUMERIC:
                x = numeric[here, place(at.column)]
                if x == x:
                    node = int64(at.child) + int64(x > at.cut)
                else:
                    node = heavier_branch(tree, node)
            elif at.kind == MULTIWAY:
                value = int64(nominal[here, place(at.column)])
                parent = node
                node = int64(NOWHERE)
                if 0 <= value < at.table_length:
                    if at.table_length == at.branches:  # every value has a child: no look-up
                        node = int64(at.child) + value
                    else:
                        node = int64(tables[place(at.table_start + value)])
                if node == NOWHERE:
                    node = int64(at.other)
                    if node == NOWHERE or (grow_unseen and value >= 0):
                        if predicts:
                            asked = leaf_of(tree, batch, row)
                        node = lost_child(tree, layout, rules, parent, value)
            elif at.kind == EQUALS:
                node = int64(at.child) + (0 if nominal[row, at.column] == int(at.cut) else 1)
            elif at.kind == SUBSET:
                value = int64(nominal[here, place(at.column)])
                node = int64(at.child) + outside_subset(tree, node, value)
            else:
                node = int64(at.child) + int(holds_token(batch, row, at.column))
            at = node_of[place(node)]
        if lazily:
            passes[place(node)] += 1
        else:
            climb(node_of, node, weight)
        touched[place(node)] = 1
        if extras is not None and queues and counts[NODES] != checked:  # a leaf was made on the way
            fill(tree, layout, rules)
        # Test, then train. Calls cost more than the work of an event, so the common case has none.
        if asked != NOWHERE:
            predicted[row] = answer(tree, layout, rules, scratch, batch, row, asked)
        elif by_majority:
            if predicts:
                predicted[row] = at.majority if counts[CLASSES] > 0 else -1
        elif bayesian is not None and scores:
            likeliest, own = int64(NOWHERE), int64(at.slot)
            named = find_places(value_room, value_start, first_share, nominal, here, places)
            if own != NOWHERE and at.n > 0.0 and gaussian and counts[TOKENS] == 0:
                whole = of_slot[place(own), CURRENT] != 0.0
                if not no_gaps:
                    for j in range(columns):
                        whole &= numeric[here, j] == numeric[here, j]
                if whole and named:
                    known = counts[CLASSES]  # classes are those of the bound
                    likeliest = best_class(bayes, moments, own, known, numeric, row, places)
            if likeliest != NOWHERE:
                choose(node_of, node, predictor, likeliest, k, weight, predicted, row)
            else:
                predict_first(tree, layout, rules, scratch, batch, row, node, k, weight, predicted)
        # Count it: n_k, then n_ijk.
        if k >= counts[CLASSES]:
            counts[CLASSES] = k + 1
        counts[EVENTS] += 1
        all_weight[0] += weight
        slot = int64(at.slot)
        if extras is not None and followed and slot != NOWHERE:
            follow(
                candidate, sides, candidate_classes, values, value_weight, value_start, looked_up,
                criterion, late, batch, row, slot, int64(slot_of[place(slot)].candidates), k,
                weight,
            )  # fmt: skip
        class_weight = count_class(node_of, votes, seen, node, k, weight, effective)
        if sparse:
            for t in range(sparse_start[row], sparse_start[row + 1]):
                counts[TOKENS] = max(counts[TOKENS], sparse_index[t] + 1)
        split = flag(False)
        if slot != NOWHERE:
            watch = slot_of[place(slot)]
            counts[COUNTED] += 1
            watch.arrivals += 1
            if extras is not None and not gaussian:
                keep_entries(tree, rules, scratch, batch, row, node, slot, k, weight)
            else:
                whole = watch.gaps == 0
                if not no_gaps:
                    for j in range(columns):
                        whole &= numeric[row, j] == numeric[row, j]
                if whole:
                    count_moments(moments, slot, k, weight, class_weight, numeric, row, 0)
                else:
                    count_with_gaps(tree, slot, k, weight, class_weight, numeric, row, 0)
            count_values(values, value_room, value_start, slot, k, weight, nominal, row, 0)
            if sparse:
                count_tokens(tokens, slot, k, weight, sparse_start, sparse_index, row)
            if bayesian is not None and scores:
                keep_current(
                    bayes, of_slot, moments, values, votes, places, numbers, logs, slot, node, k,
                    weight, class_weight, numeric, row, gaussian,
                )  # fmt: skip
            elif bayesian is not None:
                of_slot[place(slot), CURRENT] = 0.0
            if extras is not None and queues:
                split = stops(tree, layout, rules, node)
            if not split:
                # Every n_min, see whether the two best attributes are far enough apart.
                due = at.n - at.n_last >= at.wait
                if extras is not None and followed:
                    if counts[CLASSES] != classes:
                        classes = counts[CLASSES]
                        needed = squared_bound(rules, classes)
                        quiet_until[:] = 0.0
                    due = not stays_silent(at, watch, quiet_until, slot, mu, needed, tau)
                    if due and is_silent(tree, rules, scratch, node, needed):
                        due = flag(False)
                    elif due:
                        due = attempt_is_due(tree, layout, rules, scratch, node)
                audits = flag(False)
                if watch.audited != 0:
                    audits = watch.audit_first < 0.0 and watch.arrivals % rules.audit_step == 0
                if due or audits:
                    consider(tree, layout, rules, scratch, node, due, audits, extras)
                    if counts[PENDING] > 0:
                        return row + 1
                    split = at.kind != LEAF
        if extras is not None and queues:
            tend_queues(tree, layout, rules, node, split)
        if extras is not None and not gaussian and lacks_histograms(tree):
            counts[SHORT_OF_ROOM] = max(counts[SHORT_OF_ROOM], 1)
        row += 1
        if counts[SHORT_OF_ROOM] > 0 or memory_check_is_due(tree, rules):
            return row
    return row


@inner
def keep_entries(
    tree: Tree,
    rules: Rules,
    scratch: Scratch,
    batch: Batch,
    row: int,
    node: int,
    slot: int,
    k: int,
    weight: float,
) -> None:
    """Keep the numeric values of an event one by one, and the naive Bayes intervals current."""
    full = observe_entries(tree, slot, k, weight, batch.numeric, row)
    if rules.predictor != MAJORITY:
        count_intervals(tree, rules, scratch, node)
    if full:
        make_room(tree, rules, scratch, slot)


@inner
def find_room(tree: Tree, layout: Layout, rules: Rules, scratch: Scratch) -> bool:
    """Go on with what stopped for lack of room; False when there is still too little."""
    counts = tree.counts
    counts[SHORT_OF_ROOM] = 0
    for node in range(counts[NODES]):
        slot = int64(tree.node[node].slot)
        if slot != NOWHERE and len(tree.column) > 0:
            make_room(tree, rules, scratch, slot)
    if rules.queue_bytes > 0 and counts[PENDING] == 0:
        fill(tree, layout, rules)
    return bool(counts[SHORT_OF_ROOM] == 0)


@inner
def lacks_histograms(tree: Tree) -> bool:
    """Whether the next evaluation could want more histograms than there are."""
    counts, columns = tree.counts, tree.column.shape[1]
    if len(tree.column) == 0 or tree.histogram.shape[1] == 0:
        return False
    return bool(counts[HISTOGRAMS] + columns > len(tree.histogram) + counts[FREE_HISTOGRAMS])


@inner
def memory_check_is_due(tree: Tree, rules: Rules) -> bool:
    """Whether the shell should look at the memory before the next event."""
    if rules.max_memory_bytes == 0:
        return False
    return bool(tree.counts[EVENTS] % rules.memory_check_every == 0)
