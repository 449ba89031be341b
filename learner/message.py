"""What the aggregator and the workers of VHT tell each other.   [KDBM16] Table 1.

Every message goes to all workers, in one order; a worker answers only questions.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from learner.batch import Batch

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


class Events(NamedTuple):
    """A batch with its labels and weights."""

    numeric: Floats
    nominal: Codes
    sparse_start: Places
    sparse_index: Codes
    y: Codes
    weights: Floats  # empty: every event weighs 1

    @classmethod
    def of(cls, batch: Batch, y: Codes, weights: Floats) -> Events:
        """Labelled events."""
        return cls(*batch, y, weights)

    @property
    def batch(self) -> Batch:
        """The events without labels."""
        return Batch(self.numeric, self.nominal, self.sparse_start, self.sparse_index)

    def take(self, rows: Codes) -> Events:
        """Copies of some of the events, each with its weight."""
        weights = self.weights[rows] if len(self.weights) else np.ones(len(rows))
        return Events.of(self.batch.take(rows), self.y[rows], weights)


class Distant(Protocol):
    """Events whose dense columns are elsewhere; here are only those that the tree tests."""

    @property
    def events(self) -> Events:
        """All else of them, and room for every dense column."""

    def fill(self, numeric: Codes, nominal: Codes) -> None:
        """Bring these columns here, unless they are."""


class Known(NamedTuple):
    """What the encoder knows by now; columns and tokens only ever become more."""

    classes: int
    numeric: Codes  # [numeric column] position in the schema
    nominal: Codes  # [nominal column]
    values: Codes  # [nominal column] how many values
    sparse: Codes  # positions of the features with tokens
    tokens: Codes  # [token] position of its feature


class Block(NamedTuple):
    """Events that the next waves are about, until it is done."""

    block: int
    events: Events
    is_slice: bool = False  # it has one worker's columns only
    distant: Any = None  # who knows where the columns are, if they are not here


class Wave(NamedTuple):
    """``attribute`` and ``compute``: events in their order, with their leaves."""

    block: int
    rows: Codes
    leaves: Codes  # -1: nothing is counted, but there may be a new class
    asked: Codes  # places in ``rows`` behind which the leaf there is to be judged
    split_ids: Places  # of these


class LocalResult(NamedTuple):
    """``local-result``: the two best attributes of one worker at one leaf."""

    split_id: int
    worker: int
    ranking: Floats  # as Scratch.ranking; columns and places are those of the whole schema
    branch_counts: Floats  # [branch, class] of the best
    branch_value: Codes


class Drop(NamedTuple):
    """``drop``: a leaf has split; its statistics go, those of its children begin."""

    leaf: int
    kind: int
    column: int
    branch_counts: Floats  # [branch, class]


class Child(NamedTuple):
    """A multiway split got one more child, for a value that had none."""

    parent: int


class Done(NamedTuple):
    """No more waves of this block."""

    block: int


Message = Known | Block | Wave | Drop | Child | Done
