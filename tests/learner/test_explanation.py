"""What stands behind an answer: evidence that adds up to it, and events that were counted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learner import Encoder, Evidence, Feature, Kind, Schema, Snapshot, StreamingTree
from streams import open_stream
from tests.fuzz.model import MODELS, real_model
from tests.learner.concepts import Concept
from tests.learner.test_counterfactual import grown, records


def sums_of(evidence: Evidence) -> list[float]:
    """log2 P(k) + sum_i log2 P(x_i | k), added up from what was told."""
    return [
        math.fsum([prior, *(factor.log2_likelihoods[k] for factor in evidence.factors)])
        for k, prior in enumerate(evidence.log2_prior)
    ]


def probabilities_of(evidence: Evidence) -> list[float]:
    sums = sums_of(evidence)
    powers = [2.0 ** (each - max(sums)) for each in sums]
    return [power / sum(powers) for power in powers]


def assert_evidence_adds_up(snapshot: Snapshot, record: dict[str, Any]) -> bool:
    """Whether naive Bayes answered; then its evidence gives the answer."""
    batch = snapshot.encode_records([record])
    codes, probabilities, _ = snapshot.evaluate(batch)
    evidence = snapshot.explanation.evidence(batch)
    if evidence is None:
        return False
    sums = sums_of(evidence)
    assert probabilities_of(evidence) == pytest.approx(probabilities[0].tolist(), abs=1e-9)
    assert max(sums) - sums[int(codes[0])] <= 1e-9 * max(1.0, abs(max(sums)))
    return True


@pytest.mark.parametrize("observer", ["gaussian", "ordered", "sample", "intervals"])
@settings(max_examples=8)
@given(seed=st.integers(0, 10**6))
def test_evidence_adds_up_to_the_answer(observer: str, seed: int) -> None:
    concept = Concept(
        seed=seed, numeric=2, nominal=2, sparse=1, classes=3, missing=0.1, declared=bool(seed % 2)
    )
    snapshot = grown(concept, numeric_observer=observer, leaf_predictor="nb")

    asked = [*records(concept, 15), {}]

    by_bayes = [assert_evidence_adds_up(snapshot, record) for record in asked]

    assert any(by_bayes)


@pytest.mark.parametrize("name", MODELS)
def test_evidence_is_told_where_naive_bayes_answers_and_nowhere_else(name: str) -> None:
    snapshot = StreamingTree.from_bytes(real_model(name)).snapshot()
    decisions = snapshot.explanation.decisions()

    for record in records(MODELS[name][1], 20):
        (leaf,) = snapshot.leaves(snapshot.encode_records([record]))
        assert assert_evidence_adds_up(snapshot, record) == decisions[int(leaf)].by_bayes


def test_a_number_beyond_all_that_was_seen_leaves_the_prior_alone() -> None:
    schema = Schema((Feature("x", Kind.NUMERIC),))
    tree = StreamingTree(Encoder(schema), leaf_predictor="nb")
    rows = [[float(row)] for row in range(30)]
    tree.learn(
        tree.encoder.encode(rows), tree.encoder.encode_labels([r % 3 > 0 for r in range(30)])
    )
    snapshot = tree.snapshot()

    evidence = snapshot.explanation.evidence(snapshot.encode([[1e308]]))

    assert evidence is not None
    assert evidence.factors == ()
    assert assert_evidence_adds_up(snapshot, {"x": 1e308})


def test_features_that_say_nothing_are_left_out() -> None:
    concept = Concept(seed=1, numeric=1, nominal=1, sparse=0)
    snapshot = grown(concept, events=15, leaf_predictor="nb")
    names = [feature.name for feature in snapshot.schema.features]

    for name in names:
        record = {**records(concept, 1)[0], name: None}
        evidence = snapshot.explanation.evidence(snapshot.encode_records([record]))
        assert evidence is not None
        assert [factor.feature for factor in evidence.factors] == [n for n in names if n != name]


def test_support_is_the_traffic_of_the_tree() -> None:
    stream = open_stream("agrawal", seed=3)
    tree = StreamingTree(Encoder(stream.schema), n_min=50.0, tau=0.2)
    tree.learn(*stream.take(20_000))
    snapshot = tree.snapshot()
    weights = {view.id: view.weight for view in snapshot.walk()}
    assert len(weights) > 10

    batch, _ = stream.take(50)
    for row, leaf in enumerate(snapshot.leaves(batch).tolist()):
        support = snapshot.explanation.support(leaf)
        assert list(support) == [0, *(step.branch for step in snapshot.path(batch, row))]
        for node, weight in support.items():
            assert weight == pytest.approx(weights[node])
        assert list(support.values()) == sorted(support.values(), reverse=True)


@pytest.mark.parametrize("name", MODELS)
def test_a_decision_is_what_rows_that_end_there_are_told(name: str) -> None:
    snapshot = StreamingTree.from_bytes(real_model(name)).snapshot()
    decisions = snapshot.explanation.decisions()
    views = {view.id: view for view in snapshot.walk()}
    batch = snapshot.encode_records(records(MODELS[name][1], 100))

    codes, _, leaves = snapshot.evaluate(batch)

    assert decisions.keys() == views.keys()
    for code, leaf in zip(codes.tolist(), leaves.tolist(), strict=True):
        if not decisions[leaf].by_bayes:
            expected = snapshot.classes[code] if code >= 0 else None
            assert decisions[leaf].label == expected


@pytest.mark.parametrize("name", MODELS)
def test_a_record_without_values_goes_where_decisions_send_it(name: str) -> None:
    snapshot = StreamingTree.from_bytes(real_model(name)).snapshot()
    decisions = snapshot.explanation.decisions()

    node: int = next(snapshot.walk()).id
    while (missing := decisions[node].missing) is not None:
        node = missing

    assert snapshot.leaves(snapshot.encode_records([{}])) == np.array([node])
