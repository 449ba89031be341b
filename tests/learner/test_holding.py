"""A snapshot that was set apart answers as the one it came from, and lends nobody's arrays."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from learner import Snapshot, held_bytes, reopened, set_apart
from learner.publication import OF_SLOTS
from tests.learner.test_publication import EVENTS, LABELS, ROWS, TREES, hasty, image, teach

NARROW = 400  # events before the snapshot


def said(snapshot: Snapshot) -> list[Any]:
    """All that a snapshot says of the events of these tests."""
    batch = snapshot.encode(ROWS)
    codes, probabilities, leaves = snapshot.evaluate(batch)
    paths = [snapshot.path(batch, row) for row in range(0, EVENTS, 97)]
    walk_leaves = [snapshot.end_of(row).id for row in ROWS[::31]]
    told = codes.tolist(), probabilities.tolist(), leaves.tolist(), paths, walk_leaves
    return [*told, list(snapshot.walk()), snapshot.shape, snapshot.counters, snapshot.id]


@pytest.mark.parametrize(("variant", "params"), TREES)
def test_a_snapshot_that_is_held_says_the_same_whatever_is_learned_later(
    variant: str, params: dict[str, Any]
) -> None:
    tree = hasty(variant, **params)
    teach(tree, 0, NARROW)
    snapshot = tree.snapshot()
    expected, held = said(snapshot), set_apart(snapshot)
    del snapshot
    for start in range(NARROW, EVENTS, 50):
        teach(tree, start, start + 50)
        tree.snapshot()

    assert said(held) == expected
    assert said(reopened(held)) == expected
    assert len(LABELS) == EVENTS


@pytest.mark.parametrize("predictor", ["mc", "nba"])
def test_what_is_held_is_as_long_as_it_is_used(predictor: str) -> None:
    tree = hasty("vfdt", leaf_predictor=predictor)
    teach(tree, 0, NARROW)
    snapshot = tree.snapshot()
    held = set_apart(snapshot)
    arrays = held.parts[0]

    assert image(arrays) == image(snapshot.parts[0])
    assert len(arrays.node) == snapshot.shape.nodes
    assert held_bytes(held) == sum(part.nbytes for part in arrays)
    assert held_bytes(held) < held_bytes(snapshot)
    slots = {len(getattr(arrays, name)) for name in OF_SLOTS}
    assert (max(slots) > 0) == (predictor == "nba")


def test_holding_does_not_keep_the_publisher_from_using_its_copies_again() -> None:
    tree = hasty("vfdt")
    teach(tree, 0, EVENTS)
    tree.snapshot()
    places, held = set(), []
    for _ in range(10):
        snapshot = tree.snapshot()
        held.append(set_apart(snapshot))
        places.add(snapshot.parts[0].node.ctypes.data)
        del snapshot

    assert len(places) <= 2
    assert not any(
        np.shares_memory(one.parts[0].node, other.parts[0].node) for one, other in pairwise(held)
    )


def test_levels_count_the_nodes_from_any_node_down() -> None:
    tree = hasty("efdt", leaf_predictor="mc")
    teach(tree, 0, EVENTS)
    snapshot = tree.snapshot()
    views = list(snapshot.walk())
    assert len(views) > 10

    for view in views:
        depths = [below.depth - view.depth for below in snapshot.walk(view.id)]
        assert snapshot.levels(view.id) == np.bincount(depths).tolist()
    assert snapshot.levels() == snapshot.levels(views[0].id)
