"""A model as canonical bytes: plain arrays by name, see learner/archive.py.

Only what the model means is written: not the room of its arrays, not the order of slots, not what
is left in memory that nobody owns. So equal models give equal bytes, however they came about.
What is read becomes a model only after learner/integrity.py has looked at all of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learner.archive import Made, Pieces, unpack
from learner.encoder import Encoder
from learner.errors import LearnerError, SnapshotError
from learner.fault import stored_array
from learner.integrity import PLACES, check_model
from learner.kernels.tree import (
    CANDIDATE,
    CLASSES,
    COLUMN,
    ENTRIES,
    FACT,
    FIRST_BLOCK,
    FREE_HISTOGRAMS,
    FREE_SLOTS,
    HIGH,
    HISTOGRAMS,
    LOGGED,
    LOW,
    MULTIWAY,
    NODE,
    NODES,
    NOWHERE,
    PENDING_BRANCHES,
    SLOT,
    SLOTS,
    TABLE,
    TOKENS,
    UNLOGGED,
    Tree,
)
from learner.params import TreeParams
from learner.schema import Feature, Kind, Schema, Value
from learner.state import (
    FIRST_SIZES,
    Sizes,
    copy_into,
    copy_values,
    keeping_nodes,
    new_tree,
    spans,
    value_starts,
)
from learner.underway import PREFIX, underway_from
from learner.variants import VARIANTS

_RECORDS = {"node": NODE, "fact": FACT, "slot": SLOT, "column": COLUMN, "candidate": CANDIDATE}
_OF_INTERVALS = ("low", "step")  # of a column: left over from another one where none are laid

Array = npt.NDArray[Any]


class Model(NamedTuple):
    """What the bytes hold."""

    tree: Tree
    sizes: Sizes
    encoder: Encoder
    variant: str
    params: TreeParams
    underway: dict[str, Array]  # decisions of workers, see learner/underway.py


def model_pieces(
    tree: Tree,
    sizes: Sizes,
    encoder: Encoder,
    variant: str,
    params: TreeParams,
    underway: Mapping[str, Array],
) -> Pieces:
    """The canonical bytes of a model in pieces, up to their digest.

    Every array is copied once, and large ones not before their turn: whoever goes through the
    pieces can hand one on to be written while the next one is copied.
    """
    named: dict[str, Array | Made] = {**encoder_arrays(encoder), **about_arrays(variant, params)}
    named |= _owned_nodes(tree) | _statistics(tree, sizes, encoder) | owned_totals(tree)
    named |= _owned_entries(tree) | _owned_candidates(
        tree, sizes, encoder, late=params.measured_late
    )
    return Pieces(named | dict(underway))


def _owned_nodes(tree: Tree) -> dict[str, Array | Made]:
    used, classes = int(tree.counts[NODES]), int(tree.counts[CLASSES])
    named: dict[str, Array | Made] = {}
    for name, records in (("node", tree.node), ("fact", tree.fact)):
        for key, column in _fields(name, records[:used]).items():
            named[key] = column.copy
    keeps = keeping_nodes(tree)
    named["node.slot"] = np.where(keeps, np.cumsum(keeps) - 1, -1).astype(np.int32)
    named["tree.votes"] = tree.votes[:used, :classes].copy
    named["tree.seen"] = tree.seen[:used, :classes].copy
    return named


def _fields(name: str, records: Array) -> dict[str, Array]:
    """The fields of records, as views of them."""
    return {f"{name}.{field}": records[field] for field in _RECORDS[name].names or ()}


def owned_slots(tree: Tree) -> Array:
    """Slots in the order of the nodes that own them."""
    slots: Array = tree.node["slot"][np.flatnonzero(keeping_nodes(tree))]
    return slots


def of_values(array: Array, sizes: Sizes, encoder: Encoder) -> Array:
    """The values that the encoder knows, of an array whose last axis has room for more."""
    known = encoder.value_counts()
    if tuple(known) == sizes.values:
        return array
    places = [
        np.arange(at, at + count) for at, count in zip(value_starts(sizes), known, strict=False)
    ]
    return array.take(np.concatenate([*places, np.zeros(0, np.int64)]).astype(np.int64), axis=-1)


def _statistics(tree: Tree, sizes: Sizes, encoder: Encoder) -> dict[str, Array | Made]:
    """Statistics, in the order of the nodes."""
    classes, tokens = int(tree.counts[CLASSES]), int(tree.counts[TOKENS])
    slots = owned_slots(tree)

    def values() -> Array:
        return of_values(tree.values.take(slots, axis=0), sizes, encoder)[:, :classes]

    named: dict[str, Array | Made] = {**_fields("slot", tree.slot.take(slots))}
    named["tree.moments"] = lambda: tree.moments.take(slots, axis=0)[:, :classes]
    named["tree.values"] = values
    named["tree.tokens"] = lambda: tree.tokens.take(slots, axis=0)[:, :classes, :tokens]
    named["tree.barred"] = tree.barred.take(slots, axis=0)
    named["tree.barred_tokens"] = tree.barred_tokens.take(slots, axis=0)[:, :tokens]
    if len(tree.bins):
        named["tree.bins"] = lambda: tree.bins.take(slots, axis=0)[:, :, :classes]
        named["tree.bin_shape"] = tree.bin_shape.take(slots, axis=0)
    return named


def _owned_entries(tree: Tree) -> dict[str, Array]:
    """Values that are kept one by one, block by block, and the intervals of the columns."""
    if not len(tree.column):
        return {}
    columns = tree.column[owned_slots(tree)].ravel()
    named = {
        key: array
        for key, array in _fields("column", columns).items()
        if key.partition(".")[2] not in PLACES
    }
    laid = columns["histogram"] != NOWHERE
    for field in _OF_INTERVALS:
        named[f"column.{field}"] = np.where(laid, columns[field], 0.0)
    named["column.laid"] = laid.astype(np.int8)
    used = spans(columns["start"], columns["used"])
    for name in ("entry_value", "entry_weight", "entry_class"):
        named[f"tree.{name}"] = getattr(tree, name).take(used)
    classes = int(tree.counts[CLASSES])
    named["tree.histogram"] = tree.histogram[columns["histogram"][laid]][:, :, :classes]
    named["tree.pruned"] = tree.pruned[columns["histogram"][laid]]
    return named


def _owned_candidates(
    tree: Tree, sizes: Sizes, encoder: Encoder, *, late: bool
) -> dict[str, Array]:
    """Candidates that are followed; places beyond their number hold nothing.

    Measures that are taken late say only when somebody looked.
    """
    if not len(tree.candidate):
        return {}
    slots, classes = owned_slots(tree), int(tree.counts[CLASSES])
    empty = np.arange(tree.candidate.shape[1]) >= tree.slot["candidates"][slots][:, None]
    named = _fields("candidate", tree.candidate[slots])
    measured = late & (named["candidate.kind"] != MULTIWAY)
    named["candidate.before"][measured] = named["candidate.after"][measured] = 0.0
    named["tree.sides"] = tree.sides[slots][..., :classes]
    named["tree.candidate_classes"] = tree.candidate_classes[slots][..., :classes]
    for array in named.values():
        array[empty] = 0
    weights = tree.value_weight.take(slots, axis=0)
    named["tree.value_weight"] = of_values(weights, sizes, encoder)
    named["tree.potential_numeric"] = tree.potential_numeric[slots]
    named["tree.potential_nominal"] = tree.potential_nominal[slots]
    tokens = int(tree.counts[TOKENS])
    named["tree.potential_tokens"] = tree.potential_tokens[slots][:, :tokens]
    return named


def owned_totals(tree: Tree) -> dict[str, Array]:
    """What belongs to no node: counters, weight, tables."""
    counts = tree.counts.copy()
    counts[SLOTS] = int(keeping_nodes(tree).sum())
    counts[FREE_SLOTS] = counts[LOGGED] = counts[UNLOGGED] = counts[PENDING_BRANCHES] = 0
    counts[FREE_HISTOGRAMS] = counts[HISTOGRAMS] = counts[ENTRIES] = 0
    return {
        "tree.counts": counts,
        "tree.weight": tree.weight.copy(),
        "tree.tables": tree.tables[: counts[TABLE]].copy(),
    }


def unpack_model(data: bytes) -> Model:
    """The model in these bytes; raises SnapshotError when they are not one."""
    try:
        with np.errstate(all="ignore"):
            named = unpack(data)
            underway = {name: named.pop(name) for name in list(named) if name.startswith(PREFIX)}
            encoder = encoder_from(named)
            variant, params = variant_from(named)
            stored = check_model(named, encoder, params, names_beside(encoder))
            tree, sizes = _tree_from(named, stored)
            if underway:
                columns = len(encoder.positions(Kind.NUMERIC)), len(encoder.positions(Kind.NOMINAL))
                underway_from(underway, tree, columns, encoder.token_count, len(encoder.classes))
            return Model(tree, sizes, encoder, variant, params, underway)
    except SnapshotError:
        raise
    except (ValueError, OverflowError, MemoryError, LearnerError) as error:
        raise SnapshotError(
            f"model bytes are damaged: {error}; expected a livetree model"
        ) from error


def names_beside(encoder: Encoder) -> set[str]:
    """Names of the arrays that are not the tree's."""
    nominal = [f"values.{position:06d}" for position in encoder.positions(Kind.NOMINAL)]
    texts = ["model", "features", "classes", "tokens", *nominal]
    named = {f"{name}.{part}" for name in texts for part in ("lengths", "text")}
    return named | {"encoder", "tokens.feature"}


def variant_from(named: dict[str, Array]) -> tuple[str, TreeParams]:
    """Variant and parameters of these arrays; raises SnapshotError."""
    variant, *tagged = _texts_from("model", named) or [""]
    if variant not in VARIANTS:
        known = ", ".join(VARIANTS)
        raise SnapshotError(f"variant of the model is {variant!r:.80}; expected one of {known}")
    given = dict(_untagged_param(text) for text in tagged)
    if len(given) != len(tagged):
        raise SnapshotError("a parameter of the model is listed twice; expected each once")
    return variant, VARIANTS[variant].params_from(given)


def _tree_from(named: dict[str, Array], stored: Sizes) -> tuple[Tree, Sizes]:
    """The tree with as much room as it needs now; the shell makes more when events come."""
    values, parts = stored.values, stored.parts
    capacity = named.get("column.capacity", np.zeros(0, np.int32))
    sizes = stored._replace(
        slots=max(1, stored.slots),
        table=max(1, stored.table),
        classes=max(FIRST_SIZES.classes, stored.classes),
        values=tuple(max(1, count) for count in values),
        entries=max(1, int(capacity.sum())) if parts.entries else 0,
        longest=max(FIRST_BLOCK, int(capacity.max(initial=0))) if parts.entries else 0,
    )
    tree = new_tree(sizes)
    tree.moments[:, :, LOW], tree.moments[:, :, HIGH] = np.inf, -np.inf  # of classes to come
    for name in ("node", "fact", "slot", "candidate"):
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
        if field not in PLACES:
            columns[field] = named[f"column.{field}"].reshape(columns.shape)
    columns["start"] = starts[:-1].reshape(columns.shape)
    columns["histogram"] = np.where(laid, np.cumsum(laid) - 1, NOWHERE).reshape(columns.shape)
    used = spans(starts[:-1], named["column.used"])
    for name in ("entry_value", "entry_weight", "entry_class"):
        getattr(tree, name)[used] = named[f"tree.{name}"]
    tree.counts[ENTRIES] = starts[-1]
    tree.counts[HISTOGRAMS] = int(laid.sum())


def encoder_arrays(encoder: Encoder) -> dict[str, Array]:
    """The schema and the codes of its values as arrays."""
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


def encoder_from(named: dict[str, Array]) -> Encoder:
    """The encoder of these arrays; raises SnapshotError."""
    growing, max_values, max_classes, rejected, overflowed = _whole("encoder", named, 5)
    features = []
    for position, text in enumerate(_texts_from("features", named)):
        kind, colon, name = text.partition(":")
        if not colon or kind not in tuple(Kind):
            raise SnapshotError(f"feature {position} of the model is {text!r:.80}; expected a kind")
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
    tokens = [_untagged(text) for text in _texts_from("tokens", named)]
    positions = _whole("tokens.feature", named, len(tokens))
    for position, token in zip(positions, tokens, strict=True):
        if position >= len(features) or features[position].kind != Kind.SPARSE:
            raise SnapshotError(
                f"token {token!r:.80} of the model belongs to feature {position}; "
                "expected one that is sparse_binary"
            )
        encoder.restore_token(position, token)
    listed = len(tokens) + sum(len(feature.values) for feature in features)
    known = sum(len(feature.values) for feature in encoder.schema.features)
    if known != listed:
        raise SnapshotError(
            f"the model lists {listed} values and tokens of which {known} are distinct and at most "
            f"{max_values} a feature; expected all of them"
        )
    encoder.rejected_values, encoder.overflowed_values = rejected, overflowed
    return encoder


def _whole(name: str, named: dict[str, Array], length: int) -> list[int]:
    """An array of so many whole numbers, none below 0."""
    numbers: list[int] = stored_array(named, name, (length,), np.dtype(np.int64)).tolist()
    if min(numbers, default=0) < 0:
        raise SnapshotError(f"model array '{name}' holds {min(numbers)}; expected no less than 0")
    return numbers


def _tagged(value: Value) -> str:
    """A value with its type in front: s, b, i or f."""
    if isinstance(value, bool):
        return f"b{int(value)}"
    if isinstance(value, int):
        return f"i{value}"
    return f"f{float(value)!r}" if isinstance(value, float) else f"s{value}"


def _untagged(text: str) -> Value:
    """The value that was tagged so; raises SnapshotError when none was."""
    tag, rest = text[:1], text[1:]
    value: Value = rest
    if tag == "b":
        value = rest == "1"
    elif tag in ("i", "f"):
        value = int(rest) if tag == "i" else float(rest)
    if value != value or _tagged(value) != text:
        raise SnapshotError(f"a value of the model is {text!r:.80}; expected a type and a value")
    return value


def about_arrays(variant: str, params: TreeParams) -> dict[str, Array]:
    """Variant and parameters as arrays."""
    given = dataclasses.asdict(params)
    tagged = [f"{name}={_tagged(value)}" for name, value in given.items()]
    return _texts("model", [variant, *tagged])


def _untagged_param(text: str) -> tuple[str, Value]:
    name, _, value = text.partition("=")
    return name, _untagged(value)


def _texts(name: str, texts: Sequence[str]) -> dict[str, Array]:
    raw = [text.encode("utf-8", "surrogatepass") for text in texts]
    return {
        f"{name}.lengths": np.array([len(part) for part in raw], np.int64),
        f"{name}.text": np.frombuffer(b"".join(raw), np.uint8),
    }


def _texts_from(name: str, named: dict[str, Array]) -> list[str]:
    raw = stored_array(named, f"{name}.text", (None,), np.dtype(np.uint8)).tobytes()
    lengths = stored_array(named, f"{name}.lengths", (None,), np.dtype(np.int64)).tolist()
    if min(lengths, default=0) < 0 or sum(lengths) != len(raw):
        raise SnapshotError(
            f"model array '{name}.lengths' adds up to {sum(lengths)}, the shortest is "
            f"{min(lengths, default=0)}; expected lengths of {len(raw)} bytes of text"
        )
    texts, at = [], 0
    for length in lengths:
        texts.append(raw[at : at + length].decode("utf-8", "surrogatepass"))
        at += length
    return texts
