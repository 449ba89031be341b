"""A model as canonical bytes: plain arrays, nothing that runs when it is read.

    b"LIVETREE"  format u32  count u32
    then for every array, in the order of the names:
    length u16  name   length u8  dtype   dimensions u8  sizes u64 ...   raw little-endian bytes
    and the SHA-256 of all before it

Only what the model means is written: not the room of its arrays, not the order of slots, not what
is left in memory that nobody owns. So equal models give equal bytes, however they came about.
Kernels trust what they read; bytes that were damaged are refused before they become a model.
"""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learner.encoder import Encoder
from learner.errors import LearnerError, SnapshotError, SnapshotVersion
from learner.kernels.tree import (
    CANDIDATE,
    CLASSES,
    COLUMN,
    ENTRIES,
    FREE_HISTOGRAMS,
    FREE_SLOTS,
    HIGH,
    HISTOGRAMS,
    LOGGED,
    LOW,
    NODE,
    NODES,
    NOWHERE,
    PENDING_BRANCHES,
    SLOT,
    SLOTS,
    TABLE,
    TOKENS,
    Tree,
)
from learner.params import TreeParams
from learner.schema import Feature, Kind, Schema, Value
from learner.state import (
    FIRST_SIZES,
    Parts,
    Sizes,
    copy_into,
    copy_values,
    keeping_nodes,
    new_tree,
    parts_of,
    value_starts,
)

MAGIC = b"LIVETREE"
FORMAT = 2
DIGEST = 32

_RECORDS = {"node": NODE, "slot": SLOT, "column": COLUMN, "candidate": CANDIDATE}
_PLACES = ("start", "histogram")  # of a column: where its block and its intervals happen to lie

Array = npt.NDArray[Any]


class Model(NamedTuple):
    """What the bytes hold."""

    tree: Tree
    sizes: Sizes
    encoder: Encoder
    variant: str
    params: dict[str, Any]


def pack_model(
    tree: Tree, sizes: Sizes, encoder: Encoder, variant: str, params: TreeParams
) -> bytes:
    """The canonical bytes of a model."""
    named = _encoder_arrays(encoder)
    named |= _texts("model", [variant, *_tagged_params(params)])
    named |= _owned_nodes(tree) | _owned_slots(tree, sizes, encoder) | _owned_totals(tree)
    return pack(named | _owned_entries(tree) | _owned_candidates(tree, sizes, encoder))


def _owned_nodes(tree: Tree) -> dict[str, Array]:
    used, classes = int(tree.counts[NODES]), int(tree.counts[CLASSES])
    named = _fields("node", tree.node[:used])
    keeps = keeping_nodes(tree)
    named["node.slot"] = np.where(keeps, np.cumsum(keeps) - 1, -1).astype(np.int32)
    named["tree.votes"] = tree.votes[:used, :classes]
    named["tree.seen"] = tree.seen[:used, :classes]
    return named


def _fields(name: str, records: Array) -> dict[str, Array]:
    return {f"{name}.{field}": records[field] for field in _RECORDS[name].names or ()}


def _owned(tree: Tree) -> Array:
    """Slots in the order of the nodes that own them."""
    slots: Array = tree.node["slot"][np.flatnonzero(keeping_nodes(tree))]
    return slots


def _value_places(sizes: Sizes, encoder: Encoder) -> Array:
    """Places of the nominal values that the encoder knows."""
    counts = zip(value_starts(sizes), encoder.value_counts(), strict=False)
    places = [np.arange(start, start + count) for start, count in counts]
    return np.concatenate([*places, np.zeros(0, np.int64)]).astype(np.int64)


def _owned_slots(tree: Tree, sizes: Sizes, encoder: Encoder) -> dict[str, Array]:
    """Statistics, in the order of the nodes."""
    classes, tokens = int(tree.counts[CLASSES]), int(tree.counts[TOKENS])
    slots, kept = _owned(tree), _value_places(sizes, encoder)
    named = _fields("slot", tree.slot[slots])
    named["tree.moments"] = tree.moments[slots][:, :classes]
    named["tree.values"] = tree.values[slots][:, :classes, kept]
    named["tree.tokens"] = tree.tokens[slots][:, :classes, :tokens]
    named["tree.barred"] = tree.barred[slots]
    named["tree.barred_tokens"] = tree.barred_tokens[slots][:, :tokens]
    if len(tree.bins):
        named["tree.bins"] = tree.bins[slots][:, :, :classes]
        named["tree.bin_shape"] = tree.bin_shape[slots]
    return named


def _owned_entries(tree: Tree) -> dict[str, Array]:
    """Values that are kept one by one, block by block, and the intervals of the columns."""
    if not len(tree.column):
        return {}
    columns = tree.column[_owned(tree)].ravel()
    named = {
        key: array
        for key, array in _fields("column", columns).items()
        if key.partition(".")[2] not in _PLACES
    }
    laid = columns["histogram"] != NOWHERE
    named["column.laid"] = laid.astype(np.int8)
    used = _spans(columns["start"], columns["used"])
    for name in ("entry_value", "entry_weight", "entry_class"):
        named[f"tree.{name}"] = getattr(tree, name)[used]
    classes = int(tree.counts[CLASSES])
    named["tree.histogram"] = tree.histogram[columns["histogram"][laid]][:, :, :classes]
    named["tree.pruned"] = tree.pruned[columns["histogram"][laid]]
    return named


def _spans(starts: Array, lengths: Array) -> Array:
    """All places from each start on, as many as its length."""
    parts = [np.arange(s, s + n) for s, n in zip(starts.tolist(), lengths.tolist(), strict=True)]
    return np.concatenate([*parts, np.zeros(0, np.int64)]).astype(np.int64)


def _owned_candidates(tree: Tree, sizes: Sizes, encoder: Encoder) -> dict[str, Array]:
    """Candidates that are followed; places beyond their number hold nothing."""
    if not len(tree.candidate):
        return {}
    slots, classes = _owned(tree), int(tree.counts[CLASSES])
    empty = np.arange(tree.candidate.shape[1]) >= tree.slot["candidates"][slots][:, None]
    named = _fields("candidate", tree.candidate[slots])
    named["tree.sides"] = tree.sides[slots][..., :classes]
    named["tree.candidate_classes"] = tree.candidate_classes[slots][..., :classes]
    for array in named.values():
        array[empty] = 0
    named["tree.value_weight"] = tree.value_weight[slots][:, _value_places(sizes, encoder)]
    named["tree.potential_numeric"] = tree.potential_numeric[slots]
    named["tree.potential_nominal"] = tree.potential_nominal[slots]
    tokens = int(tree.counts[TOKENS])
    named["tree.potential_tokens"] = tree.potential_tokens[slots][:, :tokens]
    return named


def _owned_totals(tree: Tree) -> dict[str, Array]:
    counts = tree.counts.copy()
    counts[SLOTS] = int(keeping_nodes(tree).sum())
    counts[FREE_SLOTS] = counts[LOGGED] = counts[PENDING_BRANCHES] = 0
    counts[FREE_HISTOGRAMS] = counts[HISTOGRAMS] = counts[ENTRIES] = 0
    return {
        "tree.counts": counts,
        "tree.weight": tree.weight,
        "tree.tables": tree.tables[: counts[TABLE]],
    }


def unpack_model(data: bytes) -> Model:
    """The model in these bytes; raises SnapshotError when they are not one."""
    try:
        named = unpack(data)
        encoder = _encoder_from(named)
        variant, *tagged = _texts_from("model", named)
        params = dict(_untagged_param(text) for text in tagged)
        parts = parts_of(TreeParams.from_mapping(params).rules(has_numeric=True))
        tree, sizes = _tree_from(named, encoder, parts)
    except (KeyError, ValueError, IndexError, struct.error, LearnerError) as error:
        if isinstance(error, SnapshotError):
            raise
        raise SnapshotError(
            f"model bytes are damaged: {error}; expected a livetree model"
        ) from error
    return Model(tree, sizes, encoder, variant, params)


def _tree_from(named: dict[str, Array], encoder: Encoder, parts: Parts) -> tuple[Tree, Sizes]:
    counts, values = named["tree.counts"], encoder.value_counts()
    capacity = named.get("column.capacity", np.zeros(0, np.int32))
    laid = int(named.get("column.laid", capacity).sum())
    sizes = FIRST_SIZES._replace(
        nodes=max(1, int(counts[NODES])),
        slots=max(1, int(counts[SLOTS])),
        table=max(1, int(counts[TABLE])),
        classes=max(1, int(counts[CLASSES])),
        numeric=named["tree.moments"].shape[3],
        values=tuple(max(1, count) for count in values),
        tokens=int(counts[TOKENS]),
        features=encoder.feature_count,
        entries=max(1, int(capacity.sum())) if parts.entries else 0,
        longest=max(16, int(capacity.max(initial=0))) if parts.entries else 0,
        histograms=max(1, laid) if parts.intervals else 0,
        parts=parts,
    )
    tree = new_tree(sizes)
    tree.moments[:, :, LOW], tree.moments[:, :, HIGH] = np.inf, -np.inf  # of classes to come
    for name in ("node", "slot", "candidate"):
        for field in _RECORDS[name].names or ():
            if f"{name}.{field}" in named:
                copy_into(getattr(tree, name)[field], named[f"{name}.{field}"])
    apart = ("values", "value_weight", "entry_value", "entry_weight", "entry_class")
    for name in Tree._fields:
        if name not in apart and f"tree.{name}" in named:
            copy_into(getattr(tree, name), named[f"tree.{name}"])
    had, starts = np.cumsum([0, *values]), value_starts(sizes)
    copy_values(tree.values, starts, named["tree.values"], had, values)
    if "tree.value_weight" in named:
        copy_values(tree.value_weight, starts, named["tree.value_weight"], had, values)
    if "column.capacity" in named:
        _lay_blocks(tree, named)
    return tree, sizes


def _lay_blocks(tree: Tree, named: dict[str, Array]) -> None:
    """Blocks of entries one behind the other, and histograms in the order of the columns."""
    capacity, laid = named["column.capacity"], named["column.laid"] != 0
    starts = np.cumsum([0, *capacity.tolist()])
    slots = int(tree.counts[SLOTS])
    columns = tree.column[:slots]
    for field in COLUMN.names or ():
        if field not in _PLACES:
            columns[field] = named[f"column.{field}"].reshape(columns.shape)
    columns["start"] = starts[:-1].reshape(columns.shape)
    columns["histogram"] = np.where(laid, np.cumsum(laid) - 1, NOWHERE).reshape(columns.shape)
    used = _spans(starts[:-1], named["column.used"])
    for name in ("entry_value", "entry_weight", "entry_class"):
        getattr(tree, name)[used] = named[f"tree.{name}"]
    tree.counts[ENTRIES] = starts[-1]
    tree.counts[HISTOGRAMS] = int(laid.sum())


def _encoder_arrays(encoder: Encoder) -> dict[str, Array]:
    schema = encoder.schema
    named = _texts("features", [f"{feature.kind}:{feature.name}" for feature in schema.features])
    named |= _texts("classes", [_tagged(label) for label in schema.classes])
    for position, feature in enumerate(schema.features):
        if feature.kind == Kind.NOMINAL:
            named |= _texts(f"values.{position:06d}", [_tagged(v) for v in feature.values])
    tokens = encoder.tokens
    named |= _texts("tokens", [_tagged(token) for _, token in tokens])
    named["tokens.feature"] = np.array([position for position, _ in tokens], np.int64)
    named["encoder"] = np.array(
        [
            encoder.growing,
            encoder.max_values,
            encoder.max_classes,
            encoder.rejected_values,
            encoder.overflowed_values,
        ],
        np.int64,
    )
    return named


def _encoder_from(named: dict[str, Array]) -> Encoder:
    growing, max_values, max_classes, rejected, overflowed = named["encoder"].tolist()
    features = []
    for position, text in enumerate(_texts_from("features", named)):
        kind, name = text.split(":", 1)
        values: tuple[Value, ...] = ()
        if kind == Kind.NOMINAL:
            values = tuple(map(_untagged, _texts_from(f"values.{position:06d}", named)))
        features.append(Feature(name, Kind(kind), values))
    classes = tuple(map(_untagged, _texts_from("classes", named)))
    encoder = Encoder(
        Schema(tuple(features), classes),
        growing=bool(growing),
        max_values=max_values,
        max_classes=max_classes,
    )
    tokens = map(_untagged, _texts_from("tokens", named))
    for position, token in zip(named["tokens.feature"].tolist(), tokens, strict=True):
        encoder.restore_token(position, token)
    encoder.rejected_values, encoder.overflowed_values = rejected, overflowed
    return encoder


def _tagged(value: Value) -> str:
    """A value with its type in front: s, b, i or f."""
    if isinstance(value, bool):
        return f"b{int(value)}"
    if isinstance(value, int):
        return f"i{value}"
    return f"f{value!r}" if isinstance(value, float) else f"s{value}"


def _untagged(text: str) -> Value:
    tag, rest = text[:1], text[1:]
    if tag == "b":
        return rest == "1"
    if tag == "i":
        return int(rest)
    return float(rest) if tag == "f" else rest


def _tagged_params(params: TreeParams) -> list[str]:
    return [f"{name}={_tagged(value)}" for name, value in dataclasses.asdict(params).items()]


def _untagged_param(text: str) -> tuple[str, Value]:
    name, value = text.split("=", 1)
    return name, _untagged(value)


def _texts(name: str, texts: Sequence[str]) -> dict[str, Array]:
    raw = [text.encode("utf-8", "surrogatepass") for text in texts]
    return {
        f"{name}.lengths": np.array([len(part) for part in raw], np.int64),
        f"{name}.text": np.frombuffer(b"".join(raw), np.uint8),
    }


def _texts_from(name: str, named: dict[str, Array]) -> list[str]:
    raw, texts, at = named[f"{name}.text"].tobytes(), [], 0
    for length in named[f"{name}.lengths"].tolist():
        texts.append(raw[at : at + length].decode("utf-8", "surrogatepass"))
        at += length
    return texts


def pack(named: dict[str, Array]) -> bytes:
    """Arrays by name as bytes."""
    parts = [MAGIC, struct.pack("<II", FORMAT, len(named))]
    for name in sorted(named):
        array = np.ascontiguousarray(named[name])
        dtype = array.dtype.newbyteorder("<").str.encode()
        parts.append(struct.pack("<H", len(name.encode())) + name.encode())
        parts.append(struct.pack("<B", len(dtype)) + dtype + struct.pack("<B", array.ndim))
        parts.append(struct.pack(f"<{array.ndim}Q", *array.shape))
        parts.append(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
    body = b"".join(parts)
    return body + hashlib.sha256(body).digest()


def unpack(data: bytes) -> dict[str, Array]:
    """The arrays that ``pack`` wrote."""
    if data[: len(MAGIC)] != MAGIC:
        raise SnapshotError(f"model bytes begin with {data[:8]!r}; expected {MAGIC!r}")
    at = len(MAGIC)
    version, count = struct.unpack_from("<II", data, at)
    at += 8
    if version != FORMAT:
        raise SnapshotVersion(f"model format is {version}; this program reads format {FORMAT}")
    body, digest = data[:-DIGEST], data[-DIGEST:]
    if hashlib.sha256(body).digest() != digest:
        raise SnapshotError("model bytes are damaged: their checksum does not hold")
    named: dict[str, Array] = {}
    for _ in range(count):
        (length,) = struct.unpack_from("<H", data, at)
        name = data[at + 2 : at + 2 + length].decode()
        at += 2 + length
        (length,) = struct.unpack_from("<B", data, at)
        dtype = np.dtype(data[at + 1 : at + 1 + length].decode())
        at += 1 + length
        if dtype.kind not in "iuf":
            raise SnapshotError(f"model array '{name}' is of type {dtype}; expected numbers")
        (dimensions,) = struct.unpack_from("<B", data, at)
        shape = struct.unpack_from(f"<{dimensions}Q", data, at + 1)
        at += 1 + 8 * dimensions
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if at + size > len(data):
            raise SnapshotError(
                f"model bytes end inside array '{name}'; expected {at + size} bytes, "
                f"found {len(data)}"
            )
        named[name] = np.frombuffer(data, dtype, size // dtype.itemsize, at).reshape(shape)
        at += size
    return named
