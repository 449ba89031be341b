"""Split delay against a real reference: a tree that tests at every event grows the structure.

The variant's own timing runs beside it on each leaf. When the reference splits a node, the node
goes on collecting statistics as a ghost until the variant would split it too; the weight in
between is the delay. [SJH20] Sec. 5 and [LWH18] define it so.
"""

from __future__ import annotations

from learner.kernels.history import log_change
from learner.kernels.jit import flag, inner, int64
from learner.kernels.nodes import give_back_slot, has_room_below
from learner.kernels.ranking import evaluate, is_pure, split_test
from learner.kernels.rules import BY_BOUND, BY_TIE, NO_SPLIT_YET, Rules, Scratch
from learner.kernels.splitting import install_split
from learner.kernels.tree import (
    AUDITED_SPLITS,
    BOUND,
    LEAF,
    PENDING,
    PENDING_BRANCHES,
    PENDING_DUE,
    PURE_CHECKS,
    SPLITS_BOUND,
    SPLITS_TIE,
    TIE,
    Layout,
    Tree,
)
from learner.variants.vfdt import after_failure, best_branches, count_attempt


@inner
def consider_beside_reference(
    tree: Tree, layout: Layout, rules: Rules, scratch: Scratch, node: int, due: bool
) -> None:
    """One evaluation serves both: the reference splits a leaf, the variant's check ends a ghost."""
    at, counts = tree.node[node], tree.counts
    watch = tree.slot[at.slot]
    waits = at.kind == LEAF and at.n >= rules.reference_from
    if due:
        at.n_last = at.n
        at.wait = rules.n_min
    if not (due or waits):
        return
    if is_pure(tree, rules, node):
        counts[PURE_CHECKS] += due
        return
    evaluate(tree, layout, rules, scratch, node, due, flag(True))
    outcome = split_test(tree, layout, rules, scratch, node, flag(True))
    if outcome == NO_SPLIT_YET or not (waits or at.kind != LEAF):
        if due:
            count_attempt(tree, scratch)
            after_failure(tree, layout, rules, scratch, node, flag(True))
        return
    if at.kind == LEAF:
        branches = best_branches(tree, layout, rules, scratch, node)
        if not has_room_below(tree, branches):
            counts[PENDING] = node + 1
            counts[PENDING_BRANCHES] = branches
            counts[PENDING_DUE] = 1 if due else 2
            return
        watch.reference_n = at.n
        watch.reference_tie = outcome == BY_TIE
        install_split(tree, layout, rules, scratch, node, branches, outcome)
    if due:
        count_attempt(tree, scratch)
        counts[AUDITED_SPLITS] += 1
        counts[SPLITS_TIE if watch.reference_tie else SPLITS_BOUND] += 1
        kind = int64(TIE if watch.reference_tie else BOUND)
        reason = int64(BY_TIE if watch.reference_tie else BY_BOUND)
        log_change(tree, scratch, node, kind, reason, at.n - watch.reference_n)
        give_back_slot(tree, layout, node)
