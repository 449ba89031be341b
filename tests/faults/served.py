"""`livetree serve` as a process: its log line by line, its API, its end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 180.0  # a slow machine, or kernels that must be compiled first

START = "from app.cli import main\nmain()\n"


def wait(
    until: Callable[[], Any],
    what: Callable[[], str] = lambda: "it did not happen",
    seconds: float = PATIENCE_SECONDS,
) -> Any:
    """Return what `until` returns once it is something; fails after a long time."""
    deadline = time.monotonic() + seconds
    while not (found := until()):
        assert time.monotonic() < deadline, what()
        time.sleep(0.05)
    return found


class Served:
    """A running service; `before` is code that the process runs first, to bring a fault about."""

    def __init__(
        self,
        settings: dict[str, Any],
        config: Path,
        *,
        before: str = "",
        environment: dict[str, str] | None = None,
    ) -> None:
        config.write_text(json.dumps({"log_format": "json", **settings}))  # JSON is YAML
        kept = {k: v for k, v in os.environ.items() if not k.startswith("LIVETREE_")}
        # The log goes through a pipe: a limit on file sizes must not reach it.
        self.process = subprocess.Popen(
            [sys.executable, "-c", before + START, "serve", "--config", str(config), "--port", "0"],
            env={**kept, **(environment or {})},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    @property
    def log(self) -> str:
        """Return everything that was written so far."""
        return "\n".join(self.lines)

    def said(self, event: str) -> list[dict[str, Any]]:
        """Return the log's entries of one event."""
        entries = [json.loads(line) for line in list(self.lines) if line.startswith("{")]
        return [entry for entry in entries if entry["event"] == event]

    def wait_for(self, event: str, times: int = 1) -> dict[str, Any]:
        """Return the entry once the event was logged so many times."""
        self.wait(lambda: len(self.said(event)) >= times)
        return self.said(event)[times - 1]

    def wait(self, until: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> Any:
        """Wait for something that a living process is to bring about."""

        def happened() -> Any:
            alive = self.process.poll() is None
            found = until()
            assert found or alive, self.log
            return found

        return wait(happened, lambda: self.log, seconds)

    def get(self, path: str) -> tuple[int, bytes]:
        """Return status and body of a route; status 0 while nothing answers."""
        return self._open(path)

    def post(self, path: str, body: object) -> tuple[int, bytes]:
        """Send JSON; return status and body."""
        return self._open(path, json.dumps(body).encode())

    def _open(self, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        port = self.wait_for("listening")["port"]
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as exc:
            return exc.code, exc.read()
        except OSError:
            return 0, b""

    def predicts(self) -> bool:
        """Return whether a prediction is answered."""
        row = {"age": 30.0, "car": "c1", "words": ["good"]}
        return self.post("/predict", {"features": row})[0] == 200

    def metric(self, name: str, **labels: str) -> float:
        """Return the value of one series; 0 when it is not there."""
        for line in self.get("/metrics")[1].decode().splitlines():
            found = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if found and found[1] == name:
                have = dict(re.findall(r'(\w+)="([^"]*)"', found[2] or ""))
                if labels.items() <= have.items():
                    return float(found[3])
        return 0.0

    def wait_until_ready(self) -> None:
        """Wait until predictions are answered."""
        self.wait(lambda: self.get("/readyz")[0] == 200)

    def wait_until_learned(self, events: int) -> None:
        """Wait until the tree has learned so many events since the start."""
        self.wait(lambda: self.metric("livetree_events_learned_total") >= events)

    def ended(self) -> int:
        """Return the exit code once the process has ended, with its log complete."""
        code = self.process.wait(PATIENCE_SECONDS)
        self._reader.join(PATIENCE_SECONDS)
        return code

    def terminate(self) -> int:
        """Ask for the end in an orderly way; return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def kill(self) -> None:
        """End the process at once."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
