"""What became of the tree: a fact beside the node, and a line for the record of changes."""

from __future__ import annotations

import numpy as np

from learner.kernels.jit import inner, int64
from learner.kernels.rules import (
    BEST,
    BEST_COLUMN,
    BEST_CUT,
    BEST_KIND,
    EPSILON,
    NO_SPLIT_YET,
    SECOND,
    SECOND_COLUMN,
    SECOND_CUT,
    SECOND_KIND,
    Scratch,
)
from learner.kernels.tree import (
    EVENTS,
    LEAF,
    LOG_BOUND,
    LOG_CHANGE,
    LOG_COLUMN,
    LOG_CUT,
    LOG_DELAY,
    LOG_DEPTH,
    LOG_EVENT,
    LOG_FORECAST,
    LOG_KIND,
    LOG_MERIT,
    LOG_N,
    LOG_NODE,
    LOG_REASON,
    LOG_SECOND,
    LOG_SECOND_COLUMN,
    LOG_SECOND_CUT,
    LOG_SECOND_KIND,
    LOGGED,
    NOWHERE,
    UNLOGGED,
    Tree,
)

# Lines that only splits may take: statistics come and go by the hundred, and must not crowd out
# a split, of which none is ever lost.
FOR_SPLITS = 128


@inner
def begin_facts(tree: Tree, node: int) -> None:
    """A leaf is made."""
    tree.fact[node].created = tree.counts[EVENTS]
    forget_split(tree, node)


@inner
def forget_split(tree: Tree, node: int) -> None:
    """The node has no test, or none any more."""
    fact = tree.fact[node]
    fact.event = 0
    fact.n = 0.0
    fact.merit = 0.0
    fact.second_merit = 0.0
    fact.bound = 0.0
    fact.second_cut = 0.0
    fact.second_column = NOWHERE
    fact.second_kind = LEAF
    fact.reason = NO_SPLIT_YET


@inner
def note_split(tree: Tree, scratch: Scratch, node: int, reason: int) -> None:
    """Why the node has its test: scratch.ranking as it was when the test was installed."""
    fact, ranking = tree.fact[node], scratch.ranking
    fact.event = tree.counts[EVENTS]
    fact.n = tree.node[node].n
    fact.merit = ranking[BEST]
    fact.second_merit = ranking[SECOND]
    fact.bound = ranking[EPSILON]
    rival = int64(ranking[SECOND_KIND])
    fact.second_kind = rival
    fact.second_column = NOWHERE if rival == LEAF else int64(ranking[SECOND_COLUMN])
    fact.second_cut = 0.0 if rival == LEAF else ranking[SECOND_CUT]
    fact.reason = reason


@inner
def log_change(
    tree: Tree, scratch: Scratch, node: int, change: int, reason: int, delay: float
) -> None:
    """One line for a split that was made, replaced, moved or removed."""
    at, ranking = tree.node[node], scratch.ranking
    line = tree.log[_begin_line(tree, node, change)]
    line[LOG_KIND] = ranking[BEST_KIND]
    line[LOG_COLUMN] = ranking[BEST_COLUMN]
    line[LOG_CUT] = ranking[BEST_CUT]
    line[LOG_MERIT] = ranking[BEST]
    line[LOG_SECOND] = ranking[SECOND]
    line[LOG_BOUND] = ranking[EPSILON]
    line[LOG_DELAY] = delay
    line[LOG_REASON] = reason
    line[LOG_SECOND_KIND] = ranking[SECOND_KIND]
    line[LOG_SECOND_COLUMN] = ranking[SECOND_COLUMN]
    line[LOG_SECOND_CUT] = ranking[SECOND_CUT]
    line[LOG_FORECAST] = tree.slot[at.slot].forecast if at.slot != NOWHERE else -1.0


@inner
def log_activity(tree: Tree, node: int, change: int) -> None:
    """One line for statistics that a leaf lost or got; only counted where lines run short."""
    if tree.counts[LOGGED] >= len(tree.log) - FOR_SPLITS:
        tree.counts[UNLOGGED] += 1
        return
    line = tree.log[_begin_line(tree, node, change)]
    line[LOG_KIND] = LEAF
    line[LOG_COLUMN] = NOWHERE
    line[LOG_CUT] = 0.0
    line[LOG_MERIT] = np.nan
    line[LOG_SECOND] = np.nan
    line[LOG_BOUND] = np.nan
    line[LOG_DELAY] = -1.0
    line[LOG_REASON] = NO_SPLIT_YET
    line[LOG_SECOND_KIND] = LEAF
    line[LOG_SECOND_COLUMN] = NOWHERE
    line[LOG_SECOND_CUT] = 0.0
    line[LOG_FORECAST] = -1.0


@inner
def _begin_line(tree: Tree, node: int, change: int) -> int:
    """What all changes have; returns the place of the line."""
    counts, at = tree.counts, tree.node[node]
    place = counts[LOGGED]
    counts[LOGGED] += 1
    line = tree.log[place]
    line[LOG_EVENT] = counts[EVENTS]
    line[LOG_NODE] = at.id
    line[LOG_DEPTH] = at.depth
    line[LOG_CHANGE] = change
    line[LOG_N] = at.n
    return place
