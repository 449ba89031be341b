"""The slow twin on streams small enough to compute by hand."""

from __future__ import annotations

import math

import pytest

from tests.oracle import criterion as crit
from tests.oracle.leaf import Leaf, Options, naive_bayes
from tests.oracle.vfdt import NOMINAL, NUMERIC, SPARSE, OracleTree, Row, Split, splitmix64


def grown(
    kinds: list[str], events: list[tuple[Row, int]], weight: float = 1.0, **options: object
) -> OracleTree:
    settings = {"n_min": 1.0, "delta": 0.1, "tau": 0.0, "audit_fraction": 0.0, **options}
    tree = OracleTree(kinds, 0, Options(**settings))  # type: ignore[arg-type]
    for x, y in events:
        tree.learn(x, y, weight)
    return tree


def root(tree: OracleTree) -> Split:
    node = tree.nodes[0]
    assert isinstance(node, Split)
    return node


def leaf(tree: OracleTree, node: int) -> Leaf:
    found = tree.nodes[node]
    assert isinstance(found, Leaf)
    return found


def test_entropy_gain_of_a_small_table_is_the_textbook_value() -> None:
    branches = [{0: 3.0, 1: 1.0}, {0: 1.0, 1: 3.0}]

    gain = crit.gain({0: 4.0, 1: 4.0}, branches, criterion="info_gain")

    assert gain == pytest.approx(1.0 - (2.0 - 0.75 * math.log2(3.0)))


def test_gini_gain_of_a_small_table_is_the_textbook_value() -> None:
    branches = [{0: 3.0, 1: 1.0}, {0: 1.0, 1: 3.0}]

    gain = crit.gain({0: 4.0, 1: 4.0}, branches, criterion="gini")

    assert gain == pytest.approx(10 / 4 / 8 + 10 / 4 / 8 - 0.5)


def test_hoeffding_radius_of_the_default_setting() -> None:
    assert crit.hoeffding(1.0, 1e-7, 200.0) == pytest.approx(0.2007, abs=1e-4)


def test_a_perfect_nominal_feature_splits_when_one_bit_beats_the_bound() -> None:
    """ln(10) / 2n < 1 holds from n = 2 on; before that the leaf is pure."""
    tree = grown([NOMINAL], [({0: 0}, 0), ({0: 1}, 1)])

    split = root(tree)

    assert (split.kind, split.feature, split.values) == ("multiway", 0, (0, 1))
    assert tree.splits[0].n == 2.0
    assert tree.splits[0].bound == pytest.approx(math.sqrt(math.log(10.0) / 4.0))
    assert leaf(tree, 1).prior == {0: 1.0}
    assert leaf(tree, 2).prior == {1: 1.0}
    assert (tree.pure_checks, tree.attempts) == (1, 1)


def test_two_equal_features_wait_for_the_tie_and_take_the_first() -> None:
    """The radius sqrt(ln 10 / 2n) falls below 0.3 at n = 13."""
    events: list[tuple[Row, int]] = [({0: i % 2, 1: i % 2}, i % 2) for i in range(14)]

    tree = grown([NOMINAL, NOMINAL], events, tau=0.3)

    assert tree.splits[0].n == 13.0
    assert tree.splits[0].kind == "tie"
    assert root(tree).feature == 0


def test_no_split_on_a_feature_without_merit_even_when_the_bound_is_tiny() -> None:
    events: list[tuple[Row, int]] = [({0: i % 2}, (i // 2) % 2) for i in range(40)]

    tree = grown([NOMINAL], events, tau=0.9, n_min=4.0)

    assert not tree.splits
    assert tree.no_split == tree.attempts == 10


def test_numeric_cut_is_the_lowest_point_that_separates() -> None:
    """Values 0, 1 against 9, 10: the grid of 10 points has step 10/11, the second one separates."""
    events: list[tuple[Row, int]] = [({0: 0.0}, 0), ({0: 1.0}, 0), ({0: 9.0}, 1), ({0: 10.0}, 1)]

    tree = grown([NUMERIC], events, n_min=4.0)

    split = root(tree)
    assert split.threshold == pytest.approx(20.0 / 11.0)
    assert leaf(tree, 1).prior == {0: 2.0, 1: 0.0}
    assert leaf(tree, 2).prior == {0: 0.0, 1: 2.0}


def test_missing_values_scale_the_gain_by_the_known_share() -> None:
    events: list[tuple[Row, int]] = [({0: 0}, 0), ({0: 1}, 1), ({}, 0), ({}, 1)]

    tree = grown([NOMINAL], events, n_min=4.0, delta=0.5, tau=0.0)

    assert tree.attempts == 1
    assert tree.splits[0].merit == pytest.approx(0.5)


def test_missing_takes_the_other_branch_and_creates_it_only_while_learning() -> None:
    tree = grown([NOMINAL], [({0: 0}, 0), ({0: 1}, 1)])

    assert tree.find({}) is root(tree)
    assert tree.probabilities({}) == [0.5, 0.5]
    tree.learn({}, 1)

    assert tree.nodes[3] is tree.find({})
    assert tree.predict({0: 7}) == 1


def test_grow_gives_an_unseen_value_its_own_child() -> None:
    tree = grown([NOMINAL], [({0: 0}, 0), ({0: 1}, 1)], unseen="grow")

    tree.learn({0: 5}, 1)

    assert root(tree).children == {0: 1, 1: 2, 5: 3}
    assert tree.find({0: 6}) is root(tree)

    tree.learn({}, 0)
    tree.learn({0: 6}, 1)

    assert root(tree).children == {0: 1, 1: 2, 5: 3, -1: 4, 6: 5}


def test_missing_at_a_numeric_test_follows_the_heavier_child() -> None:
    events: list[tuple[Row, int]] = [({0: 0.0}, 0), ({0: 1.0}, 0), ({0: 9.0}, 1), ({0: 10.0}, 1)]
    tree = grown([NUMERIC], events, n_min=4.0)

    assert tree.find({}) is tree.nodes[1]
    tree.learn({0: 9.5}, 1)

    assert tree.find({}) is tree.nodes[2]


def test_binary_nominal_split_tests_one_value_and_sends_missing_to_the_rest() -> None:
    events: list[tuple[Row, int]] = [({0: v}, int(v == 1)) for v in (0, 1, 2, 1, 0, 1)]

    tree = grown([NOMINAL], events, n_min=6.0, nominal_split="binary")

    assert (root(tree).kind, root(tree).values) == ("equal", (1,))
    assert tree.find({}) is tree.nodes[2]
    assert leaf(tree, 1).prior == {0: 0.0, 1: 3.0}


def test_a_sparse_token_splits_absent_from_present() -> None:
    events: list[tuple[Row, int]] = [({0: frozenset({i % 2})}, i % 2) for i in range(6)]

    tree = grown([SPARSE], events, n_min=6.0, tau=0.5)

    assert (root(tree).kind, root(tree).token) == (SPARSE, 0)
    assert leaf(tree, root(tree).children[0]).prior == {0: 0.0, 1: 3.0}


def test_null_split_wins_when_it_may_and_never_with_minus_infinity() -> None:
    events: list[tuple[Row, int]] = [({0: i % 2}, int(i % 4 == 3)) for i in range(8)]

    with_null = grown([NOMINAL], events, n_min=8.0, delta=1e-3)
    without = grown([NOMINAL], events, n_min=8.0, delta=1e-3, null_merit="minus_inf")

    assert not with_null.splits
    assert without.splits[0].kind == "bound"


def test_inherited_weight_counts_for_merit_and_bound_only_under_inherit() -> None:
    """The child of value 0 has 20 + 4 own events and 4 inherited ones when it splits."""
    first: list[tuple[Row, int]] = [({0: i % 2, 1: 0}, i % 2) for i in range(40)]
    more: list[tuple[Row, int]] = [({0: 0, 1: i % 2}, i % 2) for i in range(8)]
    options = {"n_min": 4.0, "delta": 1e-4}

    separate = grown([NOMINAL, NOMINAL], first + more, **options)
    inherit = grown([NOMINAL, NOMINAL], first + more, new_leaf="inherit", **options)

    own, mixed = separate.splits[1], inherit.splits[1]
    assert own.n == mixed.n == 24.0
    assert own.merit == pytest.approx(crit.impurity_sum({0: 20.0, 1: 4.0}, "info_gain") / 24.0)
    assert mixed.merit == pytest.approx(crit.impurity_sum({0: 24.0, 1: 4.0}, "info_gain") / 28.0)
    assert mixed.bound == pytest.approx(math.sqrt(math.log(1e4) / 56.0))


def test_empty_leaf_predicts_class_zero() -> None:
    tree = grown([NOMINAL], [({0: 0}, 0), ({0: 1}, 1)], new_leaf="empty")

    assert tree.predict({0: 1}) == 0


def test_naive_bayes_multiplies_smoothed_shares() -> None:
    """Class 0: value 0 twice of two; class 1: value 0 once of two. (3/4) against (2/4)."""
    tree = grown([NOMINAL], [({0: 0}, 0), ({0: 0}, 0), ({0: 0}, 1), ({0: 1}, 1)], n_min=100.0)

    posterior = naive_bayes(leaf(tree, 0), {0: 0})

    assert posterior[0] == pytest.approx(0.75 / (0.75 + 0.5))


def test_naive_bayes_of_a_numeric_feature_is_the_ratio_of_densities() -> None:
    events: list[tuple[Row, int]] = [({0: -1.0}, 0), ({0: 1.0}, 0), ({0: 3.0}, 1), ({0: 5.0}, 1)]
    tree = grown([NUMERIC], events, n_min=100.0)

    posterior = naive_bayes(leaf(tree, 0), {0: 1.0})

    ratio = math.exp(-0.5 * 1.0 / 2.0) / math.exp(-0.5 * 9.0 / 2.0)
    assert posterior[0] / posterior[1] == pytest.approx(ratio)


def test_weights_replicate_events_where_counts_are_sums() -> None:
    events: list[tuple[Row, int]] = [({0: i % 3, 1: i % 2}, int(i % 3 == 0)) for i in range(30)]
    twice = [event for event in events for _ in range(2)]

    heavy = grown([NOMINAL, NOMINAL], events, weight=2.0, n_min=10.0)
    replicated = grown([NOMINAL, NOMINAL], twice, n_min=10.0)

    assert root(heavy).feature == root(replicated).feature == 0
    assert heavy.weight == replicated.weight


def test_memory_bound_keeps_the_most_promising_leaf() -> None:
    events: list[tuple[Row, int]] = [({0: 0}, 0), ({0: 1}, 1)]
    events += [({0: 1}, i % 2) for i in range(8)]

    tree = grown([NOMINAL], events, max_memory_bytes=1, memory_check_every=10, delta=1e-9)

    by_activity = {node.id: node.active for node in tree.leaves()}
    assert sum(by_activity.values()) == 1
    assert tree.memory_checks == 1


def test_audited_leaf_reports_how_late_it_split() -> None:
    events: list[tuple[Row, int]] = [({0: i % 2}, i % 2) for i in range(10)]

    tree = grown([NOMINAL], events, n_min=10.0, audit_fraction=1.0)

    assert tree.splits[0].delay == 8.0


def test_splitmix64_matches_its_published_first_output() -> None:
    assert splitmix64(0) == 0xE220A8397B1DCDAF
