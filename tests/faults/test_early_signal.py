"""Signals that come early, or to all processes at once: no trace, and no answer is cut off."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.injection import waiting
from tests.faults.served import ROOT, Served

COMPILING = "compiling kernels; many seconds on the first run of a machine"
MOMENTS = sorted(round(random.Random(7).uniform(0, 2.5), 3) for _ in range(10))

# Sends a signal to the process itself when a module is about to be imported. Tests that a shell
# runs in the background are born deaf to SIGINT, and so are their children.
WHILE_IMPORTING = """
import os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.{sig})

sys.meta_path.insert(0, Finder())
"""

FROM_THE_START = "from app.__main__ import main\nmain()\n"

# Every child of a fork finds a signal waiting for it.
SIGNALLED_CHILDREN = """
import os, signal
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))
"""

# The process gets a signal at the very moment in which it says that it is ready.
SIGNALLED_WHEN_READY = """
import os, signal, sys

class Watched:
    def __init__(self, stream):
        self._stream = stream

    def write(self, text):
        written = self._stream.write(text)
        self._stream.flush()
        if "kernels ready" in text:
            os.kill(os.getpid(), signal.SIGTERM)
        return written

    def __getattr__(self, name):
        return getattr(self._stream, name)

sys.stdout, sys.stderr = Watched(sys.stdout), Watched(sys.stderr)
"""


def away(folder: Path, **more: Any) -> dict[str, Any]:
    """Return settings of a service whose broker nobody is."""
    kafka = {"bootstrap_servers": "127.0.0.1:1"}
    return {"kafka": kafka, "checkpoint": {"folder": str(folder / "checkpoints")}, **more}


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("seconds", [0, 0.05, 0.2, 0.5, 1, *MOMENTS])
def test_sigterm_ends_it_at_any_early_moment(
    serve: Callable[..., Served], tmp_path: Path, seconds: float
) -> None:
    served = serve(away(tmp_path))
    time.sleep(seconds)

    code = served.terminate()

    assert "Traceback" not in served.log
    # Before it has begun anything the signal itself ends it, which a shell calls 143.
    assert code == (0 if served.said(COMPILING) else -signal.SIGTERM), served.log
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.parametrize(("sig", "code"), [("SIGTERM", -signal.SIGTERM), ("SIGINT", 130)])
@pytest.mark.parametrize("module", ["app.cli", "typer", "app.settings", "numba"])
def test_a_signal_while_it_is_imported(module: str, sig: str, code: int) -> None:
    before = WHILE_IMPORTING.format(module=module, sig=sig)
    ended = subprocess.run(
        [sys.executable, "-c", before + FROM_THE_START, "serve", "--port", "0"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", "")


def test_a_worker_is_never_deaf(serve: Callable[..., Served], tmp_path: Path) -> None:
    served = serve(away(tmp_path, role="api", http={"workers": 2}), before=SIGNALLED_CHILDREN)

    told = served.wait_for("process ended, starting another")

    assert told["exit_code"] == -signal.SIGTERM
    assert served.terminate() == 0, served.log


@pytest.mark.parametrize("workers", [1, 2])
def test_who_is_ready_ends_in_order(
    serve: Callable[..., Served], tmp_path: Path, workers: int
) -> None:
    settings = away(tmp_path, role="api", http={"workers": workers})
    served = serve(settings, before=SIGNALLED_WHEN_READY)

    assert served.ended() == 0, served.log
    assert served.said("kernels ready")


def test_requests_are_answered_when_all_processes_are_told_to_end(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    """As a terminal does, and systemd: the workers are told twice, by their parent too."""
    hold = tmp_path / "hold"
    hold.touch()
    served = serve(
        away(tmp_path, role="api", http={"workers": 2}),
        before=waiting("app.service:Service", "ready", hold),
    )
    answers: list[tuple[int, bytes]] = []
    asking = threading.Thread(target=lambda: answers.append(served.get("/readyz")))
    asking.start()
    served.wait(hold.with_suffix(".met").exists)

    workers = children(served.process.pid)
    assert len(workers) == 3  # one receives
    for pid in (*workers, served.process.pid):
        os.kill(pid, signal.SIGTERM)
    served.wait(lambda: len(children(served.process.pid)) == 1)  # only who has something to answer
    for pid in children(served.process.pid):
        os.kill(pid, signal.SIGTERM)
    hold.unlink()

    assert served.ended() == 0, served.log
    asking.join()
    assert [status for status, _ in answers] == [503]
