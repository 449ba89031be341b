"""Spreads a tree over workers, as the settings say."""

from __future__ import annotations

from app.distributed.load import Executor
from app.distributed.threads import Threads
from app.distributed.timed import Timed
from app.settings import Settings
from learner import InProcess, StreamingTree, Vertical, VerticalTree


class Spread:
    """A tree, and who runs its workers: nobody, where it learns alone."""

    def __init__(
        self, tree: StreamingTree, settings: Settings, executor: Executor | None = None
    ) -> None:
        self.executor = executor or executor_of(settings)  # one that has run some runs these too
        self.tree = tree
        vht = settings.vht
        if settings.variant != "vht" or (self.executor is None and vht.mode == "sync"):
            return
        vertical = Vertical(
            vht.workers,
            vht.mode,
            vht.lag_events,
            vht.keep_events,
            vht.keep_most_events,
            partial=vht.timeout_policy == "partial",
        )
        try:
            self.tree = VerticalTree(tree, self.executor or InProcess(), vertical)
        except BaseException:
            if self.executor is not None:
                self.executor.close()
            raise


def executor_of(settings: Settings) -> Executor | None:
    """Return who runs the workers; None: the thread that learns."""
    vht = settings.vht
    if settings.variant != "vht" or settings.execution == "local":
        return None
    if settings.execution == "threads":
        return Timed(Threads(vht.timeout_seconds))
    from app.distributed.ray_workers import RayWorkers  # needs the extra

    return Timed(RayWorkers(vht.ray, vht.timeout_seconds))
