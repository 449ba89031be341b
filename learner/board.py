"""A board for workers that share the aggregator's memory: they read waves off it, without messages.

Taking a wave as a message costs a thread two waits for the interpreter's lock, about as long as it
counts two hundred events of a thousand attributes. So both sides go from wave to wave in compiled
code: the aggregator's is learner/leading.py, that of the other workers learner/following.py. Only
other messages, entries that do not fit and waiting that takes long bring them back. Who waits how
long changes nothing of what is counted: the order is that of the messages.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learner.kernels.jit import (
    JIT_DISABLED,
    by_reference,
    direct,
    inner,
    int64,
    kernel,
    read_shared,
    write_shared,
)
from learner.kernels.rules import RANKING
from learner.local_statistics import results_of
from learner.message import Known, LocalResult, Wave
from learner.variants.vht import Desk

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]

ENTRIES = 4  # waves and drops that are on the board at most
LONGEST, MOST_QUESTIONS = 4096, 8  # events and questions of a wave
# Events of a wave where both sides go from wave to wave: others count them while more are sorted.
LED_EVENTS = 64
PATIENCE = 1 if JIT_DISABLED else 300_000  # looks in vain, a tenth of a millisecond or two

NUMBER, BLOCK, ROWS, QUESTIONS = 0, 1, 2, 3  # places in ``entry`` of a wave
LEAF_GONE, NEW_LEAVES, KIND, COLUMN = 2, 3, 4, 5  # the same of a drop
ENTRY = 6
NO_BLOCK, DROP, NO_NEWS = 0, -1, -2  # no block is called like this
APART = 16  # words, so that no two threads write into one line of the cache
# words that are read by others, each in a line of its own
POSTED, LED, FAILED = 0, APART, 2 * APART
TAKEN, READ, COUNTED, VAIN, ASLEEP = 0, 1, 2, 3, 4  # places in a worker's ``progress``


class Paper(NamedTuple):
    """The board as kernels take it."""

    word: Longs  # messages so far, with those elsewhere; whether waves are led; whether one failed
    written: Longs  # [0] entries so far
    entry: Longs  # [place, see above]
    rows: Codes  # [place, event]
    leaves: Codes  # [place, event]
    asked: Codes  # [place, question]
    dropped: Floats  # [place, branch, class] what the new leaves begin with
    progress: Longs  # of one worker behind the other: messages taken, entries read, ...
    rankings: Floats  # [worker, place, question, see Scratch.ranking]
    branch_counts: Floats  # [worker, place, question, branch, class]
    branch_value: Codes  # [worker, place, question, branch]


paper_reference = by_reference(Paper)


@kernel
def read_word(words: Longs, at: int) -> int:
    """A word, as it is now."""
    return read_shared(words, at)


@kernel
def write_word(words: Longs, at: int, value: int) -> None:
    """Write a word, after everything that was written before."""
    write_shared(words, at, value)


@kernel
def have_taken(progress: Longs, first: int, end: int, number: int, patience: int) -> int:
    """Looks until these workers have taken a message; as many as the patience where they do not."""
    looks = int64(0)
    for worker in range(first, end):
        while read_shared(progress, worker * APART + TAKEN) < number:
            looks += 1
            if looks >= patience:
                return looks
    return looks


@inner
def next_place(paper: Paper) -> int:
    """Where the next entry goes, once all have taken the one that is there."""
    return int64(paper.written[0] % ENTRIES)


_read, _write, _have_taken = direct(read_word), direct(write_word), direct(have_taken)


def fitting(desk: Desk) -> Desk:
    """The same desk, on which a wave grows no longer than it should be on a board."""
    return desk._replace(rows=desk.rows[:LED_EVENTS], asked=desk.asked[:MOST_QUESTIONS])


class Board:
    """Written by the aggregator's thread alone, but for the answers."""

    def __init__(self, workers: int, known: Known) -> None:
        self.workers = workers
        self.paper = Paper(
            word=np.zeros(3 * APART, np.int64),
            written=np.zeros(1, np.int64),
            entry=np.zeros((ENTRIES, ENTRY), np.int64),
            rows=np.zeros((ENTRIES, LONGEST), np.int32),
            leaves=np.zeros((ENTRIES, LONGEST), np.int32),
            asked=np.zeros((ENTRIES, MOST_QUESTIONS), np.int32),
            progress=np.zeros(workers * APART, np.int64),
            rankings=np.zeros((workers, ENTRIES, MOST_QUESTIONS, RANKING)),
            **self._room(*_widest(known)),
        )
        self.handle = paper_reference(self.paper)

    def _room(self, branches: int, classes: int) -> dict[str, npt.NDArray[Any]]:
        questions = self.workers, ENTRIES, MOST_QUESTIONS
        return {
            "dropped": np.zeros((ENTRIES, branches, classes)),
            "branch_counts": np.zeros((*questions, branches, classes)),
            "branch_value": np.zeros((*questions, branches), np.int32),
        }

    def fits(self, known: Known) -> bool:
        """Whether there is room for the answers of those who know this."""
        branches, classes = _widest(known)
        room = self.paper.dropped.shape
        return bool(branches <= room[1] and classes <= room[2])

    def make_room(self, known: Known) -> None:
        """Get it, when all have read what was written, and their answers were."""
        had = self.paper.dropped.shape
        branches, classes = map(max, _widest(known), (had[1], had[2]))
        self.paper = self.paper._replace(**self._room(branches, classes))
        self.handle = paper_reference(self.paper)

    def has_room(self, wave: Wave) -> bool:
        """Whether the wave is short enough, and all have taken the entry that it replaces."""
        fits = len(wave.rows) <= LONGEST and len(wave.asked) <= MOST_QUESTIONS
        return fits and self._has_place()

    def _has_place(self) -> bool:
        paper = self.paper
        replaced = int(paper.entry[paper.written[0] % ENTRIES, NUMBER])
        return bool(_have_taken(paper.progress, 1, self.workers, replaced, 1) == 0)

    def write(self, number: int, wave: Wave) -> int:
        """Write a wave for which there is room; returns its place. It is not announced yet."""
        paper, rows, questions = self.paper, len(wave.rows), len(wave.asked)
        at = int(paper.written[0] % ENTRIES)
        paper.rows[at, :rows] = wave.rows
        paper.leaves[at, :rows] = wave.leaves
        paper.asked[at, :questions] = wave.asked
        paper.entry[at, : QUESTIONS + 1] = number, wave.block, rows, questions
        paper.written[0] += 1
        return at

    def write_no_news(self, number: int) -> bool:
        """Write of a message that its readers need not know it; False: there is no room."""
        if not self._has_place():
            return False
        at = int(self.paper.written[0] % ENTRIES)
        self.paper.entry[at, : BLOCK + 1] = number, NO_NEWS
        self.paper.written[0] += 1
        return True

    @property
    def posted(self) -> int:
        """Messages so far."""
        return int(_read(self.paper.word, POSTED))

    def announce(self, number: int) -> None:
        """There is one more message, on the board or elsewhere."""
        _write(self.paper.word, POSTED, number)

    def warn(self) -> None:
        """A worker has failed: nobody may go by its answers."""
        _write(self.paper.word, FAILED, 1)

    def taken(self, worker: int) -> int:
        """Messages that a worker has taken."""
        return int(_read(self.paper.progress, worker * APART + TAKEN))

    def has_taken(self, worker: int, number: int) -> bool:
        """Whether it takes the message with this number soon; another thread asks."""
        looks = _have_taken(self.paper.progress, worker, worker + 1, number, PATIENCE)
        return bool(looks < PATIENCE)

    def sleeps(self, worker: int) -> bool:
        """Whether it has to be woken."""
        return bool(_read(self.paper.progress, worker * APART + ASLEEP))

    def note_sleep(self, worker: int, sleeps: bool) -> None:
        """Its thread is about to sleep, or to be woken."""
        _write(self.paper.progress, worker * APART + ASLEEP, int(sleeps))

    def results(self, worker: int, place: int, split_ids: Longs) -> list[LocalResult]:
        """The answers of a worker to the questions of a wave that it has taken off this place."""
        paper = self.paper
        answers = paper.rankings, paper.branch_counts, paper.branch_value
        return results_of(worker, split_ids, *(part[worker, place].copy() for part in answers))


def _widest(known: Known) -> tuple[int, int]:
    """Branches and classes that an answer may have."""
    return max(2, *known.values.tolist(), 0), max(1, known.classes)
