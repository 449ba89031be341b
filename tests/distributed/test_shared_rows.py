"""Events in memory that processes share: what others read is what was laid there."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.distributed.frame import LaidBlock, orders_bytes
from app.distributed.shared_rows import Laid, OthersRows, SharedRows
from learner import Batch, Events

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs memfd_create")


def events(rows: int, columns: int = 3, seed: int = 0) -> Events:
    """Events of all kinds, with weights if there are many."""
    rng = np.random.default_rng(seed)
    starts = np.arange(rows + 1, dtype=np.int64) * 2
    batch = Batch(
        np.asfortranarray(rng.normal(size=(rows, columns))),
        rng.integers(0, 9, (rows, 2), np.int32),
        starts,
        rng.integers(0, 99, 2 * rows, np.int32),
    )
    weights = rng.random(rows) if rows > 5 else np.zeros(0)
    return Events.of(batch, rng.integers(0, 3, rows, np.int32), weights)


def same(one: Events, other: Events) -> bool:
    return all(
        a.dtype == b.dtype and a.shape == b.shape and (a == b).all()
        for a, b in zip(one, other, strict=True)
    )


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 3000), min_size=1, max_size=12),
    held=st.integers(1, 4),
    columns=st.integers(0, 5),
)
def test_events_stay_as_they_are_until_they_are_given_back(
    sizes: list[int], held: int, columns: int
) -> None:
    own, others = SharedRows(), OthersRows()
    there: dict[int, tuple[Laid, Events, Events]] = {}
    descriptors = set()
    for number, rows in enumerate(sizes):
        given = events(rows, columns, number)
        laid, copy = own.lay(number, given)
        there[number] = laid, copy, given
        descriptors.add(laid.memory)
        if len(there) > held:
            own.give_back(number - held)
            del there[number - held]
        for laid, copy, given in there.values():
            assert same(others.events(laid), given)
            assert same(copy, given)

    assert len(descriptors) <= held + 1  # memory is used again


@settings(max_examples=40, deadline=None)
@given(
    shapes=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 30)), min_size=1, max_size=8),
    taken=st.lists(st.booleans(), min_size=8, max_size=8),
)
def test_numbers_that_were_written_there_are_not_copied(
    shapes: list[tuple[int, int]], taken: list[bool]
) -> None:
    """Whether all of them are laid out, or only some, as where rows have been rejected."""
    own, others = SharedRows(), OthersRows()
    for number, (shape, all_of_it) in enumerate(zip(shapes, taken, strict=False)):
        given = events(*shape, seed=number)
        own.empty((3, 3))  # of a batch without any good row
        room = own.empty(shape)
        room[...] = given.numeric
        numbers = room if all_of_it else room.copy()
        laid, copy = own.lay(number, given._replace(numeric=numbers))

        assert same(others.events(laid), given)
        assert same(copy, given)
        if all_of_it and numbers.size:
            numbers[0, 0] = 5.0
            assert copy.numeric[0, 0] == 5.0
        if number % 2:
            own.give_back(number)


READ = """
import sys
import numpy as np
from app.distributed.frame import orders_from
from app.distributed.shared_rows import OthersRows
((_, order),) = orders_from(sys.stdin.buffer.read())
found = OthersRows().events(order.laid)
print(float(found.numeric.sum()), int(found.y.sum()), found.numeric.flags.writeable)
"""


def test_another_process_reads_them_and_cannot_write() -> None:
    own, given = SharedRows(), events(1000)
    laid, _ = own.lay(1, given)
    asked = subprocess.run(
        [sys.executable, "-c", READ], input=orders_bytes([(1, LaidBlock(7, laid))]),
        capture_output=True, check=True,
    )  # fmt: skip

    numbers = np.ascontiguousarray(given.numeric).sum()
    assert asked.stdout.split() == [
        str(float(numbers)).encode(),
        str(given.y.sum()).encode(),
        b"False",
    ]


def test_the_memory_goes_with_its_owner() -> None:
    own, others = SharedRows(), OthersRows()
    laid, _ = own.lay(1, events(10))
    del own

    with pytest.raises(OSError, match="No such file"):
        others.events(laid)
