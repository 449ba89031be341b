"""Workers as actors on Ray: in processes of this machine, or on the nodes of a cluster.

Every worker gets its own columns of the events only. Ray is asked for nothing but to start actors
and to keep their calls in order: its retries would reorder and lose updates without a word, so
there are none, and an actor that dies is not started again. The messages are numbered, a worker
that has lost some says so, and learning goes back to the checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError

from app.distributed.load import Load
from app.distributed.ray_actor import Elsewhere, Place, RayWorker
from app.distributed.ray_cluster import connect, disconnect
from app.distributed.ray_failure import lost
from app.log import get_logger
from app.vht_settings import RaySettings
from learner import (
    Beginning,
    Block,
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
        self._forget([])

    def _forget(self, shares: Sequence[Share]) -> None:
        """Nothing is under way."""
        self._shares = list(shares)
        self._orders: list[list[tuple[int, Message | Elsewhere]]] = [[] for _ in shares]  # to send
        self._parts: list[list[Any]] = [[] for _ in shares]  # where columns are that belong to them
        self._under_way: dict[Any, int] = {}  # reference of a call -> worker, oldest first
        self._asked: dict[int, list[Any]] = {}  # question -> calls that answer it
        self._results: dict[int, list[LocalResult]] = {}

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
        log.info("workers ready", processes=self.pids)

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
        for worker, share in enumerate(self._shares):
            self._orders[worker].append((number, self._own(worker, share, message)))
        if isinstance(message, Block) and message.distant is not None:
            self._sent_bytes += message.distant.sent_bytes
        if isinstance(message, Wave):
            self._send(message.split_ids.tolist())

    def _own(self, worker: int, share: Share, message: Message) -> Message | Elsewhere:
        """Return a worker's own part of a message, or the word where it is."""
        if isinstance(message, Block) and message.distant is not None:
            self._parts[worker].append(message.distant.parts[worker])
            return Elsewhere(message.block, message.distant.is_slice)
        own = share.slice(message) if isinstance(message, Block) else message
        self._sent_bytes += size_of(own)
        return own

    def _send(self, questions: Sequence[int] = ()) -> None:
        """One call to each worker with all that waits for it."""
        calls = []
        for worker, actor in enumerate(self._actors):
            orders, self._orders[worker] = self._orders[worker], []
            parts, self._parts[worker] = self._parts[worker], []
            call = actor.take.remote(orders, *parts)
            calls.append(call)
            self._under_way[call] = worker
        for split_id in questions:
            self._asked[split_id] = calls
        while len(self._under_way) > MOST_UNDER_WAY * len(self._actors):
            self._fetch([next(iter(self._under_way))], None)

    def answers(self, split_id: int) -> Sequence[LocalResult]:
        """Wait until every worker has answered, or for as long as it may take."""
        self._fetch(self._asked.pop(split_id, []), self._timeout_seconds)
        return self._results.pop(split_id, [])

    def _fetch(self, calls: Sequence[Any], timeout_seconds: float | None) -> None:
        """Take in what calls have brought, as far as they end in time."""
        wanted = [call for call in calls if call in self._under_way]
        if not wanted:
            return
        started = time.perf_counter()
        try:
            ready = wanted
            if timeout_seconds is not None:
                ready, _ = ray.wait(wanted, num_returns=len(wanted), timeout=timeout_seconds)
            found = ray.get(ready)
        except (RayError, LearnerError) as exc:
            raise lost(exc) from exc
        finally:
            self._waited_seconds += time.perf_counter() - started
        for call, taken in zip(ready, found, strict=True):
            worker = self._under_way.pop(call)
            self._busy_seconds[worker] += taken.busy_seconds
            self._held_bytes[worker] = taken.held_bytes
            for result in taken.results:
                self._results.setdefault(result.split_id, []).append(result)

    def settle(self) -> None:
        """Look for failures; nobody reads arrays of this process, since they were sent."""
        under_way = list(self._under_way)
        if under_way:
            ready, _ = ray.wait(under_way, num_returns=len(under_way), timeout=0)
            self._fetch(ready, None)
        oldest = min(self._asked, default=None)
        for split_id in [known for known in self._results if oldest is None or known < oldest]:
            del self._results[split_id]  # came too late

    def states(self) -> Sequence[Mapping[str, Array]]:
        """Return what the workers hold once all is done."""
        self._send()
        self._fetch(list(self._under_way), None)
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
