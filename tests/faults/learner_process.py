"""Learners that are there to be killed.

A server process imports and compiles everything once and forks a learner for each line of
settings, so that a life costs milliseconds instead of seconds. A learner may write a journal: one
line a batch with what it took from the source, in order, before it learns it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from app.checkpoint import CheckpointFolder

PATIENCE_SECONDS = 300

SERVER = """
import json, os, sys, time
from itertools import groupby
from app import wiring
from app.log import configure
from app.settings import Settings
from app.warmup import warm_up

def keep_journal(service, path):
    source, journal = service.consumer.source, open(path, "a", buffering=1)
    poll, open_at = source.poll, source.open

    def opened(start):
        journal.write(json.dumps({"start": dict(start.offsets)}) + "\\n")
        open_at(start)

    def polled(limit):
        records = poll(limit)
        if records:
            runs = groupby(records, key=lambda record: record.partition)
            batch = [(p, [record.offset for record in run]) for p, run in runs]
            journal.write(json.dumps({"batch": batch}) + "\\n")
        return records

    source.open, source.poll = opened, polled

def live(settings, journal, wait):
    while wait and "TracerPid:\\t0\\n" in open("/proc/self/status").read():
        time.sleep(0.001)
    service = wiring.build(Settings.load(environ={}, **settings))
    if journal:
        keep_journal(service, journal)
    service.start()
    while service.failure is None:
        time.sleep(0.05)
    print(service.failure, file=sys.stderr)
    os._exit(7)

configure("error", "json", sys.stderr)
warm_up(sys.argv[1])
for line in sys.stdin:
    order = json.loads(line)
    pid = os.fork()
    if pid == 0:
        live(**order)
    print(pid, flush=True)
    _, status = os.waitpid(pid, 0)
    print("gone", os.waitstatus_to_exitcode(status), flush=True)
"""


class Learners:
    """Starts learners of one variant, one at a time."""

    def __init__(self, variant: str = "vfdt") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER, variant],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.running: int | None = None

    def start(
        self, settings: dict[str, Any], *, journal: Path | None = None, wait: bool = False
    ) -> int:
        """Start a learner and return its process id; with `wait` it waits for a tracer first."""
        order = {"settings": settings, "journal": str(journal) if journal else None, "wait": wait}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        self.running = int(self._line())
        return self.running

    def kill(self) -> None:
        """Kill the learner with SIGKILL and wait until it is gone."""
        if self.running is not None:
            os.kill(self.running, signal.SIGKILL)
            assert self.wait_gone() == -signal.SIGKILL

    def wait_gone(self) -> int:
        """Wait until the learner has ended; its exit code, negative for a signal."""
        word, code = self._line().split()
        assert word == "gone"
        self.running = None
        return int(code)

    def gone(self) -> bool:
        """Return whether the learner has ended, without waiting."""
        return bool(select.select([self._process.stdout], [], [], 0)[0])

    def _line(self) -> str:
        assert self._process.stdout is not None
        assert select.select([self._process.stdout], [], [], PATIENCE_SECONDS)[0], "no sign of life"
        return self._process.stdout.readline()

    def close(self) -> None:
        """End the server and its learner."""
        if self.running is not None:
            os.kill(self.running, signal.SIGKILL)
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


Place = tuple[int, int]  # partition, offset


def learned_order(journal: Path) -> list[Place]:
    """Return the places of the records that the model holds, in the order it learned them.

    Every life begins with a checkpoint, which holds a beginning of what the lives before took;
    what they took after it is not in the model.
    """
    order: list[Place] = []
    for line in journal.read_text().splitlines():
        entry = json.loads(line)
        if "start" in entry:
            start = {int(partition): offset for partition, offset in entry["start"].items()}
            del order[_length_at(start, order) :]
        else:
            order += [(p, offset) for p, offsets in entry["batch"] for offset in offsets]
    return order


def _length_at(start: dict[int, int], order: list[Place]) -> int:
    """Return how many records of the order lead to these positions."""
    positions: dict[int, int] = {}
    if not start:
        return 0
    for length, (partition, offset) in enumerate(order, 1):
        positions[partition] = offset + 1
        if positions == start:
            return length
    raise AssertionError(f"no moment of the journal is at {start}")


def wait(until: Callable[[], bool]) -> None:
    """Wait until something has happened, looking often."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not until():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.002)


def newest(folder: Path) -> int:
    """Return the number of the newest checkpoint; 0 without one."""
    files = CheckpointFolder(folder).files()
    return int(files[0].stem) if files else 0
