"""Workers in threads of this process: compiled kernels run without the interpreter's lock.

The first worker is run by the thread that learns, each other one by a thread of its own. Nothing is
copied or serialised: all read the same events, each its own columns of them. Waves are written on a
board, which the threads read in compiled code, and in mode sync also write there, so that they need
the interpreter's lock a few times a batch; all other messages are letters.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from queue import SimpleQueue
from typing import Any

import numpy.typing as npt

from app.distributed.load import Load
from learner import (
    Beginning,
    Block,
    Blocks,
    Board,
    BoardReader,
    Done,
    Known,
    Leader,
    LearnerError,
    Led,
    LocalResult,
    LocalStatistics,
    Message,
    Stretch,
    Wave,
    WorkerLost,
)

Array = npt.NDArray[Any]

NEVER = 1 << 62  # no message has this number
LOOKS = 5  # at a worker that is about to be done; whoever takes longer is looked at less often
NAP_SECONDS = 0.0002  # between two looks then


class Helper:
    """A worker with a thread of its own."""

    def __init__(self, reader: BoardReader, board: Board) -> None:
        self.worker, self.reader, self._board = reader.worker, reader, board
        self.letters: deque[tuple[int, Message]] = deque()
        self.unread: deque[tuple[int, int, Wave]] = deque()  # number and place of waves that ask
        self.busy_seconds = 0.0
        self.ended = False
        self._bell: SimpleQueue[None] = SimpleQueue()

    def wake(self) -> None:
        """There is something to do; called after it was written."""
        if self._board.sleeps(self.worker):
            self._board.note_sleep(self.worker, False)
            self._bell.put(None)

    def sleep(self) -> None:
        """Wait for the bell, unless there is something to do by now."""
        self._board.note_sleep(self.worker, True)
        if not self.reader.is_behind() and not self.ended:
            self._bell.get()
        self._board.note_sleep(self.worker, False)

    def answers(self) -> Iterable[LocalResult]:
        """What it has answered on the board, and nobody has read; the caller holds the lock."""
        taken = self.reader.taken
        while self.unread and self.unread[0][0] <= taken:
            _, place, wave = self.unread.popleft()
            yield from self._board.results(self.worker, place, wave.split_ids)


class Threads:
    """The thread that learns, and one more for every worker but the first."""

    def __init__(self, timeout_seconds: float = 0.0) -> None:
        self._timeout_seconds = timeout_seconds
        self._board: Board  # from the beginning on, as the next two
        self._own: LocalStatistics
        self._leader: Leader
        self._helpers: list[Helper] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()  # of the answers
        self._results: dict[int, list[LocalResult]] = {}
        self._asked_in: dict[int, int] = {}  # number of the message with a question
        self._blocks = Blocks()  # all since the last time that nobody read events
        self._posted = self._announced = self._last_wave = 0
        self._decided = -1  # the last question that was asked after
        self._failure: BaseException | None = None
        self._waited_seconds = self._busy_seconds = 0.0
        self._patience_seconds = 0.0  # until a look at a worker is given up

    def begin(self, beginnings: Sequence[Beginning]) -> None:
        """Make the workers, and start their threads."""
        self._own, *others = [LocalStatistics(beginning, self._blocks) for beginning in beginnings]
        self._board = board = Board(len(beginnings), beginnings[0].known)
        self._leader = Leader(board, self._own)
        for statistics in others:
            helper = Helper(BoardReader(statistics, board), board)
            self._helpers.append(helper)
            started = time.perf_counter()
            board.has_taken(helper.worker, NEVER)
            self._patience_seconds = time.perf_counter() - started
            thread = threading.Thread(
                target=self._run, args=(helper,), name=f"worker-{helper.worker}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def post(self, number: int, message: Message) -> None:
        """Hand a message to every worker; the first one takes it here and now."""
        if self._failure is not None:
            return
        if isinstance(message, Known):
            self._make_room(message)
        if isinstance(message, Block):
            self._blocks.begin(message)
        self._posted = number
        if isinstance(message, Wave):
            self._last_wave = number
            self._asked_in.update(dict.fromkeys(message.split_ids.tolist(), number))
        if self._helpers:
            self._hand_out(number, message)
        started = time.perf_counter()
        try:
            self._deliver(self._own.take(number, message))
        except BaseException as failure:
            self._fail(failure)
        self._busy_seconds += time.perf_counter() - started

    def lead(self, stretch: Stretch) -> Led | None:
        """Go from wave to wave with all workers, the first one here; None: one has failed."""
        if self._failure is not None:
            return None
        started = time.perf_counter()
        try:
            led = self._leader.lead(stretch, self._wake)
        except BaseException as failure:
            self._fail(failure)
            self._raise_failure()
            raise
        waited = self._leader.patience_spent * self._patience_seconds
        self._waited_seconds += waited
        self._busy_seconds += max(0.0, time.perf_counter() - started - waited)
        self._posted = self._announced = led.number
        self._last_wave = led.wave or self._last_wave
        if led.late is not None:
            self._take_over(led, led.late)
        return led

    def _take_over(self, led: Led, wave: Wave) -> None:
        """Questions of a wave on the board that were not decided there."""
        self._asked_in.update(dict.fromkeys(wave.split_ids[led.decided :].tolist(), led.wave))
        self._decided = int(wave.split_ids[0]) + led.decided - 1
        self._deliver(self._board.results(0, led.place, wave.split_ids))
        for helper in self._helpers:
            helper.unread.append((led.wave, led.place, wave))

    def _make_room(self, known: Known) -> None:
        """On the board, for the answers of workers that know more."""
        if not self._board.fits(known):
            self._wait_for(self._posted)
            self._collect()
            self._board.make_room(known)

    def _hand_out(self, number: int, message: Message) -> None:
        """On the board where it fits, otherwise as a letter.

        A block that begins or ends is news to nobody here. As a letter it would have a thread want
        the interpreter's lock just when this one needs it, which cost a twentieth of a millisecond.
        """
        if isinstance(message, Block | Done) and self._board.write_no_news(number):
            return
        if isinstance(message, Wave) and self._board.has_room(message):
            self._collect()  # the place's old answers
            place = self._board.write(number, message)
            if len(message.asked):
                for helper in self._helpers:
                    helper.unread.append((number, place, message))
        else:
            for helper in self._helpers:
                helper.letters.append((number, message))
        self._announce()

    def _announce(self) -> None:
        """Tell all threads of everything that is posted."""
        self._announced = self._posted
        self._board.announce(self._posted)
        self._wake()

    def _wake(self) -> None:
        for helper in self._helpers:
            helper.wake()

    def answers(self, split_id: int) -> Sequence[LocalResult]:
        """Wait until every worker has answered, or for as long as it may take."""
        started = time.perf_counter()
        limit = started + self._timeout_seconds if self._timeout_seconds else None
        self._wait_for(self._asked_in.pop(split_id, 0), limit)
        self._waited_seconds += time.perf_counter() - started
        self._collect()
        self._raise_failure()
        self._decided = split_id
        return self._results.pop(split_id, [])

    def settle(self) -> None:
        """Wait until no thread reads events any more."""
        self._wait_for(self._last_wave)
        self._raise_failure()
        self._blocks.clear()

    def states(self) -> Sequence[Mapping[str, Array]]:
        """Return what the workers hold once all is done."""
        self._wait_for(self._posted)
        self._raise_failure()
        others = [helper.reader.statistics for helper in self._helpers]
        return [worker.state() for worker in (self._own, *others)]

    def load(self) -> Load:
        """Return the totals so far."""
        busy = self._busy_seconds, *(helper.busy_seconds for helper in self._helpers)
        return Load(self._waited_seconds, 0, busy)

    def close(self) -> None:
        """End the threads."""
        for helper in self._helpers:
            helper.ended = True
            helper.wake()
        for thread in self._threads:
            thread.join()
        self._helpers, self._threads = [], []

    def _wait_for(self, number: int, limit: float | None = None) -> None:
        """Until every thread has taken a message, or the time is over."""
        if number > self._announced:
            self._announce()
        for helper in self._helpers:
            looks = 0
            while not self._board.has_taken(helper.worker, number):
                looks += 1
                helper.wake()  # what was led is written without a sound
                if limit is not None and time.perf_counter() > limit:
                    return
                if looks > LOOKS:
                    time.sleep(NAP_SECONDS)

    def _collect(self) -> None:
        """Read the answers on the board."""
        for helper in self._helpers:
            if helper.unread:
                with self._lock:
                    self._keep(helper.answers())

    def _deliver(self, results: Iterable[LocalResult]) -> None:
        with self._lock:
            self._keep(results)

    def _keep(self, results: Iterable[LocalResult]) -> None:
        for result in results:
            if result.split_id > self._decided:  # later nobody asks for it
                self._results.setdefault(result.split_id, []).append(result)

    def _raise_failure(self) -> None:
        if isinstance(self._failure, LearnerError):
            raise self._failure
        if self._failure is not None:
            raise WorkerLost(
                f"a worker's thread failed: {type(self._failure).__name__}: {self._failure}"
            ) from self._failure

    def _run(self, helper: Helper) -> None:
        """Take one message after the other; after a failure let them all go by."""
        while not helper.ended:
            if self._failure is not None:
                helper.reader.skip()
            else:
                try:
                    self._work(helper)
                except BaseException as failure:
                    self._fail(failure)
            if not helper.reader.is_behind():
                helper.sleep()

    def _fail(self, failure: BaseException) -> None:
        """No answer counts any more."""
        self._failure = failure
        self._board.warn()

    def _work(self, helper: Helper) -> None:
        """Take entries off the board, if they are next, and the letters behind them."""
        reader, letters = helper.reader, helper.letters
        started, before = time.perf_counter(), reader.patience_spent
        if not letters or letters[0][0] != reader.taken + 1:
            reader.follow()
        while letters and letters[0][0] == reader.taken + 1:
            number, message = letters.popleft()
            self._deliver(reader.take(number, message))
            reader.report(number)
        looked = (reader.patience_spent - before) * self._patience_seconds
        helper.busy_seconds += max(0.0, time.perf_counter() - started - looked)
