"""Many rows are answered from tables of naive Bayes, as few rows are from the counts."""

from __future__ import annotations

import numpy as np
import pytest

from learner import Batch, Encoder, Snapshot, StreamingTree, answering
from streams import open_stream


def tree_of(stream: str) -> tuple[StreamingTree, Batch]:
    source = open_stream(stream)
    batch, labels = source.take(4000)
    tree = StreamingTree(
        Encoder(source.schema), n_min=50.0, delta=0.1, tau=0.3, leaf_predictor="nba"
    )
    tree.learn(batch, labels)
    numeric, nominal = batch.numeric.copy(), batch.nominal.copy()
    numeric[::5, :1] = np.nan
    nominal[::7, :1] = -1
    return tree, batch._replace(numeric=numeric, nominal=nominal)


def one_by_one(snapshot: Snapshot, batch: Batch, rows: int) -> list[int]:
    return [int(snapshot.predict(batch.part(row, row + 1))[0]) for row in range(rows)]


@pytest.mark.parametrize("stream", ["agrawal", "sea", "led"])
def test_many_rows_get_the_answers_of_single_ones(stream: str) -> None:
    tree, batch = tree_of(stream)
    many, few = tree.snapshot(), tree.snapshot()
    labels = many.predict(batch)
    assert labels[:500].tolist() == one_by_one(few, batch, 500)
    told, shares, _ = many.evaluate(batch)
    assert told.tolist() == labels.tolist()
    alone = [few.probabilities(batch.part(row, row + 1))[0] for row in range(500)]
    assert shares[:500].tobytes() == np.array(alone).tobytes()


def test_huge_tables_are_not_laid(monkeypatch: pytest.MonkeyPatch) -> None:
    tree, batch = tree_of("agrawal")
    with_tables = tree.snapshot().predict(batch)
    monkeypatch.setattr(answering, "MOST_TABLE_BYTES", 0)
    assert tree.snapshot().predict(batch).tolist() == with_tables.tolist()
