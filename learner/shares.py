"""A tree taken apart into an aggregator's and the workers' shares of its arrays, and put together.

Put together it is the same tree, to the last bit: so a model is saved as one, whoever learned it,
and goes on with any number of workers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from learner.encoder import Encoder
from learner.kernels.tree import EQUALS, MULTIWAY, NODES, NUMERIC, SLOTS, SUBSET, Tree
from learner.local_statistics import OF_COLUMNS, OF_TREE, Share, own_positions
from learner.message import Known
from learner.schema import Kind
from learner.state import (
    Sizes,
    array_shapes,
    copy_into,
    copy_values,
    for_small_tree,
    new_array,
    value_starts,
)

Array = npt.NDArray[Any]

_AXES = ("nodes", "slots", "table")


def known_to(encoder: Encoder) -> Known:
    """What the encoder knows, as workers are told."""
    return Known(
        len(encoder.classes),
        np.array(encoder.positions(Kind.NUMERIC), np.int32),
        np.array(encoder.positions(Kind.NOMINAL), np.int32),
        np.array(encoder.value_counts(), np.int32),
        np.array(encoder.positions(Kind.SPARSE), np.int32),
        np.array([position for position, _ in encoder.tokens], np.int32),
    )


def tested_columns(tree: Tree) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Numeric and nominal columns that a split tests, ascending."""
    nodes = tree.node[: int(tree.counts[NODES])]
    kinds, columns = nodes["kind"], nodes["column"]
    by_value = (kinds == MULTIWAY) | (kinds == EQUALS) | (kinds == SUBSET)
    return (
        np.unique(columns[kinds == NUMERIC]).astype(np.int32),
        np.unique(columns[by_value]).astype(np.int32),
    )


def without_columns(tree: Tree, sizes: Sizes) -> tuple[Tree, Sizes]:
    """The aggregator's share: all but the statistics of attributes.

    Its nodes are small however wide events are, so that it has room for many of them.
    """
    lean = sizes._replace(parts=sizes.parts._replace(columns=False))
    small, arrays = for_small_tree(lean), tree._asdict()
    room = {axis: max(getattr(sizes, axis), getattr(small, axis)) for axis in _AXES}
    lean = lean._replace(**room)
    for name, shape in array_shapes(lean).items():
        had = arrays[name]
        if had.shape != shape:
            arrays[name] = new_array(name, shape)
            if name not in OF_COLUMNS:
                copy_into(arrays[name], had)
    return Tree(**arrays), lean


def state_of(share: Share, tree: Tree, sizes: Sizes, known: Known) -> dict[str, Array]:
    """A worker's share of a whole tree, as copies."""
    own = share.known(known)
    numeric = share.dense(*share.numeric, sizes.numeric)
    nominal = share.dense(*share.nominal, len(sizes.values))
    starts, rooms = value_starts(sizes)[nominal], np.maximum(1, own.values)
    places = [np.arange(at, at + room) for at, room in zip(starts, rooms, strict=True)]
    picked = {
        "moments": tree.moments[:, :, :, numeric],
        "values": tree.values[:, :, np.concatenate([np.zeros(0, np.int64), *places])],
        "tokens": tree.tokens[:, :, share.worker :: share.workers][:, :, : len(own.tokens)],
        "barred": tree.barred[:, own_positions(own)],
        "barred_tokens": tree.barred_tokens[:, share.worker :: share.workers][:, : len(own.tokens)],
    }
    state = {name: np.array(getattr(tree, name)) for name in OF_TREE}
    state["rooms"] = rooms.astype(np.int64)
    return state | {name: np.ascontiguousarray(array) for name, array in picked.items()}


def joined(
    lean: Tree,
    sizes: Sizes,
    known: Known,
    shares: Sequence[Share],
    states: Sequence[Mapping[str, Array]],
) -> tuple[Tree, Sizes]:
    """The whole tree from the aggregator's share and all workers', whose arrays are copied."""
    whole = sizes._replace(parts=sizes.parts._replace(columns=True))
    slots, shapes, starts = int(lean.counts[SLOTS]), array_shapes(whole), value_starts(whole)
    arrays = lean._asdict()
    arrays |= {name: new_array(name, shapes[name]) for name in OF_COLUMNS}
    arrays["slot"] = lean.slot.copy()
    for share, state in zip(shares, states, strict=True):
        numeric = share.dense(*share.numeric, sizes.numeric)
        copy_into(arrays["moments"][:slots, :, :, numeric], state["moments"][:slots])
        nominal = share.dense(*share.nominal, len(sizes.values))
        had = np.concatenate([[0], np.cumsum(state["rooms"])]).astype(np.int64)
        counts = [int(count) for count in known.values[nominal]]
        copy_values(arrays["values"][:slots], starts[nominal], state["values"][:slots], had, counts)
        mine = arrays["tokens"][:slots, :, share.worker :: share.workers]
        copy_into(mine, state["tokens"][:slots])
        own = own_positions(share.known(known))
        arrays["barred"][:slots, own] = state["barred"][:slots]
        arrays["slot"]["gaps"][:slots] |= state["slot"]["gaps"][:slots]
    return Tree(**arrays), whole
