"""What the API and the commands hold on to: a process that answers, whatever feeds it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Protocol

from app.errors import AppError, NotServedHere
from app.metrics import Metrics
from app.question import Questions
from app.serving import Serving
from app.settings import Settings
from learner import LearnerError


class Loop(Protocol):
    """The thread that feeds a service."""

    heartbeat: float

    @property
    def running(self) -> bool:
        """Whether the thread lives."""


class Service(ABC):
    """Settings, metrics and the snapshot that answers, and a loop that brings new ones."""

    fed_by: ClassVar[str] = "learner"  # in messages

    def __init__(self, settings: Settings, serving: Serving, metrics: Metrics) -> None:
        self.settings = settings
        self.serving = serving
        self.metrics = metrics
        self.tick: Callable[[], None] = lambda: None  # once a second, in the event loop
        self._started = False
        self._shutting_down = False

    @property
    @abstractmethod
    def loop(self) -> Loop:
        """The loop that brings new snapshots."""

    @property
    @abstractmethod
    def failure(self) -> AppError | LearnerError | None:
        """What ended the loop; its policy has the exit code."""

    @property
    def questions(self) -> Questions:
        """What is asked of the tree that learns; raises NotServedHere where there is none."""
        raise NotServedHere(
            f"this process has the role '{self.settings.role}' and does not learn; ask the one of "
            "the role 'learner'"
        )

    @abstractmethod
    def waiting_for(self) -> str:
        """Return what is missing before predictions can be answered."""

    @abstractmethod
    def start(self) -> None:
        """Begin to bring snapshots."""

    @abstractmethod
    def stop(self) -> None:
        """End, and let go of everything."""

    def begin_shutdown(self) -> None:
        """Stop being ready, so that no new requests are sent here; the loop goes on."""
        self._shutting_down = True

    def ready(self) -> tuple[bool, str]:
        """Return whether predictions can be answered, and why not."""
        if self._shutting_down:
            return False, "shutting down"
        if self.failure is not None:
            return False, f"the {self.fed_by} failed: {self.failure}"
        if self.serving.current() is not None:
            return True, "ready"
        if not self._started:
            return False, "starting"
        return False, self.waiting_for()

    def alive(self) -> bool:
        """Return whether the loop makes progress, or has not been started yet."""
        if self.failure is not None:
            return False
        if not self._started or self._shutting_down:
            return True
        silent = time.monotonic() - self.loop.heartbeat
        return self.loop.running and silent < self.settings.http.stalled_after_seconds
