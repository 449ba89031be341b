"""Metrics of several processes behind one port: any of them answers for all.

Each writes its own into a folder once a second; who is asked adds the others', at most so old. A
label `worker` tells them apart, so that nothing has to be added up or chosen here: sums and maxima
are the reader's, and a process that was started again counts from 0, as Prometheus expects.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from app.metrics import Metrics

SUFFIX = ".prom"


class WorkerMetrics(Metrics):
    """The metrics of one process among several."""

    def __init__(self, folder: Path, worker: str) -> None:
        super().__init__()
        self._folder, self._worker = folder, worker

    def write(self) -> None:
        """Leave them where the others find them."""
        temporary = self._folder / f"{self._worker}.tmp"
        temporary.write_bytes(super().render()[0])
        temporary.rename(self._folder / f"{self._worker}{SUFFIX}")

    def render(self) -> tuple[bytes, str]:
        """Return those of all processes."""
        own, content_type = super().render()
        written = {file.stem: file for file in self._folder.glob(f"*{SUFFIX}")}
        bodies = {name: _read(file) for name, file in sorted(written.items())}
        return merged(bodies | {self._worker: own}), content_type


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:  # its process has just ended
        return b""


def merged(bodies: Mapping[str, bytes]) -> bytes:
    """Return one exposition out of several: each metric once, with the samples of all workers."""
    heads: dict[bytes, list[bytes]] = {}
    samples: dict[bytes, list[bytes]] = {}
    for worker, body in bodies.items():
        label, name = b'worker="%s"' % worker.encode(), b""
        for line in body.splitlines():
            if line.startswith(b"#"):
                name = line.split(b" ", 3)[2]
                head = heads.setdefault(name, [])
                if line not in head:
                    head.append(line)
            elif line:
                samples.setdefault(name, []).append(_labelled(line, label))
    lines = [line for name in heads for line in [*heads[name], *samples.get(name, [])]]
    return b"\n".join([*lines, b""])


def _labelled(sample: bytes, label: bytes) -> bytes:
    name, brace, rest = sample.partition(b"{")
    if brace:
        return name + b"{" + label + b"," + rest
    name, _, value = sample.partition(b" ")
    return name + b"{" + label + b"} " + value
