"""Predicted split times by hand: with delta = e^-2 and two classes the radius is n^-1/2."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from tests.oracle.leaf import Leaf, Options, Verdict, judge
from tests.oracle.observers import Candidate
from tests.oracle.timing import Forecast, cgd, first_wait, osm
from tests.oracle.vfdt import NOMINAL, NUMERIC, OracleTree, Row

PLAIN = Options(n_min=20.0, delta=math.exp(-2.0), tau=0.0, audit_fraction=0.0)
Branches = tuple[dict[int, float], ...]
PERFECT: Branches = ({0: 4.0}, {1: 4.0})


def leaf_of(*branches: dict[int, float]) -> Leaf:
    leaf = Leaf(0, 0, None, {}, frozenset())
    for branch in branches:
        for k, weight in branch.items():
            leaf.add({}, k, weight, [])
    return leaf


def verdict_of(
    merit: float, second_merit: float, branches: Branches = PERFECT, *, null: bool = False
) -> Verdict:
    best = Candidate("multiway", 0, -1, None, (0, 1), branches, merit)
    second = None if null else replace(best, feature=1, gain=second_merit)
    return Verdict("none", best, merit, second_merit, 0.0, [best], 2, False, second)


def grown(timing: str, kinds: list[str], events: list[tuple[Row, int]], o: Options) -> OracleTree:
    tree = OracleTree(kinds, 0, replace(o, timing=timing))
    for x, y in events:
        tree.learn(x, y)
    return tree


def test_first_check_comes_after_n_first_or_n_min() -> None:
    assert first_wait(PLAIN).length == 20.0
    assert first_wait(replace(PLAIN, n_first=7.0)).length == 7.0


def test_cgd_waits_until_the_radius_equals_the_lead() -> None:
    """1 / sqrt(n) = 1/4 at n = 16."""
    wait = cgd(verdict_of(0.5, 0.25), leaf_of(*PERFECT), 2, PLAIN)

    assert wait.length == pytest.approx(8.0)
    assert wait.is_computed


def test_cgd_waits_for_the_tie_when_the_lead_is_smaller() -> None:
    wait = cgd(verdict_of(0.5, 0.45), leaf_of(*PERFECT), 2, replace(PLAIN, tau=0.2))

    assert wait.length == pytest.approx(25.0 - 8.0)


def test_cgd_waits_at_least_one_and_at_most_the_longest_wait() -> None:
    close = cgd(verdict_of(0.5, 0.5 - 1.0 / math.sqrt(8.5)), leaf_of(*PERFECT), 2, PLAIN)
    never = cgd(verdict_of(0.5, 0.5), leaf_of(*PERFECT), 2, PLAIN)

    assert (close.length, close.is_computed) == (1.0, False)
    assert (never.length, never.is_computed) == (100_000.0, False)


def test_cgd_takes_n_min_when_the_split_was_refused_for_another_reason() -> None:
    """A lead of one bit beats the radius at n = 1: merit or the null split stood in the way."""
    assert cgd(verdict_of(1.0, 0.0), leaf_of(*PERFECT), 2, PLAIN).length == 20.0


def test_cgd_has_no_lead_when_the_null_split_is_best() -> None:
    nothing = replace(verdict_of(0.0, -0.3), best=None)

    assert cgd(nothing, leaf_of(*PERFECT), 2, PLAIN).length == 100_000.0
    assert cgd(nothing, leaf_of(*PERFECT), 2, replace(PLAIN, tau=0.25)).length == pytest.approx(8.0)


def test_cgd_with_the_normal_test_uses_spread_and_unbiased_lead() -> None:
    """Spread 2, lead 0.5 - 0.1: (2 / 0.4)^2 = 25; Hoeffding needs 1 / 0.5^2 = 4 events."""
    verdict = replace(verdict_of(0.75, 0.25), spread=2.0, bias=0.1)
    strict = cgd(verdict, leaf_of(*PERFECT), 2, replace(PLAIN, split_test="normal_strict"))
    smaller = cgd(verdict, leaf_of(*PERFECT), 2, replace(PLAIN, split_test="normal_min"))

    assert strict.length == pytest.approx(17.0)
    assert smaller.length == 20.0


def test_osm_finds_where_the_best_split_would_pass() -> None:
    """A perfect X_a, 1/4 bit left by X_b: 1/4 > 1 / sqrt(8 + z) from z = 8 on."""
    wait = osm(verdict_of(1.0, 0.75), leaf_of(*PERFECT), 2, replace(PLAIN, n_min=1.0))

    assert wait.length == 9.0


def test_osm_waits_at_least_n_min_but_never_past_the_tie() -> None:
    """1 / 0.26^2 = 14.8."""
    patient = osm(verdict_of(1.0, 0.75), leaf_of(*PERFECT), 2, PLAIN)
    tied = osm(verdict_of(1.0, 0.75), leaf_of(*PERFECT), 2, replace(PLAIN, tau=0.26))

    assert patient.length == 20.0
    assert (tied.length, tied.doubtful) == (7.0, False)


def test_osm_doubts_a_tie_at_a_whole_number() -> None:
    assert osm(verdict_of(1.0, 0.75), leaf_of(*PERFECT), 2, replace(PLAIN, tau=0.25)).doubtful


def test_osm_after_the_tie_or_behind_the_null_split_waits_n_min() -> None:
    late = osm(verdict_of(1.0, 0.75), leaf_of(*PERFECT), 2, replace(PLAIN, tau=0.5))
    unrivalled = osm(verdict_of(1.0, -math.inf), leaf_of(*PERFECT), 2, PLAIN)
    null = osm(replace(verdict_of(0.0, -0.3), best=None), leaf_of(*PERFECT), 2, PLAIN)

    assert late.length == unrivalled.length == null.length == 20.0


def test_osm_never_expects_a_pass_from_two_perfect_splits() -> None:
    assert osm(verdict_of(1.0, 1.0), leaf_of(*PERFECT), 2, PLAIN).length == 100_000.0


def test_osm_feeds_the_purest_branch_with_its_majority() -> None:
    """Branch 1 (1:3) is purer than branch 0 (1:1); its class is 1."""
    branches: Branches = ({0: 2.0, 1: 2.0}, {0: 1.0, 1: 3.0})
    forecast = Forecast(verdict_of(0.1, 0.0, branches), leaf_of(*branches), 2, PLAIN)

    assert (forecast.purest(), forecast.helpful_class()) == (1, 1)
    quarter = -(math.log2(0.25) * 0.25 + math.log2(0.75) * 0.75)
    tenth = -(math.log2(0.1) * 0.1 + math.log2(0.9) * 0.9)
    entropy = -(math.log2(3 / 8) * 3 / 8 + math.log2(5 / 8) * 5 / 8)
    missing = 8.0 * (entropy - 0.1) - 4.0 - 4.0 * quarter
    assert forecast.remaining_of_best(6.0) == pytest.approx((missing + 4.0 + 10.0 * tenth) / 14.0)


def test_osm_lets_the_node_itself_grow_when_the_second_best_is_the_null_split() -> None:
    """Four and four events of two classes, eight more of class 0: shares 3/4 and 1/4."""
    forecast = Forecast(verdict_of(0.1, 0.0, null=True), leaf_of(*PERFECT), 2, PLAIN)

    quarter = -(math.log2(0.25) * 0.25 + math.log2(0.75) * 0.75)
    assert forecast.remaining_of_second(8.0) == pytest.approx(quarter)


def test_osm_against_the_null_split_finds_the_first_z_that_passes() -> None:
    """Far ahead the node is pure and no split gains anything; before that one does."""
    leaf = Leaf(0, 0, None, {}, frozenset())
    for i in range(200):
        leaf.add({0: i % 2}, int(i % 100 >= 62) ^ (i % 2), 1.0, [NOMINAL], PLAIN)
    o = replace(PLAIN, tau=0.0, delta=1e-7)
    verdict = judge(leaf, 2, o)
    forecast = Forecast(verdict, leaf, 2, o)

    wait = osm(verdict, leaf, 2, o).length

    assert (verdict.kind, verdict.second) == ("none", None)
    assert forecast.margin(100_000.0) < 0.0
    assert 20.0 < wait < 1000.0
    assert forecast.margin(wait - 2.0) <= 0.0 < forecast.margin(wait + 1.0)


@pytest.mark.parametrize("criterion", ["info_gain", "gini"])
def test_forecast_begins_where_the_attempt_ended_with_missing_values(criterion: str) -> None:
    o = replace(PLAIN, criterion=criterion)
    leaf = Leaf(0, 0, None, {}, frozenset())
    rows: list[Row] = [{0: 0, 1: 0}, {0: 1}, {1: 1}, {0: 0}, {0: 1, 1: 1}]
    for x, y in zip(rows, [0, 1, 0, 1, 1], strict=True):
        leaf.add(x, y, 1.0, [NOMINAL, NOMINAL], o)
    verdict = judge(leaf, 2, o)

    forecast = Forecast(verdict, leaf, 2, o)

    lead = verdict.merit - verdict.second_merit
    assert forecast.margin(0.0) == pytest.approx(lead - verdict.bound)


def test_equal_features_wait_for_the_tie_with_a_single_failed_attempt() -> None:
    """Periodic attempts go on from n = 2; the tie comes at 12.8, the predicted attempt at 13."""
    events: list[tuple[Row, int]] = [({0: i % 2, 1: i % 2}, i % 2) for i in range(13)]
    o = Options(n_min=1.0, delta=0.1, tau=0.3, audit_fraction=0.0)

    periodic, gap, purity = (
        grown(timing, [NOMINAL, NOMINAL], events, o) for timing in ("periodic", "cgd", "osm")
    )

    assert (periodic.splits[0].n, periodic.attempts) == (13.0, 12)
    assert (gap.splits[0].n, gap.attempts, gap.pure_checks) == (13.0, 2, 1)
    assert (purity.splits[0].n, purity.attempts, purity.pure_checks) == (13.0, 2, 1)


def test_a_pure_leaf_is_asked_again_after_n_min() -> None:
    events: list[tuple[Row, int]] = [({0: 0}, 0)] * 12

    tree = grown("cgd", [NOMINAL], events, replace(PLAIN, n_min=4.0, n_first=1.0))

    assert (tree.pure_checks, tree.attempts) == (3, 0)


@pytest.mark.parametrize("seed", range(40))
def test_osm_waits_stay_between_one_event_and_the_tie(seed: int) -> None:
    """Invariant 20: f grows, and its root is bracketed by one event on each side."""
    chance = random.Random(seed)
    o = Options(n_min=1.0, delta=0.01, tau=0.05, criterion=chance.choice(["info_gain", "gini"]))
    leaf = Leaf(0, 0, None, {}, frozenset())
    for _ in range(chance.randrange(20, 200)):
        y = chance.randrange(3)
        x: Row = {0: y if chance.random() < 0.4 else chance.randrange(3), 1: chance.gauss(y, 2.0)}
        leaf.add(x, y, 1.0, [NOMINAL, NUMERIC], o)
    verdict = judge(leaf, 3, o)
    forecast = Forecast(verdict, leaf, 3, o)
    wait = osm(verdict, leaf, 3, o).length
    root, _ = forecast.first_pass()
    steps = [forecast.margin(0.5 * z) for z in range(40)]

    assert 1.0 <= wait <= math.ceil((forecast.radius(0.0) / o.tau) ** 2 * leaf.n - leaf.n)
    assert steps == sorted(steps)
    if 1.0 < root < o.max_wait:
        assert forecast.margin(root - 1.0) <= 0.0 < forecast.margin(root + 1.0)
