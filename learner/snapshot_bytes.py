"""A snapshot as bytes: what predicting reads, in the form in which kernels read it.

So a replica checks the bytes and answers from them where they lie: in memory, or in a file that
several processes map. Of a tree with majority leaves no statistics are among them, and fields that
only learning reads are 0. The layout of a node is part of the format: another layout is another
version. See learner/archive.py for the bytes themselves.
"""

from __future__ import annotations

import hashlib

import numpy as np

from learner.archive import SNAPSHOT, Bytes, Piece, Pieces, seal, unpack
from learner.encoder import Encoder
from learner.errors import LearnerError, SnapshotError, SnapshotVersion
from learner.fault import Array, Named, stored_array
from learner.kernels.jit import JIT_DISABLED
from learner.kernels.rules import ADAPTIVE, MAJORITY
from learner.kernels.tree import CLASSES, NODES, NOWHERE, TOKENS, Tree
from learner.model_bytes import (
    about_arrays,
    encoder_arrays,
    encoder_from,
    names_beside,
    of_values,
    owned_slots,
    owned_totals,
    variant_from,
)
from learner.params import TreeParams
from learner.publication import OF_NODES
from learner.snapshot import Snapshot
from learner.snapshot_integrity import (
    STATISTICS,
    WORD,
    arrays_of,
    check_arrays,
    kept_arrays,
    sizes_of,
)
from learner.state import (
    Sizes,
    array_dtype,
    array_shapes,
    layout_for,
    layout_reference,
    new_array,
    tree_reference,
)

_OF_LEARNING = ("n_last", "wait", "squares", "standing")
_OF_ADAPTIVE = ("mc_right", "nb_right")
_MOST_BYTES = 1 << 62


def pack_snapshot(snapshot: Snapshot) -> list[Piece]:
    """The bytes of a snapshot in pieces, their digest last; equal snapshots give equal bytes."""
    tree, encoder = snapshot._tree, snapshot._encoder
    named = encoder_arrays(encoder) | about_arrays(snapshot.variant, snapshot.params)
    named |= owned_totals(tree)
    named["memory"] = np.array([snapshot.memory_bytes], np.int64)
    named["layout"] = np.array([layout_number()], np.int64)
    arrays = _of_nodes(snapshot)
    if snapshot._rules.predictor != MAJORITY:
        arrays |= _of_slots(tree, snapshot._sizes, encoder)
    named |= {f"tree.{name}": _as_words(array) for name, array in arrays.items()}
    parts = list(Pieces(named, SNAPSHOT))
    return [*parts, seal(parts)[0]]


def layout_number() -> int:
    """A number that changes with what a node is made of."""
    said = repr([(name, array_dtype(name).descr) for name in OF_NODES]).encode()
    return int.from_bytes(hashlib.sha256(said).digest()[:7], "little")


def _of_nodes(snapshot: Snapshot) -> Named:
    """The arrays by node, without what predicting does not read."""
    tree, predictor = snapshot._tree, snapshot._rules.predictor
    used, classes = int(tree.counts[NODES]), int(tree.counts[CLASSES])
    names = kept_arrays(snapshot._rules, OF_NODES)
    arrays: Named = {name: getattr(tree, name)[:used] for name in OF_NODES if name in names}
    node = arrays["node"] = arrays["node"].copy()
    for field in (*_OF_LEARNING, *(() if predictor == ADAPTIVE else _OF_ADAPTIVE)):
        node[field] = 0
    keeps = node["slot"] != NOWHERE
    node["slot"] = np.where(keeps, np.cumsum(keeps) - 1, NOWHERE)
    for name in arrays.keys() & {"votes", "seen"}:
        arrays[name] = arrays[name][:, :classes]
    return arrays


def _of_slots(tree: Tree, sizes: Sizes, encoder: Encoder) -> Named:
    """Statistics, in the order of the nodes that own them."""
    slots, classes, tokens = owned_slots(tree), int(tree.counts[CLASSES]), int(tree.counts[TOKENS])
    names = [name for name in STATISTICS if name != "seen" and len(getattr(tree, name))]
    arrays: Named = {name: getattr(tree, name).take(slots, axis=0) for name in names}
    for name in ("moments", "values", "tokens"):
        arrays[name] = arrays[name][:, :classes]
    arrays["values"] = of_values(arrays["values"], sizes, encoder)
    arrays["tokens"] = arrays["tokens"][..., :tokens]
    if "bins" in arrays:
        arrays["bins"] = arrays["bins"][:, :, :classes]
    return arrays


def _as_words(array: Array) -> Array:
    """Records as rows of whole numbers, which the bytes are made of."""
    if not array.dtype.names:
        return array
    words = array.itemsize // WORD.itemsize
    return array.view(np.ndarray).view(WORD).reshape(len(array), words)


class SnapshotReader:
    """Reads one snapshot after the other; what they share is made once."""

    def __init__(self) -> None:
        self._known = b""
        self._encoder: Encoder | None = None

    def read(self, data: Bytes, *, trusted: bool = False) -> Snapshot:
        """The snapshot in these bytes, which must never change; raises SnapshotError.

        Its arrays are the bytes themselves, so these must be writable, as kernels want their
        arrays, though nothing is ever written. Trusted bytes were read before by this program: only
        their digest is compared.
        """
        try:
            with np.errstate(all="ignore"):
                return self._read(data, trusted)
        except SnapshotError:
            raise
        except (ValueError, OverflowError, MemoryError, LearnerError) as error:
            raise SnapshotError(
                f"snapshot bytes are damaged: {error}; expected a livetree snapshot"
            ) from error

    def _read(self, data: Bytes, trusted: bool) -> Snapshot:
        named = unpack(data, SNAPSHOT)
        layout_told = int(stored_array(named, "layout", (1,), np.dtype(np.int64))[0])
        if layout_told != layout_number():
            raise SnapshotVersion(
                f"the layout of the snapshot's nodes is {layout_told}; this program reads "
                f"{layout_number()}"
            )
        encoder = self._encoder_of(named)
        variant, params = variant_from(named)
        rules = params.rules(has_numeric=True)
        sizes = sizes_of(named, encoder, rules)
        others = names_beside(encoder) | {"memory", "layout"}
        arrays = arrays_of(named, kept_arrays(rules, OF_NODES), sizes, others)
        if not trusted:
            check_arrays(arrays, sizes, params)
        memory = int(stored_array(named, "memory", (1,), np.dtype(np.int64))[0])
        if not 0 <= memory <= _MOST_BYTES:
            raise SnapshotError(f"model array 'memory' holds {memory}; expected a number of bytes")
        snapshot = _snapshot_of(arrays, sizes, encoder, variant, params)
        snapshot.memory_bytes = memory
        return snapshot

    def _encoder_of(self, named: Named) -> Encoder:
        """The encoder; that of the snapshot before, if nothing new is known."""
        beside = ("encoder", "features.", "classes.", "tokens.", "values.")
        own = [array.tobytes() for name, array in named.items() if name.startswith(beside)]
        known = hashlib.sha256(b"".join(own)).digest()
        if self._encoder is None or known != self._known:
            self._encoder, self._known = encoder_from(named).frozen(), known
        return self._encoder


def _snapshot_of(
    arrays: Named, sizes: Sizes, encoder: Encoder, variant: str, params: TreeParams
) -> Snapshot:
    """A snapshot that reads these arrays; those that it never reads are empty."""
    held = {
        name: arrays[name] if name in arrays else new_array(name, (0, *shape[1:]))
        for name, shape in array_shapes(sizes).items()
    }
    if JIT_DISABLED:  # kernels read fields by name, see learner/state.py
        held = {n: a.view(np.recarray) if a.dtype.names else a for n, a in held.items()}
    tree, layout = Tree(**held), layout_for(encoder, sizes)
    handles = tree_reference(tree), layout_reference(layout)
    return Snapshot(tree, handles, [], sizes, layout, encoder, variant, params)
