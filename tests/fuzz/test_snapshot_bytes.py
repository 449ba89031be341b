"""Bytes of snapshots whose checksum holds and whose content does not, as a replica may meet them.

Either they are refused with one clear error, or what is read predicts, explains and is written
like any other snapshot. Each batch runs in a child: compiled kernels would not raise but crash.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learner import BadValue, Snapshot, SnapshotError, SnapshotReader, StreamingTree
from learner.archive import SNAPSHOT, Pieces, seal, unpack
from learner.kernels.tree import NODE
from learner.snapshot_bytes import pack_snapshot
from tests.fuzz.child import in_child
from tests.fuzz.model import CHANGES, MODELS, real_model, records
from tests.fuzz.test_model_bytes import LONGER

BATCH = 60


@cache
def bytes_of(name: str) -> bytes:
    return b"".join(pack_snapshot(StreamingTree.from_bytes(real_model(name)).snapshot()))


def use(snapshot: Snapshot, name: str) -> None:
    """Predict, explain, walk and write, as the service does."""
    rows, _ = records(MODELS[name][1], 50)
    batch = snapshot.encode_records(rows)
    for part in (batch.part(0, 1), batch):
        codes, probabilities, _ = snapshot.evaluate(part)
        assert ((codes >= -1) & (codes < len(snapshot.classes))).all()
        assert np.isfinite(probabilities).all()
    assert len(list(snapshot.walk())) == snapshot.shape.nodes
    for row in range(5):
        snapshot.path(batch, row)
    written = bytearray(b"".join(pack_snapshot(snapshot)))
    assert SnapshotReader().read(written).id == snapshot.id


def mutant(data: bytes, rng: random.Random) -> tuple[str, bytearray]:
    """One to three things wrong; the fields of a node one by one."""
    named = dict(unpack(data, SNAPSHOT))
    node = named.pop("tree.node").reshape(-1).view(NODE)
    fields = {f"node.{field}": field for field in NODE.names or ()}
    named |= {name: node[field].copy() for name, field in fields.items()}
    told = "; ".join(rng.choice(CHANGES)(named, rng) for _ in range(rng.choice((1, 1, 1, 2, 3))))
    found = {field: named.pop(name, np.zeros(0)) for name, field in fields.items()}
    count = max(array.size for array in found.values())
    whole = np.zeros(count, NODE)
    with np.errstate(all="ignore"):
        for field, array in found.items():
            if array.shape == (count,) and array.dtype.kind in "iuf":
                whole[field] = array
    named["tree.node"] = whole.view("<i8").reshape(count, NODE.itemsize // 8)
    parts = list(Pieces(named, SNAPSHOT))
    return told, bytearray(b"".join([*parts, seal(parts)[0]]))


def try_batch(name: str, seed: int) -> Callable[[Callable[[str], None]], Any]:
    """What became of so many mutants of a snapshot."""
    data = bytes_of(name)

    def work(take_note: Callable[[str], None]) -> dict[str, int]:
        rng, outcomes = random.Random(seed), Counter[str]()
        for number in range(BATCH):
            told, changed = mutant(data, rng)
            take_note(f"{name}, seed {seed}, mutant {number}: {told}")
            try:
                use(SnapshotReader().read(changed), name)
            except SnapshotError:
                outcomes["refused"] += 1
            except BadValue:  # its features have exchanged their names
                outcomes["renamed"] += 1
            else:
                outcomes["accepted"] += 1
        return dict(outcomes)

    return work


@settings(max_examples=2 * LONGER)
@given(seed=st.integers(0, 2**32))
@pytest.mark.parametrize("name", MODELS)
def test_mutated_bytes_are_refused_or_are_a_snapshot_that_works(name: str, seed: int) -> None:
    outcomes = in_child(try_batch(name, seed))

    assert sum(outcomes.values()) == BATCH
    assert outcomes["refused"] > 0
