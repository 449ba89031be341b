"""A board for workers that share the aggregator's memory: they read waves off it, without messages.

Taking a wave as a message costs a thread two waits for the interpreter's lock, about as long as it
counts two hundred events of a thousand attributes. Here a worker goes from wave to wave in compiled
code and looks for the next one for a while; only other messages, and waves that do not fit, bring
it back. Who waits how long changes nothing of what is counted: the order is that of the messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learner.batch import Batch
from learner.errors import LearnerError
from learner.kernels.jit import (
    JIT_DISABLED,
    by_reference,
    direct,
    int64,
    kernel,
    read_shared,
    write_shared,
)
from learner.kernels.rules import RANKING
from learner.local_statistics import INFINITE, LocalStatistics
from learner.message import Events, LocalResult, Message, Wave
from learner.variants.vht import keep_statistics

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]

ENTRIES = 4  # waves that are on the board at most
LONGEST, MOST_QUESTIONS = 4096, 8  # events and questions of one of them
PATIENCE = 1 if JIT_DISABLED else 300_000  # looks in vain, a tenth of a millisecond or two

NUMBER, BLOCK, ROWS, QUESTIONS = 0, 1, 2, 3  # places in ``entry``
NO_BLOCK = 0
TAKEN, WAVES, COUNTED, VAIN = 0, 1, 2, 3  # places in ``progress``
NOTHING, LETTER, OTHER_BLOCK, BROKEN = 0, 1, 2, 3  # why a worker stopped reading
APART = 16  # words, so that no two threads write into one line of the cache


class Waves(NamedTuple):
    """The board as kernels take it."""

    posted: Longs  # [0] messages so far, those included that are not on the board
    entry: Longs  # [place, see above]
    rows: Codes  # [place, event]
    leaves: Codes  # [place, event]
    asked: Codes  # [place, question]


class Answers(NamedTuple):
    """What one worker has done, and its answers to the waves on the board."""

    progress: Longs  # messages and waves taken, events counted, looks in vain
    rankings: Floats  # [place, question, see Scratch.ranking]
    branch_counts: Floats  # [place, question, branch, class]
    branch_value: Codes  # [place, question, branch]


waves_reference = by_reference(Waves)
answers_reference = by_reference(Answers)


@kernel
def take_waves(
    tree: Any,
    layout: Any,
    rules: Any,
    scratch: Any,
    events: Any,
    is_slice: bool,
    share: Longs,
    block: int,
    waves: Waves,
    answers: Answers,
    patience: int,
) -> int:
    """Count wave after wave of one block; returns why it stopped."""
    posted, entry, progress = waves.posted, waves.entry, answers.progress
    while True:
        looks, taken = int64(0), int64(progress[TAKEN])
        while read_shared(posted, 0) <= taken:
            looks += 1
            if looks >= patience:
                progress[VAIN] += looks
                return NOTHING
        progress[VAIN] += looks
        at = progress[WAVES] % ENTRIES
        if entry[at, NUMBER] != taken + 1:
            return LETTER
        if entry[at, BLOCK] != block:
            return OTHER_BLOCK
        rows, questions = entry[at, ROWS], entry[at, QUESTIONS]
        if not keep_statistics(
            tree, layout, rules, scratch, events, is_slice, share, waves.rows[at, :rows],
            waves.leaves[at, :rows], waves.asked[at, :questions], answers.rankings[at],
            answers.branch_counts[at], answers.branch_value[at],
        ):  # fmt: skip
            return BROKEN
        progress[WAVES] += 1
        progress[COUNTED] += rows
        write_shared(progress, TAKEN, taken + 1)


@kernel
def has_come(words: Longs, number: int, patience: int) -> bool:
    """Whether the first word reaches a number while somebody looks so many times."""
    looks = int64(0)
    while looks < patience and read_shared(words, 0) < number:
        looks += 1
    return bool(looks < patience)


@kernel
def last(words: Longs) -> int:
    """The first word, as it is now."""
    return read_shared(words, 0)


@kernel
def announce(words: Longs, number: int) -> None:
    """Write the first word, after everything that was written before."""
    write_shared(words, 0, number)


_take_waves, _has_come = direct(take_waves), direct(has_come)
_last, _announce = direct(last), direct(announce)


class Board:
    """Written by the aggregator's thread alone."""

    def __init__(self) -> None:
        self.arrays = Waves(
            posted=np.zeros(APART, np.int64),
            entry=np.zeros((ENTRIES, 4), np.int64),
            rows=np.zeros((ENTRIES, LONGEST), np.int32),
            leaves=np.zeros((ENTRIES, LONGEST), np.int32),
            asked=np.zeros((ENTRIES, MOST_QUESTIONS), np.int32),
        )
        self.handle = waves_reference(self.arrays)
        self.waves = 0  # so far

    def has_room(self, wave: Wave, readers: Sequence[BoardReader]) -> bool:
        """Whether the wave is short enough, and all have taken the one that it replaces."""
        if len(wave.rows) > LONGEST or len(wave.asked) > MOST_QUESTIONS:
            return False
        replaced = int(self.arrays.entry[self.waves % ENTRIES, NUMBER])
        return all(reader.taken >= replaced for reader in readers)

    def write(self, number: int, wave: Wave) -> int:
        """Write a wave for which there is room; returns its place. It is not announced yet."""
        at, rows, questions = self.waves % ENTRIES, len(wave.rows), len(wave.asked)
        board = self.arrays
        board.rows[at, :rows] = wave.rows
        board.leaves[at, :rows] = wave.leaves
        board.asked[at, :questions] = wave.asked
        board.entry[at] = number, wave.block, rows, questions
        self.waves += 1
        return at

    def announce(self, number: int) -> None:
        """There is one more message, on the board or elsewhere."""
        _announce(self.arrays.posted, number)


class BoardReader:
    """A worker that reads a board, in a thread of its own."""

    def __init__(self, statistics: LocalStatistics, board: Board) -> None:
        self.statistics, self._board = statistics, board
        self._progress = np.zeros(APART, np.int64)
        self._fit()
        self._get_ready()

    def _get_ready(self) -> None:
        """Compile before the first event, which nobody may have the time to wait for."""
        dense = np.zeros((0, 1)), np.zeros((0, 1), np.int32)
        sparse = np.zeros(1, np.int64), np.zeros(0, np.int32)
        nothing = Events.of(Batch(*dense, *sparse), np.zeros(0, np.int32), np.zeros(0))
        block = self.statistics.taking(nothing)
        _take_waves(*block, NO_BLOCK, self._board.handle, self._handle, 1)
        _has_come(self._progress, 0, 1)

    def _fit(self) -> None:
        """Room for the answers, which may have got more branches or classes."""
        widest, classes = self.statistics.room
        self._answers = Answers(
            self._progress,
            np.zeros((ENTRIES, MOST_QUESTIONS, RANKING)),
            np.zeros((ENTRIES, MOST_QUESTIONS, widest, classes)),
            np.zeros((ENTRIES, MOST_QUESTIONS, widest), np.int32),
        )
        self._handle = answers_reference(self._answers)

    @property
    def taken(self) -> int:
        """Messages so far."""
        return int(_last(self._progress))

    @property
    def patience_spent(self) -> float:
        """For how long it looked in vain, so far; 1 is what has_taken takes to say no."""
        return float(self._progress[VAIN]) / PATIENCE

    def is_behind(self) -> bool:
        """Whether there are messages that it has not taken."""
        return self.taken < int(_last(self._board.arrays.posted))

    def has_taken(self, number: int) -> bool:
        """Whether it takes the message with this number soon; another thread asks."""
        return bool(_has_come(self._progress, number, PATIENCE))

    def follow(self) -> None:
        """Take waves until the next message is not on the board, or there is none for a while."""
        statistics, why, before = self.statistics, OTHER_BLOCK, int(self._progress[COUNTED])
        while why == OTHER_BLOCK:
            block = int(self._board.arrays.entry[self._progress[WAVES] % ENTRIES, BLOCK])
            why = _take_waves(
                *statistics.arguments(block), block, self._board.handle, self._handle, PATIENCE
            )
        statistics.pass_over(self.taken, int(self._progress[COUNTED]) - before)
        if why == BROKEN:
            raise LearnerError(INFINITE)

    def take(self, number: int, message: Message) -> list[LocalResult]:
        """Take a message that is not on the board; answers on the board must be read before."""
        results = self.statistics.take(number, message)
        if self._answers.branch_counts.shape[2:] != self.statistics.room:
            self._fit()
        return results

    def report(self, number: int) -> None:
        """That message is dealt with: its answers are where others find them."""
        _announce(self._progress, number)

    def skip(self) -> None:
        """Let all messages go by."""
        self.report(int(_last(self._board.arrays.posted)))

    def results(self, place: int, wave: Wave) -> list[LocalResult]:
        """The answers to a wave that it has taken off this place of the board."""
        answers = self._answers
        return self.statistics.results(
            wave.split_ids, answers.rankings[place].copy(), answers.branch_counts[place].copy(),
            answers.branch_value[place].copy(),
        )  # fmt: skip
