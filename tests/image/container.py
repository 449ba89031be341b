"""A container of the image, run as strictly as a cluster may: not root, read-only, no rights."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from tests.faults.served import wait
from tests.image.containers import run
from tests.port import free_port

STRICT = ("--read-only", "--cap-drop=all", "--security-opt=no-new-privileges")


class Container:
    """A running container; it listens on a port of its own on this machine."""

    def __init__(
        self, image: str, name: str, options: tuple[str, ...], command: tuple[str, ...]
    ) -> None:
        self.name, self.port = name, free_port()
        run("podman", "rm", "--force", "--volumes", "--ignore", name)
        run(
            "podman", "run", "--detach", "--name", name, "--network", "host", "--no-healthcheck",
            *STRICT, "--env", f"LIVETREE_HTTP__PORT={self.port}", *options, image, *command,
        )  # fmt: skip

    def ask(self, path: str, body: object = None) -> tuple[int, bytes]:
        """Return status and body of a route; status 0 while nothing answers."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        url = f"http://127.0.0.1:{self.port}{path}"
        try:
            with urllib.request.urlopen(
                urllib.request.Request(url, data, headers), timeout=30
            ) as a:
                return a.status, a.read()
        except urllib.error.HTTPError as exc:
            with exc:
                return exc.code, exc.read()
        except OSError:
            return 0, b""

    def wait_for(self, path: str) -> None:
        """Wait until a route answers with 200."""
        wait(lambda: self.ask(path)[0] == 200, self.log)

    def log(self) -> str:
        """Return everything it wrote."""
        return run("podman", "logs", self.name, errors_too=True)

    def said(self, event: str) -> list[dict[str, Any]]:
        """Return the log's entries of one event."""
        lines = (json.loads(line) for line in self.log().splitlines() if line.startswith("{"))
        return [line for line in lines if line["event"] == event]

    def run(self, *command: str) -> str:
        """Run a program inside; return what it wrote."""
        return run("podman", "exec", self.name, *command)

    def stop(self) -> int:
        """Stop it as an orchestrator does: SIGTERM, then a long wait; return the exit code."""
        run("podman", "stop", "--time", "60", self.name)
        return int(run("podman", "inspect", "--format", "{{.State.ExitCode}}", self.name))

    def remove(self) -> None:
        """Remove it, whatever its state."""
        run("podman", "rm", "--force", "--time", "0", "--volumes", "--ignore", self.name)
