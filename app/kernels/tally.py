"""Counts of classes and of right predictions, over a batch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.kernels.jit import kernel

Codes = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int64]


@kernel
def tally(actual: Codes, predicted: Codes, classes: Counts, guesses: Counts) -> int:
    """How many predictions are right; every class and every prediction is counted in.

    A prediction of no class (-1) is none.
    """
    right = 0
    for row in range(len(actual)):
        classes[actual[row]] += 1
        if predicted[row] >= 0:
            guesses[predicted[row]] += 1
        right += actual[row] == predicted[row]
    return right
