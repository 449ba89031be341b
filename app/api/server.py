"""One uvicorn server around a Service: the order of start and stop, and the exit code.

Stop, on the first SIGTERM or SIGINT (or SIGHUP, when the terminal closes), or when the learner
fails:
  1. the service is not ready from that instant (probes take it out of rotation),
  2. streams end, running requests finish, at most http.shutdown_seconds,
  3. the learner stops and writes its final checkpoint,
  4. the process ends with 0, or with the exit code of the failure.
A second signal ends the process at once; the last checkpoint on disk is whole all the same.
"""

from __future__ import annotations

import gc
import logging
import math
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import uvicorn

from app import errors
from app.api import create_app
from app.api.exposure import warn_if_exposed
from app.api.keys import Keys
from app.api.live import Live
from app.api.protocol import BoundedProtocol
from app.api.tls import server_context
from app.log import get_logger
from app.settings import Settings
from app.wiring import Service

SIGNALS = (signal.SIGINT, signal.SIGTERM)
BACKLOG = 2048
TICKS_A_SECOND = 10  # of uvicorn
OWN_THREADS = ("livetree-starter", "consumer", "follower")
YOUNG_OBJECTS = 20_000  # more than a batch of events makes
# How long a request waits at most, each time, while the learner's thread runs Python. By default
# it is fifty times as long, and an answer needs more than one turn.
SWITCH_SECONDS = 0.0001
# No browser is to guess that an answer is a page or a script.
HEADERS = [("x-content-type-options", "nosniff")]

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


def check_access(settings: Settings) -> None:
    """Look at the files of keys and certificates; a SettingsError names everything wrong."""
    problems: list[str] = []
    for look in (lambda: Keys(settings.auth), lambda: server_context(settings.tls)):
        try:
            look()
        except errors.SettingsError as exc:
            problems += exc.problems
    if problems:
        raise errors.SettingsError(problems)


class Starter(threading.Thread):
    """Compiles and starts the learner behind a server that already listens."""

    def __init__(self, service: Service, before_learning: Callable[[], None] | None) -> None:
        super().__init__(name="livetree-starter", daemon=True)
        self.failure: BaseException | None = None
        self._service = service
        self._before_learning = before_learning
        self._cancelled = threading.Event()
        self._prepared = before_learning is None

    def run(self) -> None:
        """Prepare, then start the learner, unless the end has come before."""
        try:
            if self._before_learning is not None:
                self._before_learning()
            self._prepared = True
            if not self._cancelled.is_set():
                self._service.start()
        except BaseException as exc:
            # Kept for the main thread, which ends the process with the right exit code. Also
            # SystemExit: a thread would end by it without a word, and nobody would ever learn.
            self.failure = exc

    def cancel(self) -> None:
        """Do not start the learner any more."""
        self._cancelled.set()

    def settle(self, seconds: float) -> None:
        """Wait for the end, unless the compiler works: it cannot be told to stop.

        Nothing is lost by leaving it.
        """
        if self._prepared:
            self.join(seconds)


class GracefulServer(uvicorn.Server):
    """A uvicorn server that tells its service about the end before it begins to end."""

    def __init__(
        self,
        config: uvicorn.Config,
        service: Service,
        starter: Starter,
        live: Live,
        *,
        second_signal_ends: bool = True,
    ) -> None:
        super().__init__(config)
        self._live = live
        self._service = service
        self._starter = starter
        self._second_signal_ends = second_signal_ends

    @property
    def failure(self) -> BaseException | None:
        """What stopped the learner, or kept it from starting."""
        return self._starter.failure or self._service.failure

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `run`; uvicorn would raise them again at the end, and not exit 0."""
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Begin the end on the first signal; end at once on the second."""
        if not self.should_exit:
            self._begin_end()
        elif self._second_signal_ends:
            os._exit(128 + sig)

    async def on_tick(self, counter: int) -> bool:
        """Do uvicorn's chores; begin the end when the learner has failed, and say it to streams.

        Streams are told here, inside the loop: a signal may come at any moment of it.
        """
        if not self.should_exit and self.failure is not None:
            self._begin_end()
        if self.should_exit:
            self._live.end()
        else:
            self._live.beat()
        if counter % TICKS_A_SECOND == 0:
            self._service.tick()
        return await super().on_tick(counter)

    def _begin_end(self) -> None:
        self.should_exit = True
        self._starter.cancel()
        self._service.begin_shutdown()


def leave(code: int) -> NoReturn:
    """End the process with this exit code, whatever its threads are doing.

    A thread that compiles, or that hangs, would be torn down in the middle of foreign code, which
    can end in a crash and another exit code.
    """
    unfinished = [thread.name for thread in threading.enumerate() if thread.name in OWN_THREADS]
    if not unfinished:
        sys.exit(code)
    log.warning("leaving threads behind", threads=unfinished)
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)


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
    second_signal_ends: bool = True,
) -> int:
    """Serve until a signal or a failure; return the exit code. Runs in the main thread.

    The API listens first and the learner starts behind it, so that probes see a process that is
    alive and not ready while kernels compile and a checkpoint loads. One process among several may
    get the same signal twice, from its parent and from a terminal or systemd, which tell them all:
    there the parent decides what a second signal means.
    """
    app = create_app(service)
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        headers=HEADERS,
        timeout_graceful_shutdown=math.ceil(service.settings.http.shutdown_seconds),
    )
    config.load()
    config.ssl = server_context(service.settings.tls)
    warn_if_exposed(service.settings, listener.getsockname()[0])

    def prepare() -> None:
        if before_learning is not None:
            before_learning()
        settle_collector()

    starter = Starter(service, prepare)
    server = GracefulServer(
        config, service, starter, app.live, second_signal_ends=second_signal_ends
    )
    # Under nohup SIGHUP is ignored, and stays so.
    hangup = () if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else (signal.SIGHUP,)
    before = {sig: signal.signal(sig, server.handle_exit) for sig in (*SIGNALS, *hangup)}
    switched_after = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        starter.start()
        server.run(sockets=[listener])
        starter.settle(service.settings.http.shutdown_seconds)
        service.stop()
    finally:
        sys.setswitchinterval(switched_after)
        for sig, handler in before.items():
            signal.signal(sig, handler)
    failure = server.failure
    if failure is None:
        return 0
    log.error(f"the {service.fed_by} failed", error=str(failure), kind=type(failure).__name__)
    return errors.policy_of(failure).exit_code
