"""Rows of numbers, as the kernels take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from learner.errors import LearnerError
from learner.schema import Kind, Schema

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]
Places = npt.NDArray[np.int64]

HEAVIEST = 1e15  # weight of an event: no number of them adds up to infinity


class Batch(NamedTuple):
    """Events as columns by kind; within a kind in schema order."""

    numeric: Floats  # [rows, numeric features], NaN = missing
    nominal: Codes  # [rows, nominal features], code of the value, -1 = missing or unknown
    sparse_start: Places  # [rows + 1], where a row's tokens begin in sparse_index
    sparse_index: Codes  # token columns present in a row, ascending, each once

    @property
    def rows(self) -> int:
        """Number of events."""
        return len(self.sparse_start) - 1

    def part(self, start: int, stop: int) -> Batch:
        """Rows start..stop-1 of this batch."""
        first, last = self.sparse_start[start], self.sparse_start[stop]
        return Batch(
            self.numeric[start:stop],
            self.nominal[start:stop],
            self.sparse_start[start : stop + 1] - first,
            self.sparse_index[first:last],
        )

    def take(self, rows: Codes) -> Batch:
        """Copies of some of the rows."""
        lengths = np.diff(self.sparse_start)[rows]
        start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        shift = np.repeat(self.sparse_start[rows] - start[:-1], lengths)
        index = self.sparse_index[np.arange(start[-1]) + shift]
        return Batch(self.numeric[rows], self.nominal[rows], start, index)


def dense_batch(schema: Schema, matrix: npt.ArrayLike) -> Batch:
    """A batch from a matrix in schema order: nominal features as codes, NaN = missing."""
    X = np.asarray(matrix, np.float64)  # noqa: N806 (the usual name of a data matrix)
    if X.ndim != 2 or X.shape[1] != len(schema.features):
        raise LearnerError(
            f"X has the shape {X.shape}; expected [rows, {len(schema.features)}] for this schema"
        )
    if schema.of_kind(Kind.SPARSE):
        raise LearnerError("the schema has sparse_binary features; expected a Batch, not a matrix")
    numeric = np.ascontiguousarray(X[:, schema.of_kind(Kind.NUMERIC)])
    nominal = X[:, schema.of_kind(Kind.NOMINAL)]
    codes = np.ascontiguousarray(np.where(nominal >= 0, nominal, -1.0).astype(np.int32))
    for column, position in enumerate(schema.of_kind(Kind.NOMINAL)):
        feature, highest = schema.features[position], codes[:, column].max(initial=-1)
        if highest >= len(feature.values):
            raise LearnerError(
                f"feature '{feature.name}' holds the value code {highest}; "
                f"expected 0 to {len(feature.values) - 1}, as many as it has values"
            )
    return Batch(numeric, codes, np.zeros(len(X) + 1, np.int64), np.zeros(0, np.int32))


def sparse_rows(rows: Sequence[Sequence[int]]) -> tuple[Places, Codes]:
    """Token columns of each row as (sparse_start, sparse_index)."""
    ordered = [sorted(set(row)) for row in rows]
    start = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in ordered], out=start[1:])
    index = np.fromiter((column for row in ordered for column in row), np.int32, int(start[-1]))
    return start, index
