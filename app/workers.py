"""Several processes that answer on one port, in the role `api`.

The parent compiles the kernels, then forks and only watches: it runs no thread, so that it can fork
again at any time. One child, the receiver, follows the learner, checks each snapshot once, and
leaves it in a folder that only these processes can reach; the others, the workers, map the file
there, so that one copy in memory serves them all, and switch when another one takes its place.

A child that ends, or whose metrics are not renewed for http.stalled_after_seconds, is replaced; one
that ends because of the settings or of what they name ends them all, with its exit code.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from app.api.server import SIGNALS, run, settle_collector
from app.errors import policy_of
from app.log import get_logger
from app.replica import build_replica, inlet_of
from app.settings import Settings
from app.snapshot_folder import FolderInlet, FolderOutlet
from app.warmup import warm_up_answers
from app.wiring import announce
from app.worker_metrics import SUFFIX, WorkerMetrics

log = get_logger(__name__)

RECEIVER = "receiver"
READY = ".ready"  # the file of a worker that has had a snapshot
LOOK_SECONDS = 0.1
TICK_SECONDS = 1.0
RETRY_FIRST_SECONDS = 0.5
RETRY_MOST_SECONDS = 10.0
SETTLED_SECONDS = 60.0  # a child that lived so long is started again at once
LASTING = (2, 3, 4)  # exit codes of what a restart does not mend
PARENT_DEATH = 1  # PR_SET_PDEATHSIG


@dataclass
class Child:
    """One process and how it fares."""

    name: str
    work: Callable[[], int]
    pid: int = 0  # 0: does not run
    started_at: float = 0.0
    start_at: float = 0.0  # not before
    patience: float = field(default=RETRY_FIRST_SECONDS)


class Workers:
    """The parent of all processes of one port."""

    def __init__(self, settings: Settings, listener: socket.socket, folder: Path) -> None:
        self._settings, self._folder = settings, folder
        self._stopping = False
        self._code = 0
        receive = Child(RECEIVER, lambda: receive_snapshots(settings, folder))
        self._children = [receive]
        for number in range(settings.http.workers):
            name = str(number)
            work = _answering(settings, folder, name, listener)
            self._children.append(Child(name, work))

    def run(self) -> int:
        """Watch over the children until a signal, or until one cannot go on; the exit code."""
        while not self._stopping:
            self._reap()
            for child in self._children:
                if not child.pid and time.monotonic() >= child.start_at and not self._stopping:
                    self._start(child)
                self._check(child)
            time.sleep(LOOK_SECONDS)
        self._end()
        return self._code

    def on_signal(self) -> None:
        """Stop; the second time at once."""
        if self._stopping:
            self._kill(signal.SIGKILL)
        self._stopping = True

    def _start(self, child: Child) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        # A signal must not find the child with the handlers of its parent: it would be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        child.pid = os.fork()
        if child.pid == 0:
            _live(child.work, parent)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        child.started_at = time.monotonic()

    def _reap(self) -> None:
        """Note who has ended, and when it may be started again."""
        for child in [child for child in self._children if child.pid]:
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if not pid:
                continue
            code = os.waitstatus_to_exitcode(status)
            lived = time.monotonic() - child.started_at
            child.pid = 0
            self._metrics_of(child).unlink(missing_ok=True)
            if code in LASTING:
                log.error("process ended for good", worker=child.name, exit_code=code)
                self._code, self._stopping = code, True
                return
            if lived > SETTLED_SECONDS:
                child.patience = RETRY_FIRST_SECONDS
            child.start_at = time.monotonic() + child.patience
            log.error(
                "process ended, starting another",
                worker=child.name,
                exit_code=code,
                after_seconds=child.patience,
            )
            child.patience = min(2 * child.patience, RETRY_MOST_SECONDS)

    def _check(self, child: Child) -> None:
        """End a child that shows no sign of life."""
        if not child.pid:
            return
        seen_at = child.started_at
        with suppress(FileNotFoundError):
            age = time.time() - self._metrics_of(child).stat().st_mtime
            seen_at = max(seen_at, time.monotonic() - max(0.0, age))
        limit = self._settings.http.stalled_after_seconds
        if time.monotonic() - seen_at > limit:
            log.error("process hangs, ending it", worker=child.name, seconds=limit)
            os.kill(child.pid, signal.SIGKILL)

    def _metrics_of(self, child: Child) -> Path:
        return self._folder / f"{child.name}{SUFFIX}"

    def _end(self) -> None:
        """Let requests finish, as long as there is time."""
        self._kill(signal.SIGTERM)
        deadline = time.monotonic() + 2 * self._settings.http.shutdown_seconds
        while any(child.pid for child in self._children) and time.monotonic() < deadline:
            for child in self._children:
                if child.pid and os.waitpid(child.pid, os.WNOHANG)[0]:
                    child.pid = 0
            time.sleep(LOOK_SECONDS)
        self._kill(signal.SIGKILL)

    def _kill(self, sig: signal.Signals) -> None:
        for child in self._children:
            if child.pid:
                with suppress(ProcessLookupError):
                    os.kill(child.pid, sig)


def run_workers(settings: Settings, listener: socket.socket) -> int:
    """Serve with several processes until a signal or a lasting failure; return the exit code."""
    log.info("compiling kernels; many seconds on the first run of a machine")
    seconds = warm_up_answers()  # a signal ends the compiler at once, there is nothing to finish
    settle_collector()
    with tempfile.TemporaryDirectory(prefix="livetree-workers-") as folder:
        workers = Workers(settings, listener, Path(folder))
        with _signals(workers.on_signal):
            log.info("kernels ready", seconds=round(seconds, 2))
            return workers.run()


def _answering(
    settings: Settings, folder: Path, name: str, listener: socket.socket
) -> Callable[[], int]:
    """Return what a worker does."""

    def work() -> int:
        metrics, limit = WorkerMetrics(folder, name), settings.snapshots.max_bytes
        replica = build_replica(
            settings,
            metrics,
            lambda: FolderInlet(folder, settings.name, limit, mapped=True),
            trusted=True,
            on_message=lambda _: (folder / f"{name}{READY}").touch(),
        )
        replica.tick = metrics.write
        replica.others_ready = lambda: _all_ready(settings, folder)
        replica.follower.look_once()  # one that is started again has its snapshot when it listens
        announce(replica)
        return run(replica, listener, second_signal_ends=False)

    return work


def _all_ready(settings: Settings, folder: Path) -> bool:
    """Whether every worker has had a snapshot."""
    return all((folder / f"{n}{READY}").exists() for n in range(settings.http.workers))


def receive_snapshots(settings: Settings, folder: Path) -> int:
    """Follow the learner for the workers until a signal or a failure; return the exit code."""
    metrics = WorkerMetrics(folder, RECEIVER)
    outlet = FolderOutlet(folder, settings.name, durable=False)
    replica = build_replica(
        settings,
        metrics,
        inlet_of(settings),
        on_message=lambda message: outlet.send([message], ""),
    )
    announce(replica)
    stopping = False

    def stop() -> None:
        nonlocal stopping
        stopping = True

    with _signals(stop):
        replica.start()
        while not stopping and replica.failure is None:
            if replica.alive():
                metrics.write()
            time.sleep(TICK_SECONDS)
        replica.stop()
    return 0 if replica.failure is None else policy_of(replica.failure).exit_code


def _live(work: Callable[[], int], parent: int) -> None:
    """Be a child: do the work and end, whatever happens; end with the parent too."""
    code = 1
    try:
        for sig in SIGNALS:
            signal.signal(sig, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        ctypes.CDLL(None).prctl(PARENT_DEATH, signal.SIGTERM)
        if os.getppid() == parent:
            code = work()
    except BaseException:
        log.exception("process failed")
    finally:
        sys.stdout.flush()
        os._exit(code)


@contextmanager
def _signals(act: Callable[[], None]) -> Iterator[None]:
    """Act on the signals that end a process."""
    before = {sig: signal.signal(sig, lambda *_: act()) for sig in SIGNALS}
    try:
        yield
    finally:
        for sig, handler in before.items():
            signal.signal(sig, handler)
