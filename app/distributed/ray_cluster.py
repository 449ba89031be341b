"""The Ray that workers run on: one that runs already, or one of our own on this machine.

Ray reports to nobody from here and has no dashboard. One of our own lives as long as this process,
and takes calls only from who has its secret, which is made for it and written nowhere: it listens
on all interfaces, and who can call it can run programs.
"""

from __future__ import annotations

import ctypes
import logging
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from app.log import get_logger
from app.vht_settings import RaySettings
from learner import WorkerLost

# Before ray is imported, and for the processes that it starts.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray

T = TypeVar("T")

log = get_logger(__name__)

SECRET, MODE = "RAY_AUTH_TOKEN", "RAY_AUTH_MODE"
RETRY_SECONDS = 1.0
SIGACTION_BYTES = 256  # the struct has less
# Ends with the thread that has started it (PR_SET_PDEATHSIG, SIGTERM).
JOIN = """
import ctypes, sys
ctypes.CDLL(None).prctl(1, 15)
from ray.scripts.scripts import main
sys.exit(main())
"""


def connect(settings: RaySettings, workers: int) -> bool:
    """Reach the cluster, or start one; returns whether this did it, or it was there before."""
    if ray.is_initialized():
        return False
    logging.getLogger("ray").setLevel(logging.ERROR)  # its hints are for those who write programs
    address, deadline = settings.address, time.monotonic() + settings.start_seconds
    start = partial(
        ray.init,
        address=address or "local",
        namespace="livetree",
        log_to_driver=False,
        configure_logging=False,
        **({} if address else _own(settings, workers)),
    )
    node = _in_lasting_thread(partial(_Node, settings)) if settings.join else None
    while True:
        try:
            _in_lasting_thread(partial(_with_own_sigterm, start))
            break
        except Exception as exc:  # Ray raises anything
            ray.shutdown()
            if time.monotonic() < deadline and (node is not None or not address):
                time.sleep(RETRY_SECONDS)  # Ray gives a busy machine half a minute
                continue
            if node is not None:
                node.leave()
            raise WorkerLost(_told(address, exc)) from exc
    log.info("ray connected", address=address or "local")
    return True


def _told(address: str, exc: Exception) -> str:
    first = next(iter(str(exc).strip().splitlines()), type(exc).__name__)
    if not address:
        return f"Ray does not start on this machine: {first}"
    return (
        f"Ray at '{address}' cannot be reached: {first}; expected a running cluster of the same "
        "versions of Ray and Python (LIVETREE_VHT__RAY__ADDRESS)"
    )


def _own(settings: RaySettings, workers: int) -> dict[str, Any]:
    """Return how a Ray of our own is started."""
    os.environ.setdefault("RAY_prestart_worker_first_driver", "0")  # for tasks, which we have none
    if settings.object_store_bytes:  # whose memory would else be found while events wait for it
        os.environ.setdefault("RAY_preallocate_plasma_memory", "1")
    if MODE not in os.environ:
        os.environ.setdefault(SECRET, secrets.token_hex(32))
    cpus = max(1, -(-workers * settings.cpus_per_worker // 1))
    return {
        "num_cpus": int(cpus),
        "include_dashboard": False,
        "object_store_memory": settings.object_store_bytes or None,
    }


def _with_own_sigterm(start: Callable[[], object]) -> None:
    """Start Ray, and take SIGTERM back from it.

    Ray's own handler hands the signal on, but ends the process by SIGABRT three seconds later,
    whatever it is doing then; a final checkpoint may take longer.
    """
    libc, kept = ctypes.CDLL(None), ctypes.create_string_buffer(SIGACTION_BYTES)
    libc.sigaction(signal.SIGTERM, None, kept)
    start()
    handler = int.from_bytes(kept.raw[: ctypes.sizeof(ctypes.c_void_p)], sys.byteorder)
    if handler != signal.SIG_DFL:
        libc.sigaction(signal.SIGTERM, kept, None)


def _in_lasting_thread(start: Callable[[], T]) -> T:
    """Have a thread start something that lives as long as the process.

    The system ends the processes of a Ray of our own with the thread that has started them.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(start())
        except BaseException as exc:
            outcome.set_exception(exc)
            return
        threading.Event().wait()

    threading.Thread(target=run, name="ray", daemon=True).start()
    return outcome.result()


def disconnect() -> None:
    """End the connection, and the Ray of our own, or our being a node, with it."""
    ray.shutdown()
    while _nodes:
        _nodes[-1].leave()


_nodes: list[_Node] = []  # at most one


class _Node:
    """Our machine as a node of a cluster, as long as this process lives."""

    def __init__(self, settings: RaySettings) -> None:
        store = settings.object_store_bytes
        options = [f"--object-store-memory={store}"] if store else []
        self._process = subprocess.Popen(
            [
                sys.executable, "-c", JOIN, "start", "--block", "--num-cpus=0",
                "--disable-usage-stats", f"--address={settings.address}", *options,
            ],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        _nodes.append(self)

    def leave(self) -> None:
        _nodes.remove(self)
        self._process.terminate()
        self._process.wait()
