"""Snapshots as bytes: what is read answers like what was written, and nothing else is read."""

from __future__ import annotations

import mmap
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from learner import Snapshot, SnapshotError, SnapshotReader, SnapshotVersion, StreamingTree
from learner.archive import SNAPSHOT, Pieces, seal, unpack
from learner.snapshot_bytes import layout_number, pack_snapshot
from tests.fuzz.model import MODELS, real_model, records


@cache
def taken(name: str) -> Snapshot:
    return StreamingTree.from_bytes(real_model(name)).snapshot()


def bytes_of(snapshot: Snapshot) -> bytearray:
    return bytearray(b"".join(pack_snapshot(snapshot)))


def same_answers(one: Snapshot, other: Snapshot, name: str) -> None:
    rows, _ = records(MODELS[name][1], 300)
    ours, theirs = one.encode_records(rows), other.encode_records(rows)
    for count in (1, 300):  # few rows, and many by a plan
        for mine, their in zip(
            one.evaluate(ours.part(0, count)), other.evaluate(theirs.part(0, count)), strict=True
        ):
            assert np.array_equal(mine, their)
    assert [one.path(ours, row) for row in range(20)] == [
        other.path(theirs, row) for row in range(20)
    ]


@pytest.mark.parametrize("name", MODELS)
def test_a_snapshot_that_was_read_is_the_one_that_was_written(name: str) -> None:
    snapshot = taken(name)

    found = SnapshotReader().read(bytes_of(snapshot))

    same_answers(snapshot, found, name)
    assert list(found.walk()) == list(snapshot.walk())
    assert (found.id, found.shape, found.counters) == (
        snapshot.id, snapshot.shape, snapshot.counters,
    )  # fmt: skip
    assert (found.schema, found.params, found.memory_bytes) == (
        snapshot.schema, snapshot.params, snapshot.memory_bytes,
    )  # fmt: skip
    assert bytes_of(found) == bytes_of(snapshot)


@pytest.mark.parametrize("name", MODELS)
def test_equal_models_give_equal_bytes_however_they_came_about(name: str) -> None:
    tree = StreamingTree.from_bytes(real_model(name))
    held = [tree.snapshot() for _ in range(3)]  # from different copies

    assert len({bytes(bytes_of(snapshot)) for snapshot in [*held, taken(name)]}) == 1


def test_a_tree_with_majority_leaves_travels_without_statistics() -> None:
    named = unpack(bytes_of(taken("vfdt")), SNAPSHOT)

    assert not {"tree.moments", "tree.values", "tree.tokens", "tree.seen"} & named.keys()
    assert len(bytes_of(taken("imac"))) < len(real_model("imac")) / 4


def test_arrays_are_read_in_place(tmp_path: Path) -> None:
    file = tmp_path / "mapped"
    file.write_bytes(bytes_of(taken("vfdtc")))

    with file.open("rb") as opened:
        mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)
    found = SnapshotReader().read(memoryview(mapped))

    first = np.frombuffer(mapped, np.uint8)
    for array in (found._tree.node, found._tree.votes, found._tree.moments):
        assert np.shares_memory(first, array)
        assert array.ctypes.data % 64 == 0
    same_answers(taken("vfdtc"), found, "vfdtc")


def test_what_snapshots_share_is_made_once() -> None:
    reader = SnapshotReader()

    one, other = (reader.read(bytes_of(taken("vfdt"))) for _ in range(2))
    another = reader.read(bytes_of(taken("sets of values")))

    assert one._encoder is other._encoder
    assert another._encoder is not other._encoder


def test_every_changed_byte_is_noticed() -> None:
    good = bytes_of(taken("never taught"))
    for place in range(0, len(good), 7):
        bad = bytearray(good)
        bad[place] ^= 0x10
        with pytest.raises(SnapshotError):
            SnapshotReader().read(bad)


@pytest.mark.parametrize("kept", [0, 7, 15, 16, 100, -33, -1])
def test_bytes_that_were_cut_off_are_refused(kept: int) -> None:
    with pytest.raises(SnapshotError):
        SnapshotReader().read(bytes_of(taken("vfdt"))[:kept])


def test_a_whole_model_is_no_snapshot() -> None:
    with pytest.raises(SnapshotError, match="expected b'LIVESNAP'"):
        SnapshotReader().read(bytearray(real_model("vfdt")))


def test_nodes_of_another_layout_are_of_another_version() -> None:
    named = dict(unpack(bytes_of(taken("vfdt")), SNAPSHOT))
    named["layout"] = np.array([layout_number() + 1])

    with pytest.raises(SnapshotVersion, match="layout"):
        SnapshotReader().read(sealed(named))


def test_an_array_too_many_is_refused() -> None:
    named = dict(unpack(bytes_of(taken("vfdt")), SNAPSHOT))
    named["tree.moments"] = np.zeros((1, 3, 5, 2))

    with pytest.raises(SnapshotError, match="tree\\.moments"):
        SnapshotReader().read(sealed(named))


def sealed(named: dict[str, np.ndarray]) -> bytearray:
    parts = list(Pieces(named, SNAPSHOT))
    return bytearray(b"".join([*parts, seal(parts)[0]]))
