"""The options of a tree as numbers, and the working space of the kernels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Records = Any  # a record array; numpy's types have no names for its fields

# what a new leaf starts with
SEPARATE, INHERIT, EMPTY = 0, 1, 2
# leaf predictors
MAJORITY, NAIVE_BAYES, ADAPTIVE = 0, 1, 2
# when a leaf is looked at
PERIODIC, PREDICTED_GAP, PREDICTED_PURITY, FOLLOWED = 0, 1, 2, 3
LEAST_CANDIDATES, MOST_CANDIDATES = 5, 10
# whether a split stays
COMMIT_ONCE, ANYTIME, ANYTIME_EAGER = 0, 1, 2
# the radius of the test
HOEFFDING, NORMAL_MIN, NORMAL_STRICT = 0, 1, 2
# what is kept of a numeric attribute
GAUSSIAN, ORDERED, SAMPLE, INTERVALS = 0, 1, 2, 3
# how a nominal attribute splits
BY_VALUE, ONE_AGAINST_REST, BY_SUBSET = 0, 1, 2
# the bound of an interval's gain
AUTO_BOUND, CORNER_BOUND, LOOSE_BOUND = 0, 1, 2
# what a split test says
NO_SPLIT_YET, BY_BOUND, BY_TIE = 0, 1, 2
# places in Scratch.ranking
(
    BEST,
    SECOND,
    BEST_KIND,
    BEST_COLUMN,
    BEST_CUT,
    EVALUATED,
    EPSILON,
    SECOND_KIND,
    SECOND_COLUMN,
    SECOND_CUT,
    SPREAD,
    BIAS,
    BEST_PLACE,
    SECOND_PLACE,
) = range(14)
RANKING = 14


class Rules(NamedTuple):
    """Every option that a kernel looks at; names as in the variants' parameters."""

    n_min: float
    log_inverse_delta: float  # ln(1/delta)
    tau: float
    min_merit: float
    min_branch_fraction: float
    split_points: int
    criterion: int
    tight_range: bool
    null_competes: bool  # X_0 has gain 0; otherwise minus infinity
    nominal_split: int
    grow_unseen: bool
    new_leaf: int
    predictor: int
    effective_n: bool
    remove_poor: bool
    max_memory_bytes: int
    memory_check_every: int
    audit_fraction: float
    audit_step: int
    timing: int
    policy: int
    split_test: int
    worst_covariance: bool
    quantile: float  # z of 1 - delta
    observer: int
    max_distinct: int
    intervals: int
    keep_details: bool
    interval_bound: int
    n_first: float
    mu: float
    candidates: int  # 0 = a tenth of the attributes, from 5 to 10
    swap_all: bool
    min_attempt_gap: float
    measured_late: bool  # candidates are measured when that can matter, not at every event
    max_wait: float
    reevaluate_every: float
    refine_threshold: bool
    collapse_after: float  # 0 = never
    queue_bytes: int  # 0 = no queues
    queue_by_promise: bool
    stop_purity: float
    stop_depth: int
    stop_share: float
    reopen: bool
    reference_from: float  # 0 = the tree follows its own timing


# rows of Scratch.numeric and Scratch.nominal
MERIT, CUT, KNOWN, BEFORE, LOWEST, HIGHEST, SCALE, OF_CLASS = range(8)
# rows of Scratch.values and Scratch.tokens
WEIGHT, CELLS, AFTER, TOKEN_MERIT = range(4)


class Scratch(NamedTuple):
    """Working space, allocated once; Q = cuts of the numeric columns that are evaluated
    together.
    """

    points: Floats  # [7, Q] cut, z then merit, left, right, cells left, cells right, weight
    numeric: Floats  # [8, numeric column] see the names above
    nominal: Floats  # [4, nominal column] MERIT, CUT, KNOWN, BEFORE
    values: Floats  # [3, place of value] WEIGHT, CELLS, AFTER
    tokens: Floats  # [4, token] WEIGHT, CELLS, AFTER, TOKEN_MERIT
    branch_value: Ints  # [branch] value of each branch of a multiway split; 1 = in the subset
    order: Ints  # [value] values of one attribute by their share of class 1
    classes: Floats  # [7, class]
    branch_counts: Floats  # [branch, class] of the split that was looked at last
    ranking: Floats  # see the names above
    sort_value: Floats  # as long as the longest block of entries
    sort_weight: Floats
    sort_class: Ints
    sort_place: Ints
    whole: Longs  # [2, class] whole weights of both sides of a cut
    xlog2x: Floats  # L(z) of whole z
    moved: Ints  # [node] where a node goes when a subtree is removed
    table_copy: Ints  # as long as Tree.tables, likewise
    ahead: Longs  # [event] nodes of the events that are walked at once
    strides: Records  # [node] of STRIDE, for that walk, see learner/kernels/ahead.py
    laid: Longs  # [0] how many nodes those follow
    passes: Ints  # [node] events that ended there and are not yet counted above it
    places: Longs  # [nominal column] where an event's values lie in a row of Tree.bayes
    bayes: Floats  # a slot's rows as in Tree.bayes, for a snapshot, which keeps none
    bayes_slot: Floats
    followed: Floats  # [counts | cells] of a slot's candidates, see learner/kernels/quiet.py
    gathered: Floats  # [0, class, as in Tree.moments, candidate] columns side by side
    noted: Longs  # [see learner/kernels/together.py, event that is to be counted]
    noted_weight: Floats
    members: Longs  # [0, 1] events that are counted at once, and those that are next
    group: Longs  # [0, 1] theirs
    shares: Floats  # weight of each of those over that of its class
    numbers: Floats  # whose logarithms an event asks for, and room for eight more
    logs: Floats  # of them
