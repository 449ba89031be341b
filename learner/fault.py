"""A fault of a model that was read, told by the name of its array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from learner.errors import SnapshotError

HEAVIEST = 1e60  # more than the squared weights of all events that can ever come

Array = npt.NDArray[Any]
Named = dict[str, Array]


def stored_array(
    named: Named, name: str, shape: Sequence[int | None], dtype: np.dtype[Any]
) -> Array:
    """The array of this name; raises SnapshotError unless it has the shape (None = any length)."""
    if name not in named:
        raise SnapshotError(f"the model has no array '{name}'; expected one")
    array = named[name]
    fits = len(shape) == array.ndim and all(
        wanted in (None, size) for wanted, size in zip(shape, array.shape, strict=True)
    )
    if array.dtype != dtype or not fits:
        wanted_shape = ", ".join("any" if size is None else str(size) for size in shape)
        raise SnapshotError(
            f"model array '{name}' is {array.dtype}[{', '.join(map(str, array.shape))}]; "
            f"expected {dtype}[{wanted_shape}]"
        )
    return array


def require(holds: Any, name: str, found: object, expected: str) -> None:
    """Raise SnapshotError unless it holds."""
    if not holds:
        raise SnapshotError(f"model array '{name}' holds {found}; expected {expected}")


def each(name: str, array: Array, holds: Array, expected: str) -> None:
    """Raise for the first number of an array that does not hold."""
    if not holds.all():
        at = int(np.argmin(holds))
        raise SnapshotError(
            f"model array '{name}' holds {array.flat[at]} at place {at}; expected {expected}"
        )


def within(name: str, array: Array, low: float, high: float) -> None:
    """Raise unless all numbers lie from low to high; NaN does not."""
    if array.size and not (array.min() >= low and array.max() <= high):
        expected = f"a number from {low:g} to {high:g}"
        each(name, array, (array >= low) & (array <= high), expected)
