"""The options of a tree as numbers, and the working space of the kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]

# what a new leaf starts with
SEPARATE, INHERIT, EMPTY = 0, 1, 2
# leaf predictors
MAJORITY, NAIVE_BAYES, ADAPTIVE = 0, 1, 2
# what a split test says
NO_SPLIT_YET, BY_BOUND, BY_TIE = 0, 1, 2
# places in Scratch.ranking
BEST, SECOND, BEST_KIND, BEST_COLUMN, BEST_CUT, EVALUATED, EPSILON = range(7)


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
    binary_nominal: bool
    grow_unseen: bool
    new_leaf: int
    predictor: int
    effective_n: bool
    remove_poor: bool
    max_memory_bytes: int
    memory_check_every: int
    audit_fraction: float
    audit_step: int


# rows of Scratch.numeric and Scratch.nominal
MERIT, CUT, KNOWN, BEFORE, LOWEST, HIGHEST, SCALE, OF_CLASS = range(8)
# rows of Scratch.values and Scratch.tokens
WEIGHT, CELLS, AFTER, TOKEN_MERIT = range(4)


class Scratch(NamedTuple):
    """Working space, allocated once; Q = split points times numeric columns."""

    points: Floats  # [7, Q] cut, z then merit, left, right, cells left, cells right, weight
    numeric: Floats  # [8, numeric column] see the names above
    nominal: Floats  # [4, nominal column] MERIT, CUT, KNOWN, BEFORE
    values: Floats  # [3, place of value] WEIGHT, CELLS, AFTER
    tokens: Floats  # [4, token] WEIGHT, CELLS, AFTER, TOKEN_MERIT
    branch_value: Ints  # [branch] value of each branch of a multiway split
    classes: Floats  # [4, class]
    branch_counts: Floats  # [branch, class] of the winning split
    ranking: Floats  # see the names above
