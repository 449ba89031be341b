"""Workers as actors on Ray: in processes of this machine, or on the nodes of a cluster.

Workers on the learner's node read events where they lie in memory, others get their own columns of
them. Ray is asked for nothing but to start actors
and to keep their calls in order: its retries would reorder and lose updates without a word, so
there are none, and an actor that dies is not started again. The messages are numbered, a worker
that has lost some says so, and learning goes back to the checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError

from app.distributed.frame import LaidBlock, Order, Taken
from app.distributed.load import Load
from app.distributed.ray_actor import Elsewhere, Place, RayWorker, place
from app.distributed.ray_cluster import connect, disconnect
from app.distributed.ray_failure import lost
from app.distributed.ray_line import CallLine, Line, PipeLine
from app.distributed.shared_rows import IS_POSSIBLE, Laid, SharedRows
from app.log import get_logger
from app.vht_settings import RaySettings
from learner import (
    Beginning,
    Block,
    Done,
    LearnerError,
    LocalResult,
    Message,
    Share,
    Wave,
    WorkerLost,
)

log = get_logger(__name__)

Array = npt.NDArray[Any]
MOST_UNDER_WAY = 8  # calls to each worker; then the oldest is waited for


class _Call(NamedTuple):
    """Orders to a worker whose outcome is not known yet."""

    worker: int
    line: Line
    ending: list[int]  # blocks that it says are done


@dataclass
class _Lent:
    """Events of a block, which workers may still read."""

    distant: Any  # who has brought them, if this process has not
    laid: Laid | None  # where they are in this process
    readers: int  # workers that have not said that they are done


class RayWorkers:
    """One actor a worker."""

    def __init__(self, settings: RaySettings, timeout_seconds: float = 0.0) -> None:
        self.places: list[Place] = []  # of the workers
        self._settings = settings
        self._timeout_seconds = timeout_seconds or None
        self._connected = False
        self._actors: list[Any] = []
        self._waited_seconds = 0.0
        self._sent_bytes = 0
        self._busy_seconds: list[float] = []
        self._held_bytes: list[int] = []
        self._lines: list[Line] = []
        self._forget([])

    def _forget(self, shares: Sequence[Share]) -> None:
        """Nothing is under way."""
        for line in self._lines:
            line.close()
        self._lines = []
        self._shares = list(shares)
        self._orders: list[list[tuple[int, Order | Elsewhere]]] = [[] for _ in shares]  # to send
        self._parts: list[list[Any]] = [[] for _ in shares]  # where columns are that belong to them
        self._under_way: dict[Any, _Call] = {}  # oldest first
        self._asked: dict[int, list[Any]] = {}  # question -> calls that answer it
        self._results: dict[int, list[LocalResult]] = {}
        self._rows = SharedRows()  # events of this process that workers read
        self._lent: dict[int, _Lent] = {}  # by block
        self._ending: list[int] = []  # blocks that the next call says are done

    def begin(self, beginnings: Sequence[Beginning]) -> None:
        """Have every worker begin; actors that live from an earlier beginning serve again."""
        self._connected = connect(self._settings, len(beginnings)) or self._connected
        self._forget([beginning.share for beginning in beginnings])
        self._busy_seconds = [0.0 for _ in beginnings]
        self._held_bytes = [0 for _ in beginnings]
        for actor in self._actors[len(beginnings) :]:
            ray.kill(actor)
        del self._actors[len(beginnings) :]
        lived = len(self._actors)
        self._actors += [self._new_actor() for _ in beginnings[lived:]]
        calls = self._begun(beginnings)
        deadline = time.monotonic() + self._settings.start_seconds
        for worker in range(lived):
            if self._has_died(calls[worker], deadline):
                log.warning("worker is dead, starting another", worker=worker)
                self._actors[worker] = self._new_actor()
                calls[worker] = self._actors[worker].begin.remote(beginnings[worker])
        self.places = self._started(calls, deadline)
        self._lines = [self._line(*pair) for pair in zip(self._actors, self.places, strict=True)]
        log.info("workers ready", processes=self.pids)

    def _line(self, actor: Any, of: Place) -> Line:
        """Return how a worker is reached."""
        if IS_POSSIBLE and of.node == place().node:
            line = PipeLine(actor, self._settings.start_seconds)
            try:
                if line.open():
                    return line
            except RayError as exc:
                raise lost(exc) from exc
            log.warning("worker does not reach pipes of the learner", process=of.process)
        return CallLine(actor)

    @property
    def pids(self) -> list[int]:
        """Return the workers' processes."""
        return [place.process for place in self.places]

    def _new_actor(self) -> Any:
        return (
            ray.remote(RayWorker)
            .options(
                num_cpus=self._settings.cpus_per_worker,
                max_restarts=0,
                max_task_retries=0,
                scheduling_strategy="SPREAD",
            )
            .remote()
        )

    def _begun(self, beginnings: Sequence[Beginning]) -> list[Any]:
        pairs = zip(self._actors, beginnings, strict=True)
        return [actor.begin.remote(beginning) for actor, beginning in pairs]

    def _has_died(self, call: Any, deadline: float) -> bool:
        """Whether an actor of an earlier beginning is not there any more."""
        try:
            ray.get(call, timeout=max(0.0, deadline - time.monotonic()))
        except RayActorError:
            return True
        except RayError:
            return False  # told below
        return False

    def _started(self, calls: Sequence[Any], deadline: float) -> list[Place]:
        """Wait until all have begun; returns where they run."""
        try:
            found: list[Place] = ray.get(list(calls), timeout=max(0.0, deadline - time.monotonic()))
        except GetTimeoutError as exc:
            settings = self._settings
            raise WorkerLost(
                f"{len(calls)} workers did not start on Ray within {settings.start_seconds:g} "
                f"seconds (LIVETREE_VHT__RAY__START_SECONDS); expected {settings.cpus_per_worker:g}"
                " free CPUs for each (LIVETREE_VHT__RAY__CPUS_PER_WORKER)"
            ) from exc
        except RayError as exc:
            raise lost(exc) from exc
        return found

    def post(self, number: int, message: Message) -> None:
        """Send a message on with the next wave; every worker gets its own columns of events."""
        if isinstance(message, Block):
            self._lend(message)
        elif isinstance(message, Done):
            self._ending.append(message.block)
        for worker, share in enumerate(self._shares):
            self._orders[worker].append((number, self._own(worker, share, message)))
        if isinstance(message, Wave):
            self._send(message.split_ids.tolist())
            distant = self._lent[message.block].distant
            if distant is not None:
                distant.meanwhile()

    def _lend(self, block: Block) -> None:
        """Have the events of a block where workers find them, until it is done."""
        distant, laid = block.distant, None
        if distant is not None:
            self._sent_bytes += distant.sent_bytes
        elif any(isinstance(line, PipeLine) for line in self._lines):
            laid, _ = self._rows.lay(block.block, block.events)
            self._sent_bytes += laid.nbytes
        self._lent[block.block] = _Lent(distant, laid, len(self._lines))

    def _own(self, worker: int, share: Share, message: Message) -> Order | Elsewhere:
        """Return a worker's own part of a message, or the word where it is."""
        if not isinstance(message, Block):
            self._sent_bytes += size_of(message)
            return message
        lent = self._lent[message.block]
        if lent.distant is not None:
            return self._brought(worker, message.block, lent.distant.parts[worker])
        if lent.laid is not None and isinstance(self._lines[worker], PipeLine):
            return LaidBlock(message.block, lent.laid)
        own = share.slice(message)
        self._sent_bytes += size_of(own)
        return own

    def _brought(self, worker: int, block: int, part: Any) -> LaidBlock | Elsewhere:
        """Return where a worker's columns are; what Ray has to bring goes with a call of Ray."""
        if isinstance(part, Laid):
            return LaidBlock(block, part)
        if isinstance(self._lines[worker], PipeLine):
            self._rest([worker])
            self._lines[worker] = CallLine(self._actors[worker])
        self._parts[worker].append(part)
        return Elsewhere(block)

    def _rest(self, workers: Iterable[int]) -> None:
        """Let workers take other calls than orders."""
        try:
            for worker in workers:
                self._lines[worker].rest()
        except RayError as exc:
            raise lost(exc) from exc

    def _send(self, questions: Sequence[int] = ()) -> None:
        """One call to each worker with all that waits for it."""
        calls, ending = [], self._ending
        self._ending = []
        try:
            for worker, line in enumerate(self._lines):
                orders, self._orders[worker] = self._orders[worker], []
                parts, self._parts[worker] = self._parts[worker], []
                call = line.send(orders, parts)
                calls.append(call)
                self._under_way[call] = _Call(worker, line, ending)
        except RayError as exc:
            raise lost(exc) from exc
        for split_id in questions:
            self._asked[split_id] = calls
        while len(self._under_way) > MOST_UNDER_WAY * len(self._actors):
            self._fetch([next(iter(self._under_way))], None)

    def answers(self, split_id: int) -> Sequence[LocalResult]:
        """Wait until every worker has answered, or for as long as it may take."""
        self._fetch(self._asked.pop(split_id, []), self._timeout_seconds)
        return self._results.pop(split_id, [])

    def _fetch(self, calls: Sequence[Any], seconds: float | None) -> None:
        """Take in what calls have brought, as far as they end in time."""
        started = time.perf_counter()
        try:
            for call in calls:
                if call not in self._under_way:
                    continue
                waited = time.perf_counter() - started
                left = None if seconds is None else max(0.0, seconds - waited)
                taken = self._under_way[call].line.taken(call, left)
                if taken is not None:
                    self._take_in(self._under_way.pop(call), taken)
        except (RayError, LearnerError) as exc:
            raise lost(exc) from exc
        finally:
            self._waited_seconds += time.perf_counter() - started

    def _take_in(self, call: _Call, taken: Taken) -> None:
        self._busy_seconds[call.worker] += taken.busy_seconds
        self._held_bytes[call.worker] = taken.held_bytes
        for result in taken.results:
            self._results.setdefault(result.split_id, []).append(result)
        for block in call.ending:
            lent = self._lent[block]
            lent.readers -= 1
            if lent.readers:
                continue
            del self._lent[block]
            if lent.distant is not None:
                lent.distant.give_back()
            elif lent.laid is not None:
                self._rows.give_back(block)

    def settle(self) -> None:
        """Look for failures; nobody reads arrays of this process, since they were sent."""
        self._fetch(list(self._under_way), 0.0)
        oldest = min(self._asked, default=None)
        for split_id in [known for known in self._results if oldest is None or known < oldest]:
            del self._results[split_id]  # came too late

    def states(self) -> Sequence[Mapping[str, Array]]:
        """Return what the workers hold once all is done."""
        self._send()
        self._fetch(list(self._under_way), None)
        self._rest(range(len(self._lines)))
        try:
            found: list[Mapping[str, Array]] = ray.get(
                [actor.state.remote() for actor in self._actors]
            )
        except RayError as exc:
            raise lost(exc) from exc
        return found

    def load(self) -> Load:
        """Return the totals so far."""
        busy, held = tuple(self._busy_seconds), tuple(self._held_bytes)
        nodes = tuple(place.node for place in self.places)
        return Load(self._waited_seconds, self._sent_bytes, busy, held, nodes)

    def close(self) -> None:
        """End the actors, and the connection if it was made here."""
        for actor in self._actors if ray.is_initialized() else ():
            ray.kill(actor)
        self._actors = []
        self._forget([])
        if self._connected:
            disconnect()
            self._connected = False


def size_of(message: Message) -> int:
    """Return the bytes of all arrays of a message."""
    parts = [*message.events, *message] if isinstance(message, Block) else message
    return sum(part.nbytes for part in parts if isinstance(part, np.ndarray))
