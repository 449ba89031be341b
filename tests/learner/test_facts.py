"""What a node tells of how it came about, and what features are worth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from learner import VARIANTS, Encoder, StreamingTree
from learner.kernels.history import FOR_SPLITS
from learner.kernels.nodes import deactivate, reactivate
from learner.state import LOG_LINES
from streams import open_stream
from tests.learner.concepts import Concept

HASTE = {"n_min": 20.0, "n_first": 20.0, "delta": 0.01, "tau": 0.25}
CONCEPT = Concept(seed=3, numeric=2, nominal=2, sparse=1, classes=3, missing=0.1, noise=0.2)
VARIED: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in VARIANTS),
    ("vfdt", {"null_merit": "minus_inf", "new_leaf": "inherit"}),
    ("efdt", {"reevaluate_every": 20.0, "collapse_after": 60.0, "refine_threshold": True}),
    ("efdt", {"timing": "imac", "mu": 10.0}),
    ("streamtree", {"queue_bytes": 8000}),
    ("vfdt", {"reference_from": 10.0}),
    ("vfdt", {"max_memory_bytes": 30_000, "memory_check_every": 50}),
]


def grown(variant: str, events: int = 1500, batch: int = 97, **params: Any) -> StreamingTree:
    tree = StreamingTree(Encoder(CONCEPT.schema()), variant, **{**HASTE, **params})
    rows, labels, weights = zip(*CONCEPT.events(events), strict=True)
    for start in range(0, events, batch):
        part = slice(start, start + batch)
        tree.learn(
            tree.encoder.encode(rows[part]),
            tree.encoder.encode_labels(labels[part]),
            np.array(weights[part]),
        )
    return tree


@pytest.mark.parametrize(("variant", "params"), VARIED)
def test_the_facts_of_the_nodes_are_those_of_the_changes(
    variant: str, params: dict[str, Any]
) -> None:
    tree = grown(variant, **params)
    changes = tree.take_splits()
    last = {c.node: c for c in changes if c.kind not in ("deactivate", "reactivate")}
    views = {view.id: view for view in tree.snapshot().walk()}

    assert sum(view.split is not None for view in views.values()) > 3
    for view in views.values():
        assert view.age_events == tree.counters().events - view.created_at
        assert (view.split is None) == (view.kind == "leaf")
        if view.parent is not None:
            parent = views[view.parent]
            assert parent.split is not None
            moved = parent.id in last and last[parent.id].kind == "move"
            assert view.created_at >= parent.split.event or moved
        if view.split is None or "reference_from" in params:
            continue
        change = last[view.id]
        facts = view.split
        assert (facts.event, facts.n, facts.reason) == (change.event, change.n, change.reason)
        assert (facts.merit, facts.bound) == (change.merit, change.bound)
        assert (facts.second_merit, facts.second) == (change.second_merit, change.second)
        if facts.reason == "tie":
            assert facts.bound < HASTE["tau"]
        assert facts.merit >= facts.second_merit or change.kind in ("replace", "move")


@pytest.mark.parametrize(("variant", "params"), VARIED)
def test_facts_come_back_from_bytes_and_do_not_depend_on_batches(
    variant: str, params: dict[str, Any]
) -> None:
    tree = grown(variant, **params)
    again = StreamingTree.from_bytes(tree.to_bytes())

    assert list(again.snapshot().walk()) == list(tree.snapshot().walk())
    assert grown(variant, batch=1500, **params).hash() == tree.hash()


def test_the_shares_of_importance_are_gain_times_traffic() -> None:
    snapshot = grown("vfdt").snapshot()
    worth: dict[str, float] = {}
    for view in snapshot.walk():
        if view.split is not None:
            assert view.feature is not None
            worth[view.feature] = worth.get(view.feature, 0.0) + view.split.merit * view.share

    importance = snapshot.importance

    assert sum(importance.values()) == pytest.approx(1.0)
    assert list(importance.values()) == sorted(importance.values(), reverse=True)
    total = sum(worth.values())
    assert importance == pytest.approx({name: value / total for name, value in worth.items()})


def test_the_feature_that_decides_is_the_most_important() -> None:
    stream = open_stream("agrawal", 1, function=1)  # the rule looks at the age alone
    tree = StreamingTree(Encoder(stream.schema), "vfdt")
    assert tree.snapshot().importance == {}

    tree.learn(*stream.take(20_000))

    first, share = next(iter(tree.snapshot().importance.items()))
    assert first == "age"
    assert share > 0.9


def test_statistics_that_come_and_go_are_told() -> None:
    tree = grown("vfdt", max_memory_bytes=8_000, memory_check_every=25)
    told = [c.kind for c in tree.take_splits()]

    assert told.count("deactivate") == tree.counters().leaves_deactivated > 0
    assert told.count("reactivate") == tree.counters().leaves_reactivated > 0
    assert tree.take_unlogged() == 0


def test_a_flood_is_counted_and_leaves_room_for_splits() -> None:
    tree = grown("vfdt", max_memory_bytes=8_000, memory_check_every=25)
    tree.take_splits()
    leaf = int(np.flatnonzero(tree._tree.node["slot"] >= 0)[-1])

    for _ in range(LOG_LINES):
        deactivate(*tree._handles[:2], leaf)
        reactivate(*tree._handles[:3], leaf)
    tree._drain_log()

    assert len(tree.take_splits()) == LOG_LINES - FOR_SPLITS
    assert tree.take_unlogged() == 2 * LOG_LINES - (LOG_LINES - FOR_SPLITS)
    assert tree.take_unlogged() == 0


def test_a_forecast_by_an_unchanged_gap_is_the_n_at_which_the_test_passes() -> None:
    """Events that repeat keep the gap as it is: CGD then splits where it was foreseen."""
    schema = Concept(seed=1, numeric=0, nominal=2, classes=2).schema()
    tree = StreamingTree(Encoder(schema), "cgd", n_min=40.0, tau=0.0, max_wait=1e6)
    values = [[f"v{i % 2}", f"v{(i // 3) % 2}"] for i in range(12)]
    labels = [i % 2 if i % 12 else 1 for i in range(12)]
    X = tree.encoder.encode(values * 400)
    y = tree.encoder.encode_labels(labels * 400)

    tree.learn(X, y)

    first = tree.take_splits()[0]
    assert first.forecast > 0.0
    assert abs(first.n - first.forecast) <= 12.0
