"""Orders and outcomes as bytes: what comes is what was sent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from app.distributed.frame import (
    LaidBlock,
    Order,
    Taken,
    orders_bytes,
    orders_from,
    taken_bytes,
    taken_from,
)
from app.distributed.shared_rows import Laid
from learner import Child, Done, Drop, Known, LocalResult, Wave

LONGS = st.integers(-(2**63), 2**63 - 1)


def arrays(kind: type, dimensions: int = 1) -> st.SearchStrategy[Any]:
    shapes = hnp.array_shapes(min_dims=dimensions, max_dims=dimensions, min_side=0, max_side=9)
    return hnp.arrays(kind, shapes)


CODES, FLOATS, TABLES = arrays(np.int32), arrays(np.float64), arrays(np.float64, 2)
WAVES = st.builds(Wave, LONGS, CODES, CODES, CODES, arrays(np.int64))
PLACES = st.tuples(st.sampled_from(["<f8", "<i4"]), st.lists(st.integers(0, 9)), LONGS)
ORDERS = st.one_of(
    WAVES,
    st.builds(Done, LONGS),
    st.builds(Child, LONGS),
    st.builds(Drop, LONGS, LONGS, LONGS, TABLES),
    st.builds(Known, LONGS, CODES, CODES, CODES, CODES, CODES),
    st.builds(LaidBlock, LONGS, st.builds(Laid, LONGS, LONGS, st.lists(PLACES))),
)
RESULTS = st.builds(LocalResult, LONGS, LONGS, FLOATS, TABLES, CODES)


def same(one: Any, other: Any) -> bool:
    """Whether two are equal to the last bit, arrays included."""
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and one.shape == other.shape) and (
            one.tobytes() == other.tobytes()
        )
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@given(st.lists(st.tuples(LONGS, ORDERS), max_size=5))
def test_orders_arrive_as_they_were_sent(orders: list[tuple[int, Order]]) -> None:
    found = orders_from(orders_bytes(orders))

    assert same(found, orders)
    assert [type(order) for _, order in found] == [type(order) for _, order in orders]


@given(WAVES)
def test_kernels_take_the_arrays_of_a_wave(wave: Wave) -> None:
    ((_, found),) = orders_from(orders_bytes([(1, wave)]))

    assert isinstance(found, Wave)
    for array in found[1:]:
        assert array.flags.aligned
        assert array.flags.writeable


@given(st.lists(RESULTS, max_size=3), st.floats(0, 1e9), st.integers(0, 2**62))
def test_outcomes_arrive_as_they_were_sent(
    results: list[LocalResult], seconds: float, held: int
) -> None:
    taken = Taken(results, seconds, held)

    found = taken_from(taken_bytes(taken))

    assert same(found, taken)
    assert all(isinstance(result, LocalResult) for result in found.results)


def test_what_has_no_bytes_is_told() -> None:
    with pytest.raises(NotImplementedError, match="a object has no bytes"):
        orders_bytes([(1, Done(object()))])  # type: ignore[arg-type]
