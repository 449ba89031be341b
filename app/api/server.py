"""One uvicorn server around a Service: the order of start and stop, and the exit code.

Stop, on the first SIGTERM or SIGINT (or SIGHUP, when the terminal closes), or when the learner
fails:
  1. the service is not ready from that instant (probes take it out of rotation),
  2. running requests finish, at most http.shutdown_seconds,
  3. the learner stops and writes its final checkpoint,
  4. the process ends with 0, or with the exit code of the failure.
A second signal ends the process at once; the last checkpoint on disk is whole all the same.
"""

from __future__ import annotations

import gc
import math
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from app import errors
from app.api import create_app
from app.api.protocol import BoundedProtocol
from app.log import get_logger
from app.wiring import Service

SIGNALS = (signal.SIGINT, signal.SIGTERM)
BACKLOG = 2048
YOUNG_OBJECTS = 20_000  # more than a batch of events makes

log = get_logger("app.server")


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket; a port that is taken is a SettingsError in one sentence."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as exc:
        listener.close()
        reason = exc.strerror or str(exc)
        raise errors.SettingsError(
            [f"cannot listen on {host}:{port}: {reason.lower()}; choose another with --port"]
        ) from exc
    return listener


class Starter(threading.Thread):
    """Compiles and starts the learner behind a server that already listens."""

    def __init__(self, service: Service, before_learning: Callable[[], None] | None) -> None:
        super().__init__(name="livetree-starter", daemon=True)
        self.failure: Exception | None = None
        self._service = service
        self._before_learning = before_learning
        self._cancelled = threading.Event()

    def run(self) -> None:
        """Prepare, then start the learner, unless the end has come before."""
        try:
            if self._before_learning is not None:
                self._before_learning()
            if not self._cancelled.is_set():
                self._service.start()
        except Exception as exc:
            # Kept for the main thread, which ends the process with the right exit code.
            self.failure = exc

    def cancel(self) -> None:
        """Do not start the learner any more."""
        self._cancelled.set()


class GracefulServer(uvicorn.Server):
    """A uvicorn server that tells its service about the end before it begins to end."""

    def __init__(self, config: uvicorn.Config, service: Service, starter: Starter) -> None:
        super().__init__(config)
        self._service = service
        self._starter = starter

    @property
    def failure(self) -> Exception | None:
        """What stopped the learner, or kept it from starting."""
        return self._starter.failure or self._service.failure

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `run`; uvicorn would raise them again at the end, and not exit 0."""
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Begin the end on the first signal; end at once on the second."""
        if self.should_exit:
            os._exit(128 + sig)
        self._begin_end()

    async def on_tick(self, counter: int) -> bool:
        """Do uvicorn's chores; begin the end when the learner has failed."""
        if not self.should_exit and self.failure is not None:
            self._begin_end()
        return await super().on_tick(counter)

    def _begin_end(self) -> None:
        self.should_exit = True
        self._starter.cancel()
        self._service.begin_shutdown()


def settle_collector() -> None:
    """Keep Python's garbage collector from looking at every batch of events.

    A batch makes a thousand tuples and drops them again: by default each would start a collection,
    which finds nothing. What the imports and the compiler left stays for good and is set aside.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)


def run(
    service: Service,
    listener: socket.socket,
    *,
    before_learning: Callable[[], None] | None = None,
) -> int:
    """Serve until a signal or a failure; return the exit code. Runs in the main thread.

    The API listens first and the learner starts behind it, so that probes see a process that is
    alive and not ready while kernels compile and a checkpoint loads.
    """
    config = uvicorn.Config(
        create_app(service),
        http=BoundedProtocol,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=math.ceil(service.settings.http.shutdown_seconds),
    )

    def prepare() -> None:
        if before_learning is not None:
            before_learning()
        settle_collector()

    starter = Starter(service, prepare)
    server = GracefulServer(config, service, starter)
    # Under nohup SIGHUP is ignored, and stays so.
    hangup = () if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else (signal.SIGHUP,)
    before = {sig: signal.signal(sig, server.handle_exit) for sig in (*SIGNALS, *hangup)}
    try:
        starter.start()
        server.run(sockets=[listener])
        # A compiler cannot be interrupted, but nothing is lost by leaving it.
        starter.join(service.settings.http.shutdown_seconds)
        service.stop()
    finally:
        for sig, handler in before.items():
            signal.signal(sig, handler)
    failure = server.failure
    if failure is None:
        return 0
    log.error("the learner failed", error=str(failure), kind=type(failure).__name__)
    return errors.policy_of(failure).exit_code
