"""A worker that reads a board: it goes from wave to wave in compiled code, in its own thread."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from learner.board import (
    APART,
    BLOCK,
    COLUMN,
    COUNTED,
    DROP,
    ENTRIES,
    KIND,
    LEAF_GONE,
    LED,
    NEW_LEAVES,
    NO_BLOCK,
    NO_NEWS,
    NUMBER,
    PATIENCE,
    POSTED,
    QUESTIONS,
    READ,
    ROWS,
    TAKEN,
    VAIN,
    Board,
    Paper,
    write_word,
)
from learner.errors import LearnerError
from learner.kernels.jit import direct, int64, kernel, read_shared, write_shared
from learner.kernels.nodes import has_room_below
from learner.kernels.rules import Rules, Scratch
from learner.kernels.share import own_barred
from learner.kernels.tree import Layout, Tree
from learner.local_statistics import INFINITE, LocalStatistics
from learner.message import LocalResult, Message
from learner.variants.vht import drop_leaf, keep_statistics

Codes = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

# why it stopped: nothing comes; a message is not on the board; a wave of another block; a number is
# infinite; the new leaves do not fit
NOTHING, LETTER, OTHER_BLOCK, UNSOUND, FULL = 0, 1, 2, 3, 4
WHILE_LED = 20  # times the patience, where the next entry may be there any moment


@kernel
def take_waves(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    scratch: Scratch,
    events: Any,
    is_slice: bool,
    share: Longs,
    positions: Codes,
    block: int,
    paper: Paper,
    worker: int,
    patience: int,
) -> int:
    """Count wave after wave of one block, and drop leaves in between; returns why it stopped."""
    word, entry, progress, own = paper.word, paper.entry, paper.progress, worker * APART
    while True:
        looks, taken = int64(0), int64(progress[own + TAKEN])
        limit = int64(patience)
        while read_shared(word, POSTED) <= taken:
            looks += 1
            if looks >= limit:
                if limit < WHILE_LED * patience and read_shared(word, LED) != 0:
                    limit += patience
                    continue
                progress[own + VAIN] += looks
                return NOTHING
        progress[own + VAIN] += looks
        at = progress[own + READ] % ENTRIES
        if entry[at, NUMBER] != taken + 1:
            return LETTER
        if entry[at, BLOCK] == DROP:
            leaf, branches = entry[at, LEAF_GONE], entry[at, NEW_LEAVES]
            if not has_room_below(tree, branches):
                return FULL
            barred = own_barred(layout, share, entry[at, KIND], entry[at, COLUMN])
            drop_leaf(tree, layout, rules, leaf, barred, paper.dropped[at, :branches])
        elif entry[at, BLOCK] != NO_NEWS:
            if entry[at, BLOCK] != block:
                return OTHER_BLOCK
            rows, questions = entry[at, ROWS], entry[at, QUESTIONS]
            if not keep_statistics(
                tree, layout, rules, scratch, events, is_slice, share, positions,
                paper.rows[at, :rows], paper.leaves[at, :rows], paper.asked[at, :questions],
                paper.rankings[worker, at], paper.branch_counts[worker, at],
                paper.branch_value[worker, at],
            ):  # fmt: skip
                return UNSOUND
            progress[own + COUNTED] += rows
        progress[own + READ] += 1
        write_shared(progress, own + TAKEN, taken + 1)


_take_waves, _write = direct(take_waves), direct(write_word)


class BoardReader:
    """A worker that reads a board, in a thread of its own."""

    def __init__(self, statistics: LocalStatistics, board: Board) -> None:
        self.statistics, self._board = statistics, board
        self.worker = statistics.share.worker
        self._get_ready()

    def _get_ready(self) -> None:
        """Compile before the first event, which nobody may have the time to wait for."""
        nothing = self.statistics.without_events()
        _take_waves(*nothing, NO_BLOCK, self._board.handle, self.worker, 1)
        self._board.has_taken(self.worker, 0)

    def _progress(self, place: int) -> int:
        return int(self._board.paper.progress[self.worker * APART + place])

    @property
    def taken(self) -> int:
        """Messages so far."""
        return self._board.taken(self.worker)

    @property
    def patience_spent(self) -> float:
        """For how long it looked in vain, so far; 1 is what Board.has_taken takes to say no."""
        return self._progress(VAIN) / PATIENCE

    def is_behind(self) -> bool:
        """Whether there are messages that it has not taken."""
        return self.taken < self._board.posted

    def follow(self) -> None:
        """Take entries until the next message is not on the board, or there is none for a while."""
        statistics, why, before = self.statistics, OTHER_BLOCK, self._progress(COUNTED)
        while why in (OTHER_BLOCK, FULL):
            entry = self._board.paper.entry[self._progress(READ) % ENTRIES]
            if why == FULL:
                statistics.make_room(int(entry[NEW_LEAVES]))
            is_next = entry[NUMBER] == self.taken + 1
            is_wave = is_next and entry[BLOCK] > NO_BLOCK
            block = int(entry[BLOCK]) if is_wave else statistics.newest_block
            known = statistics.arguments(block) if block else statistics.without_events()
            why = _take_waves(*known, block, self._board.handle, self.worker, PATIENCE)
        statistics.pass_over(self.taken, self._progress(COUNTED) - before)
        if why == UNSOUND:
            raise LearnerError(INFINITE)

    def take(self, number: int, message: Message) -> list[LocalResult]:
        """Take a message that is not on the board."""
        return self.statistics.take(number, message)

    def report(self, number: int) -> None:
        """That message is dealt with: its answers are where others find them."""
        _write(self._board.paper.progress, self.worker * APART + TAKEN, number)

    def skip(self) -> None:
        """Let all messages go by."""
        self.report(self._board.posted)
