"""Spreads a tree over workers, as the settings say."""

from __future__ import annotations

from app.distributed.load import Executor
from app.distributed.threads import Threads
from app.settings import Settings
from learner import InProcess, StreamingTree, Vertical, VerticalTree


class Spread:
    """A tree, and who runs its workers: nobody, where it learns alone."""

    def __init__(self, tree: StreamingTree, settings: Settings) -> None:
        self.executor: Executor | None = None
        self.tree = tree
        vht = settings.vht
        if settings.variant != "vht":
            return
        vertical = Vertical(
            vht.workers,
            vht.mode,
            vht.lag_events,
            vht.keep_events,
            vht.keep_most_events,
            partial=vht.timeout_policy == "partial",
        )
        if settings.execution == "ray":
            from app.distributed.ray_workers import RayWorkers  # needs the extra

            self.executor = RayWorkers(vht.ray, vht.timeout_seconds)
        elif settings.execution == "threads":
            self.executor = Threads(vht.timeout_seconds)
        if self.executor is not None:
            self.tree = VerticalTree(tree, self.executor, vertical)
        elif vht.mode != "sync":
            self.tree = VerticalTree(tree, InProcess(), vertical)
