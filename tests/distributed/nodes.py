"""Nodes of a Ray cluster, all on this machine, each started as an operator would."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.faults.served import wait
from tests.port import free_port

OBJECT_STORE_BYTES = 80_000_000
STARTS = 5  # of one node: on a machine that does much else it may give up


class Node:
    """A head, or a node that joins one."""

    def __init__(self, arguments: list[str], environment: dict[str, str], folder: Path) -> None:
        self._log = folder / f"{len(list(folder.glob('*.log')))}.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    str(Path(sys.executable).with_name("ray")), "start", "--block",
                    "--disable-usage-stats", f"--object-store-memory={OBJECT_STORE_BYTES}",
                    *arguments,
                ],
                env=os.environ | environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )  # fmt: skip

    def starts(self) -> bool:
        """Wait until it says that it runs; False where it gives up: Ray has 30 seconds for it."""
        wait(lambda: self.process.poll() is not None or "runtime started" in self.said())
        return self.process.poll() is None

    def said(self) -> str:
        """Return everything it wrote."""
        return self._log.read_text(errors="replace")

    def kill(self) -> None:
        """Have it die as a machine does: all of its processes at once, without a word."""
        for pid in [*below(self.process.pid), self.process.pid]:
            os.kill(pid, signal.SIGKILL)
        self.process.wait()


def below(pid: int) -> list[int]:
    """Return the processes that a process started, and those that these started."""
    return [found for child in children(pid) for found in (*below(child), child)]


def children(pid: int) -> list[int]:
    """Return the processes that any thread of a process started."""
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for thread in threads for child in thread.read_text().split()]


class Nodes:
    """A head without room for workers, and nodes with room for two each."""

    def __init__(self, count: int) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="nodes-"))  # a short path: it holds sockets
        self.address = f"127.0.0.1:{free_port()}"
        self.environment = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        self.nodes: list[Node] = []
        port, folder = self.address.split(":")[1], self._folder / "ray"
        head = [f"--port={port}", f"--temp-dir={folder}", "--include-dashboard=false"]
        self._start(["--head", "--num-cpus=0", *head])
        self.restore(count)

    @property
    def head(self) -> Node:
        """Return the node that keeps the others together."""
        return self.nodes[0]

    def node_of(self, pid: int) -> Node:
        """Return the node that a process runs on."""
        living = (node for node in self.nodes if node.process.poll() is None)
        return next(node for node in living if pid in below(node.process.pid))

    def restore(self, count: int) -> None:
        """Have so many nodes with room run, whatever has happened to earlier ones."""
        head, *others = self.nodes
        self.nodes = [head, *(node for node in others if node.process.poll() is None)]
        while len(self.nodes) <= count:
            self._start([f"--address={self.address}", "--num-cpus=2"])

    def _start(self, arguments: list[str]) -> None:
        for _ in range(STARTS):
            node = Node(arguments, self.environment, self._folder)
            if node.starts():
                self.nodes.append(node)
                return
        self.close()
        raise AssertionError(f"a node of Ray did not start:\n{node.said()}")

    def close(self) -> None:
        """End all."""
        for node in reversed(self.nodes):
            if node.process.poll() is None:
                node.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
