"""The normal test by hand, by derivatives and at its edges."""

from __future__ import annotations

import math
import random

import pytest

from tests.oracle import criterion as crit
from tests.oracle import normal
from tests.oracle.leaf import Leaf, Options, judge, judge_against_null

NOMINAL = "nominal"
Table = list[dict[int, float]]
Rows = dict[tuple[int, ...], dict[int, int]]


def counted(rows: Rows, **options: object) -> tuple[Leaf, Options]:
    """A leaf that saw nominal rows so many times with each class."""
    o = Options(**options)  # type: ignore[arg-type]
    leaf = Leaf(0, 0, None, {}, frozenset())
    for values, classes in rows.items():
        for y, times in classes.items():
            for _ in range(times):
                leaf.add(dict(enumerate(values)), y, 1.0, [NOMINAL] * len(values), o)
    return leaf, o


def random_table(rng: random.Random, branches: int, classes: int) -> Table:
    return [{k: rng.uniform(0.5, 9.0) for k in range(classes)} for _ in range(branches)]


def scaled_gain(cells: dict[tuple[int, int], float], unknown: float, criterion: str) -> float:
    """Gain of shares of cells, scaled by the known share."""
    table: dict[int, dict[int, float]] = {}
    for (j, k), share in cells.items():
        table.setdefault(j, {})[k] = share
    branches = list(table.values())
    known = sum(cells.values())
    gain = crit.gain(crit.merged(branches), branches, criterion=criterion)
    return known / (known + unknown) * gain


@pytest.mark.parametrize("criterion", ["info_gain", "gini"])
@pytest.mark.parametrize("unknown", [0.0, 7.0])
def test_influence_is_the_derivative_of_the_gain_towards_one_cell(
    criterion: str, unknown: float
) -> None:
    rng = random.Random(3)
    table = random_table(rng, 3, 3)
    n = sum(map(crit.total, table)) + unknown
    cells = {(j, k): w / n for j, row in enumerate(table) for k, w in row.items()}
    given = {
        (j, k): influence
        for (j, k), (_, influence) in zip(
            sorted(cells), normal.influences(table, criterion), strict=True
        )
    }
    mean = sum(cells[cell] * given[cell] for cell in cells)

    assert mean == pytest.approx(scaled_gain(cells, unknown / n, criterion))
    step = 1e-5
    for towards in cells:
        moved = []
        for t in (step, -step):
            mixed = {cell: (1 - t) * share + t * (cell == towards) for cell, share in cells.items()}
            moved.append(scaled_gain(mixed, (1 - t) * unknown / n, criterion))
        slope = (moved[0] - moved[1]) / (2 * step)
        assert given[towards] - mean == pytest.approx(slope, abs=1e-6)


def test_sigma_of_an_unknown_half_is_that_of_the_table_with_an_empty_cell() -> None:
    """Cells 1/4 and 1/4 of influence 1, half of influence 0: variance 1/2 - 1/4."""
    table = [{0: 1.0}, {1: 1.0}]

    assert normal.sigma(table, 4.0, "info_gain") == pytest.approx(0.5)


def test_sigma_of_the_varentropy_example_is_the_hand_written_sum() -> None:
    """Left 3 against 1, right 1 against 3 of 8: influences log2(3/2) and log2(1/2)."""
    table = [{0: 3.0, 1: 1.0}, {0: 1.0, 1: 3.0}]
    high, low = math.log2(1.5), -1.0

    mean = 0.75 * high + 0.25 * low
    variance = 0.75 * high**2 + 0.25 * low**2 - mean**2

    assert normal.sigma(table, 8.0, "info_gain") == pytest.approx(math.sqrt(variance))


def test_the_gini_sigma_of_a_symmetric_table_is_the_hand_written_sum() -> None:
    """p(k|j) is 3/4 or 1/4, Q(D_j) = 5/8, Q(D) = 1/2, p_k = 1/2: influences 3/8 and -5/8."""
    table = [{0: 3.0, 1: 1.0}, {0: 1.0, 1: 3.0}]

    mean = 0.75 * 0.375 - 0.25 * 0.625

    variance = 0.75 * 0.375**2 + 0.25 * 0.625**2 - mean**2
    assert normal.sigma(table, 8.0, "gini") == pytest.approx(math.sqrt(variance))


def test_sigma_of_a_perfect_split_has_a_floor_and_the_null_split_none() -> None:
    assert normal.sigma([{0: 4.0}, {1: 4.0}], 8.0, "info_gain") == 1e-6
    assert normal.sigma(None, 8.0, "info_gain") == 0.0


def test_joint_spread_is_a_hypotenuse_or_a_sum() -> None:
    assert normal.joint_spread(3.0, 4.0, "independent") == 5.0
    assert normal.joint_spread(3.0, 4.0, "worst_case") == 7.0


def test_bias_counts_filled_branches_and_classes_only() -> None:
    table = [{0: 3.0, 1: 1.0, 2: 0.0}, {0: 0.0, 1: 0.0, 2: 0.0}, {0: 2.0, 1: 5.0}]

    assert normal.bias(table, 11.0, "info_gain") == pytest.approx(1 / (22 * math.log(2)))
    assert normal.bias(table, 11.0, "gini") == 0.0
    assert normal.bias(None, 11.0, "info_gain") == 0.0


@pytest.mark.parametrize(
    ("delta", "z"),
    [(0.025, 1.959963985), (1e-7, 5.199337582), (0.5, 0.0), (0.9, 0.0)],
)
def test_quantiles_are_the_printed_ones(delta: float, z: float) -> None:
    assert normal.quantile(delta) == pytest.approx(z, abs=2e-9)


def test_a_duel_of_hoeffding_knows_no_spread() -> None:
    duel = normal.Duel("hoeffding", lead=0.3, n=100.0, hoeffding=0.2, spread=9.0, bias=9.0)

    assert (duel.kind(0.0), duel.radius) == ("bound", 0.2)


def test_the_minimum_passes_by_either_test_and_debiases_only_the_normal_one() -> None:
    by_hoeffding = normal.Duel("normal_min", 0.3, 100.0, hoeffding=0.2, spread=1.5, bias=0.2)
    by_normal = normal.Duel("normal_min", 0.15, 100.0, hoeffding=0.2, spread=1.0, bias=0.04)
    biased = normal.Duel("normal_min", 0.15, 100.0, hoeffding=0.2, spread=1.0, bias=0.06)

    assert [duel.kind(0.0) for duel in (by_hoeffding, by_normal, biased)] == [
        "bound", "bound", "none",
    ]  # fmt: skip
    assert by_normal.radius == pytest.approx(0.1)
    assert biased.kind(0.11) == "tie"


def test_strict_passes_nothing_before_thirty_and_then_by_the_normal_radius_alone() -> None:
    early = normal.Duel("normal_strict", 0.9, 29.0, hoeffding=0.2, spread=0.1)
    large = normal.Duel("normal_strict", 0.3, 100.0, hoeffding=0.2, spread=4.0)
    small = normal.Duel("normal_strict", 0.3, 100.0, hoeffding=0.4, spread=1.0)

    assert (early.kind(0.5), early.radius) == ("none", 0.2)
    assert (large.kind(0.3), large.kind(0.5), large.radius) == ("none", "tie", 0.4)
    assert small.kind(0.0) == "bound"


def test_the_minimum_before_thirty_is_hoeffding() -> None:
    duel = normal.Duel("normal_min", 0.15, 29.0, hoeffding=0.2, spread=0.1)

    assert (duel.kind(0.2), duel.kind(0.21), duel.radius) == ("none", "tie", 0.2)


def test_a_lead_at_its_radius_is_doubtful() -> None:
    at_hoeffding = normal.Duel("normal_min", 0.2, 100.0, hoeffding=0.2, spread=1.0)
    at_normal = normal.Duel("normal_min", 0.15, 100.0, hoeffding=0.2, spread=1.0, bias=0.05)
    at_tau = normal.Duel("normal_min", 0.05, 100.0, hoeffding=0.2, spread=1.0)

    assert at_hoeffding.is_doubtful(0.0)
    assert at_normal.is_doubtful(0.0)
    assert at_tau.is_doubtful(0.1)
    assert not at_tau.is_doubtful(0.0)


def test_a_verdict_carries_spread_and_bias_of_the_two_best() -> None:
    """Attribute 0 separates 30 of 40 events, attribute 1 says nothing much."""
    rows: Rows = {(0, 0): {0: 15, 1: 5}, (1, 0): {1: 12}, (1, 1): {0: 3, 1: 5}}
    leaf, o = counted(rows, split_test="normal_min", delta=0.01)

    verdict = judge(leaf, 2, o)

    best, second = verdict.ranked
    assert (verdict.best, verdict.second) == (best, second)
    sigmas = [normal.sigma(c.branches, 40.0, "info_gain") for c in (best, second)]
    assert verdict.spread == pytest.approx(normal.quantile(0.01) * math.hypot(*sigmas))
    assert verdict.bias == 0.0
    assert verdict.bound == pytest.approx(min(leaf.hoeffding(2, o), verdict.spread / 40.0**0.5))


def test_the_last_attribute_meets_the_null_split_without_spread_or_bias() -> None:
    leaf, o = counted({(0,): {0: 30, 1: 10}, (1,): {0: 10, 1: 30}}, split_test="normal_strict")

    verdict = judge(leaf, 2, o)

    assert (verdict.best, verdict.second) == (verdict.ranked[0], None)
    sigma = normal.sigma(verdict.ranked[0].branches, 80.0, "info_gain")
    assert verdict.spread == pytest.approx(normal.quantile(1e-7) * sigma)
    assert verdict.bias == pytest.approx(1 / (160 * math.log(2)))


def test_the_anytime_test_ignores_an_equal_attribute() -> None:
    rows: Rows = {(0, 0): {0: 40}, (1, 1): {1: 40}}
    leaf, o = counted(rows, policy="anytime", tau=0.0)

    assert judge(leaf, 2, o).kind == "none"
    against_null = judge_against_null(leaf, 2, o)

    assert (against_null.kind, against_null.second, against_null.second_merit) == (
        "bound", None, 0.0,
    )  # fmt: skip
    assert len(against_null.ranked) == 2


def test_two_firsts_of_equal_gain_and_other_counts_are_doubtful_under_every_policy() -> None:
    """Attribute 1 cuts value 0 of attribute 0 in two equal halves."""
    rows: Rows = {(0, 0): {0: 15, 1: 5}, (0, 2): {0: 15, 1: 5}, (1, 1): {0: 10, 1: 30}}

    assert judge(*with_classes(rows, {})).doubtful
    assert judge_against_null(*with_classes(rows, {"policy": "anytime"})).doubtful


def test_the_eager_policy_needs_nothing_but_a_gain() -> None:
    some: Rows = {(0,): {0: 11, 1: 10}, (1,): {0: 10, 1: 11}}
    none: Rows = {(0,): {0: 10, 1: 10}, (1,): {0: 10, 1: 10}}

    eager = {"policy": "anytime_eager", "tau": 0.0}

    assert judge_against_null(*with_classes(some, eager)).kind == "bound"
    assert judge_against_null(*with_classes(none, eager)).kind == "none"
    assert judge_against_null(*with_classes(some, {"policy": "anytime", "tau": 0.0})).kind == "none"


def with_classes(rows: Rows, options: dict[str, object]) -> tuple[Leaf, int, Options]:
    leaf, o = counted(rows, **options)
    return leaf, 2, o


def test_without_a_null_merit_the_only_attribute_wins_by_an_infinite_lead() -> None:
    leaf, o = counted({(0,): {0: 2, 1: 1}, (1,): {0: 1, 1: 2}}, null_merit="minus_inf")

    verdict = judge(leaf, 2, o)

    assert (verdict.kind, verdict.second, verdict.second_merit) == ("bound", None, -math.inf)


def test_two_seconds_of_equal_gain_and_other_counts_make_a_normal_verdict_doubtful() -> None:
    """Attribute 2 cuts value 0 of attribute 1 in two equal halves: same gain, larger bias."""
    rows: Rows = {(0, 0): {0: 30}, (1, 0): {1: 10}, (0, 1): {0: 10}, (1, 1): {1: 30}}
    same: Rows = {(a, b, b): counts for (a, b), counts in rows.items()}
    finer: Rows = {(0, 0, 0): {0: 15}, (0, 0, 2): {0: 15}, (1, 0, 0): {1: 5}, (1, 0, 2): {1: 5},
             (0, 1, 1): {0: 10}, (1, 1, 1): {1: 30}}  # fmt: skip

    assert not judge(*with_classes(same, {"split_test": "normal_min"})).doubtful
    assert judge(*with_classes(finer, {"split_test": "normal_min"})).doubtful
    assert not judge(*with_classes(finer, {})).doubtful
