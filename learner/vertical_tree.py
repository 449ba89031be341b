"""A tree whose statistics are with workers: the object shell of VHT.

It is a StreamingTree in all that others see of it. Inside, it sorts events into leaves, tells the
workers what to count, asks them for their best attributes and decides. Its workers may sit in this
thread, in others or on other machines: that is up to who runs them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from learner.archive import Pieces
from learner.batch import Batch
from learner.board import fitting
from learner.errors import LearnerError, ParamsError
from learner.kernels.jit import by_reference, direct
from learner.kernels.rules import BEST_COLUMN, BEST_KIND, NO_SPLIT_YET, RANKING
from learner.kernels.tree import EVENTS, LOGGED, NODES, NOWHERE, SLOTS, TABLE, Tree
from learner.leading import Stretch
from learner.local_statistics import Beginning, Share, events_reference
from learner.message import Block, Child, Distant, Done, Drop, Events, Message, Wave
from learner.model_bytes import model_pieces
from learner.prospect import LeafCopy, place_of_leaf
from learner.scratch import new_desk
from learner.shares import joined, known_to, state_of, tested_columns, without_columns
from learner.state import Sizes, layout_for
from learner.streaming_tree import StreamingTree, room_for_answers
from learner.underway import (
    TOTALS,
    Question,
    Verdict,
    how_of,
    joined_events,
    underway_arrays,
    underway_from,
)
from learner.variants.vht import (
    ASKED,
    DUE,
    FLOW,
    FULL,
    KEPT,
    LOST,
    MADE_CHILD,
    NEVER,
    PARENT,
    ROOM,
    SENT,
    WAITING,
    WHY,
    Desk,
    carry_out,
    decide,
    refuse,
    sort_events,
)
from learner.vertical import MODES, AtABoard, Vertical, VerticalCounters, Workers, unfit

Array = npt.NDArray[Any]
Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

desk_reference = by_reference(Desk)
run_sort, run_decide, run_refuse = direct(sort_events), direct(decide), direct(refuse)


@dataclass
class Feed:
    """Events on their way through the aggregator."""

    block: int
    events: Events
    predicted: Codes
    row: int = 0  # the next one
    origin: int = NOWHERE  # node below which they are learned again
    distant: Distant | None = None  # who brings columns that are not here
    tests: int = -1  # splits of the tree when its columns were last brought

    @cached_property
    def handle(self) -> Any:
        """The events as kernels take them."""
        return events_reference(self.events)


class VerticalTree(StreamingTree):
    """Takes over a tree, and spreads its statistics over workers."""

    def __init__(
        self, tree: StreamingTree, workers: Workers, vertical: Vertical | None = None
    ) -> None:
        self.vertical = vertical or Vertical()
        problems = unfit(tree.params) + self.vertical.problems()
        if problems:
            raise ParamsError(problems)
        tree._keep_up()
        known, count = known_to(tree.encoder), self.vertical.workers
        self.shares = [Share.of(worker, count, known) for worker in range(count)]
        beginnings = [
            Beginning(share, tree.params, known, state_of(share, tree._tree, tree._sizes, known))
            for share in self.shares
        ]
        self._workers = workers
        self._at_board: AtABoard | None = None
        if self.vertical.mode == "sync" and isinstance(workers, AtABoard):
            self._at_board = workers
        self._posted = self._blocks = self._rows = self._asked = self._splits = 0
        self._questions: deque[Question] = deque()
        self._totals = dict.fromkeys(TOTALS, 0)
        self._flow = np.zeros(FLOW, np.int64)
        self._flow[DUE], self._flow[ROOM] = NEVER, self.vertical.keep_most
        self._desk = new_desk(0, 0)
        self._told = tree.encoder.revision
        lean, sizes = without_columns(tree._tree, tree._sizes)
        self._hold(tree.encoder, tree.variant, tree.params, sizes, lean)
        self._fit()
        self._resume(tree._underway)
        workers.begin(beginnings)

    def _resume(self, underway: Mapping[str, Array]) -> None:
        """Go on with decisions that were under way when the model was saved."""
        if not underway:
            return
        if how_of(underway) != self.vertical.numbers():
            raise ParamsError([
                f"mode, lag, keep and keep_most are {self.vertical.numbers()}, in the model "
                f"{how_of(underway)}; expected the same, since decisions are under way"
            ])  # fmt: skip
        columns = self._sizes.numeric, len(self._sizes.values)
        self._totals, questions = underway_from(
            underway, self._tree, columns, self.encoder.token_count, len(self.encoder.classes)
        )
        self._questions.extend(questions)
        for question in questions:
            held = sum(len(events.y) for events in question.kept)
            self._desk.waits[question.leaf] = 1
            self._desk.held[question.leaf] = held
            self._desk.missed[question.leaf] = question.missed
            self._flow[ROOM] -= held
        self._flow[WAITING], self._flow[LOST] = len(questions), self._totals["lost"]
        self._set_due()

    def _fit(self, leaves: int = 0) -> None:
        """Room here, and word to the workers of what is new."""
        super()._fit(leaves)
        self._make_desk(self._sizes.nodes, len(self._desk.rows))
        if self.encoder.revision != self._told:
            self._told = self.encoder.revision
            self._post(known_to(self.encoder))

    def _make_desk(self, nodes: int, events: int) -> None:
        """Room for notes on so many nodes and events."""
        old = self._desk
        if len(old.waits) >= nodes and len(old.rows) >= events and hasattr(self, "_desk_handle"):
            return
        self._desk = new_desk(max(nodes, len(old.waits)), max(events, len(old.rows)))
        for name in ("waits", "held", "missed"):
            getattr(self._desk, name)[: len(old.waits)] = getattr(old, name)
        self._desk_handle = desk_reference(self._desk)
        self._board_handle = desk_reference(fitting(self._desk))

    def learn(
        self,
        X: Batch | npt.ArrayLike,  # noqa: N803 (the usual name of a data matrix)
        y: npt.ArrayLike,
        w: npt.ArrayLike | None = None,
        predicted: Codes | None = None,
    ) -> None:
        """Learn events in their order, as StreamingTree does."""
        batch, codes, weights, _ = self._checked(X, y, w)
        out = room_for_answers(predicted, len(codes))
        self._keep_up()
        self._learn(self._feed(Events.of(batch, codes, weights), out))

    def learn_distant(self, distant: Distant, predicted: Codes | None = None) -> None:
        """Learn events whose dense columns never come here, but for those that the tree tests."""
        if self.vertical.mode == "wk" and self.vertical.keep:
            raise ParamsError([
                f"keep is {self.vertical.keep}; expected 0 where the columns of events are "
                "elsewhere: they cannot be kept here"
            ])  # fmt: skip
        events = distant.events
        self._check_classes(events.y)
        out = room_for_answers(predicted, len(events.y))
        self._keep_up()
        self._learn(self._feed(events, out, distant=distant))

    def tested_columns(self) -> tuple[Codes, Codes]:
        """Numeric and nominal columns that a split tests, ascending."""
        return tested_columns(self._tree)

    def _learn(self, first: Feed) -> None:
        """All events of a feed, and those that have to be learned again on the way."""
        feeds, vertical = [first], self.vertical
        while feeds:
            feed = feeds[-1]
            if feed.distant is not None and feed.tests != self._splits:
                feed.distant.fill(*self.tested_columns())
                feed.tests = self._splits
            if not self._lead(feed):
                feed.row = run_sort(
                    *self._handles, feed.handle, feed.row, feed.origin, feed.predicted,
                    MODES[vertical.mode], vertical.lag, vertical.keep, self._flow,
                    self._desk_handle,
                )  # fmt: skip
                self._send(feed)
            self._drain_log()
            why = self._flow[WHY]
            if why == FULL:
                self._fit()
            elif why == MADE_CHILD:
                self._post(Child(int(self._flow[PARENT])))
            elif feed.row < len(feed.events.y):
                feeds += self._decide()
            else:
                self._post(Done(feed.block))
                feeds.pop()
        if vertical.mode == "sync":
            self._decide()
        self._workers.settle()

    def _checked(
        self,
        X: Batch | npt.ArrayLike,  # noqa: N803
        y: npt.ArrayLike,
        w: npt.ArrayLike | None,
    ) -> tuple[Batch, Codes, Floats, bool]:
        """The events as kernels take them; the workers look at the numbers, each at its own."""
        batch, codes, weights = self._checked_shape(X, y, w)
        self._check_classes(codes)
        return batch, codes, weights, False

    def _check_classes(self, codes: Codes) -> None:
        classes = len(self.encoder.classes)
        if len(codes) and not 0 <= codes.min() <= codes.max() < classes:
            wrong = codes.min() if codes.min() < 0 else codes.max()
            raise LearnerError(f"y holds the class code {wrong}; expected 0 to {classes - 1}")

    def _feed(
        self,
        events: Events,
        predicted: Codes,
        origin: int = NOWHERE,
        distant: Distant | None = None,
    ) -> Feed:
        """Events that every worker gets before it hears of them."""
        self._make_desk(self._sizes.nodes, len(events.y))
        self._blocks += 1
        self._post(Block(self._blocks, events, distant=distant))
        return Feed(self._blocks, events, predicted, origin=origin, distant=distant)

    def _lead(self, feed: Feed) -> bool:
        """Go through events at a board; False: none is there, or has room for the next wave."""
        if self._at_board is None or self._questions or feed.distant is not None:
            return False
        stretch = Stretch(
            feed.block, self._posted, self._asked, feed.row, self._handles,
            feed.predicted, self._flow, self._desk, self._board_handle,
        )  # fmt: skip
        led = self._at_board.lead(stretch)
        if led is None:
            return False
        feed.row, self._posted = led.row, led.number
        self._rows, self._asked = self._rows + led.rows, self._asked + led.questions
        self._splits += led.splits
        if led.late is not None:
            self._note_questions(led.late, led.decided)
        return not led.is_crowded

    def _send(self, feed: Feed) -> None:
        """The wave that the aggregator has noted, with its questions."""
        flow, desk = self._flow, self._desk
        sent, asked, kept = int(flow[SENT]), int(flow[ASKED]), int(flow[KEPT])
        if not sent:
            return
        rows, leaves = desk.rows[:sent].copy(), desk.leaves[:sent].copy()
        places = desk.asked[:asked].copy()
        ids = np.arange(self._asked, self._asked + asked, dtype=np.int64)
        wave = Wave(feed.block, rows, leaves, places, ids)
        self._note_questions(wave)
        self._asked, self._rows = self._asked + asked, self._rows + sent
        self._post(wave)
        if kept:
            self._totals["kept"] += kept
            chosen = desk.kept[:kept]
            for question in self._questions:
                own = chosen[leaves[chosen] == question.leaf]
                if len(own):
                    question.kept.append(feed.events.take(rows[own]))

    def _note_questions(self, wave: Wave, first: int = 0) -> None:
        """The leaves that wait, of the wave that is on the desk."""
        desk = self._desk
        for i in range(first, len(wave.asked)):
            leaf = int(wave.leaves[wave.asked[i]])
            question = Question(int(wave.split_ids[i]), leaf, int(desk.asked_event[i]))
            question.n, question.range = desk.asked_n[i].tolist()
            self._questions.append(question)

    def _post(self, message: Message) -> None:
        self._posted += 1
        self._workers.post(self._posted, message)

    def _decide(self) -> list[Feed]:
        """Carry out the decisions that are due, oldest first; returns what is learned again."""
        again: list[Feed] = []
        lag = 0 if self.vertical.mode == "sync" else self.vertical.lag
        while self._questions and self._tree.counts[EVENTS] >= self._questions[0].event + lag:
            again += self._carry_out(self._questions.popleft())
        self._set_due()
        self._drain_log()
        return again[::-1]  # the last one is learned first

    def _set_due(self) -> None:
        later = self.vertical.mode != "sync" and self._questions
        self._flow[DUE] = self._questions[0].event + self.vertical.lag if later else NEVER

    def _carry_out(self, question: Question) -> list[Feed]:
        """Split the leaf, or leave it; the events kept for it are learned again below a split."""
        verdict = question.verdict or self._judge(question)
        flow, desk, leaf = self._flow, self._desk, question.leaf
        synchronous = self.vertical.mode == "sync"
        held, missed = int(desk.held[leaf]), int(desk.missed[leaf])
        desk.waits[leaf] = desk.held[leaf] = desk.missed[leaf] = 0
        flow[WAITING] -= 1
        flow[ROOM] += held
        now = int(self._tree.counts[EVENTS])
        self._totals["delay"] += 0 if synchronous else now - question.event
        if verdict.outcome == NO_SPLIT_YET:
            self._scratch.ranking[:] = verdict.ranking
            run_refuse(*self._handles, leaf)
            return []
        self._split(leaf, verdict, question.event if synchronous else now)
        flow[LOST] += missed
        if not held:
            return []
        self._totals["replayed"] += held
        return [self._feed(joined_events(question.kept), np.empty(0, np.int32), leaf)]

    def _judge(self, question: Question) -> Verdict:
        """The verdict of all workers together; one that lacks an answer is no, unless partial."""
        found = {
            result.worker: result
            for result in self._workers.answers(question.split_id)
            if result.split_id == question.split_id
        }
        results = [found[worker] for worker in sorted(found)]
        rankings = np.zeros((len(results), RANKING))
        for place, result in enumerate(results):
            rankings[place] = result.ranking
        _, _, rules, scratch = self._handles
        outcome = int(run_decide(rules, scratch, rankings, question.n, question.range))
        ranking = self._scratch.ranking.copy()
        if len(results) < self.vertical.workers:
            self._totals["unanswered"] += 1
            outcome = outcome if self.vertical.partial else NO_SPLIT_YET
        none = np.zeros((0, 0)), np.zeros(0, np.int32)
        if outcome == NO_SPLIT_YET:
            return Verdict(outcome, ranking, *none)
        named = ranking[BEST_KIND], ranking[BEST_COLUMN]
        best = next(r for r in results if (r.ranking[BEST_KIND], r.ranking[BEST_COLUMN]) == named)
        return Verdict(outcome, ranking, best.branch_counts, best.branch_value)

    def _split(self, leaf: int, verdict: Verdict, event: int) -> None:
        """The leaf splits here, and then with the workers."""
        branches, classes = verdict.branch_counts.shape
        self._make_room(branches)
        scratch = self._scratch
        scratch.ranking[:] = verdict.ranking
        classes = min(classes, scratch.branch_counts.shape[1])
        scratch.branch_counts[:branches] = 0.0
        scratch.branch_counts[:branches, :classes] = verdict.branch_counts[:, :classes]
        scratch.branch_value[:] = 0
        values = min(len(scratch.branch_value), len(verdict.branch_value))
        scratch.branch_value[:values] = verdict.branch_value[:values]
        carry_out(*self._handles, leaf, verdict.outcome, branches, event)
        self._splits += 1
        kind, column = int(verdict.ranking[BEST_KIND]), int(verdict.ranking[BEST_COLUMN])
        self._post(Drop(leaf, kind, column, verdict.branch_counts))

    def _make_room(self, branches: int) -> None:
        """Room for a split into so many branches, and for a child that may come after it."""
        counts, tree, more = self._tree.counts, self._tree, branches + 1
        if counts[LOGGED] + 2 > len(tree.log):
            self._drain_log()
        if (
            counts[NODES] + more > len(tree.node)
            or counts[SLOTS] + more > len(tree.slot)
            or counts[TABLE] + 3 * self._sizes.widest > len(tree.tables)
        ):
            del tree, counts  # arrays grow where nobody else holds them
            self._fit(more)

    def to_pieces(self) -> Pieces:
        """The bytes of the whole model, which do not tell how many workers learned it."""
        self._keep_up()
        whole, sizes = self._whole()
        underway: dict[str, Array] = {}
        if self.vertical.mode != "sync":
            for question in self._questions:
                question.verdict = question.verdict or self._judge(question)
                question.missed = int(self._desk.missed[question.leaf])
            totals = self._totals | {"lost": int(self._flow[LOST])}
            how = self.vertical.numbers()
            underway = underway_arrays(how, totals, self._questions, self._tree)
        return model_pieces(whole, sizes, self.encoder, self.variant, self.params, underway)

    def copy_leaf(self, node_id: int) -> LeafCopy:
        """A leaf as it is now, with the statistics of all workers; raises UnknownNode."""
        self._keep_up()
        node = place_of_leaf(self._tree, self.encoder, node_id)
        whole, sizes = self._whole()
        encoder = self._publisher.frozen(self.encoder)
        layout = layout_for(self.encoder, sizes)
        return LeafCopy(whole, sizes, layout, self._rules, encoder, node, plain=True)

    def _whole(self) -> tuple[Tree, Sizes]:
        """The tree with the statistics of all workers, as a copy."""
        known, states = known_to(self.encoder), self._workers.states()
        return joined(self._tree, self._sizes, known, self.shares, states)

    def vertical_counters(self) -> VerticalCounters:
        """What happened between the aggregator and the workers."""
        totals = self._totals | {"lost": int(self._flow[LOST])}
        buffered = self.vertical.keep_most - int(self._flow[ROOM])
        waiting = int(self._flow[WAITING])
        return VerticalCounters(
            self._posted, self._rows, self._asked, **totals, waiting=waiting, buffered=buffered
        )
