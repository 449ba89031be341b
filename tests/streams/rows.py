"""Views of a stream's rows that tests compare."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner import Batch, Kind, Schema


def matrix(schema: Schema, batch: Batch, labels: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
    """Rows as MOA lays them out: attributes in schema order, one per token, the class last."""
    parts: list[npt.NDArray[np.generic]] = []
    numeric, nominal = iter(batch.numeric.T), iter(batch.nominal.T)
    for feature in schema.features:
        if feature.kind == Kind.SPARSE:
            present = np.zeros((batch.rows, len(feature.values)))
            rows = np.repeat(np.arange(batch.rows), np.diff(batch.sparse_start))
            present[rows, batch.sparse_index] = 1.0
            parts.append(present)
        else:
            column = next(numeric if feature.kind == Kind.NUMERIC else nominal)
            parts.append(column[:, None])
    return np.hstack([*parts, labels[:, None]]).astype("<f8")


def same(a: Batch, b: Batch) -> bool:
    """Whether two batches hold the same rows."""
    return (
        np.array_equal(a.numeric, b.numeric)
        and np.array_equal(a.nominal, b.nominal)
        and np.array_equal(a.sparse_start, b.sparse_start)
        and np.array_equal(a.sparse_index, b.sparse_index)
    )
