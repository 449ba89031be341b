"""Tests of nodes in words."""

from __future__ import annotations

from learner.encoder import Encoder
from learner.kernels.tree import CONTAINS, EQUALS, MULTIWAY, NUMERIC
from learner.schema import Kind, Value

KIND_NAMES = {NUMERIC: "numeric", MULTIWAY: "multiway", EQUALS: "equals", CONTAINS: "contains"}


def attribute(encoder: Encoder, kind: int, column: int) -> tuple[int, Value | None]:
    """The feature position of a test's column, and the token if it is about one."""
    if kind == CONTAINS:
        return encoder.token(column)
    of = Kind.NUMERIC if kind == NUMERIC else Kind.NOMINAL
    return encoder.positions(of)[column], None


def attribute_name(encoder: Encoder, kind: int, column: int) -> str:
    """The name of the feature that a test looks at."""
    return encoder.feature_name(attribute(encoder, kind, column)[0])


def test_text(encoder: Encoder, kind: int, column: int, cut: float) -> str:
    """A node's test: ``salary <= 51200``, ``car``, ``car == c7``, ``words contains good``."""
    position, token = attribute(encoder, kind, column)
    name = encoder.feature_name(position)
    if kind == NUMERIC:
        return f"{name} <= {cut:.6g}"
    if kind == EQUALS:
        return f"{name} == {encoder.value_name(position, int(cut))}"
    if kind == CONTAINS:
        return f"{name} contains {token}"
    return name
