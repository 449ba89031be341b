"""Every variant grows the tree of its slow twin: tiny periods, so that much happens."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import strategies as st

from learner import VARIANTS
from streams import open_stream
from tests.learner.concepts import Concept
from tests.learner.test_against_oracle import grow_together, noisy, options, runs
from tests.learner.twins import Twins
from tests.oracle.leaf import Options

TIMINGS = st.sampled_from(["periodic", "cgd", "osm", "imac"])
TESTS = st.sampled_from(["hoeffding", "normal_min", "normal_strict"])
COVARIANCE = st.sampled_from(["independent", "worst_case"])
PLAIN = {"new_leaf": "separate", "audit_fraction": 0.0}
# Measures that are followed by increments break ties between equal candidates by their last digit.
FOLLOWED_TIES = 0.15
FOLLOWING: dict[str, object] = {"mu": 9.0, "max_wait": 35.0}


def varied(**drawn: st.SearchStrategy[object]) -> st.SearchStrategy[Options]:
    """Options under which much happens, some of them drawn as asked for."""
    names = list(drawn)
    return st.builds(
        lambda o, values: replace(o, **dict(zip(names, values, strict=True))),
        options(**PLAIN),
        st.tuples(*drawn.values()),
    ).map(without_contradictions)


def without_contradictions(o: Options) -> Options:
    """What the learner would refuse is left out."""
    if o.timing == "imac":
        split = "multiway" if o.nominal_split == "subset" else o.nominal_split
        o = replace(o, refine_threshold=False, nominal_split=split)
    if o.policy == "commit_once":
        o = replace(o, refine_threshold=False, collapse_after=0.0)
    return o


def example(concept: Concept, option: Options) -> None:
    """Same tree and the same history, and the same answers afterwards."""
    twins = grow_together(concept, option)
    twins.compare_splits()
    unlabelled = replace(concept, missing=0.3).events(330)
    twins.compare_predictions(row for row, _, _ in itertools.islice(unlabelled, 300, 320))


def test_same_tree_with_predicted_split_times() -> None:
    chosen = varied(
        timing=st.sampled_from(["cgd", "osm"]),
        split_test=TESTS,
        covariance=COVARIANCE,
        n_first=st.sampled_from([0.0, 12.0]),
        max_wait=st.sampled_from([7.0, 60.0, 1000.0]),
        new_leaf=st.sampled_from(["separate", "empty"]),
    )
    runs(example, chosen, 40)


def test_same_tree_with_followed_candidates() -> None:
    chosen = varied(
        timing=st.just("imac"),
        split_test=TESTS,
        mu=st.sampled_from([4.0, 9.0, 30.0]),
        candidates=st.sampled_from([0, 2, 3]),
        mu_swaps=st.sampled_from(["one", "all"]),
        min_attempt_gap=st.sampled_from([1.0, 5.0]),
        new_leaf=st.sampled_from(["separate", "inherit", "empty"]),
        criterion=st.just("info_gain"),
    )
    runs(example, chosen, 40, ties=FOLLOWED_TIES)


def test_same_tree_with_followed_candidates_and_gini() -> None:
    chosen = varied(timing=st.just("imac"), criterion=st.just("gini"), mu=st.just(9.0))
    runs(example, chosen, 15, ties=FOLLOWED_TIES)


def test_same_tree_with_the_normal_test() -> None:
    chosen = varied(
        split_test=st.sampled_from(["normal_min", "normal_strict"]),
        covariance=COVARIANCE,
        delta=st.sampled_from([1e-3, 0.01, 0.1]),
        nominal_split=st.sampled_from(["multiway", "binary", "subset"]),
    )
    runs(example, chosen, 30)


def test_same_tree_where_splits_are_looked_at_again() -> None:
    chosen = varied(
        policy=st.sampled_from(["anytime", "anytime", "anytime_eager"]),
        reevaluate_every=st.sampled_from([7.0, 20.0, 60.0]),
        refine_threshold=st.booleans(),
        collapse_after=st.sampled_from([0.0, 0.0, 25.0]),
        split_test=TESTS,
        new_leaf=st.sampled_from(["separate", "empty"]),
        nominal_split=st.sampled_from(["multiway", "binary", "subset"]),
    )
    runs(example, chosen, 50)


def test_same_tree_where_splits_are_looked_at_again_by_any_timing() -> None:
    chosen = varied(
        policy=st.sampled_from(["anytime", "anytime_eager"]),
        timing=st.sampled_from(["cgd", "osm", "imac"]),
        reevaluate_every=st.sampled_from([7.0, 20.0]),
        mu=st.sampled_from([4.0, 9.0]),
        max_wait=st.just(60.0),
    )
    runs(example, chosen, 40, ties=FOLLOWED_TIES)


def test_same_tree_with_every_value_as_a_cut() -> None:
    chosen = varied(
        numeric_observer=st.sampled_from(["ordered", "sample"]),
        max_distinct=st.sampled_from([60, 20_000]),
        intervals=st.sampled_from([5, 20]),
        timing=TIMINGS,
        **{name: st.just(value) for name, value in FOLLOWING.items()},
    )
    runs(example, chosen, 40, ties=FOLLOWED_TIES)


def test_same_tree_with_pruned_intervals() -> None:
    chosen = varied(
        numeric_observer=st.just("intervals"),
        intervals=st.sampled_from([4, 8, 16]),
        interval_details=st.sampled_from(["keep", "discard"]),
        interval_bound=st.sampled_from(["auto", "corner", "loose"]),
        nominal_split=st.sampled_from(["multiway", "subset"]),
        split_test=st.sampled_from(["hoeffding", "normal_min"]),
    )
    runs(example, chosen, 40)


def test_same_tree_with_pruned_intervals_at_every_node() -> None:
    chosen = varied(
        numeric_observer=st.sampled_from(["ordered", "intervals"]),
        intervals=st.sampled_from([4, 8]),
        policy=st.just("anytime"),
        timing=st.sampled_from(["periodic", "imac"]),
        reevaluate_every=st.just(20.0),
        mu=st.just(9.0),
    )
    runs(example, chosen, 25, ties=FOLLOWED_TIES)


def test_same_queues_when_memory_is_rationed() -> None:
    """Budgets that hold everything, or one node at a time: both sides count bytes differently."""
    chosen = varied(
        queue_bytes=st.sampled_from([1, 10**9]),
        queue_order=st.sampled_from(["fifo", "promise"]),
        stop_purity=st.sampled_from([0.0, 0.9]),
        stop_depth=st.sampled_from([0, 2, 4]),
        stop_share=st.just(0.0),
        reopen=st.booleans(),
        numeric_observer=st.sampled_from(["gaussian", "intervals"]),
        intervals=st.just(8),
        nominal_split=st.sampled_from(["subset", "multiway"]),
    )
    runs(example, chosen, 30)


@pytest.mark.parametrize("timing", ["periodic", "cgd", "osm", "imac"])
def test_same_delays_behind_the_reference(timing: str) -> None:
    chosen = varied(
        timing=st.just(timing),
        reference_from=st.sampled_from([1.0, 10.0]),
        mu=st.just(9.0),
        max_wait=st.just(60.0),
    )

    def delayed(concept: Concept, option: Options) -> None:
        twins = grow_together(concept, option)
        twins.compare_splits()
        assert twins.tree.unresolved() == twins.oracle.unresolved  # type: ignore[attr-defined]

    runs(delayed, chosen, 15, noisy, ties=FOLLOWED_TIES)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("name", "settings_of_stream"),
    [
        ("rtg", {"classes": 3, "nominal": 3, "numeric": 3}),
        ("sea", {}),
        ("agrawal", {"function": 2}),
        ("led", {}),
        ("waveform21", {}),
        ("tweets", {"words": 100}),
    ],
)
def test_same_tree_of_every_variant_on_the_streams_of_the_papers(
    variant: str, name: str, settings_of_stream: dict[str, object]
) -> None:
    """The variant's own defaults, with periods short enough for a slow twin."""
    stream = open_stream(name, 1, **settings_of_stream)
    short = {
        "n_min": 50.0, "n_first": 60.0, "mu": 40.0, "reevaluate_every": 150.0, "delta": 1e-3,
        "tau": 0.25, "stop_share": 0.0, "max_wait": 500.0,
    }  # fmt: skip
    option = replace(Options(), **{**VARIANTS[variant].defaults, **short})
    twins = Twins(stream.schema, option)

    twins.learn_batch(*stream.take(1500))

    assert twins.oracle.splits
    twins.compare_splits()
