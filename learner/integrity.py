"""What must hold of a model's arrays before a kernel may run on them.

Kernels check nothing: a child that is not there is memory of somebody else, and a cycle is a walk
without end. A checksum proves only that nobody changed the bytes since they were written. So every
number that a kernel uses as a place, a length or a code is looked at here, all of a kind at once,
and every weight is a number from 0 on. The first fault is told by the name of its array.
"""

from __future__ import annotations

import numpy as np

from learner.encoder import Encoder
from learner.errors import SnapshotError
from learner.fault import HEAVIEST, Array, Named, each, require, stored_array, within
from learner.kernels.rules import (
    BY_BOUND,
    BY_TIE,
    COMMIT_ONCE,
    NO_SPLIT_YET,
    SAMPLE,
    Rules,
)
from learner.kernels.tree import (
    ACTIVE,
    BLOCK_BYTES,
    CLASSES,
    COLUMN,
    COUNTS,
    ENDED,
    ENTRIES,
    EVENTS,
    FREE_HISTOGRAMS,
    FREE_SLOTS,
    HISTOGRAMS,
    LEAF,
    LOGGED,
    MISSING,
    MULTIWAY,
    NEXT_ID,
    NODES,
    NOWHERE,
    PENDING,
    PENDING_BRANCHES,
    PENDING_DUE,
    SHORT_OF_ROOM,
    SLOTS,
    SUBSET,
    TABLE,
    TOKENS,
    UNLOGGED,
)
from learner.observer_integrity import (
    check_bins,
    check_candidates,
    check_columns,
    check_entries,
    check_tests,
    kinds_of_tests,
)
from learner.params import TreeParams
from learner.schema import Kind
from learner.state import Sizes, array_dtype, array_shapes, parts_of, spans

PLACES = ("start", "histogram")  # of a column: where its block and its intervals happen to lie

# Arrays that are never written, and those that are written by the trees that have them.
_WORKING = (
    "free", "log", "free_blocks", "free_histograms", "touched", "bayes", "bayes_slot",
    "quiet_until",
)  # fmt: skip
_OF_ENTRIES = ("column", "entry_value", "entry_weight", "entry_class", "histogram", "pruned")
_OF_BINS = ("bins", "bin_shape")
_OF_CANDIDATES = (
    "candidate", "sides", "candidate_classes", "value_weight",
    "potential_numeric", "potential_nominal", "potential_tokens",
)  # fmt: skip
# What is over once a batch is learned, and what only says where things lie in memory.
_MOMENTARY = (
    FREE_SLOTS, LOGGED, UNLOGGED, PENDING, PENDING_BRANCHES, ENTRIES, SHORT_OF_ROOM,
    HISTOGRAMS, FREE_HISTOGRAMS, PENDING_DUE,
)  # fmt: skip
_MOST_COUNTED = 1 << 62


def check_model(named: Named, encoder: Encoder, params: TreeParams, others: set[str]) -> Sizes:
    """Raise SnapshotError unless the arrays are a whole tree; returns their exact sizes.

    ``others`` are the names of the arrays that hold the encoder and the parameters.
    """
    rules = params.rules(has_numeric=True)
    counts = stored_array(named, "tree.counts", (COUNTS,), np.dtype(np.int64))
    check_counts(counts, encoder)
    sizes = _stored_sizes(named, counts, encoder, rules)
    _check_shapes(named, sizes, others)
    check_nodes(named, counts, sizes, rules)
    check_branches(named, sizes)
    check_tables(named, sizes)
    check_facts(named, counts, sizes, rules)
    _check_statistics(named, counts, sizes)
    if sizes.parts.entries:
        check_columns(named, sizes)
        check_entries(named, sizes, merged=rules.observer != SAMPLE)
    if sizes.parts.bins:
        check_bins(named["tree.bins"], named["tree.bin_shape"], sizes)
    if sizes.parts.candidates:
        check_candidates(named, sizes, rules)
    return sizes


# Sizes -------------------------------------------------------------------------------------------


def check_counts(counts: Array, encoder: Encoder) -> None:
    """Counters that were ever possible, of classes and tokens that the encoder knows."""
    within("tree.counts", counts, 0, _MOST_COUNTED)
    for place in _MOMENTARY:
        require(counts[place] == 0, f"tree.counts[{place}]", counts[place], "0 in a saved model")
    require(counts[NODES] > 0, "tree.counts[NODES]", counts[NODES], "at least the root")
    for place, name, most in (
        (CLASSES, "CLASSES", len(encoder.classes)),
        (TOKENS, "TOKENS", encoder.token_count),
    ):
        expected = f"at most the {most} that the encoder knows"
        require(counts[place] <= most, f"tree.counts[{name}]", counts[place], expected)


def _stored_sizes(named: Named, counts: Array, encoder: Encoder, rules: Rules) -> Sizes:
    """The sizes that the arrays must have to belong together."""
    parts, floats = parts_of(rules), np.dtype(np.float64)
    numeric = stored_array(named, "tree.moments", (None,) * 4, floats).shape[3]
    features = stored_array(named, "tree.barred", (None,) * 2, np.dtype(np.int8)).shape[1]
    known = len(encoder.positions(Kind.NUMERIC))
    require(numeric <= known, "tree.moments", numeric, f"at most {known} numeric columns")
    known = encoder.feature_count
    require(features <= known, "tree.barred", features, f"at most {known} features")
    used = laid = 0
    if parts.entries:
        whole = stored_array(named, "column.used", (None,), np.dtype(np.int32))
        used = int(whole.sum(dtype=np.int64))
        flags = stored_array(named, "column.laid", (None,), np.dtype(np.int8))
        within("column.laid", flags, 0, 1 if parts.intervals else 0)
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


def check_nodes(named: Named, counts: Array, sizes: Sizes, rules: Rules) -> None:
    """Each node by itself."""
    kind, column, cut = (named[f"node.{name}"] for name in ("kind", "column", "cut"))
    slot, ids = named["node.slot"], named["node.id"]
    check_tests("node.", kind, column, cut, sizes, (LEAF, *kinds_of_tests(rules)))
    for name in ("routed", "n", "n_last", "wait", "squares", "mc_right", "nb_right"):
        within(f"node.{name}", named[f"node.{name}"], 0.0, HEAVIEST)
    within("node.majority", named["node.majority"], 0, max(0, sizes.classes - 1))
    within("node.id", ids, 0, int(counts[NEXT_ID]) - 1)
    require(len(np.unique(ids)) == len(ids), "node.id", "one id twice", "distinct ids")
    keeps = slot != NOWHERE
    require(
        np.array_equal(slot[keeps], np.arange(sizes.slots)),
        "node.slot", f"{int(keeps.sum())} slots", f"the slots 0 to {sizes.slots - 1} in order",
    )  # fmt: skip
    leaf, standing = kind == LEAF, named["node.standing"]
    within("node.standing", standing, ACTIVE, ENDED if rules.queue_bytes > 0 else ACTIVE)
    each("node.standing", standing, leaf | (standing == ACTIVE), "0 at a split")
    each("node.standing", standing, ~keeps | (standing == ACTIVE), "0 where statistics are kept")
    if rules.policy == COMMIT_ONCE and rules.reference_from == 0.0:
        each("node.slot", slot, leaf | ~keeps, "-1 at a split that stays")


def check_branches(named: Named, sizes: Sizes) -> None:
    """Every node has one parent before it and is one of that parent's children: no cycle."""
    kind, child, branches, parent, depth, other, value = (
        named[f"node.{name}"].astype(np.int64)
        for name in ("kind", "child", "branches", "parent", "depth", "other", "value")
    )
    here, leaf, multiway = np.arange(sizes.nodes), kind == LEAF, kind == MULTIWAY
    each("node.parent", parent, (parent < here) & (parent >= np.minimum(here - 1, 0)),
          "an earlier node, -1 at the root")  # fmt: skip
    above = np.maximum(parent, 0)
    each("node.parent", parent, (here == 0) | ~leaf[above], "a node with a test")
    each("node.depth", depth, depth == np.where(here == 0, 0, depth[above] + 1),
          "one more than its parent's")  # fmt: skip
    each("node.branches", branches, np.where(leaf, branches == 0, branches >= 2),
          "none at a leaf, at least 2 at a split")  # fmt: skip
    each("node.branches", branches, leaf | multiway | (branches == 2), "2 of a two-way test")
    each("node.child", child, np.where(leaf, child == NOWHERE, child > here),
          "a later node, -1 at a leaf")  # fmt: skip
    each("node.child", child, child + branches <= sizes.nodes, "a node of the tree")
    require(branches.sum() < sizes.nodes, "node.branches", branches.sum(), "fewer than nodes")
    owners, owned = np.repeat(here, branches), spans(child[~leaf], branches[~leaf])
    each("node.parent", parent[owned], parent[owned] == owners, "the node whose child it is")
    each("node.other", other, multiway | (other == NOWHERE), "-1 where no value can be lost")
    lost = other != NOWHERE
    each("node.other", other, ~lost | ((other > 0) & (other < sizes.nodes)), "a node of the tree")
    each("node.other", other, ~lost | (parent[np.where(lost, other, 0)] == here), "its own child")
    # A child of a multiway split is reached by its value or as the other; the rest side by side.
    below_multiway = (here > 0) & multiway[above]
    known = np.array([*sizes.values, 0])[np.where(multiway, named["node.column"], -1)][above]
    each("node.value", value, (value == NOWHERE) | (below_multiway & (value >= 0)),
          "-1 unless a value leads there")  # fmt: skip
    each("node.value", value, value < np.maximum(known, 0), "the code of a value")
    by_side = (child[above] <= here) & (here < child[above] + branches[above])
    reached = np.where(below_multiway, (value >= 0) | (other[above] == here), by_side)
    each("node.parent", parent, (here == 0) | reached, "a node that leads there")


def check_tables(named: Named, sizes: Sizes) -> None:
    """Tables lie apart; those of values lead to the children of these values, and back."""
    kind, start, length, child, branches, parent, value = (
        named[f"node.{name}"].astype(np.int64)
        for name in ("kind", "table_start", "table_length", "child", "branches", "parent", "value")
    )
    tables, here = named["tree.tables"], np.arange(sizes.nodes)
    holds = (kind == MULTIWAY) | (kind == SUBSET)
    each("node.table_start", start, start >= 0, "no less than 0")
    each("node.table_length", length, np.where(holds, length >= 0, length == 0),
          "0 where there is no table")  # fmt: skip
    fits = ~holds | ((start <= sizes.table) & (length <= sizes.table - start))
    each("node.table_start", start, fits, f"a table inside the {sizes.table} places")
    holders = np.flatnonzero(holds & (length > 0))
    holders = holders[np.argsort(start[holders], kind="stable")]
    ends = start[holders] + length[holders]
    apart = start[holders][1:] >= ends[:-1]
    each("node.table_start", start[holders][1:], apart, "tables that lie apart")
    owner, places = np.repeat(holders, length[holders]), spans(start[holders], length[holders])
    entry, code = tables[places].astype(np.int64), places - start[owner]
    subset = kind[owner] == SUBSET
    known = np.array([*sizes.values, 0])[np.where(holds, named["node.column"], -1)]
    member = (entry == 0) | ((entry == 1) & (code < known[owner]))
    each("tree.tables", entry, ~subset | member, "0, or 1 for a value of the set")
    there = (entry > 0) & (entry < sizes.nodes)
    leads = np.where(there, entry, 0)
    own = there & (parent[leads] == owner) & (value[leads] == code)
    dense = length[owner] == branches[owner]  # found without a look at the table
    own &= ~dense | (entry == child[owner] + code)
    each("tree.tables", entry, subset | own | ((entry == NOWHERE) & ~dense),
          "the child of this value")  # fmt: skip
    led = value >= 0
    above = np.where(led, parent, 0)
    each("node.value", value, ~led | (value < length[above]), "a place of its parent's table")
    back = tables[np.where(led, start[above] + value, 0)] if len(tables) else here
    each("node.value", value, ~led | (back == here), "a value that leads there")


def check_facts(named: Named, counts: Array, sizes: Sizes, rules: Rules) -> None:
    """What is told of nodes: nothing of a leaf but its age, of a split a reason and its rival."""
    leaf, parent = named["node.kind"] == LEAF, named["node.parent"]
    created, event, reason = (named[f"fact.{name}"] for name in ("created", "event", "reason"))
    within("fact.created", created, 0, int(counts[EVENTS]))
    each("fact.created", created, created >= created[np.maximum(parent, 0)],
         "no less than its parent's")  # fmt: skip
    within("fact.event", event, 0, int(counts[EVENTS]))
    each("fact.event", event, leaf | (event >= created), "no less than when it was made")
    each("fact.reason", reason, np.where(leaf, reason == NO_SPLIT_YET,
         (reason == BY_BOUND) | (reason == BY_TIE)), "1 or 2 at a split, 0 at a leaf")  # fmt: skip
    within("fact.n", named["fact.n"], 0.0, HEAVIEST)
    within("fact.bound", named["fact.bound"], 0.0, HEAVIEST)
    within("fact.merit", named["fact.merit"], -HEAVIEST, HEAVIEST)
    within("fact.second_merit", named["fact.second_merit"], -np.inf, HEAVIEST)
    kind, column, cut = (named[f"fact.second_{name}"] for name in ("kind", "column", "cut"))
    check_tests("fact.second_", kind, column, cut, sizes, (LEAF, *kinds_of_tests(rules)))
    each("fact.second_column", column, (kind != LEAF) | (column == NOWHERE), "-1 without a test")
    for name in ("event", "n", "merit", "second_merit", "bound", "second_cut", "second_kind"):
        array = named[f"fact.{name}"]
        each(f"fact.{name}", array, ~leaf | (array == 0), "0 at a leaf")


# Statistics --------------------------------------------------------------------------------------


def _check_statistics(named: Named, counts: Array, sizes: Sizes) -> None:
    """Weights are numbers from 0 on, flags are flags."""
    parts = sizes.parts
    weights = ["weight", "votes", "seen", "values", "tokens"]
    weights += ["histogram"] if parts.entries else []
    weights += ["sides", "candidate_classes", "value_weight"] if parts.candidates else []
    for name in weights:
        within(f"tree.{name}", named[f"tree.{name}"], 0.0, HEAVIEST)
    within("tree.moments", named["tree.moments"][:, :, MISSING], 0.0, HEAVIEST)
    for name, low, high in (
        ("audited", 0, 1),
        ("gaps", 0, 1),
        ("reference_tie", 0, 1),
        ("candidates", 0, parts.candidates),
        ("arrivals", 0, _MOST_COUNTED),
        ("since", 0, _MOST_COUNTED),
        ("bytes", 0, _MOST_COUNTED),
        ("peak", 0, _MOST_COUNTED),
        ("n_check", 0.0, HEAVIEST),
        ("binned_n", 0.0, HEAVIEST),
        ("audit_first", -1.0, HEAVIEST),
        ("reference_n", -1.0, HEAVIEST),
        ("quiet_since", -1.0, HEAVIEST),
        ("forecast", -1.0, np.inf),
    ):
        within(f"slot.{name}", named[f"slot.{name}"], low, high)
    for name in ("spread", "bias"):
        array = named[f"slot.{name}"]
        each(f"slot.{name}", array, ~np.isnan(array), "a number")
    within("tree.barred", named["tree.barred"], 0, 3)
    within("tree.barred_tokens", named["tree.barred_tokens"], 0, 3)
    total = int(named["slot.bytes"].sum(dtype=np.float64))
    require(counts[BLOCK_BYTES] == total, "tree.counts[BLOCK_BYTES]", counts[BLOCK_BYTES],
             f"{total}, the sum of the slots")  # fmt: skip
