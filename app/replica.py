"""The role `api`: answers from the snapshots of a learner elsewhere, and never learns."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from app.errors import AppError, Unexpected
from app.follower import Follower, Inlet
from app.log import get_logger
from app.metrics import Metrics
from app.service import Loop, Service
from app.serving import Serving
from app.settings import Settings
from app.snapshot_folder import FolderInlet
from app.snapshot_message import MessageReader
from app.snapshot_topic import TopicInlet
from app.timeline import Timeline

log = get_logger(__name__)


class Replica(Service):
    """A follower with everything round it."""

    fed_by: ClassVar[str] = "follower"

    def __init__(
        self,
        settings: Settings,
        serving: Serving,
        metrics: Metrics,
        follower: Follower,
    ) -> None:
        super().__init__(settings, serving, metrics)
        self.follower = follower
        self.others_ready: Callable[[], bool] = lambda: True  # behind the same port
        self._overdue: AppError | None = None

    def start(self) -> None:
        """Begin to follow."""
        log.info("starting", settings=self.settings.shown())
        self._started = True
        self.follower.start()

    def stop(self) -> None:
        """Stop following."""
        self._shutting_down = True
        patience = self.settings.http.shutdown_seconds
        if not self.follower.stop(patience):
            self._overdue = Unexpected(f"the follower did not stop within {patience:g} seconds")
            log.error("follower did not stop", seconds=patience)

    def ready(self) -> tuple[bool, str]:
        """Return whether predictions can be answered, by whichever process is asked."""
        ready, reason = super().ready()
        if ready and not self.others_ready():
            return False, "waiting for the other workers of this port"
        return ready, reason

    def waiting_for(self) -> str:
        """Return what is missing before predictions can be answered."""
        return f"waiting for a snapshot of the model '{self.settings.name}'"

    @property
    def loop(self) -> Loop:
        """The thread that follows."""
        return self.follower

    @property
    def failure(self) -> AppError | None:
        """What ended the follower; its policy has the exit code."""
        return self.follower.failure or self._overdue


def build_replica(
    settings: Settings,
    metrics: Metrics,
    inlet: Callable[[], Inlet] | None = None,
    *,
    trusted: bool = False,
    on_message: Callable[[memoryview], None] = lambda _: None,
) -> Replica:
    """Return a replica that is ready to start; touches neither broker nor disk.

    Trusted snapshots were checked before by this program. ``on_message`` gets the bytes of each
    that answers.
    """
    serving = Serving(timeline_of(settings))
    reader = MessageReader(settings.name, trusted=trusted)
    follower = Follower(inlet or inlet_of(settings), reader, serving, metrics, on_message)
    return Replica(settings, serving, metrics, follower)


def timeline_of(settings: Settings) -> Timeline:
    """Return where earlier snapshots are held; nowhere by several workers, each of which would."""
    wanted = settings.timeline
    keep = wanted.keep if settings.http.workers == 1 else 0
    return Timeline(keep, wanted.every_seconds, wanted.max_bytes)


def inlet_of(settings: Settings) -> Callable[[], Inlet]:
    """Return how the inlet is made, which only the follower's thread does."""
    wanted = settings.snapshots
    if wanted.by_topic:
        return lambda: TopicInlet(settings)
    return lambda: FolderInlet(wanted.folder, settings.name, wanted.max_bytes)
