"""What must hold of a model's arrays before a kernel may run on them.

Kernels check nothing: a child that is not there is memory of somebody else, and a cycle is a walk
without end. A checksum proves only that nobody changed the bytes since they were written. So every
number that a kernel uses as a place, a length or a code is looked at here, all of a kind at once,
and every weight is a number from 0 on. The first fault is told by the name of its array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from learner.encoder import Encoder
from learner.errors import SnapshotError
from learner.kernels.numeric.blocks import ENTRY_BYTES
from learner.kernels.rules import BY_SUBSET, BY_VALUE, COMMIT_ONCE, SAMPLE, Rules
from learner.kernels.tree import (
    ACTIVE,
    BIN_COUNT,
    BIN_STEP,
    BLOCK_BYTES,
    BLOCK_SIZES,
    CLASSES,
    COLUMN,
    CONTAINS,
    COUNTS,
    ENDED,
    ENTRIES,
    EQUALS,
    FIRST_BLOCK,
    FREE_HISTOGRAMS,
    FREE_SLOTS,
    HISTOGRAMS,
    LEAF,
    LOGGED,
    MISSING,
    MOST_BINS,
    MULTIWAY,
    NEXT_ID,
    NODES,
    NOWHERE,
    NUMERIC,
    PENDING,
    PENDING_BRANCHES,
    PENDING_DUE,
    SHORT_OF_ROOM,
    SLOTS,
    SUBSET,
    TABLE,
    TOKENS,
)
from learner.params import TreeParams
from learner.schema import Kind
from learner.state import Sizes, array_dtype, array_shapes, parts_of, spans

PLACES = ("start", "histogram")  # of a column: where its block and its intervals happen to lie

# Arrays that are never written, and those that are written by the trees that have them.
_WORKING = ("free", "log", "free_blocks", "free_histograms", "touched", "bayes", "bayes_slot")
_OF_ENTRIES = ("column", "entry_value", "entry_weight", "entry_class", "histogram", "pruned")
_OF_BINS = ("bins", "bin_shape")
_OF_CANDIDATES = (
    "candidate", "sides", "candidate_classes", "value_weight",
    "potential_numeric", "potential_nominal", "potential_tokens",
)  # fmt: skip
# What is over once a batch is learned, and what only says where things lie in memory.
_MOMENTARY = (
    FREE_SLOTS, LOGGED, PENDING, PENDING_BRANCHES, ENTRIES, SHORT_OF_ROOM,
    HISTOGRAMS, FREE_HISTOGRAMS, PENDING_DUE,
)  # fmt: skip
_MOST_COUNTED = 1 << 62
_HEAVIEST = 1e60  # more than the squared weights of all events that can ever come

Array = npt.NDArray[Any]
Named = dict[str, Array]


def check_model(named: Named, encoder: Encoder, params: TreeParams, others: set[str]) -> Sizes:
    """Raise SnapshotError unless the arrays are a whole tree; returns their exact sizes.

    ``others`` are the names of the arrays that hold the encoder and the parameters.
    """
    rules = params.rules(has_numeric=True)
    counts = stored_array(named, "tree.counts", (COUNTS,), np.dtype(np.int64))
    _check_counts(counts, encoder)
    sizes = _stored_sizes(named, counts, encoder, rules)
    _check_shapes(named, sizes, others)
    _check_nodes(named, counts, sizes, rules)
    _check_branches(named, sizes)
    _check_tables(named, sizes)
    _check_statistics(named, counts, sizes)
    if sizes.parts.entries:
        _check_columns(named, sizes)
        _check_entries(named, sizes, merged=rules.observer != SAMPLE)
    if sizes.parts.bins:
        _check_bins(named["tree.bins"], named["tree.bin_shape"], sizes)
    if sizes.parts.candidates:
        _check_candidates(named, sizes, rules)
    return sizes


def stored_array(
    named: Named, name: str, shape: Sequence[int | None], dtype: np.dtype[Any]
) -> Array:
    """The array of this name; raises SnapshotError unless it has the shape (None = any length)."""
    if name not in named:
        raise SnapshotError(f"the model has no array '{name}'; expected one")
    array = named[name]
    fits = len(shape) == array.ndim and all(
        wanted in (None, size) for wanted, size in zip(shape, array.shape, strict=True)
    )
    if array.dtype != dtype or not fits:
        wanted_shape = ", ".join("any" if size is None else str(size) for size in shape)
        raise SnapshotError(
            f"model array '{name}' is {array.dtype}[{', '.join(map(str, array.shape))}]; "
            f"expected {dtype}[{wanted_shape}]"
        )
    return array


# Sizes -------------------------------------------------------------------------------------------


def _check_counts(counts: Array, encoder: Encoder) -> None:
    _within("tree.counts", counts, 0, _MOST_COUNTED)
    for place in _MOMENTARY:
        _require(counts[place] == 0, f"tree.counts[{place}]", counts[place], "0 in a saved model")
    _require(counts[NODES] > 0, "tree.counts[NODES]", counts[NODES], "at least the root")
    for place, name, most in (
        (CLASSES, "CLASSES", len(encoder.classes)),
        (TOKENS, "TOKENS", encoder.token_count),
    ):
        expected = f"at most the {most} that the encoder knows"
        _require(counts[place] <= most, f"tree.counts[{name}]", counts[place], expected)


def _stored_sizes(named: Named, counts: Array, encoder: Encoder, rules: Rules) -> Sizes:
    """The sizes that the arrays must have to belong together."""
    parts, floats = parts_of(rules), np.dtype(np.float64)
    numeric = stored_array(named, "tree.moments", (None,) * 4, floats).shape[3]
    features = stored_array(named, "tree.barred", (None,) * 2, np.dtype(np.int8)).shape[1]
    known = len(encoder.positions(Kind.NUMERIC))
    _require(numeric <= known, "tree.moments", numeric, f"at most {known} numeric columns")
    known = encoder.feature_count
    _require(features <= known, "tree.barred", features, f"at most {known} features")
    used = laid = 0
    if parts.entries:
        whole = stored_array(named, "column.used", (None,), np.dtype(np.int32))
        used = int(whole.sum(dtype=np.int64))
        flags = stored_array(named, "column.laid", (None,), np.dtype(np.int8))
        _within("column.laid", flags, 0, 1 if parts.intervals else 0)
        laid = int(flags.sum(dtype=np.int64))
    return Sizes(
        nodes=int(counts[NODES]),
        slots=int(counts[SLOTS]),
        table=int(counts[TABLE]),
        classes=int(counts[CLASSES]),
        numeric=numeric,
        values=tuple(encoder.value_counts()),
        tokens=int(counts[TOKENS]),
        features=features,
        entries=used,
        histograms=laid,
        parts=parts,
    )


def _check_shapes(named: Named, sizes: Sizes, others: set[str]) -> None:
    """Every array that such a tree has, and no other."""
    parts = sizes.parts
    left_out = {*_WORKING}
    left_out |= set() if parts.entries else {*_OF_ENTRIES}
    left_out |= set() if parts.bins else {*_OF_BINS}
    left_out |= set() if parts.candidates else {*_OF_CANDIDATES}
    expected = {}
    for name, shape in array_shapes(sizes).items():
        if name in left_out:
            continue
        dtype = array_dtype(name)
        if not dtype.names:
            expected[f"tree.{name}"] = shape, dtype
        for field in dtype.names or ():
            expected[f"{name}.{field}"] = shape, dtype[field]
    if parts.entries:
        columns = (sizes.slots * sizes.numeric,)  # one slot's after the other's
        expected["column.laid"] = columns, np.dtype(np.int8)
        expected |= {f"column.{field}": (columns, COLUMN[field]) for field in COLUMN.names or ()}
        for field in PLACES:
            del expected[f"column.{field}"]
    for name, (shape, dtype) in expected.items():
        stored_array(named, name, shape, dtype)
    unknown = sorted(named.keys() - expected.keys() - others)
    if unknown:
        raise SnapshotError(f"the model has an array {unknown[0]!r:.80}; expected no such name")


# The tree ----------------------------------------------------------------------------------------


def _check_nodes(named: Named, counts: Array, sizes: Sizes, rules: Rules) -> None:
    """Each node by itself."""
    kind, column, cut = (named[f"node.{name}"] for name in ("kind", "column", "cut"))
    slot, ids = named["node.slot"], named["node.id"]
    _check_tests("node", kind, column, cut, sizes, (LEAF, *_kinds_of_tests(rules)))
    for name in ("routed", "n", "n_last", "wait", "squares", "mc_right", "nb_right"):
        _within(f"node.{name}", named[f"node.{name}"], 0.0, _HEAVIEST)
    _within("node.majority", named["node.majority"], 0, max(0, sizes.classes - 1))
    _within("node.id", ids, 0, int(counts[NEXT_ID]) - 1)
    _require(len(np.unique(ids)) == len(ids), "node.id", "one id twice", "distinct ids")
    keeps = slot != NOWHERE
    _require(
        np.array_equal(slot[keeps], np.arange(sizes.slots)),
        "node.slot", f"{int(keeps.sum())} slots", f"the slots 0 to {sizes.slots - 1} in order",
    )  # fmt: skip
    leaf, standing = kind == LEAF, named["node.standing"]
    _within("node.standing", standing, ACTIVE, ENDED if rules.queue_bytes > 0 else ACTIVE)
    _each("node.standing", standing, leaf | (standing == ACTIVE), "0 at a split")
    _each("node.standing", standing, ~keeps | (standing == ACTIVE), "0 where statistics are kept")
    if rules.policy == COMMIT_ONCE and rules.reference_from == 0.0:
        _each("node.slot", slot, leaf | ~keeps, "-1 at a split that stays")


def _kinds_of_tests(rules: Rules) -> tuple[int, ...]:
    """The tests that such a tree can have."""
    if rules.nominal_split == BY_VALUE:
        return NUMERIC, CONTAINS, MULTIWAY
    if rules.nominal_split == BY_SUBSET:
        return NUMERIC, CONTAINS, SUBSET, EQUALS
    return NUMERIC, CONTAINS, EQUALS


def _check_tests(
    of: str, kind: Array, column: Array, cut: Array, sizes: Sizes, kinds: Sequence[int]
) -> None:
    """Kinds that this tree can have, columns that it has, and cuts that are numbers or codes."""
    _each(f"{of}.kind", kind, np.isin(kind, kinds), f"one of {sorted(kinds)}")
    rooms = np.zeros(SUBSET + 1, np.int64)
    rooms[[MULTIWAY, EQUALS, SUBSET]] = len(sizes.values)
    rooms[NUMERIC], rooms[CONTAINS] = sizes.numeric, sizes.tokens
    there = (column >= 0) & (column < rooms[kind])
    _each(f"{of}.column", column, there | (kind == LEAF), "a column of its kind")
    _each(f"{of}.cut", cut, np.isfinite(cut), "a finite number")
    value_counts = np.array([*sizes.values, 0], np.int64)
    equals = kind == EQUALS
    known = value_counts[np.where(equals, column, -1)]
    is_code = (cut >= 0) & (cut < known) & (cut == np.floor(cut))
    _each(f"{of}.cut", cut, ~equals | is_code, "the code of a value")


def _check_branches(named: Named, sizes: Sizes) -> None:
    """Every node has one parent before it and is one of that parent's children: no cycle."""
    kind, child, branches, parent, depth, other, value = (
        named[f"node.{name}"].astype(np.int64)
        for name in ("kind", "child", "branches", "parent", "depth", "other", "value")
    )
    here, leaf, multiway = np.arange(sizes.nodes), kind == LEAF, kind == MULTIWAY
    _each("node.parent", parent, (parent < here) & (parent >= np.minimum(here - 1, 0)),
          "an earlier node, -1 at the root")  # fmt: skip
    above = np.maximum(parent, 0)
    _each("node.parent", parent, (here == 0) | ~leaf[above], "a node with a test")
    _each("node.depth", depth, depth == np.where(here == 0, 0, depth[above] + 1),
          "one more than its parent's")  # fmt: skip
    _each("node.branches", branches, np.where(leaf, branches == 0, branches >= 2),
          "none at a leaf, at least 2 at a split")  # fmt: skip
    _each("node.branches", branches, leaf | multiway | (branches == 2), "2 of a two-way test")
    _each("node.child", child, np.where(leaf, child == NOWHERE, child > here),
          "a later node, -1 at a leaf")  # fmt: skip
    _each("node.child", child, child + branches <= sizes.nodes, "a node of the tree")
    _require(branches.sum() < sizes.nodes, "node.branches", branches.sum(), "fewer than nodes")
    owners, owned = np.repeat(here, branches), spans(child[~leaf], branches[~leaf])
    _each("node.parent", parent[owned], parent[owned] == owners, "the node whose child it is")
    _each("node.other", other, multiway | (other == NOWHERE), "-1 where no value can be lost")
    lost = other != NOWHERE
    _each("node.other", other, ~lost | ((other > 0) & (other < sizes.nodes)), "a node of the tree")
    _each("node.other", other, ~lost | (parent[np.where(lost, other, 0)] == here), "its own child")
    # A child of a multiway split is reached by its value or as the other; the rest side by side.
    below_multiway = (here > 0) & multiway[above]
    known = np.array([*sizes.values, 0])[np.where(multiway, named["node.column"], -1)][above]
    _each("node.value", value, (value == NOWHERE) | (below_multiway & (value >= 0)),
          "-1 unless a value leads there")  # fmt: skip
    _each("node.value", value, value < np.maximum(known, 0), "the code of a value")
    by_side = (child[above] <= here) & (here < child[above] + branches[above])
    reached = np.where(below_multiway, (value >= 0) | (other[above] == here), by_side)
    _each("node.parent", parent, (here == 0) | reached, "a node that leads there")


def _check_tables(named: Named, sizes: Sizes) -> None:
    """Tables lie apart; those of values lead to the children of these values, and back."""
    kind, start, length, child, branches, parent, value = (
        named[f"node.{name}"].astype(np.int64)
        for name in ("kind", "table_start", "table_length", "child", "branches", "parent", "value")
    )
    tables, here = named["tree.tables"], np.arange(sizes.nodes)
    holds = (kind == MULTIWAY) | (kind == SUBSET)
    _each("node.table_start", start, start >= 0, "no less than 0")
    _each("node.table_length", length, np.where(holds, length >= 0, length == 0),
          "0 where there is no table")  # fmt: skip
    fits = ~holds | ((start <= sizes.table) & (length <= sizes.table - start))
    _each("node.table_start", start, fits, f"a table inside the {sizes.table} places")
    holders = np.flatnonzero(holds & (length > 0))
    holders = holders[np.argsort(start[holders], kind="stable")]
    ends = start[holders] + length[holders]
    apart = start[holders][1:] >= ends[:-1]
    _each("node.table_start", start[holders][1:], apart, "tables that lie apart")
    owner, places = np.repeat(holders, length[holders]), spans(start[holders], length[holders])
    entry, code = tables[places].astype(np.int64), places - start[owner]
    subset = kind[owner] == SUBSET
    known = np.array([*sizes.values, 0])[np.where(holds, named["node.column"], -1)]
    member = (entry == 0) | ((entry == 1) & (code < known[owner]))
    _each("tree.tables", entry, ~subset | member, "0, or 1 for a value of the set")
    there = (entry > 0) & (entry < sizes.nodes)
    leads = np.where(there, entry, 0)
    own = there & (parent[leads] == owner) & (value[leads] == code)
    dense = length[owner] == branches[owner]  # found without a look at the table
    own &= ~dense | (entry == child[owner] + code)
    _each("tree.tables", entry, subset | own | ((entry == NOWHERE) & ~dense),
          "the child of this value")  # fmt: skip
    led = value >= 0
    above = np.where(led, parent, 0)
    _each("node.value", value, ~led | (value < length[above]), "a place of its parent's table")
    back = tables[np.where(led, start[above] + value, 0)] if len(tables) else here
    _each("node.value", value, ~led | (back == here), "a value that leads there")


# Statistics --------------------------------------------------------------------------------------


def _check_statistics(named: Named, counts: Array, sizes: Sizes) -> None:
    """Weights are numbers from 0 on, flags are flags."""
    parts = sizes.parts
    weights = ["weight", "votes", "seen", "values", "tokens"]
    weights += ["histogram"] if parts.entries else []
    weights += ["sides", "candidate_classes", "value_weight"] if parts.candidates else []
    for name in weights:
        _within(f"tree.{name}", named[f"tree.{name}"], 0.0, _HEAVIEST)
    _within("tree.moments", named["tree.moments"][:, :, MISSING], 0.0, _HEAVIEST)
    for name, low, high in (
        ("audited", 0, 1),
        ("gaps", 0, 1),
        ("reference_tie", 0, 1),
        ("candidates", 0, parts.candidates),
        ("arrivals", 0, _MOST_COUNTED),
        ("since", 0, _MOST_COUNTED),
        ("bytes", 0, _MOST_COUNTED),
        ("peak", 0, _MOST_COUNTED),
        ("n_check", 0.0, _HEAVIEST),
        ("binned_n", 0.0, _HEAVIEST),
        ("audit_first", -1.0, _HEAVIEST),
        ("reference_n", -1.0, _HEAVIEST),
        ("quiet_since", -1.0, _HEAVIEST),
    ):
        _within(f"slot.{name}", named[f"slot.{name}"], low, high)
    for name in ("spread", "bias"):
        array = named[f"slot.{name}"]
        _each(f"slot.{name}", array, ~np.isnan(array), "a number")
    _within("tree.barred", named["tree.barred"], 0, 3)
    _within("tree.barred_tokens", named["tree.barred_tokens"], 0, 3)
    total = int(named["slot.bytes"].sum(dtype=np.float64))
    _require(counts[BLOCK_BYTES] == total, "tree.counts[BLOCK_BYTES]", counts[BLOCK_BYTES],
             f"{total}, the sum of the slots")  # fmt: skip


def _check_columns(named: Named, sizes: Sizes) -> None:
    """Blocks of entries: powers of two, no larger than their entries explain, with room for one."""
    capacity, run, used, room = (
        named[f"column.{name}"].astype(np.int64) for name in ("capacity", "run", "used", "room")
    )
    _each("column.used", used, used >= 0, "no less than 0")
    _each("column.run", run, (run >= 0) & (run <= used), "no more than are used")
    powers = (capacity >= FIRST_BLOCK) & (capacity & (capacity - 1) == 0)
    _each("column.capacity", capacity, powers & (capacity < 1 << (BLOCK_SIZES - 2)),
          f"a power of two from {FIRST_BLOCK} on")  # fmt: skip
    _each("column.capacity", capacity, capacity <= np.maximum(FIRST_BLOCK, 4 * used),
          "a block that is a quarter full")  # fmt: skip
    _each("column.room", room, (room >= 1) & (used + room <= capacity), "free places of the block")
    bare = named["column.laid"] == 0
    low, step = named["column.low"], named["column.step"]
    _each("column.low", low, bare | np.isfinite(low), "a finite edge")
    _each("column.step", step, bare | ((step >= 0.0) & np.isfinite(step)), "a finite width")
    _within("tree.pruned", named["tree.pruned"], 0, 2)
    of_slot = (sizes.slots, sizes.numeric)
    least = ENTRY_BYTES * capacity.reshape(of_slot).sum(axis=1)
    laid = named["column.laid"].astype(np.int64).reshape(of_slot).sum(axis=1)
    most = least + 8 * sizes.parts.intervals * sizes.classes * laid
    size = named["slot.bytes"]
    _each("slot.bytes", size, (least <= size) & (size <= most), "the bytes of its blocks")


def _check_entries(named: Named, sizes: Sizes, *, merged: bool) -> None:
    """Entries are numbers of known classes, and those that were sorted are in order."""
    value, weight, klass = (named[f"tree.entry_{name}"] for name in ("value", "weight", "class"))
    _each("tree.entry_value", value, np.isfinite(value), "a finite number")
    _each("tree.entry_weight", weight, (weight > 0.0) & (weight <= _HEAVIEST), "a weight above 0")
    _within("tree.entry_class", klass, 0, sizes.classes - 1)
    used, run = named["column.used"], named["column.run"]
    place = spans(np.zeros(len(used), np.int64), used)[1:]  # in its block
    same_run = (place > 0) & (place < np.repeat(run, used)[1:])
    tie = klass[:-1] < klass[1:] if merged else klass[:-1] <= klass[1:]
    in_order = (value[:-1] < value[1:]) | ((value[:-1] == value[1:]) & tie)
    _each("tree.entry_value", value[1:], ~same_run | in_order, "values in ascending order")


def _check_bins(bins: Array, shape: Array, sizes: Sizes) -> None:
    """Shares are finite, and lead to bins that are there."""
    _within("tree.bins", bins, -_HEAVIEST, _HEAVIEST)
    count = shape[..., BIN_COUNT]
    whole = (count >= 0) & (count <= MOST_BINS) & (count == np.floor(count))
    _each("tree.bin_shape", count, whole, f"a number of bins from 0 to {MOST_BINS}")
    if not sizes.parts.intervals:
        step = shape[..., BIN_STEP]
        _each("tree.bin_shape", step, ~(step < 0.0), "no intervals, which this tree does not have")


def _check_candidates(named: Named, sizes: Sizes, rules: Rules) -> None:
    """Those that are followed are tests of this tree."""
    number = named["slot.candidates"]
    followed = np.arange(sizes.parts.candidates) < number[:, None]
    kind, column, cut = (named[f"candidate.{name}"][followed] for name in ("kind", "column", "cut"))
    _check_tests("candidate", kind, column, cut, sizes, _kinds_of_tests(rules))
    for name in ("before", "after", "known", "first", "second"):
        _within(f"candidate.{name}", named[f"candidate.{name}"][followed], -_HEAVIEST, _HEAVIEST)


# One fault, told ---------------------------------------------------------------------------------


def _require(holds: Any, name: str, found: object, expected: str) -> None:
    if not holds:
        raise SnapshotError(f"model array '{name}' holds {found}; expected {expected}")


def _each(name: str, array: Array, holds: Array, expected: str) -> None:
    """Raise for the first number of an array that does not hold."""
    if not holds.all():
        at = int(np.argmin(holds))
        raise SnapshotError(
            f"model array '{name}' holds {array.flat[at]} at place {at}; expected {expected}"
        )


def _within(name: str, array: Array, low: float, high: float) -> None:
    """Raise unless all numbers lie from low to high; NaN does not."""
    if array.size and not (array.min() >= low and array.max() <= high):
        expected = f"a number from {low:g} to {high:g}"
        _each(name, array, (array >= low) & (array <= high), expected)
