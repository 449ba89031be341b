"""The shell: what it reserves, what it refuses, what it tells."""

from __future__ import annotations

import numpy as np
import pytest

from learner import (
    Encoder,
    Feature,
    Kind,
    LearnerError,
    ParamsError,
    Schema,
    StreamingTree,
    dense_batch,
)
from streams import open_stream


def test_a_feature_of_unique_values_reserves_no_room_for_branches() -> None:
    encoder = Encoder(Schema((Feature("id", Kind.NOMINAL), Feature("x", Kind.NUMERIC))))
    tree = StreamingTree(encoder)
    for start in range(0, 6000, 1000):
        records = [{"id": f"u{start + i}", "x": i / 1000} for i in range(1000)]
        labels = encoder.encode_labels(["low" if r["x"] < 0.5 else "high" for r in records])
        tree.learn(encoder.encode_records(records), labels)

    held = sum(part.nbytes for part in tree._tree)

    assert tree.shape().depth >= 1
    assert held < 128 * 2**20, "6,000 values by as many branches would be gigabytes"


def test_a_split_that_waits_for_room_is_the_same_split() -> None:
    """Many branches at once, far beyond the first arrays, whole or event by event."""
    values = tuple(f"v{i}" for i in range(90))
    schema = Schema((Feature("c", Kind.NOMINAL, values),), ("a", "b"))
    codes = np.tile(np.arange(90), 20)
    labels = (codes % 2).astype(np.int32)
    batch = dense_batch(schema, codes[:, None])
    at_once = StreamingTree(Encoder(schema), n_min=180, min_branch_fraction=0.005)
    one_by_one = StreamingTree(Encoder(schema), n_min=180, min_branch_fraction=0.005)

    at_once.learn(batch, labels)
    for row in range(len(labels)):
        one_by_one.learn(batch.part(row, row + 1), labels[row : row + 1])

    assert at_once.shape().nodes > 64
    assert at_once.to_bytes() == one_by_one.to_bytes()


def test_traffic_is_shared_out_among_children() -> None:
    stream = open_stream("agrawal", function=2)
    tree = StreamingTree(Encoder(stream.schema))
    tree.learn(*stream.take(50_000))
    snapshot = tree.snapshot()

    nodes = {view.id: view for view in snapshot.walk()}

    assert nodes[0].weight == pytest.approx(50_000)
    for view in nodes.values():
        if view.children:
            below = sum(nodes[child].weight for child in view.children)
            assert below == pytest.approx(view.weight)


def test_a_leaf_that_could_have_split_is_late_until_it_does() -> None:
    stream = open_stream("agrawal", function=1)
    tree = StreamingTree(Encoder(stream.schema), n_min=3000, audit_fraction=1.0)

    tree.learn(*stream.take(2990))
    late_before = tree.late_leaves()
    tree.learn(*stream.take(10))

    assert (late_before, tree.late_leaves()) == (1, 0)
    assert tree.take_splits()[0].delay > 0


def test_every_wrong_parameter_is_named_at_once() -> None:
    with pytest.raises(ParamsError) as caught:
        StreamingTree(Encoder(Schema(())), n_min=-1, criterion="gain", colour="red")

    assert caught.value.problems == [
        "parameter 'n_min' is -1; expected a number from 0 to 1e+15, not 0 itself",
        "parameter 'criterion' is 'gain'; expected info_gain or gini",
        next(problem for problem in caught.value.problems if "'colour' is unknown" in problem),
    ]


@pytest.mark.parametrize(
    ("y", "w", "message"),
    [
        ([0, 2], None, "y holds the class code 2; expected 0 to 1"),
        ([0, -1], None, "y holds the class code -1; expected 0 to 1"),
        ([0], None, "y has 1 entries; expected 2, one a row"),
        ([0, 1], [1.0, 0.0], "w holds 0.0; expected weights above 0"),
        ([0, 1], [1.0, np.nan], "w holds nan; expected weights above 0"),
    ],
)
def test_learning_refuses_what_it_cannot_count(
    y: list[int], w: list[float] | None, message: str
) -> None:
    schema = Schema((Feature("x", Kind.NUMERIC),), ("a", "b"))
    tree = StreamingTree(Encoder(schema))
    before = tree.hash()

    with pytest.raises(LearnerError, match=message):
        tree.learn(np.zeros((2, 1)), y, w)

    assert tree.hash() == before
