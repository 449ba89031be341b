"""Real models of every variant, and what a hostile or broken writer could make of their bytes."""

from __future__ import annotations

import hashlib
import random
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learner import VARIANTS, Encoder, StreamingTree, Value
from learner.archive import DIGEST, pack, unpack
from tests.learner.concepts import Concept

EAGER: dict[str, Any] = {"n_min": 20.0, "delta": 0.05, "tau": 0.2}
MIXED = Concept(seed=3, numeric=2, nominal=2, sparse=1, classes=3, missing=0.1, declared=False)
TWO_CLASSES = Concept(seed=4, numeric=2, nominal=2, sparse=1, classes=2, declared=False)
ENDLESS: dict[str, Any] = {
    "n_first": 20.0, "stop_depth": 0, "stop_purity": 0.0, "stop_share": 0.0,
}  # fmt: skip
EVENTS = 600

# Every variant, and every part of a model that only some options have.
MODELS: dict[str, tuple[str, Concept, dict[str, Any]]] = {
    **{
        name: (name, MIXED, ENDLESS if name == "streamtree" else {})
        for name in VARIANTS
    },
    "bounded memory": (
        "vfdt", MIXED,
        {"max_memory_bytes": 9000, "memory_check_every": 50, "leaf_predictor": "nba"},
    ),
    "bounded memory of values": (
        "vfdtc", MIXED,
        {"max_memory_bytes": 40_000, "memory_check_every": 20, "max_distinct": 30, "intervals": 5},
    ),
    "revised splits over values": (
        "efdt", MIXED,
        {"numeric_observer": "ordered", "reevaluate_every": 20.0, "n_min": 5.0, "unseen": "grow"},
    ),
    "grown values": ("vfdt", MIXED, {"unseen": "grow", "leaf_predictor": "nb"}),
    "values against the rest": ("efdt", MIXED, {"nominal_split": "binary", "reevaluate_every": 50}),
    "sets of values": ("vfdt", TWO_CLASSES, {"nominal_split": "subset", "remove_poor": True}),
    "queues": (
        "streamtree", TWO_CLASSES,
        {
            "n_first": 20.0, "queue_bytes": 3000, "stop_purity": 0.9, "stop_share": 0.05,
            "intervals": 8,
        },
    ),
    "intervals of an ordered column": (
        "vfdtc", MIXED, {"max_distinct": 8, "intervals": 5, "leaf_predictor": "nba"},
    ),
    "samples": ("vfdt", MIXED, {"numeric_observer": "sample", "leaf_predictor": "nb"}),
    "followed and revised": ("imac", MIXED, {"policy": "anytime", "mu": 20.0}),
    "beside a reference": ("cgd", MIXED, {"reference_from": 5.0}),
    "never taught": ("vfdtc", MIXED, {}),
}  # fmt: skip


def real_model(name: str) -> bytes:
    """The bytes of a model that has grown."""
    variant, concept, params = MODELS[name]
    tree = StreamingTree(Encoder(concept.schema()), variant, **{**EAGER, **params})
    if name != "never taught":
        teach(tree, concept, EVENTS)
    return tree.to_bytes()


@cache
def records(concept: Concept, count: int) -> tuple[list[dict[str, object]], list[Value]]:
    """Events by the names of their features, and their labels."""
    names = [feature.name for feature in concept.schema().features]
    rows, labels, _ = zip(*concept.events(count), strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows], list(labels)


def teach(tree: StreamingTree, concept: Concept, count: int) -> None:
    """Events as records, so that a model with other features takes what it knows of them."""
    rows, labels = records(concept, count)
    batch = tree.encoder.encode_records(rows)
    codes = tree.encoder.encode_labels(labels)
    kept = np.flatnonzero(codes >= 0)
    if len(kept) == len(codes):
        tree.learn(batch, codes)
        return
    for row in kept.tolist():
        tree.learn(batch.part(row, row + 1), codes[row : row + 1])


class Mutant(NamedTuple):
    """Bytes whose checksum holds, and how they came about."""

    story: str
    data: bytes


INTEGERS = (
    -(2**63), -(2**31), -129, -3, -2, -1, 0, 1, 2, 3, 7, 15, 16, 17, 64, 127, 1000, 2**20,
    2**30, 2**31 - 1, 2**31, 2**40, 2**61, 2**63 - 1,
)  # fmt: skip
FLOATS = (
    float("nan"), float("inf"), -float("inf"), -1.0, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0, 7.0, 1e9, 1e18,
    1e50, 1e308, -1e308, 5e-324, 2.0**31, 2.0**63,
)  # fmt: skip


def mutant(data: bytes, rng: random.Random) -> Mutant:
    """One to three things wrong."""
    if rng.random() < 0.15:
        return _flipped(data, rng)
    named = unpack(data)
    story = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        change = rng.choice(CHANGES)
        story.append(change(named, rng))
    return Mutant("; ".join(story), pack(named))


def _flipped(data: bytes, rng: random.Random) -> Mutant:
    body = bytearray(data[:-DIGEST])
    story = []
    for _ in range(rng.choice((1, 1, 2, 8))):
        # Half of the time where names, types and shapes are: most of the bytes are numbers.
        at = rng.randrange(len(body) if rng.random() < 0.5 else min(len(body), 400))
        body[at] = rng.randrange(256) if rng.random() < 0.5 else body[at] ^ (1 << rng.randrange(8))
        story.append(f"byte {at} is {body[at]}")
    if rng.random() < 0.1:
        size = rng.randrange(len(body))
        body = body[:size] if rng.random() < 0.5 else body + bytes(size % 97)
        story.append(f"{len(body)} bytes long")
    return Mutant("; ".join(story), bytes(body) + hashlib.sha256(body).digest())


Named = dict[str, npt.NDArray[Any]]


def _some(named: Named, rng: random.Random, *, filled: bool = True) -> str:
    names = sorted(
        name
        for name, array in named.items()
        if not filled or (array.size and array.dtype.kind in "iuf")
    )
    # Half of the time those that say where things are.
    structure = [n for n in names if n.startswith(("node.", "tree.counts", "column.", "slot."))]
    return rng.choice(structure if structure and rng.random() < 0.5 else names)


def _number(named: Named, rng: random.Random) -> str:
    name = _some(named, rng)
    array = named[name].copy()
    at = rng.randrange(array.size)
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):  # of an array that another change made short of bits
            array.flat[at] = rng.choice(FLOATS) if rng.random() < 0.8 else rng.uniform(-50, 50)
    else:
        limits = np.iinfo(array.dtype)
        near = int(array.flat[at]) + rng.choice((-2, -1, 1, 2))
        value = rng.choice((*INTEGERS, near, near, near, array.size, rng.randrange(array.size)))
        array.flat[at] = min(max(value, int(limits.min)), int(limits.max))
    named[name] = array
    return f"{name}[{at}] = {array.flat[at]}"


def _everywhere(named: Named, rng: random.Random) -> str:
    name = _some(named, rng)
    array = named[name]
    value = rng.choice(FLOATS if array.dtype.kind == "f" else (-1, 0, 1, 2, 100))
    named[name] = np.full_like(array, value if array.dtype.kind == "f" or value >= 0 else 0)
    return f"{name} = {value} everywhere"


def _exchanged(named: Named, rng: random.Random) -> str:
    name = _some(named, rng)
    array = named[name].copy()
    a, b = rng.randrange(array.size), rng.randrange(array.size)
    array.flat[a], array.flat[b] = array.flat[b], array.flat[a]
    named[name] = array
    return f"{name}[{a}] and [{b}] exchanged"


def _length(named: Named, rng: random.Random) -> str:
    name = _some(named, rng)
    flat = named[name]
    axis = rng.randrange(flat.ndim)
    if rng.random() < 0.5:
        size = rng.randrange(flat.shape[axis])
        named[name] = np.take(flat, range(size), axis)
    else:
        named[name] = np.concatenate([flat, np.take(flat, [0], axis)], axis)
    return f"{name} has the shape {named[name].shape}"


def _together(named: Named, rng: random.Random) -> str:
    """All arrays of one kind of record longer or shorter, and the count with them."""
    kind, place = rng.choice((("node", 0), ("slot", 1)))
    more = rng.choice((-1, 1))
    beside = ("tree.votes", "tree.seen") if kind == "node" else ()
    for name in [n for n in named if n.startswith(f"{kind}.") or n in beside]:
        array = named[name]
        named[name] = array[:-1] if more < 0 else np.concatenate([array, array[-1:]])
    counts = named.get("tree.counts", np.zeros(1, np.int64))
    if counts.dtype == np.int64:  # another change may have made it something else
        counts = counts.copy()
        counts.flat[place : place + 1] = counts.flat[place : place + 1] + more
        named["tree.counts"] = counts
    return f"{more:+d} {kind}"


def _type(named: Named, rng: random.Random) -> str:
    name = _some(named, rng, filled=False)
    dtype = rng.choice(("i1", "<i4", "<i8", "<f8", "u1", "<f4", "<u8", "<c16", "?", "<M8[s]", "V8"))
    named[name] = np.zeros(named[name].shape, dtype)
    return f"{name} is of type {dtype}"


def _shape(named: Named, rng: random.Random) -> str:
    name = _some(named, rng, filled=False)
    array = named[name]
    named[name] = rng.choice((array.ravel(), array.T, array[None], array.reshape(array.size, 1)))
    return f"{name} has the shape {named[name].shape}"


def _gone(named: Named, rng: random.Random) -> str:
    name = _some(named, rng, filled=False)
    del named[name]
    return f"{name} is gone"


def _renamed(named: Named, rng: random.Random) -> str:
    name = _some(named, rng, filled=False)
    other = rng.choice((name + "x", "tree.extra", "node.start", "column.start", "", "\u00e4" * 40))
    named[other] = named[name] if rng.random() < 0.5 else named.pop(name)
    return f"{name} is also {other!r}"


CHANGES = (
    *(_number,) * 12, _everywhere, _exchanged, _exchanged, _length, _together, _type, _shape,
    _gone, _renamed,
)  # fmt: skip
