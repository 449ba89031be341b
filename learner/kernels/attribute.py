"""One attribute by its kind and column: where it stands, and what scratch holds of it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.kernels.jit import inner, int64
from learner.kernels.rules import CUT, MERIT, TOKEN_MERIT, Scratch
from learner.kernels.tree import CONTAINS, LEAF, NUMERIC, TOKENS, Layout, Tree

Floats = npt.NDArray[np.float64]


@inner
def position_of(layout: Layout, kind: int, column: int) -> int:
    """The schema position of an attribute."""
    if kind == NUMERIC:
        return int64(layout.numeric_position[column])
    if kind == CONTAINS:
        return int64(layout.token_position[column])
    return int64(layout.nominal_position[column])


@inner
def gain_of(scratch: Scratch, kind: int, column: int) -> float:
    """The gain of an attribute, as it was evaluated last."""
    if kind == NUMERIC:
        return scratch.numeric[MERIT, column]
    if kind == CONTAINS:
        return scratch.tokens[TOKEN_MERIT, column]
    return scratch.nominal[MERIT, column]


@inner
def cut_of(scratch: Scratch, kind: int, column: int) -> float:
    """The best cut of an attribute, as it was evaluated last."""
    if kind == NUMERIC:
        return scratch.numeric[CUT, column]
    return 0.0 if kind == CONTAINS else scratch.nominal[CUT, column]


@inner
def forget_gain(scratch: Scratch, kind: int, column: int) -> None:
    """The attribute is out of the running."""
    if kind == NUMERIC:
        scratch.numeric[MERIT, column] = np.nan
    elif kind == CONTAINS:
        scratch.tokens[TOKEN_MERIT, column] = np.nan
    else:
        scratch.nominal[MERIT, column] = np.nan


@inner
def best_of_all(
    tree: Tree,
    layout: Layout,
    nominal_kind: int,
    numeric: Floats,
    nominal: Floats,
    tokens: Floats,
) -> tuple[int, int]:
    """Kind and column of the attribute with the highest finite gain; LEAF = none.

    Higher gain first, then the earlier feature, then the lower token. NaN is no gain.
    """
    kind, column, best, place = int64(LEAF), int64(0), -np.inf, int64(0)
    for j in range(len(layout.numeric_position)):
        gain, position = numeric[j], int64(layout.numeric_position[j])
        if gain > best or (gain == best and kind != LEAF and position < place):
            kind, column, best, place = int64(NUMERIC), int64(j), gain, position
    for a in range(len(layout.nominal_position)):
        gain, position = nominal[a], int64(layout.nominal_position[a])
        if gain > best or (gain == best and kind != LEAF and position < place):
            kind, column, best, place = int64(nominal_kind), int64(a), gain, position
    for t in range(tree.counts[TOKENS]):
        gain, position = tokens[t], int64(layout.token_position[t])
        if gain > best or (gain == best and kind != LEAF and position < place):
            kind, column, best, place = int64(CONTAINS), int64(t), gain, position
    return kind, column
