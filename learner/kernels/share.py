"""A worker's columns, a range of the dense ones and every p-th token, and what all call them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.kernels.jit import inner, int64, kernel
from learner.kernels.tree import CONTAINS, LEAF, MULTIWAY, NOWHERE, NUMERIC, Layout

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]

# what a worker's columns are, places in ``share``
FIRST_NUMERIC, FIRST_NOMINAL, WORKER, WORKERS = 0, 1, 2, 3


@inner
def rename(
    ranking: Floats, kind: int, column: int, place: int, share: Longs, positions: Codes
) -> None:
    """Column and place of a candidate as the whole schema has them."""
    if ranking[kind] == LEAF:
        return
    ranking[place] = positions[int64(ranking[place])]
    if ranking[kind] == NUMERIC:
        ranking[column] += share[FIRST_NUMERIC]
    elif ranking[kind] == CONTAINS:
        ranking[column] = ranking[column] * share[WORKERS] + share[WORKER]
    else:
        ranking[column] += share[FIRST_NOMINAL]


@kernel
def own_barred(layout: Layout, share: Longs, kind: int, column: int) -> int:
    """The worker's nominal column that a split sorts out below, NOWHERE = none of its own."""
    own = column - share[FIRST_NOMINAL]
    mine = kind == MULTIWAY and 0 <= own < len(layout.nominal_position)
    return int64(own) if mine else int64(NOWHERE)
