"""Tests of nodes in words."""

from __future__ import annotations

from learner.encoder import Encoder
from learner.kernels.tree import (
    BOUND,
    COLLAPSE,
    CONTAINS,
    EQUALS,
    LEAF,
    MOVE,
    MULTIWAY,
    NUMERIC,
    REPLACE,
    SUBSET,
    TIE,
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
}


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
