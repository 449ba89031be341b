"""Why not yet: the same numbers as an attempt, and no trace of having asked."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import Phase, given, settings

from learner import VARIANTS, Encoder, LeafCopy, Prospect, StreamingTree, UnknownNode
from learner.kernels.tree import ENDED, PURE
from tests.learner.concepts import Concept
from tests.learner.test_against_oracle import mixed, options
from tests.learner.test_facts import CONCEPT, grown
from tests.learner.twins import DOUBT, RELATIVE, Twins
from tests.oracle.history import UNKNOWN, split_weight
from tests.oracle.leaf import Leaf, Options

VARIED: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in VARIANTS),
    ("vfdtc", {"max_distinct": 30, "intervals": 8, "leaf_predictor": "nba"}),
    ("streamtree", {"queue_bytes": 20_000, "interval_details": "discard"}),
    ("vfdt", {"numeric_observer": "sample", "leaf_predictor": "nba"}),
    ("efdt", {"timing": "imac", "mu": 10.0}),
    ("vfdt", {"max_memory_bytes": 12_000, "memory_check_every": 50}),
]


def leaves_of(tree: StreamingTree) -> list[int]:
    return [view.id for view in tree.snapshot().walk() if view.kind == "leaf"]


def prospect_of(tree: StreamingTree, leaf: int) -> Prospect:
    return tree.copy_leaf(leaf).prospect()


@pytest.mark.parametrize(("variant", "params"), VARIED)
def test_asking_leaves_no_trace(variant: str, params: dict[str, Any]) -> None:
    tree, twin = grown(variant, 900, **params), grown(variant, 900, **params)
    before = tree.hash()

    found = [prospect_of(tree, leaf) for leaf in leaves_of(tree)]

    assert tree.hash() == before
    rows, labels, _ = zip(*itertools.islice(CONCEPT.events(1200), 900, 1200), strict=True)
    for learner in (tree, twin):
        encoder = learner.encoder
        learner.learn(encoder.encode(rows), encoder.encode_labels(labels))
    assert tree.hash() == twin.hash()
    assert {prospect.status for prospect in found} & {"waiting", "ready", "useless"}


@pytest.mark.parametrize(("variant", "params"), VARIED)
def test_a_copy_does_not_move_when_the_tree_learns_on(variant: str, params: dict[str, Any]) -> None:
    tree = grown(variant, 600, **params)
    copies: list[LeafCopy] = [tree.copy_leaf(leaf) for leaf in leaves_of(tree)]
    at_once = [copy.prospect() for copy in copies]
    rows, labels, _ = zip(*itertools.islice(CONCEPT.events(900), 600, 900), strict=True)

    tree.learn(tree.encoder.encode(rows), tree.encoder.encode_labels(labels))

    assert [copy.prospect() for copy in copies] == at_once


@pytest.mark.parametrize("observer", ["gaussian", "ordered", "intervals", "sample"])
def test_a_leaf_whose_attempt_failed_is_not_ready(observer: str) -> None:
    """Asked right after each attempt, before another event: the copy says what the attempt said."""
    concept = Concept(seed=5, numeric=2, nominal=1, classes=2, noise=0.2)
    tree = StreamingTree(
        Encoder(concept.schema()), n_min=25.0, delta=0.01, tau=0.2, numeric_observer=observer,
        intervals=8,
    )  # fmt: skip
    failed = splits = 0
    for row, label, _ in concept.events(2000):
        batch, y = tree.encoder.encode([row]), tree.encoder.encode_labels([label])
        leaf = int(tree.snapshot().leaves(batch)[0])
        before = tree.counters().no_split
        tree.learn(batch, y)
        splits += len(tree.take_splits())
        if tree.counters().no_split > before:
            failed += 1
            assert prospect_of(tree, leaf).status in ("waiting", "useless")
    assert min(failed, splits) > 3


def compare_with_verdict(twins: Twins, leaf: Leaf) -> bool:
    """Whether the leaf could be compared: rounding decided nothing."""
    oracle, o = twins.oracle, twins.oracle.options
    found = prospect_of(twins.tree, leaf.id)
    assert found.n == pytest.approx(leaf.n, rel=RELATIVE)
    if not leaf.active:
        assert found.status in ("inactive", "queued", "done")
        return False
    if leaf.is_pure(o):
        assert found.status in ("pure", "empty")
        return False
    verdict = oracle._judge(leaf, settle=False)
    close = [c for c in verdict.ranked if abs(c.gain - verdict.second_merit) < DOUBT]
    if verdict.doubtful or len(close) > 1:
        return False
    assert (found.status == "ready") == (verdict.kind != "none")
    features = twins.encoder.schema.features
    for option, candidate in ((found.best, verdict.best), (found.second, verdict.second)):
        if candidate is not None:
            assert option is not None
            assert option.test is not None
            assert option.test.split(" ")[0] == features[candidate.feature].name
            assert option.merit == pytest.approx(candidate.gain, rel=RELATIVE, abs=RELATIVE)
    assert found.bound == pytest.approx(verdict.bound, rel=RELATIVE)
    needed = split_weight(verdict, leaf, oracle._classes(), o)
    if needed == UNKNOWN:
        assert found.weight_needed is None
    elif needed < 1e9:
        assert found.weight_needed == pytest.approx(needed - leaf.n, rel=1e-6, abs=1e-6)
    return True


@pytest.mark.parametrize(
    "fixed",
    [
        {},
        {"split_test": "normal_min"},
        {"split_test": "normal_strict"},
        {"policy": "anytime", "reevaluate_every": 20.0},
        {"numeric_observer": "ordered"},
    ],
)
def test_the_slow_twin_says_the_same_of_every_leaf(fixed: dict[str, Any]) -> None:
    compared = []

    @settings(max_examples=10, phases=[Phase.generate])
    @given(mixed, options(audit_fraction=0.0, new_leaf="separate", **fixed))
    def run(concept: Concept, option: Options) -> None:
        twins = Twins(concept.schema(), option)
        for event in concept.events(150):
            values, label, w = event
            batch, row = twins.encode(values)
            y = twins.encoder.encode_labels([label])
            twins.tree.learn(batch, y, [w])
            twins.oracle.learn(row, int(y[0]), w)
        if twins._is_doubtful() or twins.tree.shape().nodes != len(twins.oracle.nodes):
            return
        compared.extend(compare_with_verdict(twins, leaf) for leaf in twins.oracle.leaves())

    run()
    assert sum(compared) > 5


def test_the_next_attempt_is_where_the_variant_planned_it() -> None:
    concept = Concept(seed=2, numeric=2, nominal=0, classes=2, noise=0.5)
    for timing in ("periodic", "cgd", "osm"):
        tree = StreamingTree(
            Encoder(concept.schema()), timing=timing, n_min=40.0, delta=1e-7, tau=0.3
        )
        for count, (row, label, _) in enumerate(concept.events(300), start=1):
            before = tree.counters()
            planned = prospect_of(tree, 0).next_attempt_in
            assert planned is not None
            tree.learn(tree.encoder.encode([row]), tree.encoder.encode_labels([label]))
            after = tree.counters()
            checked = after.split_attempts + after.pure_checks
            made = checked - before.split_attempts - before.pure_checks
            assert bool(made) == (planned <= 1.0), (timing, count)
            if tree.shape().nodes > 1:
                break


def test_where_candidates_are_followed_no_attempt_is_planned() -> None:
    tree = grown("imac", 600, tau=0.0, delta=1e-7)
    found = [prospect_of(tree, leaf) for leaf in leaves_of(tree)]

    assert any(p.next_attempt_in is None for p in found if p.status == "waiting")


def test_a_leaf_without_statistics_says_why() -> None:
    bounded = grown("vfdt", 900, max_memory_bytes=8_000, memory_check_every=25)
    assert "inactive" in {prospect_of(bounded, leaf).status for leaf in leaves_of(bounded)}

    queued = grown("streamtree", 900, queue_bytes=1)
    found = {leaf: prospect_of(queued, leaf) for leaf in leaves_of(queued)}
    assert "queued" in {prospect.status for prospect in found.values()}
    queued._tree.node["standing"][queued._tree.node["slot"] < 0] = PURE
    assert "done" in {prospect_of(queued, leaf).status for leaf in found}
    queued._tree.node["standing"][queued._tree.node["slot"] < 0] = ENDED
    assert "done" in {prospect_of(queued, leaf).status for leaf in found}


def test_a_leaf_of_nothing_and_one_of_one_class() -> None:
    tree = StreamingTree(Encoder(CONCEPT.schema()))
    assert prospect_of(tree, 0).status == "empty"

    rows, labels, _ = zip(*CONCEPT.events(50), strict=True)
    tree.learn(tree.encoder.encode(rows), tree.encoder.encode_labels([labels[0]] * 50))

    found = prospect_of(tree, 0)
    assert (found.status, found.n, found.branch, found.best) == ("pure", 50.0, "", None)
    assert found.next_attempt_in == 150.0


def test_an_unknown_id_and_an_inner_node_are_told_apart() -> None:
    tree = grown("vfdt", 900)

    with pytest.raises(UnknownNode, match="leaf is 9999; the tree has no node of that id"):
        tree.copy_leaf(9999)
    with pytest.raises(
        UnknownNode, match=r"a node that splits on '\w+'; expected a leaf, below"
    ) as at:
        tree.copy_leaf(0)
    named = str(at.value).partition("below it are ")[2].partition(" and ")[0]
    assert {int(leaf) for leaf in named.split(", ")} <= set(leaves_of(tree))
    assert str(at.value).endswith(f"and {len(leaves_of(tree)) - 5} more")


def test_a_restored_tree_can_be_asked_before_it_learns() -> None:
    for variant in VARIANTS:
        tree = grown(variant, 600)
        again = StreamingTree.from_bytes(tree.to_bytes())

        assert [prospect_of(again, leaf) for leaf in leaves_of(again)] == [
            prospect_of(tree, leaf) for leaf in leaves_of(tree)
        ]
