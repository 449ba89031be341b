"""The statistics that one worker keeps: its columns of every leaf, and nothing of the tests.

A worker knows the nodes by their numbers, which leaf has which slot, and the class weights, all of
which it counts along with the aggregator. It does what the messages say, one after the other; a
message that is missing is noticed, one that comes twice is not obeyed twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learner.batch import Batch
from learner.errors import LearnerError, WorkerLost
from learner.kernels.jit import by_reference, direct
from learner.kernels.rules import RANKING
from learner.kernels.share import own_barred
from learner.kernels.tree import Layout, Tree
from learner.message import (
    Block,
    Child,
    Done,
    Drop,
    Events,
    Known,
    LocalResult,
    Message,
    Wave,
)
from learner.params import TreeParams
from learner.scratch import new_scratch
from learner.state import (
    Sizes,
    layout_reference,
    new_tree,
    resize_arrays,
    roomier,
    rules_reference,
    scratch_reference,
    tree_reference,
    value_starts,
    with_room,
)
from learner.variants.vht import BRANCHES, drop_leaf, keep_statistics, new_child

Array = npt.NDArray[Any]
Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]

INFINITE = "X holds an infinite number; expected finite ones, NaN = missing"

events_reference = by_reference(Events)
_keep_statistics = direct(keep_statistics)

# What a worker holds of a tree: all of the first, its own columns of the others.
OF_TREE = ("node", "votes", "seen", "slot", "counts", "free")
OF_COLUMNS = ("moments", "values", "tokens", "barred", "barred_tokens")


NOTHING = Batch(
    np.zeros((0, 1)), np.zeros((0, 1), np.int32), np.zeros(1, np.int64), np.zeros(0, np.int32)
)


class Blocks:
    """Events that waves speak of, as kernels take them."""

    def __init__(self) -> None:
        self._taken: dict[int, tuple[Any, bool]] = {}  # the events, and whether they are a slice

    def begin(self, block: Block) -> None:
        """Its waves come now."""
        self._taken[block.block] = events_reference(block.events), block.is_slice

    def end(self, block: int) -> None:
        """There are no more of them."""
        del self._taken[block]

    def clear(self) -> None:
        """Nor of any other."""
        self._taken.clear()

    @property
    def newest(self) -> int:
        """The block that began last; 0 where there is none."""
        return max(self._taken, default=0)

    def arguments(self, block: int) -> tuple[Any, bool]:
        """What a kernel needs to know of it."""
        return self._taken[block]


class Share(NamedTuple):
    """Which columns are a worker's: a range of the dense ones, every p-th token.

    The last worker also takes the dense columns that are still to come.
    """

    worker: int
    workers: int
    numeric: tuple[int, int]
    nominal: tuple[int, int]

    @classmethod
    def of(cls, worker: int, workers: int, known: Known) -> Share:
        """The worker's part of what is known when the workers begin."""

        def part(columns: int) -> tuple[int, int]:
            end = columns * (worker + 1) // workers
            return columns * worker // workers, -1 if worker == workers - 1 else end

        return cls(worker, workers, part(len(known.numeric)), part(len(known.nominal)))

    def dense(self, first: int, end: int, columns: int) -> slice:
        """A range of columns, of so many."""
        return slice(first, columns if end < 0 else end)

    def known(self, known: Known) -> Known:
        """What the worker knows of what is known; positions stay those of the whole schema."""
        numeric = self.dense(*self.numeric, len(known.numeric))
        nominal = self.dense(*self.nominal, len(known.nominal))
        return Known(
            known.classes,
            known.numeric[numeric],
            known.nominal[nominal],
            known.values[nominal],
            known.sparse,
            known.tokens[self.worker :: self.workers],
        )

    def slice(self, block: Block) -> Block:
        """The worker's own columns of a block, for those who do not share memory."""
        events = block.events
        mine = events.sparse_index % self.workers == self.worker
        ends = np.concatenate([[0], np.cumsum(mine)])
        mine_only = Batch(
            events.numeric[:, self.dense(*self.numeric, events.numeric.shape[1])].copy(),
            events.nominal[:, self.dense(*self.nominal, events.nominal.shape[1])].copy(),
            ends[events.sparse_start].astype(np.int64),
            (events.sparse_index[mine] // self.workers).astype(np.int32),
        )
        own = Events.of(mine_only, events.y, events.weights)
        return block._replace(events=own, is_slice=True)

    def numbers(self) -> Longs:
        """The same as kernels take it."""
        return np.array([self.numeric[0], self.nominal[0], self.worker, self.workers], np.int64)


def own_positions(known: Known) -> Codes:
    """Positions in the schema of all features that a worker has a part in, ascending."""
    found: Codes = np.unique(np.concatenate([known.numeric, known.nominal, known.sparse]))
    return found


class Beginning(NamedTuple):
    """What a worker begins with."""

    share: Share
    params: TreeParams
    known: Known
    state: Mapping[str, Array]  # arrays by the names below, and the places of nominal values


class LocalStatistics:
    """One worker; whoever runs it hands it the messages in their order."""

    def __init__(self, beginning: Beginning, blocks: Blocks | None = None) -> None:
        """Begin; ``blocks`` are shared by workers of one process, and looked after elsewhere."""
        share, params, known, state = beginning
        self.share = share
        self.events = 0  # counted so far
        self._params = params
        self._numbers = share.numbers()
        self._taken = 0  # messages
        self._keeps_blocks = blocks is None
        self._blocks = Blocks() if blocks is None else blocks
        self._known = share.known(known)
        self._fitted: Known | None = None
        self._sizes = Sizes(
            nodes=len(state["node"]),
            slots=len(state["slot"]),
            table=1,
            classes=state["votes"].shape[1],
            numeric=state["moments"].shape[3],
            values=tuple(state["rooms"].tolist()),
            tokens=state["tokens"].shape[2],
            features=state["barred"].shape[1],
        )
        self._nothing = events_reference(Events.of(NOTHING, np.zeros(0, np.int32), np.zeros(0)))
        self._tree = new_tree(self._sizes)
        for name in (*OF_TREE, *OF_COLUMNS):
            getattr(self._tree, name)[...] = state[name]
        self._fit()

    def take(self, number: int, message: Message) -> list[LocalResult]:
        """Do what a message says; returns the answers to its questions.

        Messages are numbered from 1 on. One that was taken already is left alone; raises WorkerLost
        where one is missing, since then these are not the statistics of the tree any more.
        """
        if number <= self._taken:
            return []
        if number != self._taken + 1:
            raise WorkerLost(
                f"worker {self.share.worker} got message {number}; expected {self._taken + 1}: "
                "it has lost its statistics, or messages have"
            )
        self._taken = number
        if isinstance(message, Wave):
            return self._count(message)
        if isinstance(message, Block):
            if self._keeps_blocks:
                self._blocks.begin(message)
        elif isinstance(message, Done):
            if self._keeps_blocks:
                self._blocks.end(message.block)
        elif isinstance(message, Known):
            self._known = self.share.known(message)
            self._fit()
        elif isinstance(message, Drop):
            self._drop(message)
        else:
            self._adopt(message)
        return []

    def state(self) -> dict[str, Array]:
        """What it holds, as the constructor takes it: the arrays themselves, not copies."""
        rooms = np.array(self._sizes.values, np.int64)
        return {
            **{name: getattr(self._tree, name) for name in (*OF_TREE, *OF_COLUMNS)},
            "rooms": rooms,
        }

    @property
    def state_bytes(self) -> int:
        """Memory of the statistics, the room for more included."""
        return sum(getattr(self._tree, name).nbytes for name in OF_COLUMNS)

    def _fit(self, leaves: int = 0) -> None:
        """Arrays and working space for all that is known, and for so many more leaves."""
        known, old = self._known, self._sizes
        rooms = old.values + tuple(max(1, int(count)) for count in known.values[len(old.values) :])
        positions = own_positions(known)
        tokens = len(known.tokens)
        sizes = old._replace(
            classes=roomier(old.classes, known.classes),
            numeric=len(known.numeric),
            values=tuple(map(roomier, rooms, map(int, known.values))),
            tokens=roomier(max(16, old.tokens), tokens) if tokens else old.tokens,
            features=len(positions),
        )
        sizes = with_room(sizes, self._tree, leaves)
        if sizes == old and known is self._fitted:
            return
        self._fitted = known
        if sizes != old:
            arrays = self._tree._asdict()
            del self._tree
            self.__dict__.pop("_handles", None)
            try:
                resize_arrays(arrays, old, sizes)
                self._sizes = sizes
            finally:
                self._tree = Tree(**arrays)
        self._positions = positions
        of_tokens = np.zeros(sizes.tokens, np.int32)
        of_tokens[:tokens] = np.searchsorted(positions, known.tokens)
        layout = Layout(
            np.searchsorted(positions, known.numeric).astype(np.int32),
            np.searchsorted(positions, known.nominal).astype(np.int32),
            of_tokens,
            np.array(sizes.values, np.uint32),
            value_starts(sizes),
        )
        self._rules = self._params.rules(has_numeric=sizes.numeric > 0)
        self._handles = (
            tree_reference(self._tree),
            layout_reference(layout),
            rules_reference(self._rules),
            scratch_reference(new_scratch(sizes, self._rules)),
        )

    def make_room(self, leaves: int) -> None:
        """So many leaves are about to begin."""
        self._fit(leaves)

    @property
    def newest_block(self) -> int:
        """The block that began last; 0 where there is none."""
        return self._blocks.newest

    def arguments(self, block: int) -> tuple[Any, ...]:
        """What a kernel needs to count the events of a block."""
        return *self._handles, *self._blocks.arguments(block), self._numbers, self._positions

    def without_events(self) -> tuple[Any, ...]:
        """The same where there is nothing to count."""
        return *self._handles, self._nothing, False, self._numbers, self._positions

    def pass_over(self, number: int, events: int) -> None:
        """Messages up to this one have come another way, with so many events."""
        self._taken = number
        self.events += events

    def _count(self, wave: Wave) -> list[LocalResult]:
        questions, widest, classes = len(wave.asked), self._sizes.widest, self._sizes.classes
        rankings = np.zeros((questions, RANKING))
        counts = np.zeros((questions, widest, classes))
        values = np.zeros((questions, widest), np.int32)
        finite = _keep_statistics(
            *self.arguments(wave.block), wave.rows, wave.leaves, wave.asked, rankings, counts,
            values,
        )  # fmt: skip
        if not finite:
            raise LearnerError(INFINITE)
        self.events += len(wave.rows)
        return results_of(self.share.worker, wave.split_ids, rankings, counts, values)

    def _drop(self, drop: Drop) -> None:
        """A leaf has split; on which column matters where it is one's own."""
        self._fit(len(drop.branch_counts))
        barred = own_barred(self._handles[1], self._numbers, drop.kind, drop.column)
        counts = np.zeros((len(drop.branch_counts), self._sizes.classes))
        width = min(drop.branch_counts.shape[1], self._sizes.classes)
        counts[:, :width] = drop.branch_counts[:, :width]
        drop_leaf(*self._handles[:3], drop.leaf, barred, counts)

    def _adopt(self, child: Child) -> None:
        self._fit(1)
        new_child(*self._handles[:3], child.parent)


def results_of(
    worker: int, split_ids: Longs, rankings: Floats, counts: Floats, values: Codes
) -> list[LocalResult]:
    """A worker's answers to some questions, from what a kernel has written of each."""
    answers = zip(split_ids.tolist(), rankings, counts, values, strict=False)
    return [
        LocalResult(split_id, worker, ranking, of_branch[: int(ranking[BRANCHES])], value)
        for split_id, ranking, of_branch, value in answers
    ]
