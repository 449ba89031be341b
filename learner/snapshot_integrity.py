"""What must hold of the arrays of a snapshot before a kernel may run on them.

The same as of a model (learner/integrity.py), as far as predicting reads it; but the arrays are
used as they are, so their sizes must be those of the encoder, not only fit in them.
"""

from __future__ import annotations

import numpy as np

from learner.encoder import Encoder
from learner.errors import SnapshotError
from learner.fault import HEAVIEST, Named, stored_array, within
from learner.integrity import (
    check_branches,
    check_counts,
    check_facts,
    check_nodes,
    check_tables,
)
from learner.kernels.rules import MAJORITY, Rules
from learner.kernels.tree import CLASSES, COUNTS, MISSING, NODES, SLOTS, TABLE, TOKENS
from learner.observer_integrity import check_bins
from learner.params import TreeParams
from learner.schema import Kind
from learner.state import Sizes, array_dtype, array_shapes, parts_of

OF_ALL = ("counts", "weight", "tables")
STATISTICS = ("seen", "moments", "values", "tokens", "bins", "bin_shape")  # for naive Bayes only
WORD = np.dtype("<i8")


def kept_arrays(rules: Rules, of_nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the arrays that the snapshot of such a tree has."""
    parts = parts_of(rules)
    left_out = {"seen"} if rules.predictor == MAJORITY else set()
    statistics = () if rules.predictor == MAJORITY else STATISTICS
    names = [name for name in (*OF_ALL, *of_nodes, *statistics) if name not in left_out]
    return tuple(dict.fromkeys(n for n in names if parts.bins or n not in ("bins", "bin_shape")))


def sizes_of(named: Named, encoder: Encoder, rules: Rules) -> Sizes:
    """The sizes that the arrays must have to belong together; raises SnapshotError."""
    counts = stored_array(named, "tree.counts", (COUNTS,), np.dtype(np.int64))
    check_counts(counts, encoder)
    return Sizes(
        nodes=int(counts[NODES]),
        slots=int(counts[SLOTS]),
        table=int(counts[TABLE]),
        classes=int(counts[CLASSES]),
        numeric=len(encoder.positions(Kind.NUMERIC)),
        values=tuple(encoder.value_counts()),
        tokens=int(counts[TOKENS]),
        features=encoder.feature_count,
        parts=parts_of(rules),
    )


def arrays_of(named: Named, names: tuple[str, ...], sizes: Sizes, others: set[str]) -> Named:
    """The arrays by the names of a tree, each of its own shape; raises SnapshotError."""
    shapes, arrays = array_shapes(sizes), {}
    for name in names:
        dtype, shape = array_dtype(name), shapes[name]
        if dtype.names:
            words = (*shape, dtype.itemsize // WORD.itemsize)
            rows = stored_array(named, f"tree.{name}", words, WORD)
            arrays[name] = rows.reshape(-1).view(dtype)
        else:
            arrays[name] = stored_array(named, f"tree.{name}", shape, dtype)
    unknown = sorted(named.keys() - {f"tree.{name}" for name in names} - others)
    if unknown:
        raise SnapshotError(f"the snapshot has an array {unknown[0]!r:.80}; expected no such name")
    return arrays


def check_arrays(arrays: Named, sizes: Sizes, params: TreeParams) -> None:
    """Raise SnapshotError unless kernels can walk these arrays and find numbers in them."""
    rules = params.rules(has_numeric=True)
    named = {f"tree.{name}": array for name, array in arrays.items()}
    for name, array in arrays.items():
        named |= {f"{name}.{field}": array[field] for field in array.dtype.names or ()}
    check_nodes(named, arrays["counts"], sizes, rules)
    check_branches(named, sizes)
    check_tables(named, sizes)
    check_facts(named, arrays["counts"], sizes, rules)
    for name in arrays.keys() & {"weight", "votes", "seen", "values", "tokens"}:
        within(f"tree.{name}", arrays[name], 0.0, HEAVIEST)
    if "moments" in arrays:
        within("tree.moments", arrays["moments"][:, :, MISSING], 0.0, HEAVIEST)
    if "bins" in arrays:
        check_bins(arrays["bins"], arrays["bin_shape"], sizes)
