"""What holds for every stream of the catalogue."""

from __future__ import annotations

import json

import numpy as np
import pytest

from learner import Encoder, Kind
from streams import STREAMS, Drifting, Stream, StreamError, open_stream
from tests.streams.rows import matrix, same

SMALL: dict[str, dict[str, object]] = {
    "rtg": {"nominal": 4, "numeric": 4, "classes": 3},
    "rbf": {"attributes": 6, "centroids": 9, "classes": 3},
    "led_g": {"position": 300, "width": 50},
    "agr_g": {"position": 300, "width": 50},
    "tweets": {"words": 200},
}


def opened(name: str, seed: int = 1) -> Stream:
    if name == "drifting":
        return Drifting([opened("tweets", 3), opened("tweets", 4)], every=150, width=60)
    return open_stream(name, seed, **SMALL.get(name, {}))


every_stream = pytest.mark.parametrize("name", [*STREAMS, "drifting"])


@every_stream
def test_batch_size_does_not_change_the_rows(name: str) -> None:
    one, many = opened(name), opened(name)
    batch, labels = one.take(1000)
    whole = matrix(one.schema, batch, labels)
    parts = [matrix(many.schema, *many.take(100)) for _ in range(10)]
    assert np.array_equal(whole, np.vstack(parts))


@every_stream
def test_rows_can_be_taken_one_by_one_and_none_at_all(name: str) -> None:
    one, many = opened(name), opened(name)
    whole = matrix(one.schema, *one.take(20))
    empty, no_labels = many.take(0)
    assert empty.rows == 0
    assert len(no_labels) == 0
    assert np.array_equal(whole, np.vstack([matrix(many.schema, *many.take(1)) for _ in range(20)]))


@every_stream
def test_events_are_the_rows_of_take(name: str) -> None:
    stream, twin = opened(name), opened(name)
    batch, labels = stream.take(300)
    events = [*twin.events(200), *twin.events(100)]
    encoder = Encoder(stream.schema)
    assert same(encoder.encode_records([_without_label(event) for event in events]), batch)
    assert np.array_equal(encoder.encode_labels([event["label"] for event in events]), labels)  # type: ignore[misc]


@every_stream
def test_events_are_json_and_name_every_feature(name: str) -> None:
    stream = opened(name)
    names = [feature.name for feature in stream.schema.features]
    for event in stream.events(5):
        assert json.loads(json.dumps(event)) == event
        assert list(event) == [*names, "label"]


@every_stream
def test_codes_stay_inside_the_declared_values(name: str) -> None:
    stream = opened(name)
    batch, labels = stream.take(2000)
    assert labels.min() >= 0
    assert labels.max() < len(stream.schema.classes)
    nominal = [f for f in stream.schema.features if f.kind == Kind.NOMINAL]
    for column, feature in zip(batch.nominal.T, nominal, strict=True):
        assert set(column.tolist()) <= set(range(len(feature.values)))
    assert not np.isnan(batch.numeric).any()


@every_stream
def test_arrays_have_the_types_of_a_batch(name: str) -> None:
    batch, labels = opened(name).take(10)
    types = [array.dtype for array in (*batch, labels)]
    assert types == [np.float64, np.int32, np.int64, np.int32, np.int32]
    assert all(array.flags.c_contiguous for array in (*batch, labels))


@pytest.mark.parametrize("name", list(STREAMS))
def test_the_seed_decides_the_rows(name: str) -> None:
    first, again, other = opened(name, 5), opened(name, 5), opened(name, 6)
    rows = matrix(first.schema, *first.take(100))
    assert np.array_equal(rows, matrix(again.schema, *again.take(100)))
    assert not np.array_equal(rows, matrix(other.schema, *other.take(100)))


def test_tokens_of_a_row_ascend_and_are_unique() -> None:
    batch, _ = open_stream("tweets").take(2000)
    for row in range(batch.rows):
        tokens = batch.sparse_index[batch.sparse_start[row] : batch.sparse_start[row + 1]]
        assert np.all(np.diff(tokens) > 0)


def test_balanced_classes_alternate() -> None:
    for stream in (open_stream("sea_g", noise=0.0), open_stream("agrawal", balance=True)):
        _, labels = stream.take(100)
        assert labels.tolist() == [1, 0] * 50


def test_noise_flips_its_share_of_the_classes() -> None:
    batch, labels = open_stream("sea", noise=0.2).take(50_000)
    clean = (batch.numeric[:, 0] + batch.numeric[:, 1] > 8.0).astype(np.int32)
    assert np.mean(clean != labels) == pytest.approx(0.2, abs=0.01)


def test_a_negative_number_of_rows_is_refused() -> None:
    with pytest.raises(StreamError, match="-1 rows were asked of stream 'sea'; expected 0 or more"):
        open_stream("sea").take(-1)


def _without_label(event: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in event.items() if name != "label"}
