"""Bugs of other programs, each on a stream that shows it; docs/peers.md tells the story."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from learner import VARIANTS, Encoder, Feature, Kind, Schema, StreamingTree
from streams import open_stream
from tests.learner.concepts import Concept


def nominal_schema(columns: int) -> Schema:
    return Schema(tuple(Feature(f"v{i}", Kind.NOMINAL) for i in range(columns)))


def learn_rows(tree: StreamingTree, rows: list[list[Any]], labels: list[Any]) -> None:
    tree.learn(tree.encoder.encode(rows), tree.encoder.encode_labels(labels))


@pytest.mark.parametrize("observer", ["gaussian", "ordered"])
def test_naive_bayes_survives_hundreds_of_attributes(observer: str) -> None:
    """MOA multiplies densities, and the product of 600 of them is 0 for every class.

    Its ordered observer even answers 0 at once.
    """
    rng = np.random.default_rng(1)
    schema = Schema(tuple(Feature(f"x{i}", Kind.NUMERIC) for i in range(600)), ("a", "b"))
    y = rng.integers(0, 2, 400).astype(np.int32)
    matrix = 1e3 * (rng.normal(size=(400, 600)) + 0.2 * y[:, None])
    tree = StreamingTree(
        Encoder(schema), "vfdt", leaf_predictor="nb", numeric_observer=observer, n_min=1e6
    )
    tree.learn(matrix[:300], y[:300])

    snapshot = tree.snapshot()
    batch = snapshot.encode(matrix[300:].tolist())
    assert np.mean(snapshot.predict(batch) == y[300:]) > 0.8
    np.testing.assert_allclose(snapshot.probabilities(batch).sum(axis=1), 1.0)


def test_one_unseen_value_does_not_rule_a_class_out() -> None:
    """River has no smoothing for nominal values."""
    tree = StreamingTree(Encoder(nominal_schema(4)), "vfdt", leaf_predictor="nb", n_min=1e6)
    learn_rows(tree, [["p"] * 4, ["q"] * 4] * 50 + [["r", "q", "q", "q"]], ["a", "b"] * 50 + ["b"])

    snapshot = tree.snapshot()
    (answer,) = snapshot.predict(snapshot.encode([["r", "p", "p", "p"]]))

    assert snapshot.classes[answer] == "a"


def test_a_split_is_looked_at_once_a_period_and_not_with_every_event() -> None:
    """River forgets a look that changed nothing, and looks again with the next event."""
    source = open_stream("rtg", 1, classes=3, nominal=3, numeric=3)
    tree = StreamingTree(Encoder(source.schema), "efdt", reevaluate_every=500.0)
    tree.learn(*source.take(20_000))

    counters, shape = tree.counters(), tree.shape()
    assert shape.nodes > 3
    assert 0 < counters.reevaluations <= shape.depth * 20_000 / 500.0


def test_splits_survive_however_often_their_parents_are_looked_at() -> None:
    """With a period of one event river's tree stays at 9 nodes instead of 49."""
    nodes = []
    for period in (1.0, 1e9):
        source = open_stream("rtg", 1, classes=3, nominal=3, numeric=3)
        tree = StreamingTree(Encoder(source.schema), "efdt", reevaluate_every=period)
        tree.learn(*source.take(30_000))
        nodes.append(tree.shape().nodes)
    assert nodes[0] >= 0.7 * nodes[1] > 5


def test_merit_of_a_second_look_is_that_of_the_nodes_own_events() -> None:
    """MOA moves sums of past gains to the split node and restarts their count."""
    rng = np.random.default_rng(3)
    tree = StreamingTree(
        Encoder(nominal_schema(2)), "efdt", n_min=50.0, reevaluate_every=50.0, delta=0.05, tau=0.0
    )
    for turn in range(2):
        count = 3000 + 9000 * turn
        draws = rng.integers(0, 2, size=(count, 2))
        labels = np.where(rng.random(count) < 0.9, draws[:, turn], 1 - draws[:, turn])
        learn_rows(tree, draws.tolist(), labels.tolist())
    replaced = [split for split in tree.take_splits() if split.kind == "replace"]
    assert replaced
    for split in replaced:
        assert 0.0 <= split.second_merit < split.merit <= 1.0
        assert split.merit - split.second_merit > split.bound


def test_imac_has_no_delay_on_nominal_events() -> None:
    """The authors' program clamps counts to 1, and its triggers come 6.7 events late."""
    source = open_stream("led_g", 1)
    tree = StreamingTree(
        Encoder(source.schema), "imac", new_leaf="empty", reference_from=200.0,
        candidates=24, delta=1e-3, tau=0.2,
    )  # fmt: skip
    tree.learn(*source.take(20_000))
    delays = [split.delay for split in tree.take_splits()]
    assert len(delays) >= 3
    assert set(delays) == {0.0}
    assert tree.unresolved() == 0


@pytest.mark.parametrize("criterion", ["info_gain", "gini"])
def test_a_branch_that_appears_late_is_a_branch_of_its_own(criterion: str) -> None:
    """The authors' program inserts it into a list, where it shifts the branches behind it."""
    rng = np.random.default_rng(3)
    tree = StreamingTree(
        Encoder(nominal_schema(2)), "imac", criterion=criterion, n_first=40.0, mu=1e9, tau=0.0,
        delta=1e-12,
    )  # fmt: skip
    events: list[tuple[list[Any], int]] = []
    for at in range(300):
        values = ["z", "y", "x", "w", "v"][: 2 + at // 60]
        row = [values[int(rng.integers(0, len(values)))], int(rng.integers(0, 2))]
        events.append((row, int(rng.random() < (0.3 if row[0] in ("z", "x", "v") else 0.7))))
        learn_rows(tree, [events[-1][0]], [events[-1][1]])

    assert tree.counters().split_attempts == 1
    (slot,) = tree._tree.node["slot"][:1]
    for q in range(int(tree._tree.slot["candidates"][slot])):
        at_place = tree._tree.candidate[slot, q]
        followed = (at_place["before"] - at_place["after"]) / 300.0
        assert followed == pytest.approx(
            gain_by_recount(events, int(at_place["column"]), criterion), abs=1e-9
        )


def gain_by_recount(events: list[tuple[list[Any], int]], column: int, criterion: str) -> float:
    """The multiway gain of a column, counted from the events."""

    def impurity(labels: list[int]) -> float:
        shares = [labels.count(k) / len(labels) for k in set(labels)]
        if criterion == "gini":
            return 1.0 - sum(share * share for share in shares)
        return -sum(share * math.log2(share) for share in shares)

    labels = [label for _, label in events]
    after = 0.0
    for value in {row[column] for row, _ in events}:
        branch = [label for row, label in events if row[column] == value]
        after += len(branch) / len(events) * impurity(branch)
    return impurity(labels) - after


def test_osm_does_not_sleep_when_the_second_best_is_the_null_split() -> None:
    """The authors' program divides 0 by 0 there and waits 100,000 events."""
    rng = np.random.default_rng(4)
    tree = StreamingTree(Encoder(nominal_schema(1)), "osm", tau=0.0, delta=1e-7)
    values = rng.integers(0, 2, 6000)
    labels = np.where(rng.random(6000) < 0.62, values, 1 - values)
    learn_rows(tree, [[v] for v in values.tolist()], labels.tolist())

    (split,) = tree.take_splits()
    assert split.second_merit == 0.0
    assert split.n < 6000


def test_cgd_waits_for_the_predicted_n_and_not_that_much_longer() -> None:
    """The authors' program waits N further events, where N - n are left."""
    rng = np.random.default_rng(5)
    tree = StreamingTree(Encoder(nominal_schema(1)), "cgd", tau=0.01, delta=1e-7)
    values = rng.integers(0, 2, 200)
    labels = np.where(rng.random(200) < 0.65, values, 1 - values)
    learn_rows(tree, [[v] for v in values.tolist()], labels.tolist())

    node = tree._tree.node[0]
    assert tree.counters().split_attempts == 1
    share = {v: labels[values == v].tolist() for v in (0, 1)}
    events = [([v], k) for v, found in share.items() for k in found]
    gap = gain_by_recount(events, 0, "info_gain")
    expected = math.log(1e7) / (2.0 * gap * gap)
    assert node["n_last"] + node["wait"] == pytest.approx(expected, rel=1e-9)


def test_bound_of_two_classes_has_the_range_of_one_bit() -> None:
    """KAFKA-EFDT takes the number of classes for the range, and doubles the bound."""
    tree = StreamingTree(Encoder(nominal_schema(1)), "efdt", n_min=100.0)
    learn_rows(tree, [["p"], ["q"]] * 100, ["a", "b"] * 100)
    split = tree.take_splits()[0]
    assert split.bound == pytest.approx(math.sqrt(math.log(1e7) / (2.0 * split.n)))


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_multiway_attribute_never_comes_twice_on_a_path(variant: str) -> None:
    """MOA's VFDT removes nothing, and its EFDT loses the set at every numeric split."""
    concept = Concept(seed=2, numeric=2, nominal=3, classes=3, noise=0.3, missing=0.1)
    tree = StreamingTree(
        Encoder(concept.schema()), variant, n_min=15.0, n_first=15.0, delta=0.1, tau=0.3,
        nominal_split="multiway", reevaluate_every=40.0, stop_depth=0, stop_share=0.0,
        stop_purity=0.0,
    )  # fmt: skip
    rows, labels, _ = zip(*concept.events(2500), strict=True)
    tree.learn(tree.encoder.encode(rows), tree.encoder.encode_labels(labels))

    views = {view.id: view for view in tree.snapshot().walk()}
    assert any(view.kind == "multiway" for view in views.values())
    for view in views.values():
        above, node = [], view
        while node.parent is not None:
            node = views[node.parent]
            above += [node.feature] if node.kind == "multiway" else []
        assert len(above) == len(set(above))
        assert view.kind != "multiway" or view.feature not in above


@pytest.mark.parametrize("variant", ["vfdt", "osm", "imac", "efdt"])
def test_a_leaf_put_to_sleep_still_knows_its_classes(variant: str) -> None:
    """The programs of IMAC and OSM forget the class counts of a leaf they deactivate."""
    source = open_stream("agrawal", 1)
    tree = StreamingTree(
        Encoder(source.schema), variant, max_memory_bytes=1, memory_check_every=2000, tau=0.2
    )
    batch, y = source.take(20_000)
    tree.learn(batch, y)
    assert tree.counters().leaves_deactivated > 0
    assert np.mean(tree.snapshot().predict(batch) == y) > 0.75


def test_counters_of_nodes_are_those_of_the_tree_after_many_replacements() -> None:
    """MOA adds and subtracts, and drifts; it also counts an EFDT replacement twice."""
    rng = np.random.default_rng(7)
    tree = StreamingTree(
        Encoder(nominal_schema(4)), "efdt", n_min=25.0, reevaluate_every=25.0, delta=0.1, tau=0.1
    )
    for turn in range(12):
        draws = rng.integers(0, 3, size=(400, 4))
        learn_rows(tree, draws.tolist(), (draws[:, turn % 4] == 0).tolist())
        views = list(tree.snapshot().walk())
        shape = tree.shape()
        assert shape.nodes == len(views)
        assert shape.leaves == sum(view.kind == "leaf" for view in views)
        assert shape.depth == max(view.depth for view in views)
        parents = {view.id for view in views} | {None}
        assert all(view.parent in parents for view in views)
    assert tree.counters().splits_replaced > 0
