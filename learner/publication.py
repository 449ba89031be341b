"""Snapshots one after the other, each by copying what changed since.

Two copies of the tree take turns (left and right): one is the snapshot that is being read, the
other is brought up to date with what changed since it was one. A copy is written only when nobody
holds its snapshot any more; a reader that is slow keeps its copy, and another one is made.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learner.encoder import Encoder
from learner.kernels.change import Words, copy_rows, copy_tables, take_changed
from learner.kernels.rules import MAJORITY
from learner.kernels.tree import COLLAPSED, NODES, REPLACED, SLOTS, TABLE, Ints, Layout, Tree
from learner.params import TreeParams
from learner.snapshot import Snapshot
from learner.state import Sizes, tree_reference

# What predicting reads; of the statistics only where leaves answer by naive Bayes.
OF_NODES = ("node", "votes", "seen", "fact")
OF_SLOTS = ("slot", "moments", "values", "tokens", "bins", "bin_shape")
OF_ALL = ("counts", "weight")

MOST_COPIES = 3  # that wait for their turn, the published one included


class Change(NamedTuple):
    """What is different from one snapshot to the next."""

    nodes: Ints
    slots: Ints  # of the leaves among them
    tabled: Ints  # those with a table


class Copy:
    """The arrays of a snapshot, and what they have missed since they were one."""

    def __init__(self, tree: Tree, with_slots: bool) -> None:
        held = {*OF_NODES, *OF_ALL, "tables", *(OF_SLOTS if with_slots else ())}
        self.tree = Tree(
            *(
                np.empty_like(part) if name in held else part[:0].copy()
                for name, part in tree._asdict().items()
            )
        )
        self.handle = tree_reference(self.tree)
        self.spare: list[Any] = []  # working space of readers
        self._missed: list[Change] | None = None  # None: everything
        self._with_slots = with_slots
        self._reader: weakref.ref[Snapshot] | None = None

    @property
    def is_free(self) -> bool:
        """Whether nobody can read it any more."""
        return self._reader is None or self._reader() is None

    def lend(self, snapshot: Snapshot) -> None:
        """These arrays do not change while the snapshot lives."""
        self._reader = weakref.ref(snapshot)

    def miss(self, change: Change | None, used: int) -> None:
        """Remember what changed; None: everything, as when more than half of it did."""
        if self._missed is None or change is None:
            self._missed = None
            return
        self._missed.append(change)
        if sum(len(missed.nodes) for missed in self._missed) > used // 2:
            self._missed = None

    def catch_up(self, tree: Tree, handle: Any) -> None:
        """Become equal to the tree."""
        for name in OF_ALL:
            np.copyto(getattr(self.tree, name), getattr(tree, name))
        if self._missed is None:
            self._copy_all(tree)
        else:
            for change in self._missed:
                self._copy_some(tree, handle, change)
        self._missed = []

    def _copy_all(self, tree: Tree) -> None:
        ends = dict.fromkeys(OF_NODES, int(tree.counts[NODES]))
        ends |= {"tables": int(tree.counts[TABLE])}
        if self._with_slots:
            ends |= dict.fromkeys(OF_SLOTS, int(tree.counts[SLOTS]))
        for name, end in ends.items():
            np.copyto(getattr(self.tree, name)[:end], getattr(tree, name)[:end])

    def _copy_some(self, tree: Tree, handle: Any, change: Change) -> None:
        for name in OF_NODES:
            _copy(getattr(self.tree, name), getattr(tree, name), change.nodes)
        copy_tables(handle, self.tree.tables, change.tabled)
        if self._with_slots:
            for name in OF_SLOTS:
                _copy(getattr(self.tree, name), getattr(tree, name), change.slots)


class Publisher:
    """Takes the snapshots of one tree."""

    def __init__(self) -> None:
        self._tree: Tree | None = None  # whose arrays the copies are like
        self._copies: list[Copy] = []  # the newest last
        self._removals = 0
        self._room = np.empty((3, 0), np.int32)  # for all that can change
        self._encoder: Encoder | None = None
        self._revision = -1

    def publish(
        self,
        tree: Tree,
        handles: tuple[Any, Any],
        sizes: Sizes,
        layout: Layout,
        encoder: Encoder,
        variant: str,
        params: TreeParams,
    ) -> Snapshot:
        """The tree as it is now; ``handles`` are tree and layout as kernels take them."""
        self._note_changes(tree, handles[0])
        copy = next((copy for copy in reversed(self._copies) if copy.is_free), None)
        if copy is None:
            majority = params.rules(has_numeric=False).predictor == MAJORITY
            copy = Copy(tree, with_slots=not majority)
        else:
            self._copies.remove(copy)
        copy.catch_up(tree, handles[0])
        snapshot = Snapshot(
            copy.tree, (copy.handle, handles[1]), copy.spare, sizes, layout,
            self.frozen(encoder), variant, params,
        )  # fmt: skip
        copy.lend(snapshot)
        self._copies = [*self._copies, copy][-MOST_COPIES:]
        return snapshot

    def let_go(self) -> None:
        """Forget the tree: its arrays are about to grow, which they can where nobody holds them."""
        self._tree = None

    def _note_changes(self, tree: Tree, handle: Any) -> None:
        """Tell all copies what they miss."""
        if tree is not self._tree:  # other arrays, perhaps of other sizes
            self._tree, self._copies = tree, []
            self._room = np.empty((len(Change._fields), len(tree.touched)), np.int32)
        counts = take_changed(handle, tree.touched.view(np.int64), *self._room)
        removals = int(tree.counts[REPLACED] + tree.counts[COLLAPSED])
        moved = removals != self._removals  # closing the gap that a subtree left
        self._removals = removals
        found = zip(self._room, counts, strict=True)
        change = None if moved else Change(*(room[:count].copy() for room, count in found))
        for copy in self._copies:
            copy.miss(change, int(tree.counts[NODES]))

    def frozen(self, encoder: Encoder) -> Encoder:
        """What the encoder knows now, for those who read while it learns on."""
        if self._encoder is None or self._revision != encoder.revision:
            self._encoder = encoder.frozen(self._encoder)
            self._revision = encoder.revision
        return self._encoder


def _copy(target: npt.NDArray[Any], source: npt.NDArray[Any], rows: Ints) -> None:
    if len(rows) and source[:1].nbytes:
        copy_rows(_words(target), _words(source), rows)


def _words(array: npt.NDArray[Any]) -> Words:
    """The same memory as rows of words."""
    return array.view(np.ndarray).reshape(len(array), -1).view(np.uint64)
