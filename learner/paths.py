"""The walk of an event where inner nodes keep statistics too.

Their splits are looked at again (EFDT), or a reference is measured. Arguments and early returns are
those of learner/loop.py.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.batch import Batch
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
from learner.kernels.predict import leaf_of
from learner.kernels.rules import ADAPTIVE, FOLLOWED, GAUSSIAN, MAJORITY, Rules, Scratch
from learner.kernels.splitting import step_down
from learner.kernels.tree import (
    CLASSES,
    COUNTED,
    EVENTS,
    LEAF,
    LOGGED,
    MULTIWAY,
    NOWHERE,
    NUMERIC,
    PENDING,
    PENDING_DUE,
    SHORT_OF_ROOM,
    TOKENS,
    Layout,
    Tree,
)
from learner.loop import find_room, keep_entries, lacks_histograms, memory_check_is_due
from learner.reference import consider_beside_reference
from learner.variants.efdt import reevaluate
from learner.variants.imac import attempt_is_due, revision_is_due
from learner.variants.vfdt import consider

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


@kernel
def learn_along_paths(
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
) -> int:
    """Count events at every node on their way.   [MWS18] Alg. 1, and the reference of the delay."""
    # Taken out of their groups once, as in learn_at_leaves; the common case makes no calls.
    counts, widest = tree.counts, len(scratch.branch_counts)
    node_of, slot_of, votes, seen = tree.node, tree.slot, tree.votes, tree.seen
    moments, values, tokens, tables = tree.moments, tree.values, tree.tokens, tree.tables
    numeric, nominal, value_start = batch.numeric, batch.nominal, layout.value_start
    sparse_start, sparse_index, value_room = (
        batch.sparse_start,
        batch.sparse_index,
        layout.value_room,
    )
    sparse, adaptive = len(sparse_index) > 0, rules.predictor == ADAPTIVE
    quick = rules.observer == GAUSSIAN and rules.timing != FOLLOWED and no_gaps
    quick = quick and rules.reference_from == 0.0
    bayes, of_slot, predictor = tree.bayes, tree.bayes_slot, rules.predictor
    places, numbers, logs = scratch.places, scratch.numbers, scratch.logs
    nobody = predicted[:0]
    first_share = 1 + 2 * numeric.shape[1] + len(places)
    scores = predictor != MAJORITY and (adaptive or len(predicted) > 0)
    if counts[SHORT_OF_ROOM] > 0 and not find_room(tree, layout, rules, scratch):
        return start
    for row in range(start, len(y)):
        weight, k = 1.0 if len(weights) == 0 else weights[row], int64(y[row])
        here, node, resumed = place(row), int64(0), counts[PENDING] > 0
        if resumed:  # counted down to this node last time
            node = counts[PENDING] - 1
            counts[PENDING] = 0
        else:
            if not has_room(tree, widest):
                return row
            if len(predicted) > 0:
                asked = leaf_of(tree, batch, row)
                predicted[row] = answer(tree, layout, rules, scratch, batch, row, asked)
            meet_event(tree, batch, row, k, weight)
        while True:
            at = node_of[place(node)]
            was_leaf, slot = at.kind == LEAF, int64(at.slot)
            if not resumed:
                if quick and slot != NOWHERE:
                    named = was_leaf and scores
                    if named:
                        named = find_places(
                            value_room, value_start, first_share, nominal, here, places
                        )
                    if was_leaf and adaptive and at.n > 0.0:
                        likeliest = int64(NOWHERE)
                        if named and of_slot[place(slot), CURRENT] != 0.0 and counts[TOKENS] == 0:
                            classes = counts[CLASSES]
                            likeliest = best_class(
                                bayes, moments, slot, classes, numeric, row, places
                            )
                        if likeliest != NOWHERE:
                            choose(node_of, node, predictor, likeliest, k, weight, nobody, row)
                        else:
                            predict_first(
                                tree, layout, rules, scratch, batch, row, node, k, weight, nobody
                            )
                    class_weight = count_class(
                        node_of, votes, seen, node, k, weight, rules.effective_n
                    )
                    slot_of[place(slot)].arrivals += 1
                    if slot_of[place(slot)].gaps == 0:
                        count_moments(moments, slot, k, weight, class_weight, numeric, row, 0)
                    else:
                        count_with_gaps(tree, slot, k, weight, class_weight, numeric, row, 0)
                    count_values(values, value_room, value_start, slot, k, weight, nominal, row, 0)
                    if sparse:
                        count_tokens(tokens, slot, k, weight, sparse_start, sparse_index, row)
                    if was_leaf and scores:
                        keep_current(
                            bayes, of_slot, moments, values, votes, places, numbers, logs, slot,
                            node, k, weight, class_weight, numeric, row, flag(True),
                        )  # fmt: skip
                    elif was_leaf and len(of_slot) > 0:
                        of_slot[place(slot), CURRENT] = 0.0
                else:
                    count_at(tree, layout, rules, scratch, batch, row, node, k, weight, no_gaps)
            if slot != NOWHERE:
                period = at.wait if was_leaf else rules.reevaluate_every
                audited = was_leaf and slot_of[place(slot)].audited != 0
                if not quick or resumed or audited or at.n - at.n_last >= period:
                    if counts[LOGGED] + 2 > len(tree.log) or lacks_histograms(tree):
                        counts[PENDING] = node + 1
                        return row
                    node = look_at(tree, layout, rules, scratch, node)
                    if counts[PENDING] > 0:
                        return row
                    at = node_of[place(node)]
            resumed = False
            if was_leaf or at.kind == LEAF:
                break
            parent, node = node, int64(NOWHERE)
            if at.kind == NUMERIC:
                x = numeric[here, place(at.column)]
                if x == x:
                    node = int64(at.child) + int64(x > at.cut)
            elif at.kind == MULTIWAY:
                value = int64(nominal[here, place(at.column)])
                if 0 <= value < at.table_length:
                    node = int64(tables[place(at.table_start + value)])
            if node == NOWHERE:
                node = step_down(tree, layout, rules, batch, row, parent)
            node_of[place(node)].routed += weight
        tree.touched[place(node)] = 1
        if counts[SHORT_OF_ROOM] > 0 or memory_check_is_due(tree, rules):
            return row + 1
    return len(y)


@inner
def meet_event(tree: Tree, batch: Batch, row: int, k: int, weight: float) -> None:
    """What the tree as a whole learns of an event."""
    counts = tree.counts
    if k >= counts[CLASSES]:
        counts[CLASSES] = k + 1
    counts[EVENTS] += 1
    counts[COUNTED] += 1
    tree.weight[0] += weight
    for t in range(batch.sparse_start[row], batch.sparse_start[row + 1]):
        counts[TOKENS] = max(counts[TOKENS], batch.sparse_index[t] + 1)


@inner
def count_at(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    scratch: Scratch,
    batch: Batch,
    row: int,
    node: int,
    k: int,
    weight: float,
    no_gaps: bool,
) -> None:
    """Count an event at one node of its path."""
    slot = int64(tree.node[node].slot)
    is_leaf = tree.node[node].kind == LEAF
    if slot == NOWHERE and not is_leaf:
        return
    if is_leaf and rules.predictor == ADAPTIVE:
        nowhere = scratch.order[:0]
        predict_first(tree, layout, rules, scratch, batch, row, node, k, weight, nowhere)
    if rules.timing == FOLLOWED and slot != NOWHERE:
        follow(
            tree.candidate, tree.sides, tree.candidate_classes, tree.values, tree.value_weight,
            layout.value_start, scratch.xlog2x, rules.criterion, flag(False), batch, row, slot,
            int64(tree.slot[slot].candidates), k, weight,
        )  # fmt: skip
    class_weight = count_class(tree.node, tree.votes, tree.seen, node, k, weight, rules.effective_n)
    if slot == NOWHERE:
        return
    tree.slot[slot].arrivals += 1
    if len(tree.bayes_slot) > 0:
        tree.bayes_slot[slot, CURRENT] = 0.0
    if rules.observer != GAUSSIAN:
        keep_entries(tree, rules, scratch, batch, row, node, slot, k, weight)
    elif no_gaps and tree.slot[slot].gaps == 0:
        count_moments(tree.moments, slot, k, weight, class_weight, batch.numeric, row, 0)
    else:
        count_with_gaps(tree, slot, k, weight, class_weight, batch.numeric, row, 0)
    count_values(
        tree.values, layout.value_room, layout.value_start, slot, k, weight, batch.nominal, row, 0
    )
    count_tokens(tree.tokens, slot, k, weight, batch.sparse_start, batch.sparse_index, row)


@inner
def look_at(tree: Tree, layout: Layout, rules: Rules, scratch: Scratch, node: int) -> int:
    """Check a node that has just counted an event; returns where it is now."""
    at, counts = tree.node[node], tree.counts
    forced, counts[PENDING_DUE] = counts[PENDING_DUE], 0
    followed = rules.timing == FOLLOWED
    if at.kind != LEAF and rules.reference_from == 0.0:
        due = forced == 1
        if forced == 0 and followed:
            due = revision_is_due(tree, layout, rules, scratch, node)
        elif forced == 0:
            due = at.n - at.n_last >= rules.reevaluate_every
        if due:
            node = reevaluate(tree, layout, rules, scratch, node)
            if counts[PENDING] > 0:
                counts[PENDING_DUE] = 1
        return node
    due = forced == 1
    if forced == 0:
        if followed:
            due = attempt_is_due(tree, layout, rules, scratch, node)
        else:
            due = at.n - at.n_last >= at.wait
    if rules.reference_from > 0.0:
        consider_beside_reference(tree, layout, rules, scratch, node, due)
        return node
    watch = tree.slot[at.slot]
    audits = flag(False)
    if watch.audited != 0 and forced == 0:
        audits = watch.audit_first < 0.0 and watch.arrivals % rules.audit_step == 0
    if due or audits:
        consider(tree, layout, rules, scratch, node, due, audits, flag(True))
        if counts[PENDING] > 0:
            counts[PENDING_DUE] = 1
    return node
