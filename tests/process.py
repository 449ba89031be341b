"""`livetree serve` as a process of its own, spoken to over real HTTP."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
DEADLINE_SECONDS = 300  # a cold compile on a slow machine

Event = dict[str, Any]


class Answer(NamedTuple):
    """An HTTP answer; status 0 where nobody listens."""

    status: int
    body: bytes
    headers: dict[str, str]

    def json(self) -> Any:
        return json.loads(self.body)


class Livetree:
    """A running `livetree serve`."""

    def __init__(self, config: Path, log: Path) -> None:
        self.log = log
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LIVETREE_")}
        with log.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "app", "serve", "--config", str(config), "--port", "0"],
                env=environment,
                cwd=ROOT,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        self.url = f"http://127.0.0.1:{self._port()}"

    def _port(self) -> int:
        self.wait_until(lambda: '"listening"' in self.log.read_text())
        return int(next(line["port"] for line in self.lines() if line["event"] == "listening"))

    def lines(self) -> list[Event]:
        """Return the log: every line of it is JSON."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def wait_until(self, happened: Any) -> None:
        """Wait; fail with the log when the process ends before, or time is up."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not happened():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)

    def wait_until_learned(self, events: int) -> None:
        self.wait_until(lambda: (a := self.get("/model")).status == 200 and learned(a) >= events)

    def get(self, path: str, body: object = None) -> Answer:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        try:
            request = urllib.request.Request(self.url + path, data, headers)
            with urllib.request.urlopen(request, timeout=30) as answer:
                return Answer(answer.status, answer.read(), dict(answer.headers))
        except urllib.error.HTTPError as exc:
            with exc:
                return Answer(exc.code, exc.read(), dict(exc.headers))
        except OSError:
            return Answer(0, b"", {})

    def ended(self) -> int:
        return self.process.wait(DEADLINE_SECONDS)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def learned(answer: Answer) -> int:
    return int(answer.json()["events"])


def metrics_of(service: Livetree) -> dict[str, float]:
    lines = service.get("/metrics").body.decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def ends_cleanly(service: Livetree) -> None:
    """SIGTERM: never ready again, a final checkpoint, exit code 0, and a log that says so."""
    assert service.get("/readyz").status == 200
    service.process.send_signal(signal.SIGTERM)
    seen = [200]
    while service.process.poll() is None:
        seen.append(service.get("/readyz").status)
    assert service.ended() == 0, service.log.read_text()
    assert re.fullmatch("(200,)+(503,)*(0,)*", "".join(f"{status}," for status in seen))
    assert "checkpoint written" in [line["event"] for line in service.lines()]
