"""Tests of nodes and the branches behind them in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from learner.encoder import Encoder
from learner.kernels.rules import BY_BOUND, BY_TIE
from learner.kernels.tree import (
    BOUND,
    COLLAPSE,
    CONTAINS,
    DEACTIVATE,
    EQUALS,
    LEAF,
    MOVE,
    MULTIWAY,
    NOWHERE,
    NUMERIC,
    REACTIVATE,
    REPLACE,
    SUBSET,
    TIE,
    Tree,
)
from learner.schema import Kind, Value

KIND_NAMES = {
    NUMERIC: "numeric",
    MULTIWAY: "multiway",
    EQUALS: "equals",
    CONTAINS: "contains",
    SUBSET: "subset",
}
CHANGE_NAMES = {
    BOUND: "bound",
    TIE: "tie",
    REPLACE: "replace",
    MOVE: "move",
    COLLAPSE: "collapse",
    DEACTIVATE: "deactivate",
    REACTIVATE: "reactivate",
}
REASON_NAMES = {BY_BOUND: "bound", BY_TIE: "tie"}


def attribute(encoder: Encoder, kind: int, column: int) -> tuple[int, Value | None]:
    """The feature position of a test's column, and the token if it is about one."""
    if kind == CONTAINS:
        return encoder.token(column)
    of = Kind.NUMERIC if kind == NUMERIC else Kind.NOMINAL
    return encoder.positions(of)[column], None


def attribute_name(encoder: Encoder, kind: int, column: int) -> str:
    """The name of the feature that a test looks at; empty without a test."""
    if kind == LEAF:
        return ""
    return encoder.feature_name(attribute(encoder, kind, column)[0])


def test_text(encoder: Encoder, kind: int, column: int, cut: float) -> str:
    """A node's test: ``salary <= 51200``, ``car``, ``car == c7``, ``words contains good``.

    A set of values is told by its size; the node knows its members.
    """
    if kind == LEAF:
        return ""
    position, token = attribute(encoder, kind, column)
    name = encoder.feature_name(position)
    if kind == NUMERIC:
        return f"{name} <= {cut:.6g}"
    if kind == EQUALS:
        return f"{name} == {encoder.value_name(position, int(cut))}"
    if kind == CONTAINS:
        return f"{name} contains {token}"
    if kind == SUBSET:
        return f"{name} in a set of {int(cut)}" if cut else f"{name} in a set"
    return name


def condition(tree: Tree, encoder: Encoder, node: int) -> tuple[str, Any]:
    """Operator and value of the branch that leads to a node."""
    nodes = tree.node
    parent = int(nodes["parent"][node])
    kind, column, cut = (
        int(nodes["kind"][parent]),
        int(nodes["column"][parent]),
        nodes["cut"][parent],
    )
    position, token = attribute(encoder, kind, column)
    second = node != nodes["child"][parent]
    if kind == NUMERIC:
        return (">" if second else "<="), float(cut)
    if kind == EQUALS:
        return ("!=" if second else "=="), encoder.value_name(position, int(cut))
    if kind == CONTAINS:
        return ("contains" if second else "not contains"), token
    if kind == SUBSET:
        return ("not in" if second else "in"), list(set_of(tree, encoder, parent))
    value = int(nodes["value"][node])
    return ("other", None) if value < 0 else ("==", encoder.value_name(position, value))


def set_of(tree: Tree, encoder: Encoder, node: int) -> tuple[Value, ...]:
    """The values of the set that a node tests for."""
    nodes = tree.node
    start, length = int(nodes["table_start"][node]), int(nodes["table_length"][node])
    codes = np.flatnonzero(tree.tables[start : start + length] == 1)
    position, _ = attribute(encoder, SUBSET, int(nodes["column"][node]))
    return tuple(encoder.value_name(position, int(code)) for code in codes)


def branch_text(tree: Tree, encoder: Encoder, node: int) -> str:
    """The condition of the branch that leads to a node: ``salary > 51200``; empty at the root."""
    nodes = tree.node
    parent = int(nodes["parent"][node])
    if parent == NOWHERE:
        return ""
    name = attribute_name(encoder, int(nodes["kind"][parent]), int(nodes["column"][parent]))
    operator, value = condition(tree, encoder, node)
    shown = f"{value:.6g}" if isinstance(value, float) else value
    if isinstance(value, list):
        shown = ", ".join(map(str, value))
    return f"{name} is missing or other" if operator == "other" else f"{name} {operator} {shown}"
