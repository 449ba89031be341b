"""What every stream is: endless, seeded, as numpy batches or as JSON-ready events."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from learner import Batch, Feature, Kind, Schema, Value
from streams.errors import StreamError

Labels = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]

LABEL = "label"
"""The field of an event that holds the class."""


class Stream(ABC):
    """An endless source of labelled rows; how it is cut into batches changes nothing."""

    def __init__(self, name: str, schema: Schema) -> None:
        self.name = name
        self.schema = schema

    def take(self, n: int) -> tuple[Batch, Labels]:
        """The next n rows and their class codes (places in ``schema.classes``)."""
        if n < 0:
            raise StreamError(f"{n} rows were asked of stream '{self.name}'; expected 0 or more")
        return self._draw(n)

    def events(self, n: int) -> list[dict[str, object]]:
        """The next n rows as flat dictionaries, the class under "label"."""
        batch, labels = self.take(n)
        columns = [*_columns(self.schema, batch), _decoded(self.schema.classes, labels)]
        names = [*(feature.name for feature in self.schema.features), LABEL]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    @abstractmethod
    def _draw(self, n: int) -> tuple[Batch, Labels]:
        """Make n rows and move on."""

    def __repr__(self) -> str:
        return f"<stream {self.name}>"


def numeric_features(names: Sequence[str]) -> tuple[Feature, ...]:
    """Numeric features of these names."""
    return tuple(Feature(name, Kind.NUMERIC) for name in names)


def numbered(word: str, count: int) -> tuple[str, ...]:
    """word1, word2, ... word<count>."""
    return tuple(f"{word}{i}" for i in range(1, count + 1))


def empty_rows(n: int, numeric: int, nominal: int) -> tuple[Floats, Codes, Labels]:
    """Room for n rows: numeric columns, nominal columns, class codes."""
    return (
        np.empty((n, numeric), np.float64),
        np.empty((n, nominal), np.int32),
        np.empty(n, np.int32),
    )


def without_tokens(numeric: Floats, nominal: Codes) -> Batch:
    """A batch of rows that have no sparse features."""
    return Batch(numeric, nominal, np.zeros(len(numeric) + 1, np.int64), np.zeros(0, np.int32))


def _columns(schema: Schema, batch: Batch) -> list[list[object]]:
    """The batch as one list per feature, in schema order, codes turned back into values."""
    numeric = iter(batch.numeric.T)
    nominal = iter(batch.nominal.T)
    columns: list[list[object]] = []
    for feature in schema.features:
        if feature.kind == Kind.NUMERIC:
            columns.append(next(numeric).tolist())
        elif feature.kind == Kind.NOMINAL:
            columns.append(_decoded(feature.values, next(nominal)))
        else:
            columns.append(_token_lists(feature, batch))
    return columns


def _decoded(values: Sequence[Value], codes: Codes) -> list[object]:
    return [values[code] for code in codes.tolist()]


def _token_lists(feature: Feature, batch: Batch) -> list[object]:
    tokens = _decoded(feature.values, batch.sparse_index)
    bounds = batch.sparse_start.tolist()
    return [tokens[a:b] for a, b in pairwise(bounds)]
