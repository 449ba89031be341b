"""The leaves around one record: what it takes to reach each of them.

A change is another number, another value of a nominal feature, or one token more or less. Numbers
count by their distance in units of the range that the tree knows of the feature: its thresholds
and the record's own number. Everything else counts 1, as does a number that was missing. So every
change costs at most 1. Missing is proposed only for a leaf that no value reaches.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learner.batch import Batch, sparse_rows
from learner.encoder import Encoder, tokens_of
from learner.kernels.jit import by_reference
from learner.kernels.nearest import COUNT, TOTAL, UNCHANGED, Search, find_nearest
from learner.kernels.tree import LEAF, MULTIWAY, NODES, NOWHERE, NUMERIC, Bytes, Tree
from learner.schema import Kind, Value

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Cost = tuple[int, float]  # changes, and how far they go together

search_reference = by_reference(Search)


class Landscape(NamedTuple):
    """What all records of a tree have in common."""

    lowest: Floats  # [numeric column] threshold, NaN = the tree has none
    highest: Floats
    last: npt.NDArray[np.bool_]  # [node] whether rows may end there
    depth: int


def landscape_of(tree: Tree, columns: int) -> Landscape:
    """Read it off a tree with so many numeric columns."""
    nodes = tree.node
    kind, tests = nodes["kind"], np.flatnonzero(nodes["kind"] == NUMERIC)
    lowest, highest = np.full((2, columns), np.nan)
    np.fmin.at(lowest, nodes["column"][tests], nodes["cut"][tests])
    np.fmax.at(highest, nodes["column"][tests], nodes["cut"][tests])
    last = (kind == LEAF) | ((kind == MULTIWAY) & (nodes["other"] == NOWHERE))
    return Landscape(lowest, highest, last, int(nodes["depth"].max()))


class Row(NamedTuple):
    """One record as the kernels have it."""

    x: Floats
    code: Codes
    held: Bytes  # [token]

    def replaced(self, **parts: Any) -> Row:
        """A copy with some places set: x={2: 1.5}."""
        copies = {name: getattr(self, name).copy() for name in parts}
        for name, places in parts.items():
            for at, value in places.items():
                copies[name][at] = value
        return self._replace(**copies)


class Nearest(NamedTuple):
    """Where the search ended."""

    node: int
    row: Row
    cost: Cost


class Change(NamedTuple):
    """One feature before and after; None = missing. Of a set also which tokens differ."""

    feature: str
    before: Any
    after: Any
    added: tuple[Value, ...] = ()
    removed: tuple[Value, ...] = ()


def batch_of(rows: Collection[Row]) -> Batch:
    """Rows as a batch."""
    start, index = sparse_rows([np.flatnonzero(row.held).tolist() for row in rows])
    numeric, nominal = (np.array([row[part] for row in rows]) for part in (0, 1))
    return Batch(numeric, nominal, start, index)


class Neighbourhood:
    """The leaves around one record of a tree that does not change."""

    def __init__(
        self,
        tree: Tree,
        handle: Any,
        landscape: Landscape,
        encoder: Encoder,
        batch: Batch,
        frozen: Collection[str],
    ) -> None:
        self._tree, self._handle, self._encoder = tree, handle, encoder
        self._landscape = landscape
        held = np.zeros(encoder.token_count, np.int8)
        held[batch.sparse_index] = 1
        self.row = Row(batch.numeric[0], batch.nominal[0], held)
        self.frozen = self._frozen(frozen)

    def _frozen(self, names: Collection[str]) -> Bytes:
        positions = [*self._encoder.positions(Kind.NUMERIC), *self._encoder.positions(Kind.NOMINAL)]
        positions += [position for position, _ in self._encoder.tokens]
        marks = [self._encoder.feature_name(position) in names for position in positions]
        return np.array(marks, np.int8)

    def known_values(self, column: int) -> int:
        """How many values of a nominal column are known."""
        return self._encoder.value_counts()[column]

    @cached_property
    def half_units(self) -> Floats:
        """Half of the range of every numeric feature: its thresholds and the record's number."""
        low = np.fmin(self._landscape.lowest, self.row.x)
        high = np.fmax(self._landscape.highest, self.row.x)
        halves = 0.5 * high - 0.5 * low
        return np.where(np.isnan(halves), 0.0, halves)

    def ends(self, wanted: Collection[int], codes: Codes, by_bayes: Bytes) -> tuple[Bytes, Bytes]:
        """Nodes where a row may end with a wanted class: by votes, and by naive Bayes perhaps."""
        last, votes = self._landscape.last, self._tree.votes
        is_wanted = np.zeros(votes.shape[1] + 1, np.bool_)  # one more, for no class
        is_wanted[list(wanted)] = True
        settled = last & (by_bayes == 0) & is_wanted[codes]
        perhaps = last & (by_bayes != 0)
        if perhaps.any():
            perhaps &= (votes[:, list(wanted)] > 0.0).any(axis=1)
        return settled.astype(np.int8), perhaps.astype(np.int8)

    def nearest(self, accepted: Bytes) -> Nearest | None:
        """The accepted node that takes the fewest changes, and the row that ends there."""
        search = self._new_search()
        leads = np.empty(int(self._tree.counts[NODES]), np.int8)
        found = int(find_nearest(self._handle, search_reference(search), accepted, leads))
        if found == NOWHERE:
            return None
        row = Row(search.best_x, search.best_code, search.best_held)
        return Nearest(found, row, (int(search.best[COUNT]), float(search.best[TOTAL])))

    def _new_search(self) -> Search:
        x, code, held = self.row
        counts = self._encoder.value_counts()
        levels = self._landscape.depth + 2
        return Search(
            x=x, code=code, held=held, half_unit=self.half_units, frozen=self.frozen,
            value_start=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            low=np.full(len(x), -np.inf), high=np.full(len(x), np.inf),
            gap=np.ones(len(x), np.int8), forced=np.full(len(code), NOWHERE, np.int32),
            blocked=np.zeros(sum(counts), np.int32), blocked_gap=np.zeros(len(code), np.int32),
            wanted=np.full(len(held), NOWHERE, np.int8),
            cost=np.full(len(self.frozen), UNCHANGED),
            stack=np.zeros((levels, 5), np.int64), saved=np.zeros((levels, 4)),
            best=np.zeros(2), best_x=x.copy(), best_code=code.copy(), best_held=held.copy(),
        )  # fmt: skip

    def cost(self, row: Row) -> Cost:
        """Changes from the record to a row, and how far they go together."""
        count, total = 0, 0.0
        for j in np.flatnonzero(~_same(row.x, self.row.x)).tolist():
            away = abs(0.5 * float(row.x[j]) - 0.5 * float(self.row.x[j]))
            unit = float(self.half_units[j])
            count += 1
            total += min(away / unit, 1.0) if unit > 0.0 and away == away else 1.0
        others = int((row.code != self.row.code).sum() + (row.held != self.row.held).sum())
        return count + others, total + others

    def changes(self, row: Row, record: Mapping[str, object]) -> list[Change]:
        """What is different, feature by feature in schema order."""
        encoder, found = self._encoder, dict[int, Any]()
        for j in np.flatnonzero(~_same(row.x, self.row.x)).tolist():
            x = float(row.x[j])
            found[encoder.positions(Kind.NUMERIC)[j]] = None if x != x else x
        for a in np.flatnonzero(row.code != self.row.code).tolist():
            position, code = encoder.positions(Kind.NOMINAL)[a], int(row.code[a])
            found[position] = None if code < 0 else encoder.value_name(position, code)
        plain = {
            position: Change(name, record.get(name), after)
            for position, after in found.items()
            for name in (encoder.feature_name(position),)
        }
        plain |= self._token_changes(row, record)
        return [plain[position] for position in sorted(plain)]

    def _token_changes(self, row: Row, record: Mapping[str, object]) -> dict[int, Change]:
        differ: dict[int, tuple[list[Value], list[Value]]] = {}
        for column in np.flatnonzero(row.held != self.row.held).tolist():
            position, token = self._encoder.token(column)
            differ.setdefault(position, ([], []))[1 - int(row.held[column])].append(token)
        found = {}
        for position, (added, removed) in differ.items():
            name = self._encoder.feature_name(position)
            before = record.get(name)
            after = [token for token in tokens_of(before) if token not in removed] + added
            found[position] = Change(name, before, after, tuple(added), tuple(removed))
        return found


def _same(one: Floats, other: Floats) -> npt.NDArray[np.bool_]:
    """Where numbers are equal, or both missing."""
    same: npt.NDArray[np.bool_] = (one == other) | (np.isnan(one) & np.isnan(other))
    return same
