"""Bytes that are no model: each fault is told by the name of its array."""

from __future__ import annotations

import hashlib
import struct
import tracemalloc
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from learner import Encoder, Feature, Kind, LearnerError, Schema, SnapshotError, StreamingTree
from learner.archive import DIGEST, FORMAT, MAGIC, pack, unpack
from learner.kernels.tree import CLASSES, LEAF, NODES, PENDING, TABLE
from learner.state import keeping_nodes
from tests.fuzz.child import in_child
from tests.fuzz.model import MODELS, real_model, teach
from tests.learner.concepts import Concept

Named = dict[str, npt.NDArray[Any]]

bytes_of = cache(real_model)


def changed(named: Named, name: str, at: int, value: float) -> None:
    array = named[name].copy()
    array.flat[at] = value
    named[name] = array


def first_split(named: Named) -> int:
    return int(np.flatnonzero(named["node.kind"] != LEAF)[0])


def a_cycle(named: Named) -> None:
    changed(named, "node.child", int(np.flatnonzero(named["node.kind"] != LEAF)[-1]), 0)


def count(place: int, value: int) -> Callable[[Named], None]:
    return lambda named: changed(named, "tree.counts", place, value)


def number(name: str, value: float, at: int = 0) -> Callable[[Named], None]:
    return lambda named: changed(named, name, at, value)


def retyped(named: Named) -> None:
    named["node.child"] = named["node.child"].astype(np.int64)


def shortened(named: Named) -> None:
    named["tree.votes"] = named["tree.votes"][:-1]


def without(named: Named) -> None:
    del named["node.parent"]


def extended(named: Named) -> None:
    named["node.extra"] = np.zeros(3)


def overlapping(named: Named) -> None:
    holders = np.flatnonzero(named["node.table_length"] > 0)
    starts = named["node.table_start"].copy()
    starts[holders] = starts[holders[0]]
    named["node.table_start"] = starts


@pytest.mark.parametrize(
    ("model", "change", "message"),
    [
        ("vfdt", a_cycle, "'node.child' holds 0 at place"),
        ("vfdt", number("node.child", 10**6), "'node.child' holds 1000000 at place 0"),
        ("vfdt", number("node.parent", 5, at=1), "'node.parent' holds 5 at place 1"),
        ("vfdt", number("node.column", 99), "'node.column' holds 99 .* a column of its kind"),
        ("vfdt", number("node.kind", 9), "'node.kind' holds 9 at place 0; expected one of"),
        ("vfdt", number("node.majority", 3), "'node.majority' holds 3"),
        ("vfdt", number("node.slot", 7, at=-1), "'node.slot' holds"),
        ("vfdt", number("node.n", float("nan")), "'node.n' holds nan at place 0"),
        ("vfdt", number("tree.votes", -1.0), "'tree.votes' holds -1.0"),
        ("vfdt", number("tree.values", float("inf")), "'tree.values' holds inf"),
        ("vfdt", number("fact.created", -1), "'fact.created' holds -1"),
        ("vfdt", number("fact.created", 10**9), "'fact.created' holds 1000000000"),
        ("vfdt", number("fact.created", 100), "no less than its parent's"),
        ("vfdt", number("fact.event", 10**9), "'fact.event' holds 1000000000"),
        ("vfdt", number("fact.reason", 3), "'fact.reason' holds 3"),
        ("vfdt", number("fact.merit", float("nan")), "'fact.merit' holds nan"),
        ("vfdt", number("fact.bound", float("inf")), "'fact.bound' holds inf"),
        ("vfdt", number("fact.n", 1.0, at=-1), "'fact.n' holds 1.0 .* 0 at a leaf"),
        ("vfdt", number("fact.second_column", 99), "'fact.second_column' holds 99"),
        ("vfdt", number("fact.second_kind", 9), "'fact.second_kind' holds 9"),
        ("vfdt", number("slot.forecast", -2.0), "'slot.forecast' holds -2.0"),
        ("vfdt", overlapping, "'node.table_start' .* tables that lie apart"),
        ("vfdt", number("tree.tables", 10**6), "'tree.tables' holds 1000000"),
        ("sets of values", number("tree.tables", 2), "'tree.tables' holds 2"),
        ("vfdt", count(NODES, -1), "'tree.counts' holds -1"),
        ("vfdt", count(NODES, 0), "at least the root"),
        ("vfdt", count(NODES, 2**40), "expected float64.1099511627776"),
        ("vfdt", count(CLASSES, 1000), "at most the 3 that the encoder knows"),
        ("vfdt", count(TABLE, 2**50), "'tree.tables' is int32"),
        ("vfdt", count(PENDING, 5), "0 in a saved model"),
        ("vfdt", retyped, "'node.child' is int64"),
        ("vfdt", shortened, "'tree.votes' is float64"),
        ("vfdt", without, "no array 'node.parent'"),
        ("vfdt", extended, "an array 'node.extra'; expected no such name"),
        ("vfdt", number("encoder", -1, at=1), "'encoder' holds -1"),
        ("vfdt", number("classes.lengths", -1), "'classes.lengths' adds up to"),
        ("vfdt", number("tokens.feature", 10**6), "belongs to feature 1000000"),
        ("vfdtc", number("column.capacity", 2**30), "'column.capacity' holds 1073741824"),
        ("vfdtc", number("column.capacity", 17), "a power of two"),
        ("vfdtc", number("column.room", 0), "'column.room' holds 0"),
        ("vfdtc", number("column.run", 10**6), "'column.run' holds 1000000"),
        ("vfdtc", number("tree.entry_class", 3), "'tree.entry_class' holds 3"),
        ("vfdtc", number("tree.entry_value", 1e300), "values in ascending order"),
        ("vfdtc", number("tree.bin_shape", 11, at=2), "'tree.bin_shape' holds 11"),
        ("imac", number("slot.candidates", 11), "'slot.candidates' holds 11"),
        ("queues", number("node.standing", 9), "'node.standing' holds 9"),
    ],
)
def test_a_fault_is_told_by_the_name_of_its_array(
    model: str, change: Callable[[Named], None], message: str
) -> None:
    named = unpack(bytes_of(model))
    change(named)

    with pytest.raises(SnapshotError, match=message):
        StreamingTree.from_bytes(pack(named))


def sealed(body: bytes) -> bytes:
    return body + hashlib.sha256(body).digest()


def test_a_declared_size_is_not_believed() -> None:
    """An array that says it is an exabyte long costs nothing to refuse."""
    head = MAGIC + struct.pack("<II", FORMAT, 1) + struct.pack("<H", 1) + b"a"
    for sizes in ((2**60,), (2**30, 2**30), (2**31, 0), (2**63, 2, 0)):
        shape = struct.pack(f"<B{len(sizes)}Q", len(sizes), *sizes)
        data = sealed(head + struct.pack("<B", 3) + b"<f8" + shape + bytes(64))

        tracemalloc.start()
        try:
            with pytest.raises(SnapshotError, match=r"array 'a'|behind the last"):
                StreamingTree.from_bytes(data)
            assert tracemalloc.get_traced_memory()[1] < 2**20
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("text", [b"|O", b"O8", b"<U9", b"i4,i4", b"<f2", b"f8", b"(2,)i4", b""])
def test_only_types_of_models_are_read(text: bytes) -> None:
    head = MAGIC + struct.pack("<II", FORMAT, 1) + struct.pack("<H", 1) + b"a"
    data = sealed(head + struct.pack("<B", len(text)) + text + struct.pack("<BQ", 1, 1) + bytes(8))

    with pytest.raises(SnapshotError, match="expected numbers"):
        unpack(data)


@pytest.mark.parametrize("length", [0, 5, 8, 15, 16, 20, 47, 48, 500])
def test_bytes_that_end_early_are_refused(length: int) -> None:
    data = bytes_of("vfdt")

    with pytest.raises(SnapshotError):
        StreamingTree.from_bytes(data[:length])
    with pytest.raises(SnapshotError):
        StreamingTree.from_bytes(sealed(data[: max(0, length - DIGEST)]))


def test_nothing_may_follow_the_last_array() -> None:
    with pytest.raises(SnapshotError, match="go on for 3 bytes"):
        StreamingTree.from_bytes(sealed(bytes_of("vfdt")[:-DIGEST] + b"abc"))


def test_what_a_slot_held_before_does_not_reach_the_bytes() -> None:
    """A tree that was saved takes new slots where the other one takes up old ones."""
    concept = Concept(seed=3, numeric=2, nominal=1, classes=2)
    tree = StreamingTree(
        Encoder(concept.schema()), "vfdtc", n_min=20.0, delta=0.05, tau=0.2,
        max_distinct=8, intervals=5, max_memory_bytes=9000, memory_check_every=50,
    )  # fmt: skip
    rows, labels, _ = zip(*concept.events(1500), strict=True)
    batch, y = tree.encoder.encode(rows), tree.encoder.encode_labels(labels)
    tree.learn(batch.part(0, 400), y[:400])

    restored = StreamingTree.from_bytes(tree.to_bytes())
    for twin in (tree, restored):
        twin.learn(batch.part(400, 1500), y[400:])

    assert restored.hash() == tree.hash()


def test_a_leaf_made_on_the_way_finds_room_for_its_values() -> None:
    """Blocks that grow at one node must not take the room that a new leaf was promised."""
    named = unpack(bytes_of("samples"))
    changed(named, "values.000001.text", 5, 0)  # so that one value is new when it comes again

    def work(take_note: Callable[[str], None]) -> int:
        tree = StreamingTree.from_bytes(pack(named))
        for _ in range(2):
            take_note("learning")
            teach(tree, MODELS["samples"][1], 250)
        slots = tree._tree.node["slot"][np.flatnonzero(keeping_nodes(tree._tree))]
        return int(tree._tree.column["start"][slots].min())

    assert in_child(work) >= 0


def test_an_encoder_that_is_ahead_of_its_tree_is_saved_and_asked() -> None:
    """Features may be met in events that are then not learned."""
    encoder = Encoder(Schema((Feature("a", Kind.NUMERIC),), ("x", "y")), growing=True)
    tree = StreamingTree(encoder, "vfdtc", n_min=20.0)
    records = [{"a": float(i % 7)} for i in range(60)]
    tree.learn(encoder.encode_records(records), [i % 2 for i in range(60)])

    wider = {**{f"n{i}": 1.0 for i in range(50)}, "v": "new", "t": ["token"]}
    encoder.admit(wider)
    encoder.encode_records([wider])
    encoder.encode_labels(["z"])

    snapshot = tree.snapshot()
    _, probabilities, _ = snapshot.evaluate(snapshot.encode_records([wider, records[0]]))
    assert probabilities.sum(axis=1) == pytest.approx([1.0, 1.0])
    assert StreamingTree.from_bytes(tree.to_bytes()).hash() == tree.hash()


@pytest.mark.parametrize("variant", ["vfdt", "vfdtc", "streamtree"])
def test_the_largest_numbers_there_are_give_a_model_that_can_be_read(variant: str) -> None:
    tree = StreamingTree(
        Encoder(Schema((Feature("a", Kind.NUMERIC), Feature("b", Kind.NUMERIC)), ("x", "y"))),
        variant, n_min=20.0, delta=0.05, tau=0.2, intervals=5, max_distinct=5, leaf_predictor="nba",
        n_first=20.0,
    )  # fmt: skip
    rng = np.random.default_rng(1)
    spread = rng.choice([1.7e308, 1e300, 1.0, 5e-324], (2000, 2)) * rng.uniform(-1, 1, (2000, 2))

    tree.learn(spread, (spread[:, 0] > 0).astype(np.int32))
    snapshot = tree.snapshot()
    _, probabilities, _ = snapshot.evaluate(snapshot.encode(spread[:200].tolist()))

    assert tree.shape().nodes > 1 or variant == "vfdt"  # no normal distribution spans that
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(200))
    assert StreamingTree.from_bytes(tree.to_bytes()).hash() == tree.hash()


def test_infinite_numbers_are_refused() -> None:
    tree = StreamingTree(Encoder(Schema((Feature("a", Kind.NUMERIC),), ("x",))))

    with pytest.raises(LearnerError, match="infinite number; expected finite ones"):
        tree.learn([[1.0], [np.inf]], [0, 0])


@pytest.mark.parametrize("weight", [0.0, -1.0, 1.1e15, float("inf"), float("nan")])
def test_weights_without_measure_are_refused(weight: float) -> None:
    tree = StreamingTree(Encoder(Schema((Feature("a", Kind.NUMERIC),), ("x",))))

    with pytest.raises(LearnerError, match="expected weights above 0 and at most 1e\\+15"):
        tree.learn([[1.0]], [0], [weight])
