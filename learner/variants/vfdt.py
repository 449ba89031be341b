"""VFDT: a leaf splits when enough events have shown which attribute is best.

Paper
    [DH00] P. Domingos, G. Hulten: Mining High-Speed Data Streams. KDD 2000.
Idea
    A leaf collects counts n_ijk. Every n_min events it compares the gains of its two best
    attributes; when they differ by more than the Hoeffding bound, the better one is with
    probability 1 - delta the one that infinitely many events would choose, and the leaf splits.
Differs from VFDT
    Nothing: this is the root of the family.
Symbols
    n_min, delta, tau as in the paper; X_a, X_b the best and second best candidate; G their gains;
    epsilon the Hoeffding bound; X_0 the null split; votes = prior + counts, for prediction only.
Departures
    - "n mod n_min" becomes "n - n_last >= n_min", since weights need not be integers.
    - A tie splits only on a gain above g_min: without it a tie may split on nothing at all.
    - Numeric attributes, missing and unseen values, weights, bounded memory, naive Bayes leaves:
      the paper leaves them open; see docs/variants/vfdt.md.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.batch import Batch
from learner.kernels.jit import inner, int64, kernel, place
from learner.kernels.leaves import bayes_scores, best_of, uses_bayes, vote
from learner.kernels.numeric.gaussian import observe_with_gaps
from learner.kernels.predict import leaf_of
from learner.kernels.ranking import bar_poor, evaluate, is_pure, split_test
from learner.kernels.rules import (
    ADAPTIVE,
    BEST,
    BEST_COLUMN,
    BEST_CUT,
    BEST_KIND,
    BY_TIE,
    EMPTY,
    EPSILON,
    EVALUATED,
    MAJORITY,
    NO_SPLIT_YET,
    SECOND,
    Rules,
    Scratch,
)
from learner.kernels.splitting import branch_counts, counted, install_split, lost_child
from learner.kernels.tree import (
    ATTEMPTS,
    AUDITED_SPLITS,
    AUDITS,
    CLASSES,
    EQUALS,
    EVALUATIONS,
    EVENTS,
    HIGH,
    LEAF,
    LOG_BOUND,
    LOG_COLUMN,
    LOG_CUT,
    LOG_DELAY,
    LOG_DEPTH,
    LOG_EVENT,
    LOG_KIND,
    LOG_MERIT,
    LOG_N,
    LOG_NODE,
    LOG_SECOND,
    LOG_TIE,
    LOGGED,
    LOW,
    M2,
    MEAN,
    MULTIWAY,
    NO_SPLIT,
    NODES,
    NOWHERE,
    NUMERIC,
    PENDING,
    PENDING_BRANCHES,
    PURE_CHECKS,
    SLOTS,
    SPLITS_BOUND,
    SPLITS_TIE,
    TABLE,
    TOKENS,
    Layout,
    Tree,
    heavier_branch,
    holds_token,
)

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


@kernel
def learn_many(
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
    """Learn rows from ``start`` on, one at a time; returns the row to go on with.

    It stops early for the shell to do what it cannot: before a row that might not fit, at a split
    that waits for room (and is made first thing next time), and when a memory check is due.

    [DH00] Table 1. ``weights`` is empty when every event weighs 1; ``predicted`` is empty, or
    takes the class predicted before each event is learned; ``no_gaps`` promises that no numeric
    value of the batch is missing.
    """
    # Taken out of their tuples once: inside the loop each would be counted in and out every time.
    node_of, slot_of, votes, seen = tree.node, tree.slot, tree.votes, tree.seen
    moments, values, tokens = tree.moments, tree.values, tree.tokens
    counts, all_weight, tables = tree.counts, tree.weight, tree.tables
    numeric, nominal, value_start = batch.numeric, batch.nominal, layout.value_start
    sparse_start, sparse_index = batch.sparse_start, batch.sparse_index
    columns, nominals, sparse = numeric.shape[1], nominal.shape[1], len(sparse_index) > 0
    unit, predicts = len(weights) == 0, len(predicted) > 0
    by_majority, n_min, effective = rules.predictor == MAJORITY, rules.n_min, rules.effective_n
    value_room, grow_unseen = layout.value_room, rules.grow_unseen
    checked, total = -1, all_weight[0]
    waits = counts[PENDING] > 0
    if waits:
        waiting = counts[PENDING] - 1
        counts[PENDING] = 0
        consider(tree, layout, rules, scratch, waiting, waits, not waits)
        if rules.max_memory_bytes > 0 and counts[EVENTS] % rules.memory_check_every == 0:
            return start
    for row in range(start, len(y)):
        if counts[NODES] != checked:
            if not has_room(tree, len(scratch.branch_counts)):
                all_weight[0] = total
                return row
            checked = counts[NODES]
        weight = 1.0 if unit else weights[row]
        here = place(row)
        k = int64(y[here])
        # Sort the example into a leaf.
        node = int64(0)
        asked = int64(NOWHERE)  # who answers where this event makes its own leaf
        at = node_of[0]
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
            else:
                node = int64(at.child) + int(holds_token(batch, row, at.column))
            at = node_of[place(node)]
            at.routed += weight
        # Test, then train. Calls cost more than the work of an event, so the common case has none.
        if asked != NOWHERE:
            predicted[row] = answer(tree, layout, rules, scratch, batch, row, asked)
        elif by_majority:
            if predicts:
                predicted[row] = at.majority if counts[CLASSES] > 0 else -1
        elif predicts or rules.predictor == ADAPTIVE:
            predict_first(tree, layout, rules, scratch, batch, row, node, k, weight, predicted)
        # Count it: n_k, then n_ijk.
        if k >= counts[CLASSES]:
            counts[CLASSES] = k + 1
        counts[EVENTS] += 1
        total += weight
        at.n += weight
        if effective:
            at.squares += weight * weight
        leaf, label = place(node), place(k)
        mine = votes[leaf, label] + weight
        lead = votes[leaf, place(at.majority)]
        votes[leaf, label] = mine
        if k != at.majority and (mine > lead or (mine == lead and k < at.majority)):
            at.majority = k
        class_weight = seen[leaf, label] + weight
        seen[leaf, label] = class_weight
        if sparse:
            for t in range(sparse_start[row], sparse_start[row + 1]):
                counts[TOKENS] = max(counts[TOKENS], sparse_index[t] + 1)
        slot = int64(at.slot)
        if slot != NOWHERE:
            own = place(slot)
            watch = slot_of[own]
            whole = watch.gaps == 0
            if not no_gaps:
                for j in range(columns):
                    whole &= numeric[row, j] == numeric[row, j]
            if whole:
                share = weight / class_weight
                for j in range(columns):
                    x = numeric[here, j]
                    mean = moments[own, label, MEAN, j]
                    delta = x - mean
                    mean += delta * share
                    low, high = moments[own, label, LOW, j], moments[own, label, HIGH, j]
                    moments[own, label, MEAN, j] = mean
                    moments[own, label, M2, j] += weight * delta * (x - mean)
                    moments[own, label, LOW, j] = x if x < low else low
                    moments[own, label, HIGH, j] = x if x > high else high
            else:
                observe_with_gaps(tree, slot, k, weight, class_weight, numeric, row)
            for a in range(nominals):
                code = np.uint32(nominal[here, a])  # missing becomes huge
                if code < value_room[a]:
                    values[own, label, place(value_start[a]) + code] += weight
            if sparse:
                for t in range(sparse_start[row], sparse_start[row + 1]):
                    tokens[slot, k, sparse_index[t]] += weight
            # Every n_min, see whether the two best attributes are far enough apart.
            due = at.n - at.n_last >= n_min
            audits = False
            if watch.audited != 0:
                watch.audit_count += 1
                audits = watch.audit_first < 0.0 and watch.audit_count % rules.audit_step == 0
            if due or audits:
                consider(tree, layout, rules, scratch, node, due, audits)
                if counts[PENDING] > 0:
                    all_weight[0] = total
                    return row + 1
        if rules.max_memory_bytes > 0 and counts[EVENTS] % rules.memory_check_every == 0:
            all_weight[0] = total
            return row + 1
    all_weight[0] = total
    return len(y)


@inner
def has_room(tree: Tree, widest: int) -> bool:
    """Whether one more event fits: a lost child with its table, and the record of a split."""
    counts = tree.counts
    return bool(
        counts[NODES] < len(tree.node)
        and counts[SLOTS] < len(tree.slot)
        and counts[TABLE] + 3 * widest <= len(tree.tables)
        and counts[LOGGED] < len(tree.log)
    )


@inner
def has_room_below(tree: Tree, branches: int) -> bool:
    """Whether a split into so many branches fits."""
    counts = tree.counts
    return bool(
        counts[NODES] + branches <= len(tree.node) and counts[SLOTS] + branches <= len(tree.slot)
    )


@inner
def answer(
    tree: Tree, layout: Layout, rules: Rules, scratch: Scratch, batch: Batch, row: int, node: int
) -> int:
    """What a snapshot would say at this node; -1 when no class is known."""
    classes = tree.counts[CLASSES]
    if classes == 0:
        return -1
    if uses_bayes(tree, rules.predictor, node):
        bayes_scores(tree, layout, scratch, batch, row, node)
        return best_of(scratch.classes[1], classes)
    return vote(tree, classes, node, rules.new_leaf != EMPTY, scratch.classes[3])


@inner
def predict_first(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    scratch: Scratch,
    batch: Batch,
    row: int,
    node: int,
    k: int,
    weight: float,
    predicted: Codes,
) -> None:
    """The answer of a leaf that may use naive Bayes, to an event that it has not learned yet.

    An adaptive leaf scores both of its predictors here.
    """
    classes = tree.counts[CLASSES]
    by_bayes = uses_bayes(tree, rules.predictor, node)
    answer = tree.node[node].majority if classes > 0 else -1
    adapts = (
        rules.predictor == ADAPTIVE and tree.node[node].slot != NOWHERE and tree.node[node].n > 0.0
    )
    if adapts or (by_bayes and len(predicted) > 0):
        bayes_scores(tree, layout, scratch, batch, row, node)
        bayes = best_of(scratch.classes[1], classes)
        if adapts:
            tree.node[node].mc_right += weight if answer == k else 0.0
            tree.node[node].nb_right += weight if bayes == k else 0.0
        if by_bayes:
            answer = bayes
    if len(predicted) > 0:
        predicted[row] = answer


@inner
def consider(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    scratch: Scratch,
    node: int,
    due: bool,
    audits: bool,
) -> None:
    """Split the leaf if X_a beats X_b, and beats it by enough.   [DH00] Table 1, the inner if.

    The split-delay audit asks in between, and remembers the first n at which the test passes; the
    tree does not notice.
    """
    at, counts = tree.node[node], tree.counts
    if due:
        at.n_last = at.n
    if is_pure(counted(tree, rules, node)):
        counts[PURE_CHECKS] += due
        return
    branches = 0
    evaluate(tree, layout, rules, scratch, node)
    outcome = split_test(tree, rules, scratch, node)
    if audits:
        counts[AUDITS] += 1
        if outcome != NO_SPLIT_YET:
            tree.slot[at.slot].audit_first = at.n
    if not due:
        return
    if outcome != NO_SPLIT_YET:
        branches = branch_counts(tree, layout, scratch, node)
        if not has_room_below(tree, branches):
            counts[PENDING] = node + 1
            counts[PENDING_BRANCHES] = branches
            return
    counts[ATTEMPTS] += 1
    counts[EVALUATIONS] += int(scratch.ranking[EVALUATED])
    if outcome == NO_SPLIT_YET:
        counts[NO_SPLIT] += 1
        if rules.remove_poor:
            bar_poor(tree, layout, scratch, at.slot)
        return
    counts[SPLITS_TIE if outcome == BY_TIE else SPLITS_BOUND] += 1
    log_split(tree, scratch, node, outcome)
    install_split(tree, layout, rules, scratch, node, branches)


@inner
def log_split(tree: Tree, scratch: Scratch, node: int, outcome: int) -> None:
    """One line for the record of structural changes."""
    counts = tree.counts
    line = tree.log[counts[LOGGED]]
    counts[LOGGED] += 1
    slot = tree.node[node].slot
    line[LOG_EVENT] = counts[EVENTS]
    line[LOG_NODE] = tree.node[node].id
    line[LOG_DEPTH] = tree.node[node].depth
    line[LOG_TIE] = outcome == BY_TIE
    line[LOG_KIND] = scratch.ranking[BEST_KIND]
    line[LOG_COLUMN] = scratch.ranking[BEST_COLUMN]
    line[LOG_CUT] = scratch.ranking[BEST_CUT]
    line[LOG_N] = tree.node[node].n
    line[LOG_MERIT] = scratch.ranking[BEST]
    line[LOG_SECOND] = scratch.ranking[SECOND]
    line[LOG_BOUND] = scratch.ranking[EPSILON]
    line[LOG_DELAY] = -1.0
    if tree.slot[slot].audited:
        counts[AUDITED_SPLITS] += 1
        passed = tree.slot[slot].audit_first
        line[LOG_DELAY] = tree.node[node].n - passed if passed >= 0.0 else 0.0
