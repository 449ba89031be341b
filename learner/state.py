"""The arrays of a tree: made, grown, trimmed. No kernel allocates; this file does it for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learner.encoder import Encoder
from learner.kernels.bayes import class_width, slot_width
from learner.kernels.jit import JIT_DISABLED, by_reference
from learner.kernels.rules import (
    FOLLOWED,
    GAUSSIAN,
    MAJORITY,
    MOST_CANDIDATES,
    SAMPLE,
    Rules,
    Scratch,
)
from learner.kernels.tree import (
    BIN_COUNT,
    BLOCK_SIZES,
    CANDIDATE,
    COLUMN,
    COUNTS,
    ENTRIES,
    FACT,
    FIRST_BLOCK,
    HIGH,
    HISTOGRAMS,
    LOG_FIELDS,
    LOW,
    MISSING,
    MOST_BINS,
    NODE,
    NODES,
    NOWHERE,
    PENDING,
    PENDING_BRANCHES,
    SHORT_OF_ROOM,
    SLOT,
    SLOTS,
    TABLE,
    Layout,
    Tree,
)
from learner.schema import Kind

LOG_LINES = 1024
WORD = 8  # bytes

Array = npt.NDArray[Any]


class Parts(NamedTuple):
    """What a tree keeps beyond class weights, moments and n_ijk; fixed by its options."""

    entries: bool = False  # numeric values one by one
    intervals: int = 0  # of a histogram
    bayes: bool = False  # tables of naive Bayes
    bins: bool = False  # intervals for it
    candidates: int = 0  # followed event by event
    columns: bool = True  # statistics of attributes; False: workers keep them


class Sizes(NamedTuple):
    """Room of the arrays along each axis."""

    nodes: int
    slots: int
    table: int
    classes: int
    numeric: int
    values: tuple[int, ...]  # of each nominal column
    tokens: int
    features: int
    entries: int = 0
    longest: int = 0  # block of entries
    histograms: int = 0
    parts: Parts = Parts()

    @property
    def widest(self) -> int:
        """The most branches a split can have."""
        return max((2, *self.values))


FIRST_SIZES = Sizes(64, 64, 256, 2, 0, (), 0, 0)
FIRST_BYTES = 8 * 2**20  # of observers: a small tree never grows its arrays
FIRST_ENTRIES = 1 << 14
LARGE_BYTES = 64 * 2**20  # of observers: from here on they no longer double
FEW_NODES = 1 << 14  # likewise of nodes and entries
FEW_ENTRIES = 1 << 17
WHOLE = 1 << 16  # weights up to which L(z) is looked up


def parts_of(rules: Rules) -> Parts:
    """The parts that these options need."""
    entries = rules.observer != GAUSSIAN
    return Parts(
        entries=entries,
        intervals=rules.intervals if entries and rules.observer != SAMPLE else 0,
        bayes=rules.predictor != MAJORITY,
        bins=entries and rules.predictor != MAJORITY,
        candidates=(rules.candidates or MOST_CANDIDATES) if rules.timing == FOLLOWED else 0,
    )


def sizes_for(encoder: Encoder, old: Sizes = FIRST_SIZES) -> Sizes:
    """Room for all that the encoder knows; what is too small is doubled."""
    counts = encoder.value_counts()
    rooms = old.values + tuple(max(1, count) for count in counts[len(old.values) :])
    tokens = encoder.token_count
    return old._replace(
        classes=roomier(old.classes, len(encoder.classes)),
        numeric=len(encoder.positions(Kind.NUMERIC)),
        values=tuple(map(roomier, rooms, counts)),
        tokens=roomier(max(16, old.tokens), tokens) if tokens else 0,
        features=encoder.feature_count,
    )


def first_sizes(encoder: Encoder, parts: Parts) -> Sizes:
    """Room for all that the encoder knows and a small tree."""
    sizes = for_small_tree(sizes_for(encoder)._replace(parts=parts))
    if not parts.entries:
        return sizes
    histograms = 8 if parts.intervals else 0
    return sizes._replace(entries=FIRST_ENTRIES, longest=1024, histograms=histograms)


def for_small_tree(sizes: Sizes) -> Sizes:
    """Room for as many nodes as may be reserved for nobody yet."""
    slots = max(8, min(512, cheap_slots(sizes)))
    return sizes._replace(slots=slots, nodes=max(64, 2 * slots), table=max(256, 8 * slots))


def cheap_slots(sizes: Sizes) -> int:
    """How many slots may be reserved for nobody yet."""
    return FIRST_BYTES // slot_bytes(sizes)


def slot_bytes(sizes: Sizes) -> int:
    """Bytes of the statistics of one node, at least 1."""
    numeric, places, tokens = kept_columns(sizes)
    numbers = (MISSING + 1) * numeric + places + tokens
    numbers += sizes.parts.candidates * 4 + (MOST_BINS * sizes.numeric if sizes.parts.bins else 0)
    if sizes.parts.bayes:
        numbers += class_width(sizes.numeric, len(sizes.values), sum(sizes.values))
    return max(1, 8 * sizes.classes * numbers)


def with_room(sizes: Sizes, tree: Tree, leaves: int = 0) -> Sizes:
    """Enough for a lost child, for the split that waits for room, and for longer blocks.

    And for so many leaves that get statistics. Where slots become wider, those in reserve are
    given up unless they are cheap: values times classes times a reserve for small slots would be
    many times what the tree holds.
    """
    counts = tree.counts
    more = 1 + leaves + (int(counts[PENDING_BRANCHES]) if counts[PENDING] else 0)
    used, cheap = int(counts[SLOTS]) + more, cheap_slots(sizes)
    slots = roomier(sizes.slots, used, LARGE_BYTES // slot_bytes(sizes))
    if _slots_differ(sizes, tree):
        slots = min(slots, max(used, cheap))
    sizes = sizes._replace(
        nodes=roomier(sizes.nodes, int(counts[NODES]) + more, FEW_NODES),
        slots=slots,
        table=roomier(sizes.table, int(counts[TABLE]) + 3 * sizes.widest, FEW_NODES),
    )
    if not sizes.parts.entries:
        return sizes
    fresh = more * sizes.numeric * FIRST_BLOCK
    if sizes.numeric > tree.column.shape[1]:
        fresh += int(counts[SLOTS]) * sizes.numeric * FIRST_BLOCK
    longest = int(tree.column["capacity"].max(initial=FIRST_BLOCK))
    fresh += int(counts[SHORT_OF_ROOM]) * sizes.numeric
    histograms = int(counts[HISTOGRAMS]) + sizes.numeric
    return sizes._replace(
        entries=roomier(sizes.entries, int(counts[ENTRIES]) + fresh, FEW_ENTRIES),
        longest=roomier(sizes.longest, 2 * longest, 2 * longest),
        histograms=roomier(sizes.histograms, histograms) if sizes.parts.intervals else 0,
    )


def _slots_differ(sizes: Sizes, tree: Tree) -> bool:
    """Whether a slot of these sizes is another one than the tree's."""
    had = (tree.values.shape[1], tree.moments.shape[3], tree.values.shape[2], tree.tokens.shape[2])
    return had != (sizes.classes, *kept_columns(sizes))


def kept_columns(sizes: Sizes) -> tuple[int, int, int]:
    """Numeric columns, places of nominal values and tokens whose statistics are kept here."""
    if not sizes.parts.columns:
        return 0, 0, 0
    return sizes.numeric, sum(sizes.values), sizes.tokens


def roomier(room: int, needed: int, few: int = 0) -> int:
    """The room if it is enough; else what is needed, but an eighth more than before at least.

    And twice as much while there are few. No large array is ever more than an eighth too large.
    """
    if needed <= room:
        return room
    return max(needed, 2 * room if room < few else room + room // 8)


def layout_for(encoder: Encoder, sizes: Sizes) -> Layout:
    """Where the encoder's attributes stand."""
    positions = [position for position, _ in encoder.tokens][: sizes.tokens]
    tokens = np.zeros(sizes.tokens, np.int32)
    tokens[: len(positions)] = positions
    return Layout(
        np.array(encoder.positions(Kind.NUMERIC), np.int32),
        np.array(encoder.positions(Kind.NOMINAL), np.int32),
        tokens,
        np.array(sizes.values, np.uint32),
        value_starts(sizes),
    )


def value_starts(sizes: Sizes) -> npt.NDArray[np.int32]:
    """First place of each nominal column's values, and the end of all."""
    return np.concatenate([[0], np.cumsum(sizes.values)]).astype(np.int32)


def array_shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """The shape of every array of a tree with this room."""
    n, s, c, parts = sizes.nodes, sizes.slots, sizes.classes, sizes.parts
    numeric, places, tokens = kept_columns(sizes)
    kept, binned, followed = s * parts.entries, s * parts.bins, s * bool(parts.candidates)
    histograms, followed_each = sizes.histograms, (followed, parts.candidates)
    scored = s * parts.bayes
    return {
        "node": (n,),
        "votes": (n, c),
        "seen": (n, c),
        "fact": (n,),
        "slot": (s,),
        "moments": (s, c, MISSING + 1, numeric),
        "values": (s, c, places),
        "tokens": (s, c, tokens),
        "barred": (s, sizes.features if parts.columns else 0),
        "barred_tokens": (s, tokens),
        "counts": (COUNTS,),
        "weight": (1,),
        "free": (s,),
        "tables": (sizes.table,),
        "log": (LOG_LINES, LOG_FIELDS),
        "column": (kept, numeric),
        "entry_value": (sizes.entries,),
        "entry_weight": (sizes.entries,),
        "entry_class": (sizes.entries,),
        "free_blocks": (BLOCK_SIZES,),
        "histogram": (histograms, parts.intervals, c),
        "pruned": (histograms, parts.intervals),
        "free_histograms": (histograms,),
        "bayes": (scored, c, class_width(numeric, len(sizes.values), places)),
        "bayes_slot": (scored, slot_width(numeric, len(sizes.values))),
        "bins": (binned, numeric, c, MOST_BINS),
        "bin_shape": (binned, numeric, BIN_COUNT + 1),
        "candidate": followed_each,
        "sides": (*followed_each, 2, c),
        "candidate_classes": (*followed_each, c),
        "quiet_until": (followed,),
        "value_weight": (followed, places),
        "potential_numeric": (followed, numeric),
        "potential_nominal": (followed, len(sizes.values)),
        "potential_tokens": (followed, tokens),
        "touched": (-(-n // WORD) * WORD,),  # is looked through word by word
    }


def array_dtype(name: str) -> np.dtype[Any]:
    """What an array of a tree is made of: doubles, unless said otherwise."""
    dtype: np.dtype[Any] = np.dtype(_DTYPES.get(name, np.float64))
    return dtype


_DTYPES: dict[str, Any] = {
    **{"node": NODE, "fact": FACT, "slot": SLOT, "column": COLUMN, "candidate": CANDIDATE},
    **dict.fromkeys(("barred", "barred_tokens", "pruned", "touched"), np.int8),
    **dict.fromkeys(("free", "tables", "entry_class", "free_histograms"), np.int32),
    **dict.fromkeys(("counts", "free_blocks"), np.int64),
}
_OF_VALUES = ("values", "value_weight")
_TABLES = ("bayes", "bayes_slot")  # derived from the counts
_FORECASTS = ("quiet_until",)  # which hold for arrays of these sizes
_FIRST_CONTENT: dict[str, float] = {  # zero elsewhere
    "free_blocks": NOWHERE,
    **dict.fromkeys(("potential_numeric", "potential_nominal", "potential_tokens"), np.nan),
}


def new_tree(sizes: Sizes) -> Tree:
    """Empty arrays, not even a root."""
    return Tree(**{name: new_array(name, shape) for name, shape in array_shapes(sizes).items()})


def new_array(name: str, shape: tuple[int, ...]) -> Array:
    """One empty array of a tree."""
    dtype = array_dtype(name)
    array: Array = np.zeros(shape, dtype)
    _fill(name, array)
    return as_records(array)


def as_records(array: Array) -> Array:
    """Kernels read fields by name; numpy alone needs its slower class for that."""
    return array.view(np.recarray) if JIT_DISABLED and array.dtype.names else array


def _fill(name: str, zeros: Array) -> None:
    """What an empty array holds, where that is not 0."""
    if name in _FIRST_CONTENT:
        zeros.fill(_FIRST_CONTENT[name])
    if name == "column":
        zeros["histogram"] = NOWHERE


def resized(tree: Tree, old: Sizes, new: Sizes) -> Tree:
    """The same tree in arrays of other sizes."""
    arrays = tree._asdict()
    resize_arrays(arrays, old, new)
    return Tree(**arrays)


def resize_arrays(arrays: dict[str, Array], old: Sizes, new: Sizes) -> None:
    """Give the arrays of a tree other sizes, one after the other.

    One that only becomes longer grows where it is, unless somebody else holds it: copying a large
    tree again and again would cost more than learning, and twice the memory. What kernels measure
    their room by comes last, so that nothing is broken where memory runs out in between. A numeric
    column that is new counts as missing in all that was seen before it.
    """
    shapes, slots = array_shapes(new), int(arrays["counts"][SLOTS])
    moved = old.values != new.values
    stale = moved or any(shapes[name][1:] != arrays[name].shape[1:] for name in _TABLES)
    for name in reversed(list(shapes)):
        shape, apart = shapes[name], moved and name in _OF_VALUES
        if name in _FORECASTS or (name in _TABLES and stale):  # made anew when next asked for
            arrays[name] = new_array(name, shape)
            continue
        if arrays[name].shape == shape and not apart:
            continue
        if not apart and _is_longer(arrays[name].shape, shape) and _grows(arrays, name, shape):
            continue
        target, source = new_array(name, shape), arrays[name]
        if name == "moments":
            target[:slots, :, LOW], target[:slots, :, HIGH] = np.inf, -np.inf
        if name in _OF_VALUES:
            copy_values(target, value_starts(new), source, value_starts(old), old.values)
        else:
            copy_into(target, source)
        arrays[name] = target
    if new.numeric > old.numeric:
        _mark_missing(Tree(**arrays), old.numeric)


def _is_longer(had: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether only the first axis differs, and is longer."""
    return had[1:] == shape[1:] and 0 < had[0] < shape[0]


def _grows(arrays: dict[str, Array], name: str, shape: tuple[int, ...]) -> bool:
    """Lengthen an array where it is; False when others hold it."""
    array = arrays.pop(name)  # numpy refuses where it finds more than one reference
    had, grown = len(array), True
    try:
        array.resize(shape)
    except ValueError:
        grown = False
    finally:
        arrays[name] = array
    if grown:
        _fill(name, array[had:])
    return grown


def copy_into(target: Array, source: Array) -> None:
    """Copy an array into the corner of another one, as much as both hold."""
    corner = tuple(map(slice, map(min, target.shape, source.shape)))
    target[corner] = source[corner]


def copy_values(
    target: Array, starts: Array, source: Array, had: Array, counts: Sequence[int]
) -> None:
    """Copy n_ijk, whose attributes begin elsewhere in the target."""
    corner = tuple(map(slice, map(min, target.shape[:-1], source.shape[:-1])))
    for a, count in enumerate(counts):
        part = target[(*corner, slice(starts[a], starts[a] + count))]
        part[...] = source[(*corner, slice(had[a], had[a] + count))]


def spans(starts: Array, lengths: Array) -> npt.NDArray[np.int64]:
    """All places from each start on, as many as its length."""
    lengths = lengths.astype(np.int64)
    ends = np.cumsum(lengths)
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(int(lengths.sum()))


def _mark_missing(tree: Tree, first_new: int) -> None:
    for node in np.flatnonzero(keeping_nodes(tree)):
        slot = tree.node["slot"][node]
        tree.moments[slot, :, MISSING, first_new:] = tree.seen[node][:, None]
        tree.slot["gaps"][slot] |= tree.node["n"][node] > 0.0


def keeping_nodes(tree: Tree) -> npt.NDArray[np.bool_]:
    """For each node in use whether it keeps statistics."""
    mask: npt.NDArray[np.bool_] = tree.node["slot"][: int(tree.counts[NODES])] >= 0
    return mask


# How arrays are handed to kernels: one pointer a group.
tree_reference = by_reference(Tree)
layout_reference = by_reference(Layout)
rules_reference = by_reference(Rules)
scratch_reference = by_reference(Scratch)
