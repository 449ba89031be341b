"""The quick walks, of many rows and of one, end where the plain one does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from learner import Batch, Encoder, Snapshot, StreamingTree
from learner.kernels.walk import TOGETHER
from streams import open_stream
from tests.fuzz.model import MODELS, real_model

STREAMS = ("agrawal", "rtg", "led", "tweets")
OPTIONS: dict[str, dict[str, Any]] = {
    "majority": {},
    "votes of the parent": {"new_leaf": "empty"},
    "bayes": {"leaf_predictor": "nb"},
    "adaptive": {"leaf_predictor": "nba"},
    "bayes of intervals": {"variant": "vfdtc"},
}


def grown(name: str, **params: Any) -> tuple[Snapshot, list[list[Any]]]:
    """A snapshot of a tree with many splits, and rows with gaps and unknown values."""
    if name in MODELS:
        tree = StreamingTree.from_bytes(real_model(name))
        rows = [list(row) for row, _, _ in MODELS[name][1].events(300)]
    else:
        stream = open_stream(name, seed=3)
        tree = StreamingTree(Encoder(stream.schema), n_min=50.0, tau=0.2, **params)
        tree.learn(*stream.take(20_000))
        features = [feature.name for feature in stream.schema.features]
        rows = [[event[name] for name in features] for event in stream.events(300)]
    rng = np.random.default_rng(1)
    for row in rows[100:]:
        row[rng.integers(len(row))] = None
    return tree.snapshot(), rows


def one_at_a_time(snapshot: Snapshot, batch: Batch) -> list[tuple[Any, ...]]:
    """What the plain walk says."""
    return [
        tuple(part.tolist() for part in snapshot.evaluate(batch.part(row, row + 1)))
        for row in range(batch.rows)
    ]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, options) for name in STREAMS for options in OPTIONS),
        *((n, "majority") for n in MODELS),
    ],
)
def test_rows_that_walk_together_end_where_each_would_alone(name: str, options: str) -> None:
    snapshot, rows = grown(name, **OPTIONS[options])
    batch = snapshot.encode(rows)
    expected = one_at_a_time(snapshot, batch)
    for _ in range(snapshot.shape.nodes // len(rows) + 1):
        snapshot.settle(batch)
    assert snapshot._answering._plan is not None

    codes, probabilities, leaves = snapshot.evaluate(batch)

    assert codes.tolist() == [code for (code,), _, _ in expected]
    assert probabilities.tolist() == [row for _, (row,), _ in expected]
    assert leaves.tolist() == [leaf for _, _, (leaf,) in expected]
    np.testing.assert_array_equal(snapshot.predict(batch), codes)
    np.testing.assert_array_equal(snapshot.leaves(batch), leaves)


@pytest.mark.parametrize("rows", [TOGETHER, TOGETHER + 1, 5 * TOGETHER - 1])
def test_a_block_that_is_not_full_is_answered_too(rows: int) -> None:
    snapshot, asked = grown("agrawal")
    batch = snapshot.encode(asked)
    snapshot._answering._asked = snapshot.shape.nodes
    all_leaves = snapshot.leaves(batch)

    assert snapshot.leaves(batch.part(0, rows)).tolist() == all_leaves[:rows].tolist()


@pytest.mark.parametrize("name", [*STREAMS, *MODELS])
def test_one_row_ends_where_it_does_among_many(name: str) -> None:
    snapshot, rows = grown(name)

    leaves = snapshot.leaves(snapshot.encode(rows))

    assert [snapshot.end_of(row).id for row in rows] == leaves.tolist()


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("options", ["majority", "votes of the parent"])
def test_votes_at_the_end_of_one_row_say_what_it_is_told_among_many(
    name: str, options: str
) -> None:
    snapshot, rows = grown(name, **OPTIONS[options])
    assert snapshot.answers_by_leaf

    codes, probabilities, _ = snapshot.evaluate(snapshot.encode(rows))

    told = [snapshot.votes_at(snapshot.end_of(row).place) for row in rows]
    assert told == list(zip(codes.tolist(), probabilities.tolist(), strict=True))


@pytest.mark.parametrize("name", ["led", "tweets"])
def test_a_tree_without_numbers_is_walked_too(name: str) -> None:
    snapshot, rows = grown(name)
    batch = snapshot.encode(rows)
    assert batch.numeric.shape[1] == 0

    snapshot._answering._asked = snapshot.shape.nodes

    assert snapshot.leaves(batch).tolist() == [snapshot.end_of(row).id for row in rows]


def test_values_nobody_has_seen_are_walked_like_missing_ones() -> None:
    snapshot, rows = grown("agrawal")
    nominal = [i for i, value in enumerate(rows[0]) if isinstance(value, str)]
    odd = [[("new" if i in nominal else value) for i, value in enumerate(row)] for row in rows]
    gone = [[(None if i in nominal else value) for i, value in enumerate(row)] for row in rows]

    snapshot._answering._asked = snapshot.shape.nodes

    assert (
        snapshot.leaves(snapshot.encode(odd)).tolist()
        == snapshot.leaves(snapshot.encode(gone)).tolist()
        == [snapshot.end_of(row).id for row in odd]
    )


def test_a_tree_without_a_class_says_so_to_many() -> None:
    stream = open_stream("sea")
    schema = type(stream.schema)(stream.schema.features)
    snapshot = StreamingTree(Encoder(schema)).snapshot()

    batch, _ = stream.take(100)

    assert set(snapshot.predict(batch).tolist()) == {-1}
    assert snapshot.probabilities(batch).shape == (100, 0)
