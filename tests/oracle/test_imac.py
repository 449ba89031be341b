"""IMAC's sets where they can be seen through, and its equality with attempts at every event."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.oracle import criterion as crit
from tests.oracle.imac import Followed, room_for_candidates
from tests.oracle.leaf import Leaf, Options, available, judge, measured
from tests.oracle.vfdt import NOMINAL, NUMERIC, SPARSE, OracleTree, Row

PLAIN = Options(
    timing="imac", n_min=16.0, mu=16.0, candidates=2, audit_fraction=0.0, min_branch_fraction=0.0
)
FOUR = [NOMINAL] * 4


def with_errors(errors: list[list[int]], size: int = 16) -> list[tuple[Row, int]]:
    """Features that say the alternating class, but for the events in their list."""
    return [
        ({i: (place % 2) ^ (place in wrong) for i, wrong in enumerate(errors)}, place % 2)
        for place in range(size)
    ]


def leaf_after(events: list[tuple[Row, int]], kinds: list[str], o: Options) -> Leaf:
    leaf = Leaf(0, 0, None, {}, frozenset())
    for x, y in events:
        leaf.add(x, y, 1.0, kinds, o)
    return leaf


def followed_after(leaf: Leaf, o: Options) -> Followed:
    followed = Followed(leaf, o)
    followed.start(judge(leaf, 2, o), o.candidates)
    return followed


def go_on(followed: Followed, events: list[tuple[Row, int]], kinds: list[str]) -> None:
    for x, y in events:
        followed.leaf.add(x, y, 1.0, kinds, followed.options)
        followed.count(x, y, 1.0)


def grown(kinds: list[str], events: list[tuple[Row, int]], o: Options) -> OracleTree:
    tree = OracleTree(kinds, 0, o)
    for x, y in events:
        tree.learn(x, y)
    return tree


def random_events(seed: int, size: int, nominal: int, numeric: int = 0) -> list[tuple[Row, int]]:
    """Binary features that agree with the class more or less often, numeric ones that follow it."""
    chance = random.Random(seed)
    found: list[tuple[Row, int]] = []
    for _ in range(size):
        y = chance.randrange(2)
        x: Row = {i: y ^ int(chance.random() < 0.15 + 0.08 * i) for i in range(nominal)}
        x.update({nominal + i: chance.gauss(y, 0.7 + 0.2 * i) for i in range(numeric)})
        found.append((x, y))
    return found


def test_number_of_candidates_is_a_tenth_of_the_attributes_from_five_to_ten() -> None:
    def room(features: int, tokens: int = 0) -> int:
        return room_for_candidates([NUMERIC] * features + [SPARSE], tokens, Options())

    assert [room(3), room(50), room(51), room(60), room(70), room(400)] == [5, 5, 6, 6, 7, 10]
    assert room(3, tokens=64) == 7
    assert room_for_candidates([NUMERIC], 0, Options(candidates=3)) == 3


def test_a_failed_attempt_sorts_the_attributes_by_how_far_they_are_behind() -> None:
    """Radius 0.709 at n = 16; three errors leave 0.311 bit, eight leave none."""
    leaf = leaf_after(with_errors([[], [3], [3, 4, 8], list(range(8))]), FOUR, PLAIN)

    followed = followed_after(leaf, PLAIN)

    assert set(followed.candidates) == {(0, -1), (1, -1)}
    assert set(followed.potential) == {(2, -1)}
    assert followed.illegal == {(3, -1)}
    assert followed.n_check == 16.0


def test_an_attribute_without_an_admissible_split_is_illegal() -> None:
    events: list[tuple[Row, int]] = [({**x, 3: 0}, y) for x, y in with_errors([[], [3], [3, 4, 8]])]

    followed = followed_after(leaf_after(events, FOUR, PLAIN), PLAIN)

    assert followed.illegal == {(3, -1)}


def test_a_check_lets_the_best_of_the_rest_take_the_place_of_the_worst_candidate() -> None:
    """Feature 1 errs 1 + 8 times in 32 events, feature 2 errs 3 times."""
    leaf = leaf_after(with_errors([[], [3], [3, 4, 8], list(range(8))]), FOUR, PLAIN)
    followed = followed_after(leaf, PLAIN)
    go_on(followed, with_errors([[], list(range(8)), [], list(range(8))]), FOUR)

    evaluated = followed.check(2)

    assert evaluated == 1
    assert set(followed.candidates) == {(0, -1), (2, -1)}
    assert followed.illegal == {(1, -1), (3, -1)}
    assert followed.potential == {}


def test_a_challenger_that_loses_goes_back_with_its_new_gain() -> None:
    """Feature 2 errs 3 + 3 times in 32 events: 0.311 bit; the radius is 0.709."""
    leaf = leaf_after(with_errors([[], [3], [3, 4, 8], list(range(8))]), FOUR, PLAIN)
    o = replace(PLAIN, delta=1e-14)
    followed = Followed(leaf, o)
    followed.start(judge(leaf, 2, PLAIN), 2)
    go_on(followed, with_errors([[], [3], [3, 4, 8], list(range(8))]), FOUR)

    followed.check(2)

    assert set(followed.candidates) == {(0, -1), (1, -1)}
    gain = measured(leaf, "multiway", 2, -1, None, (0, 1), o).gain
    assert followed.potential == {(2, -1): pytest.approx(gain)}


def test_all_swaps_go_on_until_a_challenger_loses() -> None:
    o = replace(PLAIN, mu_swaps="all", delta=1e-30)
    leaf = leaf_after(with_errors([[3], [5], [3, 4, 8], [3, 4, 8]]), FOUR, o)
    followed = followed_after(leaf, o)
    assert set(followed.potential) == {(2, -1), (3, -1)}
    go_on(followed, with_errors([list(range(8)), list(range(8)), [], []]), FOUR)

    evaluated = followed.check(2)

    assert set(followed.candidates) == {(2, -1), (3, -1)}
    assert set(followed.potential) == {(0, -1), (1, -1)}
    assert evaluated == 3


def test_a_gaussian_candidate_goes_on_with_exact_counts_from_the_estimate() -> None:
    events: list[tuple[Row, int]] = [({0: float(i % 5)}, int(i % 5 > 2)) for i in range(20)]
    leaf = leaf_after(events, [NUMERIC], PLAIN)
    followed = followed_after(leaf, PLAIN)
    before = followed.candidates[0, -1]
    left, right = (dict(branch) for branch in before.branches)
    assert before.threshold is not None

    go_on(followed, [({0: before.threshold}, 0), ({0: before.threshold + 0.1}, 1)], [NUMERIC])

    now = followed.now((0, -1))
    assert now.branches[0] == {0: left[0] + 1.0, 1: left[1]}
    assert now.branches[1] == {0: right[0], 1: right[1] + 1.0}
    known = crit.merged(now.branches)
    assert now.gain == pytest.approx(crit.gain(known, now.branches, criterion="info_gain"))


def test_a_check_keeps_own_counts_while_the_cut_stays_and_loads_them_when_it_moves() -> None:
    events: list[tuple[Row, int]] = [({0: float(i % 5)}, int(i % 5 > 2)) for i in range(20)]
    followed = followed_after(leaf_after(events, [NUMERIC], PLAIN), PLAIN)
    frozen = followed.candidates[0, -1].threshold
    go_on(followed, [({0: 4.0}, 1)], [NUMERIC])
    own = followed.candidates[0, -1].branches

    followed.check(2)
    assert followed.candidates[0, -1].branches is own

    go_on(followed, [({0: 9.0}, 1)], [NUMERIC])
    followed.check(2)

    moved = followed.candidates[0, -1]
    assert moved.threshold != frozen
    assert moved.threshold is not None
    expected = measured(followed.leaf, NUMERIC, 0, -1, moved.threshold, (), PLAIN)
    assert moved.branches == expected.branches


def test_a_missing_value_leaves_the_counts_of_a_candidate_alone() -> None:
    events: list[tuple[Row, int]] = [({0: float(i % 5)}, int(i % 5 > 2)) for i in range(20)]
    followed = followed_after(leaf_after(events, [NUMERIC], PLAIN), PLAIN)
    gain = followed.now((0, -1)).gain

    go_on(followed, [({}, 0), ({}, 1), ({}, 0), ({}, 1), ({}, 0)], [NUMERIC])

    assert followed.now((0, -1)).gain == pytest.approx(0.8 * gain)


def test_without_a_candidate_the_next_attempt_comes_after_mu() -> None:
    """A feature of one value has no admissible split; n = 6 is the first check, then 6 + 5."""
    events: list[tuple[Row, int]] = [({0: 0}, i % 2) for i in range(20)]

    tree = grown([NOMINAL], events, replace(PLAIN, n_min=6.0, mu=5.0))

    assert tree.attempts == tree.no_split == 3
    assert tree.candidate_checks == 0
    assert not tree.followed


def test_a_pure_leaf_is_attempted_as_soon_as_it_is_not_pure_any_more() -> None:
    events: list[tuple[Row, int]] = [({0: int(i == 9)}, int(i == 9)) for i in range(10)]

    tree = grown([NOMINAL], events, replace(PLAIN, n_min=6.0, delta=0.5))

    assert (tree.attempts, tree.pure_checks) == (1, 0)
    assert tree.splits[0].n == 10.0


def test_a_tie_between_features_without_merit_triggers_no_attempt() -> None:
    """The radius is below tau at once, but an attempt would be refused: only the first at 4."""
    events: list[tuple[Row, int]] = [({0: i % 2}, (i // 2) % 2) for i in range(20)]
    o = replace(PLAIN, n_min=4.0, tau=9.0, min_attempt_gap=5.0, min_merit=0.9)

    tree = grown([NOMINAL], events, o)

    assert tree.attempts == tree.no_split == 1


def test_checks_are_counted_with_the_attributes_they_evaluate() -> None:
    """An attempt at 16 fails (two equal features); checks at 32 and 48 fit two numeric cuts."""
    events: list[tuple[Row, int]] = [
        ({0: float(i % 4), 1: float(i % 4)}, int(i % 4 > 1)) for i in range(60)
    ]

    tree = grown([NUMERIC, NUMERIC], events, replace(PLAIN, tau=0.0))

    assert (tree.attempts, tree.candidate_checks) == (1, 2)
    assert tree.attribute_evaluations == 2 + 2 * 2


@pytest.mark.parametrize("seed", range(6))
def test_nominal_candidates_split_when_attempts_at_every_event_would(seed: int) -> None:
    """Invariants 16 and 19: all attributes followed, nothing between two checks is missed."""
    events = random_events(seed, 400, nominal=4)
    imac = Options(
        timing="imac", n_min=10.0, mu=1e9, candidates=4, delta=0.01, tau=0.1,
        min_branch_fraction=0.0, audit_fraction=0.0,
    )  # fmt: skip
    every = replace(imac, timing="periodic", n_first=10.0, n_min=1.0)

    followed, reference = grown(FOUR, events, imac), grown(FOUR, events, every)

    assert followed.splits == reference.splits
    assert followed.splits
    assert followed.attempts < reference.attempts / 4


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("split_test", ["hoeffding", "normal_min"])
def test_exact_numeric_candidates_checked_at_every_event_miss_nothing(
    seed: int, split_test: str
) -> None:
    events = random_events(seed, 150, nominal=2, numeric=2)
    kinds = [NOMINAL, NOMINAL, NUMERIC, NUMERIC]
    imac = Options(
        timing="imac", n_min=10.0, mu=1.0, candidates=4, delta=0.05, tau=0.2, criterion="gini",
        numeric_observer="ordered", split_test=split_test, min_branch_fraction=0.0,
        audit_fraction=0.0,
    )  # fmt: skip
    every = replace(imac, timing="periodic", n_first=10.0, n_min=1.0)

    followed = grown(kinds, events, imac)
    assert followed.splits == grown(kinds, events, every).splits
    assert followed.splits


@pytest.mark.parametrize("observer", ["gaussian", "ordered", "intervals"])
def test_sets_are_disjoint_and_gains_are_those_of_a_full_evaluation(observer: str) -> None:
    """Invariants 17 and 18."""
    o = replace(PLAIN, numeric_observer=observer, n_min=12.0, mu=7.0, candidates=3, intervals=8)
    kinds = [NOMINAL, NOMINAL, NOMINAL, NUMERIC, NUMERIC]
    tree = OracleTree(kinds, 0, replace(o, delta=1e-9))
    seen = 0

    for x, y in random_events(5, 300, nominal=3, numeric=2):
        attempts = tree.attempts
        tree.learn(x, y)
        for node, followed in tree.followed.items():
            parts = [set(followed.candidates), set(followed.potential), followed.illegal]
            assert sum(map(len, parts)) == len(set.union(*parts)) == len(available(followed.leaf))
            assert node == followed.leaf.id
            for attribute in followed.candidates:
                if observer != "gaussian" or attribute[0] < 3:
                    now = followed.now(attribute)
                    full = measured(
                        followed.leaf, now.kind, *attribute, now.threshold, now.values, o
                    )
                    assert now.gain == pytest.approx(full.gain, abs=1e-9)
                    seen += 1
            if tree.attempts > attempts and observer != "gaussian":
                assert not followed.is_triggered(2)

    assert seen > 100
    assert tree.candidate_checks > 5
