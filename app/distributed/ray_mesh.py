"""The learner's side of an ingest actor: batches whose wide columns are elsewhere."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import ray
from ray.exceptions import RayError

from app.distributed.ray_actor import opened
from app.distributed.ray_failure import lost
from app.distributed.ray_ingest import Batches, Columns, Prepared, RayIngest
from app.vht_settings import RaySettings
from learner import Events, Kind, Share, VerticalTree

Codes = npt.NDArray[np.int32]
AHEAD = 3  # batches that are prepared while one is learned


class Room:
    """Memory for the dense columns of one batch, column by column; what is not tested stays unused.

    The system gives memory only to what is touched, so that width costs addresses, not bytes.
    """

    def __init__(self) -> None:
        self._numeric = np.zeros((0, 1), np.float64)
        self._nominal = np.zeros((0, 1), np.int32)

    def of(self, rows: int, numeric: int, nominal: int) -> tuple[Any, Any]:
        """Return arrays (row, column) for a batch; the one before is over."""
        if len(self._numeric) < numeric or self._numeric.shape[1] <= rows:
            self._numeric = np.zeros((numeric, rows + 1), np.float64)
        if len(self._nominal) < nominal or self._nominal.shape[1] <= rows:
            self._nominal = np.zeros((nominal, rows + 1), np.int32)
        return self._numeric[:numeric, :rows].T, self._nominal[:nominal, :rows].T


class MeshBatch:
    """Events whose dense columns are with the ingest actor and with the workers."""

    def __init__(
        self,
        prepared: Prepared,
        ingest: Any,
        room: Room,
        width: tuple[int, int],
        done: list[int],
        meanwhile: Callable[[], None],
    ) -> None:
        self.meanwhile = meanwhile  # to be called while workers are busy with it
        self.note = prepared.note
        self.number = prepared.number
        self.parts = prepared.parts
        self.sent_bytes = prepared.sent_bytes
        self._done = done
        self.fetches = 0  # columns that had to be asked for anew
        self._ingest = ingest
        lean = Events._make(map(opened, prepared.lean))
        numeric, nominal = room.of(len(lean.y), *width)
        self.events = lean._replace(numeric=numeric, nominal=nominal)
        self._here: tuple[set[int], set[int]] = (set(), set())
        self._take(prepared.columns)

    def fill(self, numeric: Codes, nominal: Codes) -> None:
        """Bring these columns here, unless they are."""
        missing = [
            np.array([column for column in wanted.tolist() if column not in here], np.int32)
            for wanted, here in zip((numeric, nominal), self._here, strict=True)
        ]
        if not any(map(len, missing)):
            return
        self.fetches += 1
        try:
            self._take(ray.get(self._ingest.columns.remote(self.number, *missing)))
        except RayError as exc:
            raise lost(exc) from exc

    def give_back(self) -> None:
        """Nobody reads its columns any more."""
        self._done.append(self.number)

    def _take(self, columns: Columns) -> None:
        for ids, found, into, here in (
            (columns.numeric_ids, columns.numeric, self.events.numeric, self._here[0]),
            (columns.nominal_ids, columns.nominal, self.events.nominal, self._here[1]),
        ):
            for column, values in zip(ids.tolist(), found, strict=True):
                into[:, column] = values
                here.add(column)


class RayMesh:
    """One ingest actor, some batches ahead of the learner."""

    def __init__(
        self,
        settings: RaySettings,
        batches: Callable[[], Batches],
        shares: Sequence[Share],
        nodes: Sequence[str],
    ) -> None:
        remote: Any = ray.remote
        actor = remote(
            num_cpus=settings.cpus_per_worker,
            max_restarts=0,
            max_task_retries=0,
            concurrency_groups={"ask": 1},  # columns are handed out while a batch is prepared
        )
        self._actor = actor(RayIngest).remote(batches, list(shares))
        try:
            begun = self._actor.begin.remote(list(nodes))
            self.pid: int = ray.get(begun, timeout=settings.start_seconds).process
        except RayError as exc:
            raise lost(exc) from exc
        self.fetches = 0
        self.word: Any = None  # to the reader, with the next batch
        self._ahead: deque[Any] = deque()
        self._done: list[int] = []  # batches to give back
        self._room = Room()

    def batches(self, tree: VerticalTree) -> Iterator[MeshBatch]:
        """Every batch in its order, with the columns that the tree tests by now."""
        known = tree.encoder.positions
        width = len(known(Kind.NUMERIC)), len(known(Kind.NOMINAL))
        ask_ahead = partial(self._ask_ahead, tree)
        while True:
            ask_ahead()
            try:
                prepared = ray.get(self._ahead.popleft())
            except RayError as exc:
                raise lost(exc) from exc
            if prepared is None:
                return
            batch = MeshBatch(prepared, self._actor, self._room, width, self._done, ask_ahead)
            yield batch
            self.fetches += batch.fetches

    def _ask_ahead(self, tree: VerticalTree) -> None:
        """Have the actor prepare batches, as many as it may be ahead."""
        while len(self._ahead) < AHEAD:
            done = self._done.copy()
            self._done.clear()
            word, self.word = self.word, None
            call = self._actor.prepare.remote(*tree.tested_columns(), done, word)
            self._ahead.append(call)

    def close(self) -> None:
        """End the actor, unless it ended with the connection."""
        if ray.is_initialized():
            ray.kill(self._actor)
