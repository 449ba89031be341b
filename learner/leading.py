"""The aggregator's side of a board: in mode sync it goes from wave to wave in compiled code.

Its thread sorts events until it needs answers, writes the wave on the board, counts the first
worker's share of it, waits until all others have counted theirs, decides, and writes on the board
which leaf has split. Whatever does not fit or takes long is left to learner/vertical_tree.py, which
does the same one message at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learner.board import (
    APART,
    ASLEEP,
    BLOCK,
    COLUMN,
    DROP,
    FAILED,
    KIND,
    LEAF_GONE,
    LED,
    NEW_LEAVES,
    NUMBER,
    PATIENCE,
    POSTED,
    QUESTIONS,
    ROWS,
    Board,
    Paper,
    have_taken,
    next_place,
)
from learner.errors import LearnerError
from learner.kernels.jit import direct, inner, int64, kernel, read_shared, write_shared
from learner.kernels.nodes import has_room_below
from learner.kernels.rules import (
    BEST_COLUMN,
    BEST_KIND,
    NO_SPLIT_YET,
    RANKING,
    Rules,
    Scratch,
)
from learner.kernels.share import own_barred
from learner.kernels.tree import LOGGED, NOWHERE, TABLE, Layout, Tree
from learner.local_statistics import INFINITE, LocalStatistics
from learner.message import Wave
from learner.variants.vht import (
    ASKED,
    BRANCHES,
    NEEDS_ANSWERS,
    SENT,
    SYNC,
    WAITING,
    WHY,
    Desk,
    carry_out,
    decide,
    drop_leaf,
    keep_statistics,
    refuse,
    sort_events,
)

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]

FOR_ANSWERS = 5  # times the patience

# why it stopped: as ``sort_events`` says; the board is full; a sleeper has to be woken; a number is
# infinite; decisions are left to others, since answers are late or something has no room
SORTED, CROWDED, UNHEARD, UNSOUND, UNDECIDED = 0, 1, 2, 3, 4
# what it does next
SORT, COUNT, DECIDE = 0, 1, 2
# what has become of the waves, places in ``course``
(
    STOPPED,  # why, see above
    STAGE,  # what is next, see above
    LAST,  # number of the last message
    WAVES,
    SENT_IN_ALL,
    ASKED_IN_ALL,
    SPLITS,
    PLACE,  # of the last wave on the board
    LAST_WAVE,  # its number
    DECIDED,  # questions of it
    LOOKS,  # in vain
) = range(11)
COURSE = 11


@kernel
def lead_waves(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    scratch: Scratch,
    events: Any,
    row: int,
    predicted: Codes,
    flow: Longs,
    desk: Desk,
    own_tree: Tree,
    own_layout: Layout,
    own_rules: Rules,
    own_scratch: Scratch,
    own_events: Any,
    is_slice: bool,
    share: Longs,
    positions: Codes,
    block: int,
    paper: Paper,
    course: Longs,
    gathered: Floats,
    patience: int,
) -> int:
    """Sort, count and decide, wave after wave; returns the row to go on with."""
    workers = len(gathered)
    write_shared(paper.word, LED, 1)
    course[STOPPED] = SORTED
    while True:
        if course[STAGE] == SORT:
            replaced = paper.entry[next_place(paper), NUMBER]
            if not _have_all_taken(paper, workers, replaced, course, patience):
                course[STOPPED] = CROWDED
                break
            row = sort_events(
                tree, layout, rules, scratch, events, row, NOWHERE, predicted, SYNC, 0, 0, flow,
                desk,
            )  # fmt: skip
            if flow[SENT] == 0:
                break
            _post_wave(paper, block, flow, desk, course)
            course[STAGE] = COUNT
            if _sleeps_any(paper, workers):
                course[STOPPED] = UNHEARD
                break
        sent, asked, at = flow[SENT], flow[ASKED], course[PLACE]
        if course[STAGE] == COUNT:
            if not keep_statistics(
                own_tree, own_layout, own_rules, own_scratch, own_events, is_slice, share,
                positions, desk.rows[:sent], desk.leaves[:sent], desk.asked[:asked],
                paper.rankings[0, at], paper.branch_counts[0, at], paper.branch_value[0, at],
            ):  # fmt: skip
                course[STOPPED] = UNSOUND
                break
            course[STAGE] = DECIDE
        if asked > 0:
            taken = _have_all_taken(paper, workers, course[LAST_WAVE], course, patience)
            if not taken or read_shared(paper.word, FAILED) != 0:
                course[STOPPED] = UNDECIDED
                break
        while course[DECIDED] < asked and _decided(
            tree, layout, rules, scratch, flow, desk, own_tree, own_layout, own_rules, share, paper,
            course, gathered, patience,
        ):  # fmt: skip
            course[DECIDED] += 1
        if course[DECIDED] < asked:
            course[STOPPED] = UNDECIDED
            break
        course[STAGE] = SORT
        if flow[WHY] != NEEDS_ANSWERS:
            break
    write_shared(paper.word, LED, 0)
    return row


@inner
def _have_all_taken(paper: Paper, workers: int, number: int, course: Longs, patience: int) -> bool:
    """Whether all other workers take a message soon."""
    looks = have_taken(paper.progress, int64(1), int64(workers), int64(number), int64(patience))
    course[LOOKS] += looks
    return bool(looks < patience)


@inner
def _sleeps_any(paper: Paper, workers: int) -> bool:
    """Whether a worker has to be woken to see what was announced."""
    for worker in range(1, workers):
        if read_shared(paper.progress, worker * APART + ASLEEP) != 0:
            return True
    return False


@inner
def _announce(paper: Paper, course: Longs) -> None:
    """One more entry, which others may read from now on."""
    paper.written[0] += 1
    write_shared(paper.word, POSTED, course[LAST])


@inner
def _post_wave(paper: Paper, block: int, flow: Longs, desk: Desk, course: Longs) -> None:
    """The wave that is noted goes on the board, where there is room."""
    at, sent, asked = next_place(paper), flow[SENT], flow[ASKED]
    for i in range(sent):
        paper.rows[at, i] = desk.rows[i]
        paper.leaves[at, i] = desk.leaves[i]
    for i in range(asked):
        paper.asked[at, i] = desk.asked[i]
    course[LAST] += 1
    entry = paper.entry
    entry[at, NUMBER], entry[at, BLOCK] = course[LAST], block
    entry[at, ROWS], entry[at, QUESTIONS] = sent, asked
    course[PLACE], course[LAST_WAVE], course[DECIDED] = at, course[LAST], 0
    course[WAVES] += 1
    course[SENT_IN_ALL] += sent
    course[ASKED_IN_ALL] += asked
    _announce(paper, course)


@inner
def _decided(
    tree: Tree,
    layout: Layout,
    rules: Rules,
    scratch: Scratch,
    flow: Longs,
    desk: Desk,
    own_tree: Tree,
    own_layout: Layout,
    own_rules: Rules,
    share: Longs,
    paper: Paper,
    course: Longs,
    gathered: Floats,
    patience: int,
) -> bool:
    """Decide the next question of the wave, which all have answered; False: there is no room."""
    question, place = course[DECIDED], course[PLACE]
    leaf, workers = int64(desk.leaves[desk.asked[question]]), len(gathered)
    for worker in range(workers):
        for i in range(RANKING):
            gathered[worker, i] = paper.rankings[worker, place, question, i]
    n, gain_range = desk.asked_n[question, 0], desk.asked_n[question, 1]
    outcome = decide(rules, scratch, gathered, n, gain_range)
    if outcome == NO_SPLIT_YET:
        refuse(tree, layout, rules, scratch, leaf)
    else:
        ranking = scratch.ranking
        kind, column = int64(ranking[BEST_KIND]), int64(ranking[BEST_COLUMN])
        best = int64(0)
        while gathered[best, BEST_KIND] != kind or gathered[best, BEST_COLUMN] != column:
            best += 1
        branches, at = int64(gathered[best, BRANCHES]), next_place(paper)
        if not (
            _has_room(tree, scratch, branches)
            and has_room_below(own_tree, branches)
            and _have_all_taken(paper, workers, paper.entry[at, NUMBER], course, patience)
        ):
            return False
        for branch in range(branches):
            for k in range(paper.dropped.shape[2]):
                weight = paper.branch_counts[best, place, question, branch, k]
                paper.dropped[at, branch, k] = weight
                if k < scratch.branch_counts.shape[1]:
                    scratch.branch_counts[branch, k] = weight
        for v in range(len(scratch.branch_value)):
            known = v < paper.branch_value.shape[3]
            scratch.branch_value[v] = paper.branch_value[best, place, question, v] if known else 0
        carry_out(tree, layout, rules, scratch, leaf, outcome, branches, desk.asked_event[question])
        _post_drop(paper, at, leaf, branches, kind, column, course)
        barred = own_barred(own_layout, share, kind, column)
        drop_leaf(own_tree, own_layout, own_rules, leaf, barred, paper.dropped[at, :branches])
        course[SPLITS] += 1
    desk.waits[leaf] = 0
    flow[WAITING] -= 1
    return True


@inner
def _has_room(tree: Tree, scratch: Scratch, branches: int) -> bool:
    """Whether a split into so many branches fits here, with its record and a child after it."""
    counts = tree.counts
    return bool(
        counts[LOGGED] + 2 <= len(tree.log)
        and has_room_below(tree, branches)
        and counts[TABLE] + 3 * len(scratch.branch_counts) <= len(tree.tables)
    )


@inner
def _post_drop(
    paper: Paper, at: int, leaf: int, branches: int, kind: int, column: int, course: Longs
) -> None:
    """The leaf that has split goes on the board, with what its new ones begin with."""
    entry = paper.entry
    course[LAST] += 1
    entry[at, NUMBER], entry[at, BLOCK] = course[LAST], DROP
    entry[at, LEAF_GONE], entry[at, NEW_LEAVES] = leaf, branches
    entry[at, KIND], entry[at, COLUMN] = kind, column
    _announce(paper, course)


_lead_waves = direct(lead_waves)


class Stretch(NamedTuple):
    """Events for the aggregator to go through."""

    block: int
    number: int  # of the last message
    split_id: int  # of the next question
    row: int  # the next event
    tree: tuple[Any, ...]  # as kernels take it
    predicted: Codes
    flow: Longs
    desk: Desk
    desk_handle: Any  # the same as kernels take it, where a wave fits on a board


class Led(NamedTuple):
    """How far it went."""

    row: int
    number: int  # of the last message
    waves: int
    rows: int  # events sent
    questions: int
    splits: int
    place: int  # of the last wave on the board
    wave: int  # its number, 0 = there was none
    decided: int  # questions of it that are decided
    is_crowded: bool  # the next wave does not fit on the board
    late: Wave | None = None  # the last one, where the other questions are left to others


class Leader:
    """Leads the waves of one board, and counts the share of the first worker."""

    def __init__(self, board: Board, statistics: LocalStatistics) -> None:
        self._board, self._statistics = board, statistics
        self._gathered = np.zeros((board.workers, RANKING))
        self._course = np.zeros(COURSE, np.int64)

    def lead(self, stretch: Stretch, wake: Callable[[], None]) -> Led:
        """Go through events as far as possible; raises LearnerError for an infinite number.

        ``wake`` is called where a worker sleeps that has something to do.
        """
        course, statistics, row = self._course, self._statistics, stretch.row
        counting = statistics.arguments(stretch.block)
        events = counting[len(stretch.tree)]
        course[:] = 0
        course[LAST], course[STOPPED] = stretch.number, UNHEARD
        while course[STOPPED] == UNHEARD:
            wake()
            row = _lead_waves(
                *stretch.tree, events, row, stretch.predicted, stretch.flow, stretch.desk_handle,
                *counting, stretch.block, self._board.handle, course,
                self._gathered, FOR_ANSWERS * PATIENCE,
            )  # fmt: skip
        statistics.pass_over(int(course[LAST]), int(course[SENT_IN_ALL]))
        if course[STOPPED] == UNSOUND:
            raise LearnerError(INFINITE)
        numbers: list[int] = course[LAST : DECIDED + 1].tolist()
        led = Led._make([int(row), *numbers, course[STOPPED] == CROWDED, None])
        return led._replace(late=_noted(stretch, led)) if course[STOPPED] == UNDECIDED else led

    @property
    def patience_spent(self) -> float:
        """For how long it waited the last time; 1 is what Board.has_taken takes to say no."""
        return float(self._course[LOOKS]) / PATIENCE


def _noted(stretch: Stretch, led: Led) -> Wave:
    """The last wave, which is still on the desk."""
    flow, desk = stretch.flow, stretch.desk
    sent, asked = int(flow[SENT]), int(flow[ASKED])
    first = stretch.split_id + led.questions - asked
    return Wave(
        stretch.block,
        desk.rows[:sent].copy(),
        desk.leaves[:sent].copy(),
        desk.asked[:asked].copy(),
        np.arange(first, first + asked, dtype=np.int64),
    )
