"""Snapshots that are brought up to date equal the tree, and one that is held never changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learner import VARIANTS, Encoder, Snapshot, StreamingTree, publication
from learner.kernels.tree import LEAF, MULTIWAY, NODES, SUBSET, Tree
from learner.publication import OF_ALL, OF_NODES, OF_SLOTS
from tests.learner.concepts import Concept

HASTE: dict[str, Any] = {"n_min": 10.0, "n_first": 10.0, "delta": 0.2, "tau": 0.3}
FORGETFUL: dict[str, Any] = {"max_memory_bytes": 20_000, "memory_check_every": 50}
QUEUES: dict[str, Any] = {"queue_bytes": 6_000, "stop_share": 0.01, "stop_purity": 0.9}
# Everything that changes a node which no event has reached: queues, the memory bound, removals.
TREES: list[tuple[str, dict[str, Any]]] = [
    *((variant, {"leaf_predictor": "nba"}) for variant in VARIANTS if variant != "streamtree"),
    ("streamtree", {**QUEUES, "leaf_predictor": "nb"}),
    ("streamtree", {**QUEUES, "reopen": True}),
    ("vfdt", {"leaf_predictor": "mc"}),
    ("vfdt", {**FORGETFUL, "leaf_predictor": "nb", "unseen": "grow"}),
    ("vfdt", {"leaf_predictor": "nb", "new_leaf": "empty", "audit_fraction": 1.0}),
    ("vfdtc", {**FORGETFUL, "leaf_predictor": "nba"}),
    ("efdt", {**FORGETFUL, "leaf_predictor": "nba", "reevaluate_every": 10.0}),
    ("efdt", {"leaf_predictor": "nb", "collapse_after": 20.0, "refine_threshold": True}),
]
EVENTS = 800
CONCEPT = Concept(seed=8, numeric=2, nominal=2, sparse=1, classes=3, missing=0.1, declared=False)
ROWS, LABELS, _ = zip(*CONCEPT.events(EVENTS), strict=True)

steps = st.lists(
    st.tuples(st.integers(1, 30) | st.just(200), st.booleans()), min_size=4, max_size=40
)


def hasty(variant: str, **params: Any) -> StreamingTree:
    """A tree that changes a lot."""
    return StreamingTree(Encoder(CONCEPT.schema()), variant, **{**HASTE, **params})


def teach(tree: StreamingTree, start: int, stop: int) -> None:
    """Learn some events; their new values, tokens and classes become known only now."""
    encoder = tree.encoder
    tree.learn(encoder.encode(ROWS[start:stop]), encoder.encode_labels(LABELS[start:stop]))


def image(tree: Tree) -> dict[str, Any]:
    """All that a reader can reach, as plain bytes."""
    nodes = tree.node[: int(tree.counts[NODES])]
    slots = nodes["slot"][(nodes["kind"] == LEAF) & (nodes["slot"] >= 0)]
    tabled = nodes[np.isin(nodes["kind"], (MULTIWAY, SUBSET))]
    statistics = {name: getattr(tree, name) for name in OF_SLOTS}
    spans = zip(tabled["table_start"], tabled["table_length"], strict=True)
    return {
        **{name: getattr(tree, name)[: len(nodes)].tobytes() for name in OF_NODES},
        **{name: getattr(tree, name).tobytes() for name in OF_ALL},
        **{name: part[slots].tobytes() for name, part in statistics.items() if len(part)},
        "tables": [tree.tables[start : start + length].tobytes() for start, length in spans],
    }


def looks_like(snapshot: Snapshot, tree: StreamingTree) -> None:
    """Assert that a snapshot has all of the tree that it copies."""
    found, expected = image(snapshot._tree), image(tree._tree)
    assert found == {name: expected[name] for name in found}
    assert snapshot.shape == tree.shape()
    assert snapshot.schema == tree.encoder.schema


@pytest.mark.parametrize(("variant", "params"), TREES)
@settings(max_examples=15)
@given(steps=steps)
def test_a_snapshot_equals_the_tree_whatever_changed_since_the_one_before(
    variant: str, params: dict[str, Any], steps: list[tuple[int, bool]]
) -> None:
    tree, at = hasty(variant, **params), 0
    held: list[tuple[Snapshot, dict[str, Any]]] = []
    for events, keeps in steps:
        stop = min(at + events, EVENTS)
        teach(tree, at, stop)
        at = stop
        snapshot = tree.snapshot()
        looks_like(snapshot, tree)
        if keeps:
            held.append((snapshot, image(snapshot._tree)))
        elif len(held) > 2:
            del held[0]

    for snapshot, then in held:
        assert image(snapshot._tree) == then


def test_an_event_costs_the_rows_of_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    tree, copied = hasty("vfdt", leaf_predictor="nb"), []
    real = publication.copy_rows

    def counting(target: Any, source: Any, rows: Any) -> None:
        copied.append(len(rows))
        real(target, source, rows)

    teach(tree, 0, EVENTS - 2)
    for _ in range(2):  # one for either side
        tree.snapshot()
    monkeypatch.setattr(publication, "copy_rows", counting)
    teach(tree, EVENTS - 2, EVENTS - 1)
    snapshot = tree.snapshot()

    assert tree.shape().nodes > 50
    assert 0 < max(copied) <= tree.shape().depth + 1 + tree._sizes.widest
    looks_like(snapshot, tree)


def test_two_copies_take_turns_and_a_slow_reader_costs_one_more() -> None:
    tree = hasty("vfdt")
    teach(tree, 0, 600)
    for at in range(600, 650, 10):
        teach(tree, at, at + 10)
        snapshot = tree.snapshot()
    assert len(tree._publisher._copies) == 2

    slow = snapshot
    for at in range(650, 700, 10):
        teach(tree, at, at + 10)
        snapshot = tree.snapshot()

    assert slow.events == 650
    assert snapshot.events == 700
    assert len(tree._publisher._copies) == 3


def test_snapshots_share_what_an_encoder_knows_until_it_knows_more() -> None:
    tree = hasty("vfdt")
    teach(tree, 0, 200)
    first, second = tree.snapshot(), tree.snapshot()
    assert first._encoder is second._encoder

    tree.encoder.encode_labels(["never seen"])
    third = tree.snapshot()

    assert third._encoder._codes[2] is second._encoder._codes[2]
    assert third._encoder.classes == (*second._encoder.classes, "never seen")
    assert "never seen" not in second._encoder.classes
