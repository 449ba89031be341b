"""The best two candidates of a node, in Scratch.ranking, and who goes before whom."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.kernels.jit import inlined, kernel
from learner.kernels.rules import (
    BEST,
    BEST_COLUMN,
    BEST_CUT,
    BEST_KIND,
    BEST_PLACE,
    COMMIT_ONCE,
    EVALUATED,
    SECOND,
    SECOND_COLUMN,
    SECOND_CUT,
    SECOND_KIND,
    SECOND_PLACE,
    Rules,
)
from learner.kernels.tree import LEAF

Floats = npt.NDArray[np.float64]


@kernel
def clear_ranking(ranking: Floats) -> None:
    """Nobody is ranked yet."""
    ranking[BEST] = -np.inf
    ranking[SECOND] = -np.inf
    ranking[BEST_KIND] = LEAF
    ranking[SECOND_KIND] = LEAF
    ranking[EVALUATED] = 0.0


@kernel
def offer(ranking: Floats, merit: float, position: int, kind: int, column: int, cut: float) -> None:
    """Take a candidate into the best two; one without an admissible split is only counted.

    Of equals the one that stands earlier goes first, whoever was offered first.
    """
    if np.isnan(merit):
        return
    ranking[EVALUATED] += 1.0
    if merit == -np.inf:
        return
    ahead = merit == ranking[BEST] and _stands_before(
        position, column, ranking[BEST_PLACE], ranking[BEST_COLUMN]
    )
    if merit > ranking[BEST] or ahead:
        ranking[SECOND] = ranking[BEST]
        ranking[SECOND_KIND] = ranking[BEST_KIND]
        ranking[SECOND_COLUMN] = ranking[BEST_COLUMN]
        ranking[SECOND_CUT] = ranking[BEST_CUT]
        ranking[SECOND_PLACE] = ranking[BEST_PLACE]
        ranking[BEST] = merit
        ranking[BEST_KIND] = kind
        ranking[BEST_COLUMN] = column
        ranking[BEST_CUT] = cut
        ranking[BEST_PLACE] = position
        return
    ahead = merit == ranking[SECOND] and _stands_before(
        position, column, ranking[SECOND_PLACE], ranking[SECOND_COLUMN]
    )
    if merit > ranking[SECOND] or ahead:
        ranking[SECOND] = merit
        ranking[SECOND_KIND] = kind
        ranking[SECOND_COLUMN] = column
        ranking[SECOND_CUT] = cut
        ranking[SECOND_PLACE] = position


@inlined
def _stands_before(position: int, column: int, other: float, other_column: float) -> bool:
    """Whether an attribute is an earlier feature, or an earlier token of the same one."""
    return bool(position < other or (position == other and column < other_column))


@kernel
def offer_null(rules: Rules, ranking: Floats) -> None:
    """Take X_0 into the best two, behind its equals; where splits are revised it is the rival."""
    null = null_merit(rules)
    if null > ranking[BEST]:
        ranking[SECOND] = ranking[BEST]
        ranking[SECOND_KIND] = ranking[BEST_KIND]
        ranking[SECOND_COLUMN] = ranking[BEST_COLUMN]
        ranking[SECOND_CUT] = ranking[BEST_CUT]
        ranking[SECOND_PLACE] = ranking[BEST_PLACE]
        ranking[BEST] = null
        ranking[BEST_KIND] = LEAF
    elif null > ranking[SECOND]:
        ranking[SECOND] = null
        ranking[SECOND_KIND] = LEAF
    if rules.policy != COMMIT_ONCE and ranking[BEST_KIND] != LEAF:
        ranking[SECOND] = null
        ranking[SECOND_KIND] = LEAF


@kernel
def null_merit(rules: Rules) -> float:
    """The gain of not splitting."""
    return 0.0 if rules.null_competes else -np.inf
