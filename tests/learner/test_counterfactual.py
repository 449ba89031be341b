"""What would change an answer: it does, nothing smaller would, and what must stay does."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from learner import (
    VARIANTS,
    Counterfactual,
    Encoder,
    Feature,
    Kind,
    Schema,
    Snapshot,
    StreamingTree,
)
from tests.fuzz.model import MODELS, real_model
from tests.learner.concepts import Concept
from tests.oracle import counterfactual as oracle

EAGER: dict[str, Any] = {"n_min": 20.0, "delta": 0.05, "tau": 0.2}
ENDLESS: dict[str, Any] = {"n_first": 20.0, "stop_depth": 0, "stop_purity": 0.0, "stop_share": 0.0}
SPLITS = ("multiway", "binary", "subset")

concepts = st.builds(
    Concept,
    seed=st.integers(0, 10**6),
    numeric=st.integers(0, 2),
    nominal=st.integers(1, 2),
    sparse=st.integers(0, 1),
    classes=st.just(2),
    missing=st.sampled_from([0.0, 0.2]),
    declared=st.booleans(),
)


def grown(concept: Concept, variant: str = "vfdt", events: int = 500, **params: Any) -> Snapshot:
    """A tree of a random concept."""
    settled = {**EAGER, **(ENDLESS if variant == "streamtree" else {}), **params}
    tree = StreamingTree(Encoder(concept.schema()), variant, **settled)
    rows, labels, _ = zip(*concept.events(events), strict=True)
    y = tree.encoder.encode_labels(labels)
    tree.learn(tree.encoder.encode(rows), y)
    return tree.snapshot()


def records(concept: Concept, count: int) -> list[dict[str, Any]]:
    """Records of the concept; some lack a value, some have one that nobody has seen."""
    rng = random.Random(concept.seed)
    names = [feature.name for feature in concept.schema().features]
    found = []
    for row, _, _ in concept.events(count):
        record: dict[str, Any] = dict(zip(names, row, strict=True))
        name = rng.choice(names)
        if rng.random() < 0.3:
            record[name] = None
        elif isinstance(record[name], str) and rng.random() < 0.5:
            record[name] = "never seen"
        found.append(record)
    return found


def label_of(snapshot: Snapshot, record: dict[str, Any]) -> Any:
    return snapshot.classes[int(snapshot.predict(snapshot.encode_records([record]))[0])]


def assert_it_does(snapshot: Snapshot, record: dict[str, Any], found: Counterfactual) -> None:
    """The record that is proposed gets the answer, at the leaf that was told."""
    assert label_of(snapshot, found.record) == found.label
    assert snapshot.leaves(snapshot.encode_records([found.record])) == [found.leaf]
    changes = {change.feature: change for change in found.changes}
    for name in record.keys() | found.record.keys():
        if name in changes:
            assert changes[name].before == record.get(name)
            assert changes[name].after == found.record[name]
        else:
            assert found.record[name] == record[name]
    assert (
        len(changes)
        <= found.change_count
        <= len(changes) + sum(len(change.added) + len(change.removed) for change in found.changes)
    )
    assert 0.0 <= found.distance <= found.change_count


@pytest.mark.parametrize("predictor", ["mc", "nb", "nba"])
@pytest.mark.parametrize("variant", VARIANTS)
@settings(max_examples=6)
@given(seed=st.integers(0, 10**6))
def test_a_counterfactual_gets_the_wanted_answer(variant: str, predictor: str, seed: int) -> None:
    concept = Concept(
        seed=seed, numeric=2, nominal=2, sparse=1, classes=3, missing=0.1, declared=bool(seed % 2)
    )
    snapshot = grown(concept, variant, leaf_predictor=predictor)

    for record in records(concept, 6):
        for wanted in snapshot.classes:
            if wanted != label_of(snapshot, record):
                found = snapshot.explanation.counterfactual(record, [wanted])
                if found is not None:
                    assert found.label == wanted
                    assert_it_does(snapshot, record, found)


@pytest.mark.parametrize("split", SPLITS)
@settings(max_examples=25)
@given(concept=concepts, unseen=st.sampled_from(["other", "grow"]), events=st.integers(60, 250))
def test_no_record_with_another_answer_is_nearer(
    split: str, concept: Concept, unseen: str, events: int
) -> None:
    options = {"unseen": unseen} if split == "multiway" else {}
    snapshot = grown(concept, events=events, nominal_split=split, **options)
    assume(snapshot.shape.nodes > 1)

    for record in records(concept, 4):
        wanted = [label for label in snapshot.classes if label != label_of(snapshot, record)]
        try:
            expected = oracle.nearest(snapshot, record, wanted)
        except OverflowError:
            continue
        found = snapshot.explanation.counterfactual(record, wanted)
        if expected is None or found is None:
            assert found == expected
            continue
        assert found.exact
        assert (found.change_count, found.distance) == (expected[0], pytest.approx(expected[1]))
        assert_it_does(snapshot, record, found)


@settings(max_examples=15)
@given(concept=concepts)
def test_what_is_frozen_stays_and_the_rest_is_still_the_nearest(concept: Concept) -> None:
    snapshot = grown(concept, events=200)
    assume(snapshot.shape.nodes > 1)

    for record in records(concept, 3):
        wanted = [label for label in snapshot.classes if label != label_of(snapshot, record)]
        for frozen in (feature.name for feature in snapshot.schema.features):
            found = snapshot.explanation.counterfactual(record, wanted, [frozen])
            try:
                expected = oracle.nearest(snapshot, record, wanted, [frozen])
            except OverflowError:
                continue
            assert (found is None) == (expected is None)
            if found is not None and expected is not None:
                assert found.record.get(frozen) == record.get(frozen)
                assert found.change_count == expected[0]
                assert found.distance == pytest.approx(expected[1])


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model_can_be_asked(name: str) -> None:
    snapshot = StreamingTree.from_bytes(real_model(name)).snapshot()

    for record in records(MODELS[name][1], 20):
        for wanted in snapshot.classes:
            if wanted != label_of(snapshot, record):
                found = snapshot.explanation.counterfactual(record, [wanted])
                if found is not None:
                    assert_it_does(snapshot, record, found)


@cache
def one_cut() -> Snapshot:
    """A tree with one threshold, between the numbers 1 and 2, and classes that it separates."""
    schema = Schema((Feature("x", Kind.NUMERIC), Feature("y", Kind.NUMERIC)))
    tree = StreamingTree(Encoder(schema), n_min=20.0, delta=0.05, tau=0.2)
    rows = [[1.0 + row % 2, row % 7] for row in range(60)]
    labels = tree.encoder.encode_labels(["low" if row % 2 == 0 else "high" for row in range(60)])
    tree.learn(tree.encoder.encode(rows), labels)
    snapshot = tree.snapshot()
    assert snapshot.shape.nodes == 3
    return snapshot


def test_a_number_moves_by_no_more_than_a_double_must() -> None:
    snapshot = one_cut()
    (cut,) = oracle.thresholds(snapshot)["x"]

    up = snapshot.explanation.counterfactual({"x": 0.5}, ["high"])
    down = snapshot.explanation.counterfactual({"x": 7}, ["low"])

    assert up is not None
    assert down is not None
    assert cut < up.record["x"] < cut + 1e-15 * max(abs(cut), 1.0)
    assert down.record["x"] == cut


def test_a_missing_number_gets_one_that_leads_there() -> None:
    snapshot = one_cut()
    label = label_of(snapshot, {})
    other = {"low": "high", "high": "low"}[label]

    found = snapshot.explanation.counterfactual({}, [other])

    assert found is not None
    assert [(c.feature, c.before) for c in found.changes] == [("x", None)]
    assert (found.change_count, found.distance) == (1, 1.0)
    assert label_of(snapshot, found.record) == other


def test_numbers_at_the_ends_of_the_range_are_moved_too() -> None:
    snapshot = one_cut()

    for x in (1.7e308, -1.7e308, 5e-324, 10**400):
        record = {"x": x}
        other = {"low": "high", "high": "low"}[label_of(snapshot, record)]
        found = snapshot.explanation.counterfactual(record, [other])
        assert found is not None
        assert_it_does(snapshot, record, found)


def test_a_class_that_no_leaf_answers_cannot_be_had() -> None:
    snapshot = one_cut()

    assert snapshot.explanation.counterfactual({"x": 0.5}, ["other"]) is None
    assert snapshot.explanation.counterfactual({"x": 0.5}, ["high"], ["x"]) is None
