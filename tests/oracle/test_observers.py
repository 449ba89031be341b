"""Tables, samples, intervals and subsets against hand-made numbers and brute force."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from tests.oracle import criterion as crit
from tests.oracle.intervals import IntervalHistogram, bounds_inside, prune_after_failure
from tests.oracle.leaf import (
    NOMINAL,
    NUMERIC,
    Leaf,
    Options,
    Row,
    candidates,
    judge,
    measured,
    naive_bayes,
)
from tests.oracle.observers import Nominal, Ordered

Events = list[tuple[float, int]]
INTERVALS = {"numeric_observer": "intervals", "intervals": 8}


def table_of(events: Events) -> Ordered:
    table = Ordered()
    for x, y in events:
        table.add(x, y, 1.0)
    return table


def brute_sides(events: Events, t: float) -> tuple[dict[int, float], dict[int, float]]:
    sides: tuple[dict[int, float], dict[int, float]] = ({}, {})
    for x, y in events:
        side = sides[x > t]
        side[y] = side.get(y, 0.0) + 1.0
    return sides


def noisy(rng: random.Random, size: int, classes: int = 2, places: int = 2) -> Events:
    """Values whose class depends on them by chance."""
    events = []
    for _ in range(size):
        x = round(rng.gauss(0.0, 1.0), places)
        y = int(x > 0.3) if rng.random() < 0.6 else rng.randrange(classes)
        events.append((x, y))
    return events


def leaf_of(columns: list[Events], **options: object) -> tuple[Leaf, Options]:
    """A leaf that saw numeric columns with one common label."""
    o = Options(**options)  # type: ignore[arg-type]
    leaf = Leaf(0, 0, None, {}, frozenset())
    grow(leaf, o, columns)
    return leaf, o


def grow(leaf: Leaf, o: Options, columns: list[Events]) -> None:
    for row in zip(*columns, strict=True):
        x: Row = {i: value for i, (value, _) in enumerate(row)}
        leaf.add(x, row[0][1], 1.0, [NUMERIC] * len(columns), o)


def relabelled(values: Events, labels: Events) -> Events:
    return [(x, y) for (x, _), (_, y) in zip(values, labels, strict=True)]


def histogram_of(leaf: Leaf, i: int = 0) -> IntervalHistogram:
    found = leaf.observers[i]
    assert isinstance(found, IntervalHistogram)
    return found


# tables and samples -----------------------------------------------------------------------


@pytest.mark.parametrize("order", ["shuffled", "sorted", "reversed"])
def test_cuts_of_a_table_are_those_counted_one_by_one(order: str) -> None:
    events = noisy(random.Random(1), 120, classes=3, places=1)
    if order != "shuffled":
        events.sort(reverse=order == "reversed")

    cuts = table_of(events).cuts()

    assert [t for t, _ in cuts] == sorted({x for x, _ in events})[:-1]
    assert all(sides == brute_sides(events, t) for t, sides in cuts)


def test_sides_of_a_value_that_was_never_met_are_right() -> None:
    events = noisy(random.Random(2), 60)

    assert table_of(events).sides(0.0123) == brute_sides(events, 0.0123)


def test_a_sample_gives_what_the_table_gives() -> None:
    events = noisy(random.Random(3), 80, places=1)
    tabled, ordered = leaf_of([events], numeric_observer="ordered")
    sampled, sample = leaf_of([events], numeric_observer="sample", max_distinct=2)

    assert judge(tabled, 2, ordered) == judge(sampled, 2, sample)
    assert sampled.observers[0].entries() == 80  # type: ignore[union-attr]


def test_the_lowest_of_equal_cuts_wins() -> None:
    """Classes 0 1 0 at 1 2 3: cutting after 1 gains what cutting after 2 gains."""
    leaf, o = leaf_of([[(1.0, 0), (2.0, 1), (3.0, 0)]], numeric_observer="ordered")

    (best,), evaluations, _ = candidates(leaf, 2, o)

    assert (best.threshold, evaluations) == (1.0, 1)
    assert best.rival == -math.inf


def test_a_cut_needs_weight_on_both_sides() -> None:
    """The best cut after the single value 0 holds 1 of 200, less than a hundredth."""
    events = [(0.0, 1), *[(1.0 + i % 2, int(i % 8 == 0)) for i in range(199)]]
    leaf, o = leaf_of([events], numeric_observer="ordered")

    (best,), _, _ = candidates(leaf, 2, o)

    assert best.threshold == 1.0


def test_cuts_of_equal_gain_and_other_counts_are_doubtful() -> None:
    """The values 4, 3, 2, 1 tell of class 1 what 1, 2, 3, 4 tell of class 0."""
    events = [(1.0, 0)] * 2 + [(2.0, 1)] * 4 + [(3.0, 0)] * 4 + [(4.0, 1)] * 2
    leaf, o = leaf_of([events], numeric_observer="ordered", tau=0.0)

    (best,), _, _ = candidates(leaf, 2, o)

    gains = {t: leaf.gain({0: 6.0, 1: 6.0}, sides, o) for t, sides in table_of(events).cuts()}
    assert gains[1.0] == pytest.approx(gains[3.0])
    assert best.gain == pytest.approx(best.rival)
    assert judge(leaf, 2, o).doubtful


def test_missing_values_shrink_the_gain_and_all_missing_is_no_attribute() -> None:
    o = Options(numeric_observer="ordered")
    leaf = Leaf(0, 0, None, {}, frozenset())
    for i in range(8):
        row: Row = {0: float(i % 2)} if i < 4 else {}
        leaf.add(row, i % 2, 1.0, [NUMERIC, NUMERIC], o)

    (best,), evaluations, _ = candidates(leaf, 2, o)

    assert best.gain == pytest.approx(0.5)
    assert evaluations == 1
    assert leaf.missing == {0: 4.0, 1: 8.0}


# conversion -------------------------------------------------------------------------------


def test_a_table_with_too_many_values_becomes_boundaries_at_the_next_evaluation() -> None:
    events = [(float(i), i % 2) for i in range(11)]
    leaf, o = leaf_of([events], numeric_observer="ordered", max_distinct=10, intervals=5)
    assert isinstance(leaf.observers[0], Ordered)

    candidates(leaf, 2, o)

    histogram = histogram_of(leaf)
    assert histogram.edges == [2.0, 4.0, 6.0, 8.0]
    assert (histogram.details, histogram.pruned) == ({}, {0, 1, 2, 3, 4})
    assert [(t, sides) for t, sides in histogram.cuts()] == [
        (t, brute_sides(events, t)) for t in histogram.edges
    ]


def test_a_table_at_its_limit_stays() -> None:
    events = [(float(i), i % 2) for i in range(10)]
    leaf, o = leaf_of([events], numeric_observer="ordered", max_distinct=10)

    candidates(leaf, 2, o)

    assert isinstance(leaf.observers[0], Ordered)


def test_onlookers_convert_nothing() -> None:
    events = [(float(i), i % 2) for i in range(11)]
    leaf, o = leaf_of([events], numeric_observer="ordered", max_distinct=10, intervals=5)

    candidates(leaf, 2, o, settle=False)

    assert isinstance(leaf.observers[0], Ordered)


# intervals --------------------------------------------------------------------------------


def test_intervals_are_closed_above_and_open_outside() -> None:
    laid = IntervalHistogram.laid({0.0: {0: 1.0}, 4.0: {1: 1.0}}, 4, details=True)

    assert laid.edges == [1.0, 2.0, 3.0]
    assert [laid.interval(x) for x in (-9.0, 0.0, 1.0, 1.5, 2.0, 3.0, 3.1, 99.0)] == [
        0, 0, 0, 1, 1, 2, 3, 3,
    ]  # fmt: skip


def test_laying_intervals_needs_more_values_than_intervals() -> None:
    few, o = leaf_of([[(float(i), i % 2) for i in range(8)]], **INTERVALS)
    many, _ = leaf_of([[(float(i), i % 2) for i in range(9)]], **INTERVALS)

    for leaf in (few, many):
        candidates(leaf, 2, o)

    assert isinstance(few.observers[0], Ordered)
    assert histogram_of(many).pruned == set()


def test_intact_intervals_give_the_verdict_of_the_table() -> None:
    for seed in range(20):
        events = noisy(random.Random(seed), 200)
        by_intervals, o = leaf_of([events], **INTERVALS)
        by_table, plain = leaf_of([events], numeric_observer="ordered")

        given, expected = judge(by_intervals, 2, o), judge(by_table, 2, plain)

        assert given.best is not None
        assert expected.best is not None
        assert given.kind == expected.kind
        assert given.merit == pytest.approx(expected.merit)
        assert given.best.threshold == expected.best.threshold


def test_no_cut_inside_an_interval_exceeds_its_bounds() -> None:
    rng = random.Random(7)
    for trial in range(40):
        classes = 2 + trial % 3
        events = noisy(rng, 150, classes=classes)
        criterion = ("info_gain", "gini")[trial % 2]
        leaf, o = leaf_of([events], **INTERVALS, criterion=criterion, interval_bound="corner")
        loosely = Options(**INTERVALS, criterion=criterion, interval_bound="loose")  # type: ignore[arg-type]
        candidates(leaf, classes, o)
        histogram = histogram_of(leaf)

        corner = bounds_inside(leaf, histogram, classes, o)
        loose = bounds_inside(leaf, histogram, classes, loosely)

        known = crit.merged([leaf.seen])
        for t, sides in table_of(events).cuts():
            i = histogram.interval(t)
            assert leaf.gain(known, sides, o) <= corner[i] + 1e-12
        assert all(a <= b + 1e-12 for a, b in zip(corner, loose, strict=True))


def test_the_bound_of_an_empty_interval_is_the_gain_at_its_boundary() -> None:
    events = [
        (0.0, 0),
        (0.1, 0),
        (0.2, 1),
        (7.6, 1),
        (7.7, 0),
        (7.8, 1),
        (7.9, 1),
        (7.95, 1),
        (8.0, 1),
    ]
    leaf, o = leaf_of([events], **INTERVALS)
    candidates(leaf, 2, o)
    histogram = histogram_of(leaf)

    bounds = bounds_inside(leaf, histogram, 2, o)

    boundary = leaf.gain(leaf.seen, brute_sides(events, 3.0), o)
    assert bounds[3] == pytest.approx(boundary)
    assert bounds[1:7] == pytest.approx([boundary] * 6)


def test_missing_values_scale_the_bounds_as_they_scale_the_gains() -> None:
    events = noisy(random.Random(5), 60)
    leaf, o = leaf_of([events], **INTERVALS)
    candidates(leaf, 2, o)
    before = bounds_inside(leaf, histogram_of(leaf), 2, o)

    for i in range(60):
        leaf.add({}, i % 2, 1.0, [NUMERIC], o)

    after = bounds_inside(leaf, histogram_of(leaf), 2, o)
    assert after == pytest.approx([bound / 2.0 for bound in before])


@pytest.mark.parametrize(
    ("bound", "classes"), [("corner", 2), ("loose", 2), ("corner", 3), ("auto", 5)]
)
@pytest.mark.parametrize("criterion", ["info_gain", "gini"])
def test_kept_details_give_best_cut_and_decision_of_the_full_table(
    bound: str, classes: int, criterion: str
) -> None:
    """Two attributes, one of them useless, over many attempts of a growing leaf."""
    splits, pruned = 0, 0
    for seed in range(8):
        rng = random.Random(seed)
        loose = {"delta": 0.5, "tau": 0.0, "criterion": criterion}
        by_intervals, o = leaf_of([], **INTERVALS, **loose, interval_bound=bound)
        by_table, plain = leaf_of([], numeric_observer="ordered", **loose)
        for _ in range(12):
            one = noisy(rng, 25, classes)
            other = relabelled(noisy(rng, 25), one)
            grow(by_intervals, o, [one, other])
            grow(by_table, plain, [one, other])
            given, expected = (
                judge(node, classes, rules)
                for node, rules in ((by_intervals, o), (by_table, plain))
            )
            assert given.merit == pytest.approx(expected.merit, abs=1e-12)
            assert given.kind == expected.kind
            assert given.best is not None
            assert expected.best is not None
            assert given.best.feature == expected.best.feature
            assert given.best.branches == expected.best.branches
            splits += given.kind != "none"
            prune_after_failure(by_intervals, given, classes, o)
            pruned += sum(len(histogram_of(by_intervals, i).pruned) for i in (0, 1))
    assert splits > 0
    assert pruned > 0


def test_a_hopeless_attribute_is_pruned_and_its_details_are_kept_or_dropped() -> None:
    good = [(float(i), int(i >= 50)) for i in range(100)]
    useless = [(float(i % 50), y) for i, (_, y) in enumerate(good)]
    for details in ("keep", "discard"):
        leaf, o = leaf_of([good, useless], **INTERVALS, delta=0.5, interval_details=details)
        prune_after_failure(leaf, judge(leaf, 2, o), 2, o)

        histogram = histogram_of(leaf, 1)

        assert histogram.pruned == set(range(8))
        assert histogram.entries() == (50 if details == "keep" else 0)
        assert [t for t, _ in histogram.cuts()] == histogram.edges


def test_the_interval_that_holds_the_best_cut_is_never_pruned() -> None:
    good = [(float(i), int(i >= 50)) for i in range(100)]
    leaf, o = leaf_of([good], **INTERVALS, delta=0.999)

    verdict = judge(leaf, 2, o)
    prune_after_failure(leaf, verdict, 2, o)

    histogram = histogram_of(leaf)
    assert verdict.best is not None
    assert verdict.best.threshold == 49.0
    assert histogram.interval(49.0) not in histogram.pruned
    assert {0, 7} <= histogram.pruned


def stale(details: str) -> tuple[Leaf, Options]:
    """A leaf whose useless attribute was pruned, and which became the good one afterwards."""
    good = [(float(i), int(i >= 50)) for i in range(100)]
    useless = [(float(i % 50), y) for i, (_, y) in enumerate(good)]
    leaf, o = leaf_of([good, useless], **INTERVALS, delta=0.5, interval_details=details)
    prune_after_failure(leaf, judge(leaf, 2, o), 2, o)
    for i in range(3000):
        y = int(i % 50 >= 21)
        leaf.add({0: float(i * 37 % 100), 1: float(i % 50)}, y, 1.0, [NUMERIC] * 2, o)
    return leaf, o


def test_a_pruned_interval_reopens_when_it_might_hold_the_best_cut() -> None:
    leaf, o = stale("keep")

    verdict = judge(leaf, 2, o)

    assert verdict.best is not None
    assert (verdict.best.feature, verdict.best.threshold) == (1, 20.0)
    assert histogram_of(leaf, 1).interval(20.0) not in histogram_of(leaf, 1).pruned


def test_an_onlooker_sees_reopened_intervals_and_leaves_them_pruned() -> None:
    leaf, o = stale("keep")
    before = set(histogram_of(leaf, 1).pruned)

    seen = judge(leaf, 2, o, settle=False)

    assert histogram_of(leaf, 1).pruned == before
    assert seen == judge(leaf, 2, o)


def test_a_discarded_interval_stays_pruned_and_offers_its_boundary() -> None:
    leaf, o = stale("discard")
    histogram = histogram_of(leaf, 1)

    verdict = judge(leaf, 2, o)

    assert verdict.best is not None
    assert verdict.best.feature == 1
    assert verdict.best.threshold in histogram.edges
    assert histogram.pruned == set(range(8))
    assert histogram.entries() == 0


def test_without_details_a_cut_inside_an_interval_takes_the_whole_interval() -> None:
    table: dict[float, dict[int, float]] = {0.0: {0: 2.0}, 1.5: {0: 1.0}, 4.0: {1: 3.0}}
    kept = IntervalHistogram.laid(table, 4, details=True)
    dropped = IntervalHistogram.laid(table, 4, details=False)

    assert kept.sides(1.2) == ({0: 2.0}, {0: 1.0, 1: 3.0})
    assert dropped.sides(1.2) == ({0: 3.0}, {1: 3.0})
    assert kept.sides(2.0) == dropped.sides(2.0)


def test_more_than_four_classes_of_the_tree_take_the_loose_bound() -> None:
    events = noisy(random.Random(11), 80)
    leaf, o = leaf_of([events], **INTERVALS)
    candidates(leaf, 2, o)
    loosely = Options(**INTERVALS, interval_bound="loose")  # type: ignore[arg-type]
    histogram = histogram_of(leaf)

    assert bounds_inside(leaf, histogram, 4, o) != bounds_inside(leaf, histogram, 4, loosely)
    assert bounds_inside(leaf, histogram, 5, o) == bounds_inside(leaf, histogram, 5, loosely)


def test_an_installed_cut_is_measured_whether_admissible_or_not() -> None:
    events = noisy(random.Random(13), 50)
    leaf, o = leaf_of([events], numeric_observer="ordered")

    found = measured(leaf, NUMERIC, 0, -1, 99.0, (), o)

    assert found.gain == pytest.approx(0.0)
    assert found.branches[1] == {}


# naive Bayes ------------------------------------------------------------------------------


def test_bins_are_at_most_ten_and_close_at_their_upper_end() -> None:
    """Range 0 to 10 in ten bins of width 1."""
    bins = table_of([(float(i), 0) for i in range(11)]).bins()

    places = [bins.place(x) for x in (-5.0, 0.0, 1.0, 1.01, 2.0, 9.5, 10.0, 99.0)]

    assert (bins.number, places) == (10, [1, 1, 1, 2, 2, 10, 10, 10])
    assert bins.counts[1] == {0: 2.0}


def test_shares_of_the_bins_are_smoothed_and_sum_to_one() -> None:
    events = noisy(random.Random(17), 90)

    bins = table_of(events).bins()

    inside = range(1, 11)
    for k in (0, 1):
        n_k = sum(y == k for _, y in events)
        assert sum(bins.counts[q].get(k, 0.0) for q in inside) == n_k
        share = math.exp(bins.log_likelihood(0.0, k))
        at = bins.place(0.0)
        inside_bin = sum(y == k and bins.place(x) == at for x, y in events)
        assert share == pytest.approx((inside_bin + 1) / (n_k + 10))


def test_one_distinct_value_has_one_bin_that_says_nothing() -> None:
    bins = table_of([(3.0, 0), (3.0, 1)]).bins()

    assert (bins.number, bins.log_likelihood(7.0, 0)) == (1, 0.0)


def test_laid_intervals_merge_to_ten_bins() -> None:
    laid = IntervalHistogram.laid({float(i): {0: 1.0} for i in range(41)}, 20, details=True)

    bins = laid.bins()

    assert bins.number == 10
    assert [bins.place(x) for x in (0.0, 4.0, 4.1, 39.0, 99.0)] == [1, 1, 2, 10, 10]
    assert bins.counts[1] == {0: 5.0}


def test_fewer_intervals_than_bins_leave_bins_empty() -> None:
    laid = IntervalHistogram.laid({0.0: {0: 1.0}, 1.0: {1: 1.0}, 2.0: {0: 1.0}}, 2, details=True)

    bins = laid.bins()

    assert (bins.number, bins.place(0.0), bins.place(2.0)) == (10, 1, 6)


def test_tables_are_built_when_the_weight_doubles_and_then_every_n_min() -> None:
    o = Options(numeric_observer="ordered", leaf_predictor="nb", n_min=10.0)
    leaf = Leaf(0, 0, None, {}, frozenset())
    built = []
    for i in range(40):
        leaf.add({0: float(i)}, i % 2, 1.0, [NUMERIC], o)
        built.append(leaf.built)

    assert sorted(set(built)) == [1.0, 2.0, 4.0, 8.0, 16.0, 26.0, 36.0]


def test_naive_bayes_reads_the_table_of_the_last_build_and_skips_new_columns() -> None:
    o = Options(numeric_observer="ordered", leaf_predictor="nb", n_min=100.0)
    leaf = Leaf(0, 0, None, {}, frozenset())
    for x, y in ((0.0, 0), (1.0, 1), (0.0, 0), (1.0, 1)):
        leaf.add({0: x}, y, 1.0, [NUMERIC] * 2, o)
    leaf.add({0: 1.0, 1: 5.0}, 1, 1.0, [NUMERIC] * 2, o)

    posterior = naive_bayes(leaf, {0: 0.0, 1: 5.0})

    ratio = (2 / 5) / (3 / 5) * ((2 + 1) / (2 + 2)) / ((0 + 1) / (2 + 2))
    assert posterior[0] / posterior[1] == pytest.approx(ratio)


# nominal subsets --------------------------------------------------------------------------


def test_the_best_prefix_is_the_best_subset() -> None:
    rng = random.Random(19)
    for trial in range(60):
        values = rng.randrange(2, 7)
        o = Options(
            nominal_split="subset",
            min_branch_fraction=0.0,
            criterion=("info_gain", "gini")[trial % 2],
        )
        leaf = Leaf(0, 0, None, {}, frozenset())
        for _ in range(60):
            v = rng.randrange(values)
            leaf.add({0: v}, int(rng.random() < v / values), 1.0, [NOMINAL], o)
        observer = leaf.observers[0]
        assert isinstance(observer, Nominal)

        ranked, _, _ = candidates(leaf, 2, o)

        met = sorted(observer.table)
        every = [
            leaf.gain(observer.known(), observer.inside(chosen), o)
            for size in range(1, len(met))
            for chosen in itertools.combinations(met, size)
        ]
        assert ranked[0].gain == pytest.approx(max(every), abs=1e-12)


def test_the_set_holds_the_values_poorest_in_class_one() -> None:
    """Shares 1, 0, 1, 0 of the values 0 to 3: the set is {1, 3}, ties give the lower code."""
    o = Options(nominal_split="subset")
    leaf = Leaf(0, 0, None, {}, frozenset())
    for v, y in ((0, 1), (1, 0), (2, 1), (3, 0)) * 5:
        leaf.add({0: v}, y, 1.0, [NOMINAL], o)
    observer = leaf.observers[0]
    assert isinstance(observer, Nominal)

    (best,), _, _ = candidates(leaf, 2, o)

    assert (best.kind, best.values) == ("subset", (1, 3))
    assert best.branches == ({0: 10.0}, {1: 10.0})
    assert observer.prefixes() == [(1,), (1, 3), (0, 1, 3)]


def test_three_classes_test_one_value_against_the_rest() -> None:
    o = Options(nominal_split="subset")
    leaf = Leaf(0, 0, None, {}, frozenset())
    for i in range(12):
        leaf.add({0: i % 4}, int(i % 4 == 2), 1.0, [NOMINAL], o)

    (best,), _, _ = candidates(leaf, 3, o)

    assert (best.kind, best.values) == ("equal", (2,))
