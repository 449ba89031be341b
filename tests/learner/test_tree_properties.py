"""Properties of every grown tree, read through the public face."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from learner import Encoder, Feature, Kind, Schema, StreamingTree
from tests.learner.concepts import Concept

concepts = st.builds(
    Concept,
    seed=st.integers(0, 10**6),
    numeric=st.integers(0, 3),
    nominal=st.integers(1, 3),
    sparse=st.integers(0, 1),
    classes=st.integers(2, 4),
    missing=st.sampled_from([0.0, 0.2]),
    weights=st.sampled_from(["one", "quarters"]),
    declared=st.booleans(),
)
N_MIN = 10.0
EVENTS = 500


def grown(concept: Concept, **params: object) -> StreamingTree:
    """A tree of a random concept, with many splits."""
    settled = {"n_min": N_MIN, "delta": 0.1, "tau": 0.3, **params}
    tree = StreamingTree(Encoder(concept.schema()), "vfdt", **settled)
    rows, labels, weights = zip(*concept.events(EVENTS), strict=True)
    y = tree.encoder.encode_labels(labels)
    tree.learn(tree.encoder.encode(rows), y, np.array(weights))
    return tree


@settings(max_examples=25)
@given(concepts)
def test_weight_is_neither_lost_nor_invented(concept: Concept) -> None:
    """Every event was counted at exactly one node: at a leaf, or at a leaf that split since."""
    tree = grown(concept)

    at_splits = sum(split.n for split in tree.take_splits())
    at_leaves = sum(view.n for view in tree.snapshot().walk() if not view.children)

    assert at_splits + at_leaves == pytest.approx(tree.counters().weight)
    assert tree.counters().events == EVENTS


@settings(max_examples=25)
@given(concepts)
def test_votes_of_a_leaf_are_its_prior_and_what_it_saw(concept: Concept) -> None:
    tree = grown(concept, new_leaf="empty")

    for view in tree.snapshot().walk():
        assert all(weight >= 0.0 for weight in view.distribution.values())
        if not view.children:
            assert sum(view.distribution.values()) == pytest.approx(view.n)


@settings(max_examples=25)
@given(concepts)
def test_every_event_reaches_one_leaf_and_its_path_leads_there(concept: Concept) -> None:
    tree = grown(concept)
    snapshot = tree.snapshot()
    rows = [row for row, _, _ in concept.events(40)]
    batch = snapshot.encode(rows)
    views = {view.id: view for view in snapshot.walk()}

    leaves = snapshot.leaves(batch)

    for row, leaf in enumerate(leaves):
        node = 0
        for step in snapshot.path(batch, row):
            assert step.node == node
            assert step.branch in views[node].children
            node = step.branch
        assert node == leaf


@settings(max_examples=25)
@given(concepts)
def test_multiway_feature_never_repeats_on_a_path(concept: Concept) -> None:
    views = {view.id: view for view in grown(concept, unseen="grow").snapshot().walk()}

    for view in views.values():
        above = view.parent
        while above is not None and view.kind == "multiway":
            assert views[above].feature != view.feature
            above = views[above].parent


@settings(max_examples=25)
@given(concepts, st.sampled_from([1e-10, 0.05, 0.2]))
def test_splits_and_attempts_keep_to_their_rules(concept: Concept, min_merit: float) -> None:
    tree = grown(concept, min_merit=min_merit)
    counters, splits = tree.counters(), tree.take_splits()
    leaves = [view for view in tree.snapshot().walk() if not view.children]

    chances = sum(split.n // N_MIN for split in splits)
    chances += sum(leaf.n // N_MIN for leaf in leaves)

    assert counters.split_attempts + counters.pure_checks <= chances
    assert counters.split_attempts == len(splits) + counters.no_split
    for split in splits:
        assert split.merit > min_merit
        if split.kind == "tie":
            assert split.merit - split.second_merit <= split.bound < 0.3
        else:
            assert split.merit - split.second_merit > split.bound


def test_children_start_without_own_weight() -> None:
    tree = StreamingTree(
        Encoder(Schema((Feature("v", Kind.NOMINAL),))), "vfdt", n_min=20.0, delta=0.1
    )
    labels = [i % 2 for i in range(20)]

    rows = [[label] for label in labels]
    tree.learn(tree.encoder.encode(rows), tree.encoder.encode_labels(labels))

    children = [view for view in tree.snapshot().walk() if view.parent is not None]
    assert [child.n for child in children] == [0.0, 0.0]
    assert [sum(child.distribution.values()) for child in children] == [10.0, 10.0]


@settings(max_examples=20)
@given(st.permutations(range(4)), st.integers(0, 1000))
def test_order_of_features_does_not_change_the_tree(order: list[int], seed: int) -> None:
    """Distinct gains decide alone; only equal gains look at the position."""
    concept = Concept(seed=seed, numeric=4, nominal=0, classes=2)
    straight, shuffled = (
        StreamingTree(
            Encoder(Schema(tuple(Feature(f"f{i}", Kind.NUMERIC) for i in names))),
            "vfdt",
            n_min=N_MIN,
            delta=0.1,
            tau=0.3,
        )
        for names in (range(4), order)
    )
    for row, label, _ in concept.events(EVENTS):
        for tree, names in ((straight, range(4)), (shuffled, order)):
            batch = tree.encoder.encode([[row[i] for i in names]])
            tree.learn(batch, tree.encoder.encode_labels([label]))

    tests = [[(v.id, v.test) for v in tree.snapshot().walk()] for tree in (straight, shuffled)]

    assume(all(split.merit != split.second_merit for split in straight.take_splits()))
    assert tests[0] == tests[1]


def test_equal_gains_take_the_earlier_feature_whatever_its_kind() -> None:
    for kinds in (
        (Kind.NOMINAL, Kind.SPARSE),
        (Kind.SPARSE, Kind.NOMINAL),
        (Kind.NOMINAL, Kind.NOMINAL),
    ):
        schema = Schema(tuple(Feature(f"f{i}", kind) for i, kind in enumerate(kinds)))
        tree = StreamingTree(Encoder(schema), "vfdt", n_min=10.0, delta=0.1, tau=0.9)
        labels = [i % 2 for i in range(10)]
        rows: list[list[object]] = [[["on"] if label else [] for _ in kinds] for label in labels]
        for row, label in zip(rows, labels, strict=True):
            for i, kind in enumerate(kinds):
                row[i] = row[i] if kind == Kind.SPARSE else label

        tree.learn(tree.encoder.encode(rows), tree.encoder.encode_labels(labels))

        assert [split.feature for split in tree.take_splits()] == ["f0"]


def test_threshold_lies_strictly_inside_the_values() -> None:
    concept = Concept(seed=2, numeric=2, nominal=0, classes=3)
    tree = grown(concept)
    values = [row for row, _, _ in concept.events(EVENTS)]

    cuts = [(v.feature, v.threshold) for v in tree.snapshot().walk() if v.children]

    assert len(cuts) > 5
    for feature, threshold in cuts:
        column = [row[int(str(feature)[1:])] for row in values]
        numbers = [x for x in column if isinstance(x, float)]
        assert threshold is not None
        assert min(numbers) < threshold < max(numbers)


@settings(max_examples=15)
@given(concepts)
def test_audited_splits_are_never_early(concept: Concept) -> None:
    tree = grown(concept, audit_fraction=1.0, audit_step=1)

    for split in tree.take_splits():
        assert 0.0 <= split.delay < N_MIN * 100
