"""Streams that turn into one another."""

from __future__ import annotations

import numpy as np
import pytest

from streams import BadOption, Drifting, Stream, StreamError, open_stream
from tests.streams.rows import matrix


def led(drift: int, seed: int = 1) -> Stream:
    return open_stream("led", seed, drift=drift, noise=0.0)


def origins(stream: Stream, n: int) -> list[int]:
    """Which of sea's first two concepts labelled each row, -1 where they agree."""
    batch, labels = stream.take(n)
    sums = batch.numeric[:, 0] + batch.numeric[:, 1]
    by_first, by_second = sums > 8.0, sums > 9.0
    seen: list[int] = np.where(by_first == by_second, -1, labels == by_second).tolist()
    return seen


def concepts() -> list[Stream]:
    return [open_stream("sea", seed, function=seed, noise=0.0) for seed in (1, 2)]


def test_an_abrupt_change_happens_at_its_row() -> None:
    drifting, first, second = Drifting([led(0), led(7, 2)], every=100), led(0), led(7, 2)
    parts = [source.take(100) for source in (first, second, first, second)]
    expected = np.vstack([matrix(first.schema, *part) for part in parts])
    assert np.array_equal(matrix(drifting.schema, *drifting.take(400)), expected)


@pytest.mark.parametrize("width", [0, 1])
def test_a_width_of_at_most_one_row_is_abrupt(width: int) -> None:
    seen = origins(Drifting(concepts(), every=1000, width=width), 4000)
    assert set(seen[:1000]) == {0, -1} == set(seen[2000:3000])
    assert set(seen[1000:2000]) == {1, -1} == set(seen[3000:])


def test_a_gradual_change_is_half_way_at_its_row() -> None:
    seen = np.array(origins(Drifting(concepts(), every=40_000, width=20_000), 80_000))
    middle = seen[38_000:42_000]
    assert np.mean(middle[middle >= 0]) == pytest.approx(0.5, abs=0.06)
    start = seen[:10_000]
    assert np.mean(start[start >= 0]) < 0.02
    quarter = seen[34_500:35_500]  # 1 / (1 + exp(4 * 5000 / 20000)) of the second concept
    assert np.mean(quarter[quarter >= 0]) == pytest.approx(0.269, abs=0.1)


def test_a_cycle_returns_to_the_first_stream() -> None:
    assert set(origins(Drifting(concepts(), every=500), 1500)[1000:]) == {0, -1}


def test_without_a_cycle_the_last_stream_stays() -> None:
    seen = origins(Drifting(concepts(), every=500, cycle=False), 3000)
    assert set(seen[:500]) == {0, -1}
    assert set(seen[500:]) == {1, -1}


def test_a_gradual_change_without_a_cycle_stays_at_the_last_stream() -> None:
    seen = origins(Drifting(concepts(), every=500, width=100, cycle=False), 5000)
    assert set(seen[700:]) == {1, -1}


def test_the_name_tells_the_parts() -> None:
    assert Drifting([led(0), led(3)], every=10).name == "drifting(led, led)"


def test_streams_of_different_schemas_are_refused() -> None:
    with pytest.raises(StreamError, match="'led' has other features or classes than 'sea'"):
        Drifting([open_stream("sea"), led(0)], every=10)


def test_a_single_stream_cannot_drift() -> None:
    with pytest.raises(StreamError, match="1 streams to drift between; expected 2 or more"):
        Drifting([led(0)], every=10)


def test_changes_that_would_overlap_are_refused() -> None:
    with pytest.raises(BadOption, match="option 'width' is 11; expected 0 to 10 rows"):
        Drifting([led(0), led(1)], every=10, width=11)
    with pytest.raises(BadOption, match="option 'every' is 0; expected a number of rows"):
        Drifting([led(0), led(1)], every=0)
