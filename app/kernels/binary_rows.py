"""Rows of fixed width to arrays, each value checked on the way."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from learner import HEAVIEST
from learner.kernels.jit import address_of, float_of, int64, kernel, word_at

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]
Places = npt.NDArray[np.int64]

HALF = np.uint64(0xFFFFFFFF)


class Layout(NamedTuple):
    """Where in a row what begins, in bytes."""

    numeric: Places
    nominal: Places
    values: Places  # how many each nominal feature has
    label: int
    classes: int
    weight: int  # 0: rows have none
    width: int


@kernel
def copy_rows(
    text: Bytes, layout: Layout, numeric: Floats, nominal: Codes, label: Codes, weight: Floats
) -> int:
    """The rows of a text with room for one word behind it; which one is the first bad one, or -1.

    Numbers are taken as they are, NaN and infinities too.
    """
    bad = int64(-1)
    for row in range(len(label)):
        start = address_of(text) + row * layout.width
        for column in range(len(layout.numeric)):
            numeric[row, column] = float_of(int64(word_at(start + layout.numeric[column])))
        good = True
        for column in range(len(layout.nominal)):
            code = np.int32(word_at(start + layout.nominal[column]) & HALF)
            good = good and bool(-1 <= code < layout.values[column])
            nominal[row, column] = code
        code = np.int32(word_at(start + layout.label) & HALF)
        good = good and bool(0 <= code < layout.classes)
        label[row] = code
        if layout.weight > 0:
            weight[row] = float_of(int64(word_at(start + layout.weight)))
            good = good and bool(0.0 < weight[row] <= HEAVIEST)
        if not good and bad < 0:
            bad = row
    return bad
