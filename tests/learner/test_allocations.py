"""Nothing is allocated per event, and memory stays flat once a budget is reached."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba.core.runtime import _nrt_python as runtime
from numba.core.runtime import rtsys

from learner import VARIANTS, Encoder, StreamingTree
from learner.kernels.jit import JIT_DISABLED
from streams import open_stream

pytestmark = pytest.mark.skipif(JIT_DISABLED, reason="nothing is compiled, so nothing is counted")


def allocated(tree: StreamingTree, source: Any, events: int) -> int:
    """Allocations of the compiled code while it learns so many events at once."""
    batch, y = source.take(events)
    predicted = np.empty(events, np.int32)
    runtime.memsys_enable_stats()
    before = rtsys.get_allocation_stats().alloc
    tree.learn(batch, y, None, predicted)
    return int(rtsys.get_allocation_stats().alloc - before)


@pytest.mark.parametrize("predictor", ["mc", "nba"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_learning_allocates_by_the_call_and_not_by_the_event(variant: str, predictor: str) -> None:
    """What a call allocates is its arguments; arrays that grow are a matter of doublings."""
    source = open_stream("agrawal", 1)
    tree = StreamingTree(Encoder(source.schema), variant, leaf_predictor=predictor)
    tree.learn(*source.take(5000))

    few, many = allocated(tree, source, 200), allocated(tree, source, 20_000)

    assert many <= few + 1500, (few, many)


def bytes_of(tree: StreamingTree) -> int:
    """All arrays of the tree, with their spare room."""
    return sum(array.nbytes for array in tree._tree)


def test_memory_of_the_queues_is_flat_once_the_budget_is_reached() -> None:
    source = open_stream("agrawal", 1, function=7)
    tree = StreamingTree(
        Encoder(source.schema), "streamtree", queue_bytes=300_000, stop_share=0.0, stop_depth=6,
        stop_purity=0.0, intervals=50, n_min=200.0, n_first=200.0, tau=0.2,
    )  # fmt: skip
    sizes = []
    for _ in range(40):
        tree.learn(*source.take(5000))
        sizes.append(bytes_of(tree))
    assert tree.shape().active_leaves < tree.shape().leaves
    assert sizes[-1] == sizes[25]


@pytest.mark.parametrize("variant", ["vfdt", "vfdtc", "cgd", "osm", "imac"])
def test_memory_of_the_bounded_tree_is_flat_once_the_bound_is_reached(variant: str) -> None:
    """Leaves lose their statistics; what is left to grow are the nodes themselves."""
    source = open_stream("rtg", 1, classes=2, nominal=3, numeric=3)
    tree = StreamingTree(
        Encoder(source.schema), variant, max_memory_bytes=200_000, memory_check_every=1000,
        max_distinct=200, intervals=20, tau=0.2, leaf_predictor="mc",
    )  # fmt: skip
    for _ in range(20):
        tree.learn(*source.take(5000))
    nodes = tree.shape().nodes * (256 + 2 * 8 * 2)
    assert tree.memory_bytes() <= max(200_000, nodes) + 150_000


@pytest.mark.parametrize("variant", VARIANTS)
def test_arrays_of_a_tree_that_grows_no_more_stay_as_they_are(variant: str) -> None:
    """A constant rule and few values: after the last split nothing grows."""
    rng = np.random.default_rng(1)
    source = open_stream("sea", 1)
    tree = StreamingTree(
        Encoder(source.schema), variant, max_distinct=50, intervals=20, queue_bytes=0, tau=0.0,
        delta=1e-9, reevaluate_every=1000.0,
    )  # fmt: skip
    matrix = rng.integers(0, 8, size=(5000, 3)).astype(float)
    y = (matrix[:, 0] > 3).astype(np.int32)
    sizes = []
    for _ in range(12):
        tree.learn(matrix, y)
        sizes.append(bytes_of(tree))
    assert sizes[-1] == sizes[3]
