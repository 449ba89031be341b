"""The walk of one row in plain Python: calling compiled code and making arrays for it cost more.

Takes values as they come, in schema order: what a value leads to is looked up by the value itself,
so nothing needs a code. Every node is read when a row first comes by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from learner.encoder import Encoder
from learner.kernels.tree import CONTAINS, EQUALS, LEAF, MULTIWAY, NOWHERE, NUMERIC, Tree
from learner.reading import attribute
from learner.schema import Value


class Stop(NamedTuple):
    """A node as a row meets it."""

    id: int
    place: int  # in the arrays of its tree
    position: int  # of the feature that is tested
    child_for: Callable[[Any], int] | None  # what its value leads to; None at a leaf


_FIELDS = ("id", "kind", "child", "column", "cut", "other", "table_start", "table_length")


class RowWalk:
    """Finds the leaf of a row of one tree, which does not change."""

    def __init__(self, tree: Tree, encoder: Encoder) -> None:
        self._tree = tree
        self._nodes = tree.node[list(_FIELDS)]
        self._encoder = encoder
        self._stops: dict[int, Stop] = {}

    def end_of(self, row: Sequence[Any]) -> Stop:
        """The node that a row ends in; None = missing, and all types are right."""
        node, stops = 0, self._stops
        while True:
            try:
                stop = stops[node]
            except KeyError:
                stop = stops[node] = self._read(node)
            if stop.child_for is None:
                return stop
            node = stop.child_for(row[stop.position])
            if node == NOWHERE:
                return stop

    def _read(self, node: int) -> Stop:
        # All fields at once: one by one they take four times as long.
        name, kind, first, column, cut, other, start, length = self._nodes[node].item()
        if kind == LEAF:
            return Stop(name, node, 0, None)
        position, token = attribute(self._encoder, kind, column)
        if kind == NUMERIC:
            return Stop(name, node, position, self._threshold(cut, first))
        if kind == CONTAINS:
            return Stop(name, node, position, _by_token(token, first))
        if kind == EQUALS:
            value = self._encoder.value_name(position, int(cut))
            return Stop(name, node, position, _by_value({value: first}, first + 1))
        table = self._tree.tables[start : start + length].tolist()
        if kind == MULTIWAY:
            children = {v: c for v, c in enumerate(table) if c >= 0}
        else:
            children, other = {v: first for v, held in enumerate(table) if held == 1}, first + 1
        named = {self._encoder.value_name(position, v): c for v, c in children.items()}
        return Stop(name, node, position, _by_value(named, other))

    def _threshold(self, cut: float, first: int) -> Callable[[float | None], int]:
        routed = self._tree.node["routed"]
        missing = first + int(routed[first + 1] > routed[first])
        return _by_threshold(cut, first, missing)


def _by_value(children: Mapping[Value, int], other: int) -> Callable[[Any], int]:
    return lambda value: children.get(value, other)


def _by_threshold(cut: float, first: int, missing: int) -> Callable[[float | None], int]:
    def child_for(x: float | None) -> int:
        if x is None or x != x:
            return missing
        return first if x <= cut else first + 1

    return child_for


def _by_token(token: Value | None, first: int) -> Callable[[Any], int]:
    def child_for(held: Sequence[Any] | Mapping[Any, Any] | None) -> int:
        if isinstance(held, Mapping):
            return first + bool(held.get(token))
        return first + (held is not None and token in held)

    return child_for
