"""What the papers claim, and what the specification adds, as properties of the fast learner."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learner import Encoder, Feature, Kind, Schema, Snapshot, StreamingTree
from learner.kernels.bound import GINI, INFO_GAIN, hoeffding_bound, hoeffding_count
from learner.kernels.candidate import entropy_growth, gini_growth
from learner.kernels.normal import deviation
from learner.kernels.tree import NODES
from learner.params import TreeParams, normal_quantile
from learner.scratch import whole_xlog2x
from streams import open_stream
from tests.learner.concepts import Concept
from tests.oracle import criterion as crit

Table = list[list[float]]


def taught(concept: Concept, count: int, variant: str = "vfdt", **params: Any) -> StreamingTree:
    """A tree that has learned a concept, event by event."""
    tree = StreamingTree(Encoder(concept.schema()), variant, **params)
    for row, label, weight in concept.events(count):
        batch, y = tree.encoder.encode([row]), tree.encoder.encode_labels([label])
        tree.learn(batch, y, np.array([weight]))
    return tree


def structure_of(snapshot: Snapshot) -> list[tuple[int, str | None, tuple[int, ...]]]:
    return [(view.id, view.test, view.children) for view in snapshot.walk()]


Floats = npt.NDArray[np.float64]

# measures -------------------------------------------------------------------------------------

events_of_a_branch = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from([1.0, 0.25, 1e-6, 100.0, 0.3])), max_size=200
)


def growth(criterion: int, total: float, counts: Floats, k: int, weight: float) -> float:
    """What an event adds to a measure; L(z) is looked up for small whole weights."""
    if criterion == GINI:
        return gini_growth(total, counts, k, weight)
    return entropy_growth(whole_xlog2x(40), total, counts[k], weight)


@settings(max_examples=100)
@given(events_of_a_branch, st.sampled_from([INFO_GAIN, GINI]))
def test_incremental_measure_equals_a_recount_after_any_sequence(
    events: list[tuple[int, float]], criterion: int
) -> None:
    """From empty, with first events of a branch and of a class among them."""
    counts, total, measure = np.zeros(5), 0.0, 0.0
    for k, weight in events:
        measure += growth(criterion, total, counts, k, weight)
        counts[k] += weight
        total += weight
    name = "info_gain" if criterion == INFO_GAIN else "gini"
    expected = crit.impurity_sum(dict(enumerate(counts.tolist())), name)
    assert measure == pytest.approx(expected, abs=1e-9 * max(1.0, total))


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([1.0, 0.25])), max_size=100),
       st.sampled_from([INFO_GAIN, GINI]))  # fmt: skip
def test_incremental_measure_can_forget_what_it_learned(
    events: list[tuple[int, float]], criterion: int
) -> None:
    counts, total, measure = np.zeros(5), 0.0, 0.0
    for k, weight in events:
        measure += growth(criterion, total, counts, k, weight)
        counts[k] += weight
        total += weight
    for k, weight in events[:-1]:
        measure += growth(criterion, total, counts, k, -weight)
        counts[k] -= weight
        total -= weight
    assert measure == pytest.approx(0.0, abs=1e-9)  # one event is left, which is pure


# bounds ---------------------------------------------------------------------------------------


@given(st.floats(0.5, 5.0), st.floats(1e-9, 0.5), st.floats(1.0, 1e6))
def test_count_of_the_bound_is_its_inverse(R: float, delta: float, n: float) -> None:
    log_inverse = math.log(1.0 / delta)
    epsilon = hoeffding_bound(R, log_inverse, n)
    assert hoeffding_count(R, log_inverse, epsilon) == pytest.approx(n)
    assert hoeffding_bound(R, log_inverse, 1.01 * n) < epsilon


@pytest.mark.parametrize(
    ("delta", "z"), [(0.5, 0.0), (0.025, 1.959964), (1e-3, 3.090232), (1e-7, 5.199338)]
)
def test_normal_quantile(delta: float, z: float) -> None:
    assert normal_quantile(delta) == pytest.approx(z, abs=2e-6)


@pytest.mark.parametrize("criterion", [INFO_GAIN, GINI])
def test_deviation_of_a_gain_is_that_of_many_samples(criterion: int) -> None:
    """The delta method against 4,000 drawn tables of 2,000 events."""
    rng = np.random.default_rng(5)
    shares, n = np.array([[0.35, 0.15], [0.1, 0.4]]), 2000
    draws = rng.multinomial(n, shares.ravel(), size=4000).reshape(-1, 2, 2)
    name = "info_gain" if criterion == INFO_GAIN else "gini"
    found = [
        crit.gain(
            dict(enumerate(table.sum(axis=0).tolist())),
            [dict(enumerate(row)) for row in table.tolist()],
            criterion=name,
        )
        for table in draws
    ]
    sigma = deviation(criterion, n * shares, 2, 2, float(n), np.zeros(2))
    assert sigma / math.sqrt(n) == pytest.approx(float(np.std(found)), rel=0.05)


@pytest.mark.parametrize("seed", range(6))
def test_normal_min_never_needs_more_events_than_hoeffding(seed: int) -> None:
    """On the same statistics: at the root, looked at after every event."""
    concept = Concept(seed=seed, numeric=2, nominal=2, classes=2, noise=0.3)
    first = {}
    for test in ("hoeffding", "normal_min"):
        tree = taught(concept, 700, n_min=1.0, delta=1e-4, tau=0.0, split_test=test)
        roots = [split.n for split in tree.take_splits() if split.node == 0]
        first[test] = roots[0] if roots else math.inf
    assert first["normal_min"] <= first["hoeffding"]


# imac, osm, cgd ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_imac_on_nominal_events_splits_when_an_every_event_tree_does(seed: int) -> None:
    """Everything followed, exact counts: no delay."""
    concept = Concept(seed=seed, numeric=0, nominal=4, classes=3, noise=0.3)
    common = {"delta": 0.01, "tau": 0.15, "audit_fraction": 0.0}
    followed = taught(concept, 1500, "imac", n_first=30.0, candidates=4, mu=1.0, **common)
    every = taught(concept, 1500, "vfdt", n_first=30.0, n_min=1.0, **common)

    assert followed.shape().nodes > 3
    assert structure_of(followed.snapshot()) == structure_of(every.snapshot())
    assert followed.counters().split_attempts < every.counters().split_attempts / 5


@pytest.mark.parametrize("seed", range(3))
def test_imac_with_exact_observers_grows_the_every_event_tree(seed: int) -> None:
    concept = Concept(seed=seed, numeric=2, nominal=1, classes=2, noise=0.2)
    common = {
        "delta": 0.01, "tau": 0.15, "audit_fraction": 0.0, "numeric_observer": "ordered",
        "n_first": 30.0,
    }  # fmt: skip
    followed = taught(concept, 600, "imac", candidates=3, mu=1.0, **common)
    every = taught(concept, 600, "vfdt", n_min=1.0, **common)

    assert structure_of(followed.snapshot()) == structure_of(every.snapshot())


@pytest.mark.parametrize("timing", ["cgd", "osm"])
@pytest.mark.parametrize("seed", range(5))
def test_predicted_times_need_fewer_attempts_and_never_miss_the_tie(timing: str, seed: int) -> None:
    concept = Concept(seed=seed, numeric=1, nominal=3, classes=2, noise=0.8)
    common = {"n_min": 20.0, "delta": 1e-3, "tau": 0.15, "audit_fraction": 0.0}
    predicted = taught(concept, 2500, timing, **common)
    periodic = taught(concept, 2500, "vfdt", **common)

    assert predicted.counters().split_attempts <= periodic.counters().split_attempts
    tie = hoeffding_count(1.0, math.log(1e3), 0.15)
    for split in predicted.take_splits():
        assert split.n <= max(math.ceil(tie) + 1.0, 20.0)


# efdt -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 12, 13])
def test_efdt_tests_what_vfdt_tests_when_vfdt_splits_its_root(seed: int) -> None:
    """[MWS18] Lemma 3.1: equal periods, no ties, exact observers."""
    concept = Concept(seed=seed, numeric=1, nominal=3, classes=2, noise=0.2)
    exact = {
        "n_min": 10.0, "delta": 0.02, "tau": 0.0, "numeric_observer": "ordered",
        "min_branch_fraction": 0.0, "leaf_predictor": "mc",
    }  # fmt: skip
    vfdt = StreamingTree(Encoder(concept.schema()), "vfdt", **exact)
    efdt = StreamingTree(Encoder(concept.schema()), "efdt", reevaluate_every=10.0, **exact)
    for row, label, _ in concept.events(4000):
        for tree in (vfdt, efdt):
            tree.learn(tree.encoder.encode([row]), tree.encoder.encode_labels([label]))
        if vfdt.shape().nodes > 1:
            break
    assert vfdt.shape().nodes > 1
    roots = [next(tree.snapshot().walk()) for tree in (vfdt, efdt)]
    assert roots[0].feature == roots[1].feature


def test_replaced_subtrees_give_all_their_memory_back() -> None:
    """Two rules in turn: splits are replaced, and every count is that of a recount."""
    rng = np.random.default_rng(2)
    schema = Schema(tuple(Feature(f"v{i}", Kind.NOMINAL) for i in range(3)))
    tree = StreamingTree(
        Encoder(schema), "efdt", n_min=20.0, reevaluate_every=40.0, delta=0.05, tau=0.05
    )
    for turn in range(8):
        draws = rng.integers(0, 4, size=(1500, 3))
        labels = draws[:, turn % 3] // 2
        tree.learn(tree.encoder.encode(draws.tolist()), tree.encoder.encode_labels(labels.tolist()))
        views = list(tree.snapshot().walk())
        assert len(views) == tree.shape().nodes == int(tree._tree.counts[NODES])
        slots = tree._tree.node["slot"][: len(views)]
        assert sorted(set(slots.tolist())) == sorted(slots.tolist())
        assert tree.shape().leaves == tree.shape().active_leaves
    assert tree.counters().splits_replaced >= 2
    assert len(tree._tree.slot) < 4096
    assert StreamingTree.from_bytes(tree.to_bytes()).hash() == tree.hash()


def test_stationary_stream_with_one_strong_attribute_keeps_its_root() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        schema = Schema(tuple(Feature(f"x{i}", Kind.NUMERIC) for i in range(3)), ("no", "yes"))
        tree = StreamingTree(Encoder(schema), "efdt", n_min=50.0, reevaluate_every=100.0)
        matrix = rng.normal(size=(20_000, 3))
        y = (matrix[:, 0] + 0.3 * rng.normal(size=20_000) > 0).astype(np.int32)
        tree.learn(matrix, y)
        late = [s for s in tree.take_splits() if s.node == 0 and s.event > 4000]
        assert not [s for s in late if s.kind == "replace"]


def test_efdt_that_never_looks_again_is_a_tree_that_commits_once() -> None:
    concept = Concept(seed=4, numeric=2, nominal=2, classes=3, noise=0.2)
    common = {"n_min": 20.0, "delta": 0.05, "tau": 0.1, "leaf_predictor": "mc"}
    tree = taught(concept, 1500, "efdt", reevaluate_every=1e9, **common)
    assert tree.shape().nodes > 10
    assert tree.counters().reevaluations == 0
    assert {split.second_merit for split in tree.take_splits()} == {0.0}


# streamtree -------------------------------------------------------------------------------------


def test_streamtree_without_limits_is_vfdt_with_exact_binary_splits() -> None:
    concept = Concept(seed=6, numeric=2, nominal=2, classes=2, noise=0.2)
    common = {
        "n_min": 20.0, "n_first": 20.0, "delta": 0.05, "tau": 0.1, "numeric_observer": "ordered",
        "nominal_split": "binary", "split_test": "hoeffding", "audit_fraction": 0.0,
    }  # fmt: skip
    unlimited = {"queue_bytes": 2**60, "stop_purity": 0.0, "stop_depth": 0, "stop_share": 0.0}
    streamtree = taught(concept, 2000, "streamtree", **common, **unlimited)
    vfdt = taught(concept, 2000, "vfdt", **common)

    assert vfdt.shape().nodes > 10
    assert structure_of(streamtree.snapshot()) == structure_of(vfdt.snapshot())


@pytest.mark.parametrize("details", ["keep", "discard"])
def test_queues_hold_their_budget(details: str) -> None:
    """Statistics never exceed the budget by more than what one event can add."""
    source = open_stream("agrawal", 1, function=7)
    tree = StreamingTree(
        Encoder(source.schema), "streamtree", queue_bytes=400_000, n_first=500.0, n_min=200.0,
        stop_share=0.002, tau=0.2, interval_details=details, intervals=100,
    )  # fmt: skip
    active = []
    for _ in range(60):
        tree.learn(*source.take(1000))
        shape, counters = tree.shape(), tree.counters()
        active.append(shape.active_leaves)
        nodes = shape.nodes * (256 + 2 * 8 * 2)
        assert tree.memory_bytes() - nodes <= 400_000 + 200_000 or shape.active_leaves == 1
        assert counters.events_counted <= counters.events
    assert tree.shape().nodes > 5
    assert min(active) < tree.shape().leaves


def test_streamtree_ends_when_nothing_is_left_to_learn() -> None:
    source = open_stream("sea", 1, noise=0.0)
    tree = StreamingTree(
        Encoder(source.schema), "streamtree", stop_depth=2, n_first=500.0, n_min=500.0, tau=0.2
    )
    tree.learn(*source.take(40_000))
    counters, shape = tree.counters(), tree.shape()
    assert shape.active_leaves == 0
    assert 0 < counters.events_until_done <= 40_000
    assert counters.events_counted <= counters.events_until_done
    assert shape.depth <= 2


def test_pruned_intervals_make_the_first_split_of_a_full_histogram() -> None:
    """[JA03] Theorem 2: same event, attribute and merit; cuts may differ, as edges are cuts too."""
    source = open_stream("agrawal", 1, function=6)
    batch, y = source.take(30_000)
    common = {
        "n_first": 1000.0, "n_min": 500.0, "delta": 1e-12, "split_test": "hoeffding",
        "nominal_split": "binary", "audit_fraction": 0.0,
    }  # fmt: skip
    first = {}
    for observer in ("ordered", "intervals"):
        tree = StreamingTree(Encoder(source.schema), "vfdt", numeric_observer=observer, **common)
        tree.learn(batch, y)
        first[observer] = tree.take_splits()[0]
    full, pruned = first["ordered"], first["intervals"]
    assert (pruned.event, pruned.feature, pruned.kind) == (full.event, full.feature, full.kind)
    assert pruned.merit == pytest.approx(full.merit, abs=1e-12) != 0.0
    assert pruned.event > 1000  # not the first attempt: intervals had been pruned by then


# vfdtc ------------------------------------------------------------------------------------------


def test_vfdtc_tree_does_not_depend_on_how_leaves_predict() -> None:
    concept = Concept(seed=9, numeric=3, nominal=1, classes=3, missing=0.1, noise=0.2)
    trees = [
        taught(concept, 1500, "vfdtc", leaf_predictor=name, n_min=20.0, delta=0.05, tau=0.2)
        for name in ("mc", "nb", "nba")
    ]
    assert trees[0].shape().nodes > 10
    assert len({str(structure_of(tree.snapshot())) for tree in trees}) == 1


def test_order_of_insertion_does_not_change_the_counts_of_an_ordered_map() -> None:
    rng = np.random.default_rng(1)
    values = np.round(rng.normal(size=400), 1)
    y = (values > 0.3).astype(np.int32)
    found = set()
    for order in (np.argsort(values), np.argsort(-values), rng.permutation(400)):
        schema = Schema((Feature("x", Kind.NUMERIC),), ("no", "yes"))
        tree = StreamingTree(Encoder(schema), "vfdtc", n_min=400.0, delta=0.5)
        tree.learn(values[order].reshape(-1, 1), y[order])
        (split,) = tree.take_splits()
        found.add((split.test, round(split.merit, 12)))
    assert len(found) == 1
    assert found.pop()[0] == "x <= 0.3"


# what cannot be ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"timing": "imac", "nominal_split": "subset"}, "cannot be followed"),
        ({"policy": "anytime", "queue_bytes": 10}, "no statistics to look at again"),
        ({"queue_bytes": 10, "max_memory_bytes": 10}, "same memory"),
        ({"policy": "anytime", "new_leaf": "inherit"}, "own events"),
        ({"policy": "anytime", "remove_poor": True}, "needs every attribute"),
        ({"timing": "imac", "remove_poor": True}, "its own set"),
        ({"refine_threshold": True}, "not looked at again"),
        ({"collapse_after": 5.0}, "not looked at again"),
        ({"timing": "imac", "candidates": 1}, "second best"),
        ({"reference_from": 100.0, "policy": "anytime"}, "commits once"),
    ],
)
def test_a_meaningless_combination_is_refused_with_the_reason(
    params: dict[str, Any], reason: str
) -> None:
    from learner import ParamsError

    with pytest.raises(ParamsError, match=reason):
        TreeParams.from_mapping(params)


def test_events_of_a_leaf_are_in_order() -> None:
    """Splits are recorded in the order of events."""
    tree = taught(replace(Concept(seed=3), noise=0.2), 800, n_min=10.0, delta=0.1, tau=0.2)
    times = [split.event for split in tree.take_splits()]
    assert all(a <= b for a, b in pairwise(times))
