"""Formulas of the kernels: textbook values and identities that must always hold."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from learner.kernels.bound import GINI, INFO_GAIN, gain_range, hoeffding_bound, hoeffding_count
from learner.kernels.counting import count_with_gaps
from learner.kernels.criterion import impurity
from learner.kernels.elementary import bell, log2, normal_cdf_of
from learner.kernels.jit import kernel
from learner.kernels.nodes import new_leaf
from learner.kernels.numeric.gaussian import weight_below
from learner.kernels.tree import (
    HIGH,
    LOW,
    M2,
    MEAN,
    MISSING,
    NOWHERE,
    Tree,
    audit_hash,
)
from learner.params import TreeParams
from learner.state import FIRST_SIZES, new_tree, tree_reference
from tests.oracle import criterion as crit
from tests.oracle.observers import Bell
from tests.oracle.vfdt import splitmix64

Floats = npt.NDArray[np.float64]
TOLERANCE = 1e-9

criteria = st.sampled_from([INFO_GAIN, GINI])
tables = st.tuples(st.integers(2, 6), st.integers(2, 5)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(0, 50).map(float))
)
finite = st.floats(-1e3, 1e3, allow_nan=False)


@kernel
def logarithm(x: float) -> float:
    """The inlined log2, callable from here."""
    return log2(x)


@kernel
def phi(z: float) -> float:
    """The inlined normal distribution function, callable from here."""
    return normal_cdf_of(z, bell(z))


@kernel
def observe(tree: Tree, w: float, class_weight: float, value: Floats) -> None:
    """One value of class 0 at the root; inner kernels cannot be called from here."""
    count_with_gaps(tree, 0, 0, w, class_weight, value, 0, 0)


@kernel
def below(tree: Tree, known: float, cut: float) -> float:
    """Weight of class 0 at the root with a value of at most the cut."""
    return weight_below(tree.moments, 0, 0, 0, known, cut)


def gain(criterion: int, table: Floats) -> float:
    """Gain of the split whose branches are the rows of the table."""
    apart = sum(impurity(criterion, np.ascontiguousarray(branch)) for branch in table)
    return float((impurity(criterion, table.sum(axis=0)) - apart) / table.sum())


@given(st.floats(1e-290, 1e290))
def test_log2_is_right_to_the_last_digits(x: float) -> None:
    assert logarithm(x) == pytest.approx(math.log2(x), rel=1e-14, abs=1e-14)


@given(st.floats(-7.0, 7.0))
def test_normal_distribution_function_matches_the_error_function(z: float) -> None:
    assert phi(z) == pytest.approx(0.5 * math.erfc(-z / math.sqrt(2.0)), abs=1e-14)


@given(st.floats(7.0, 1e6))
def test_normal_distribution_function_saturates_far_out(z: float) -> None:
    assert phi(-z) == pytest.approx(0.0, abs=2e-12)
    assert phi(z) == pytest.approx(1.0, abs=2e-12)


def test_impurity_of_an_even_coin_is_one_bit_an_event() -> None:
    assert impurity(INFO_GAIN, np.array([4.0, 4.0])) == pytest.approx(8.0)
    assert impurity(GINI, np.array([4.0, 4.0])) == pytest.approx(4.0)


@given(criteria, tables)
def test_gain_lies_between_zero_and_its_range(criterion: int, table: Floats) -> None:
    assume(table.sum() > 0)

    merit = gain(criterion, table)

    branches, classes = table.shape
    top = gain_range(criterion, True, classes)
    assert -TOLERANCE <= merit <= top + TOLERANCE
    if criterion == INFO_GAIN:
        assert merit <= math.log2(branches) + TOLERANCE


@given(criteria, tables)
def test_gain_is_the_oracles(criterion: int, table: Floats) -> None:
    assume(table.sum() > 0)
    branches = [dict(enumerate(map(float, branch))) for branch in table]
    name = "info_gain" if criterion == INFO_GAIN else "gini"

    expected = crit.gain(crit.merged(branches), branches, criterion=name)

    assert gain(criterion, table) == pytest.approx(expected, abs=TOLERANCE)


@given(criteria, tables, st.randoms(use_true_random=False))
def test_order_of_classes_and_values_does_not_change_a_gain(
    criterion: int, table: Floats, random: object
) -> None:
    assume(table.sum() > 0)
    rng = np.random.default_rng(random.randrange(1000))  # type: ignore[attr-defined]

    shuffled = table[rng.permutation(len(table))][:, rng.permutation(table.shape[1])]

    assert gain(criterion, shuffled) == pytest.approx(gain(criterion, table), abs=TOLERANCE)


@given(criteria, tables, st.floats(1e-3, 1e3))
def test_scaling_all_weights_does_not_change_a_gain(
    criterion: int, table: Floats, scale: float
) -> None:
    assume(table.sum() > 0)

    assert gain(criterion, table * scale) == pytest.approx(gain(criterion, table), abs=1e-8)


@given(criteria, tables, st.integers(0, 4), st.integers(0, 4))
def test_merging_two_branches_never_raises_the_gain(
    criterion: int, table: Floats, a: int, b: int
) -> None:
    assume(table.sum() > 0)
    a, b = a % len(table), b % len(table)
    assume(a != b)
    rest = [row for i, row in enumerate(table) if i not in (a, b)]

    coarser = np.array([table[a] + table[b], *rest])

    assert gain(criterion, coarser) <= gain(criterion, table) + TOLERANCE


def test_ranges_are_those_of_the_papers() -> None:
    assert gain_range(INFO_GAIN, False, 10) == pytest.approx(math.log2(10))
    assert gain_range(INFO_GAIN, False, 0) == pytest.approx(1.0)
    assert gain_range(GINI, False, 4) == 1.0
    assert gain_range(GINI, True, 4) == pytest.approx(0.75)


@given(st.floats(0.1, 5.0), st.floats(1e-9, 0.5), st.floats(1.0, 1e8), st.floats(1.0001, 100.0))
def test_bound_falls_with_n_and_its_inverse_gives_n_back(
    value_range: float, delta: float, n: float, factor: float
) -> None:
    log_inverse = math.log(1.0 / delta)

    radius = hoeffding_bound(value_range, log_inverse, n)

    assert hoeffding_bound(value_range, log_inverse, n * factor) < radius
    assert hoeffding_count(value_range, log_inverse, radius) == pytest.approx(n)
    assert radius == pytest.approx(crit.hoeffding(value_range, delta, n))


def one_column_tree() -> Tree:
    """A root that watches one numeric column."""
    tree = new_tree(FIRST_SIZES._replace(numeric=1))
    new_leaf(tree_reference(tree), TreeParams().rules(has_numeric=True), NOWHERE)
    return tree


@given(st.lists(st.tuples(st.none() | finite, st.floats(0.25, 4.0)), max_size=40))
def test_welford_update_is_the_oracles_and_missing_weight_is_kept_apart(
    values: list[tuple[float | None, float]],
) -> None:
    tree, bell, total = one_column_tree(), Bell(), 0.0

    for value, w in values:
        total += w
        x = np.array([[math.nan if value is None else value]])
        observe(tree_reference(tree), w, total, x)
        if value is not None:
            bell.add(value, w)

    known = total - tree.moments[0, 0, MISSING, 0]
    assert known == pytest.approx(bell.weight, abs=1e-9)
    if bell.weight > 0.0:
        assert tree.moments[0, 0, MEAN, 0] == pytest.approx(bell.mean, rel=1e-9, abs=1e-9)
        assert tree.moments[0, 0, M2, 0] == pytest.approx(bell.m2, rel=1e-6, abs=1e-6)
        assert tree.moments[0, 0, LOW, 0] == bell.low
        assert tree.moments[0, 0, HIGH, 0] == bell.high


@given(st.lists(finite, min_size=1, max_size=30), st.floats(-2e3, 2e3))
def test_gaussian_puts_all_weight_on_one_side_outside_the_extremes(
    values: list[float], cut: float
) -> None:
    tree, bell = one_column_tree(), Bell()
    for count, value in enumerate(values, start=1):
        observe(tree, 1.0, float(count), np.array([[value]]))
        bell.add(value, 1.0)

    weight = below(tree_reference(tree), float(len(values)), cut)

    assert 0.0 <= weight <= len(values)
    if cut < min(values):
        assert weight == 0.0
    if cut >= max(values):
        assert weight == len(values)
    assume(bell.spread() == 0.0 or bell.spread() > 1e-6 * max(map(abs, values)))
    assert weight == pytest.approx(bell.at_most(cut), abs=1e-6)


@given(st.integers(0, 2**62))
def test_audit_draws_a_node_by_splitmix64_of_its_id(node: int) -> None:
    assert audit_hash(node) == pytest.approx(splitmix64(node) / 2.0**64, abs=1e-15)
