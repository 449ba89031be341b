"""Seconds from nothing to ready: imports, kernels from their cache or compiled, a checkpoint read.

python -m benchmarks.start [--json] [--quick] [--rounds N] [--nodes N] [--cold]

Every value is a process of its own, the best of interleaved rounds. `livetree serve` is ready when
/readyz answers 200: its kernels are loaded, its checkpoint is read, and a snapshot is published. It
reads a file, so that no broker's time is in it. Beside the seconds on the wall stand those of the
CPU, which other load does not change. The contender of an import is that of the libraries alone;
that of a checkpoint is a start without one. --cold compiles all kernels anew, for a minute or more.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from app.checkpoint import Checkpoint, CheckpointFolder
from app.evaluation import Prequential
from app.file_source import FileSource
from app.settings import Settings
from benchmarks.measurement import OURS, Measurement, interleaved, options, report
from benchmarks.snapshot import CLASSES, GROWTH, NOMINAL, NUMERIC, VALUES, grown

LIBRARIES = "import fastapi, numba, uvicorn, confluent_kafka, prometheus_client, structlog"
SERVICE = "import app.api.server, app.settings, app.warmup, app.wiring"
COMMANDS = "import app.cli"
READY_TARGET = "< 3 s"
PATIENCE_SECONDS = 600.0


class Took(NamedTuple):
    """Seconds of one process."""

    wall: float
    cpu: float


def children_cpu() -> float:
    """CPU seconds of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def imported(code: str) -> Took:
    """Run a line of Python."""
    before, began = children_cpu(), time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return Took(time.perf_counter() - began, children_cpu() - before)


def port_of(line: str) -> int:
    """The port in a line of the log; 0 where there is none."""
    entry = json.loads(line) if line.startswith("{") else {}
    return int(entry["port"]) if entry.get("event") == "listening" else 0


def is_ready(port: int) -> bool:
    """Whether predictions are answered."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError):
        return False


def served(config: Path, environment: Mapping[str, str]) -> Took:
    """Start the service and stop it as soon as it is ready."""
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "app", "serve", "--config", str(config), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
    ) as process:
        assert process.stdout is not None
        port = next((found for line in process.stdout if (found := port_of(line))), 0)
        while port and not is_ready(port) and time.perf_counter() - began < PATIENCE_SECONDS:
            time.sleep(0.01)
        wall = time.perf_counter() - began
        times = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        process.kill()
    ticks = int(times[11]) + int(times[12])
    return Took(wall, ticks / os.sysconf("SC_CLK_TCK"))


def settings_in(folder: Path) -> dict[str, Any]:
    """Settings of a service with two lines of a file to learn, and no checkpoint yet."""
    events = folder / "events.jsonl"
    row = {f"x{i}": 0.5 for i in range(NUMERIC)} | {f"c{i}": "v0" for i in range(NOMINAL)}
    events.write_text(2 * (json.dumps({**row, "label": 1}) + "\n"))
    values = [f"v{v}" for v in range(VALUES)]
    features = [{"name": f"x{i}", "kind": "numeric"} for i in range(NUMERIC)]
    features += [{"name": f"c{i}", "kind": "nominal", "values": values} for i in range(NOMINAL)]
    return {
        "source": "file",
        "file": {"path": str(events)},
        "checkpoint": {"folder": str(folder / "checkpoints"), "every_seconds": 3600},
        "schema": {"features": features, "classes": list(range(CLASSES))},
        "tree": GROWTH,
        "log_format": "json",
    }


def written(folder: Path, nodes: int) -> Path:
    """A configuration whose checkpoint has a tree of so many nodes; 0: no checkpoint."""
    folder.mkdir()
    given = settings_in(folder)
    config = folder / "livetree.yaml"
    config.write_text(json.dumps(given))  # JSON is YAML
    if nodes:
        settings = Settings.load(environ={}, **given)
        source, tree = FileSource(settings.file), grown(nodes)
        checkpoints = CheckpointFolder(settings.checkpoint.folder)
        checkpoints.acquire()
        checkpoints.save(
            Checkpoint.taken(
                tree.to_pieces(),
                offsets={0: 0},
                topic=source.topic,
                identity=source.identity(),
                events=tree.counters().events,
                shaping=settings.tree_shaping(),
                evaluation=Prequential().to_dict(),
            )
        )
        checkpoints.release()
    return config


def best(found: list[Took]) -> Took:
    """The least of both clocks."""
    return Took(min(took.wall for took in found), min(took.cpu for took in found))


def imports(rounds: int) -> Iterator[Measurement]:
    """What a process pays before its first line."""
    lines = {OURS: SERVICE, "its libraries alone": LIBRARIES, "livetree --help": COMMANDS}
    runs = {name: partial(imported, code) for name, code in lines.items()}
    took = {name: best(found) for name, found in interleaved(runs, rounds, "importing").items()}
    for name, seconds in took.items():
        ratio = None if name == OURS else seconds.cpu / took[OURS].cpu
        facts = {"wall_seconds": seconds.wall}
        yield Measurement("import", name, seconds.cpu, "CPU s", ratio, facts=facts)


def starts(folder: Path, nodes: int, rounds: int, *, cold: bool) -> Iterator[Measurement]:
    """From the command to an answer."""
    kept, empty = f"checkpoint of {nodes:,} nodes", "no checkpoint"
    runs: dict[str, Callable[[], Took]] = {
        kept: partial(served, written(folder / "kept", nodes), {}),
        empty: partial(served, written(folder / "empty", 0), {}),
    }
    runs[empty]()  # compiles what is not compiled yet
    took = {name: best(found) for name, found in interleaved(runs, rounds, "starting").items()}
    if cold:
        cache = {"NUMBA_CACHE_DIR": str(folder / "machine-code")}
        took["kernels compiled"] = served(folder / "empty" / "livetree.yaml", cache)
    for name, seconds in took.items():
        ratio = None if name == kept else seconds.wall / took[kept].wall
        target = READY_TARGET if name in (kept, empty) else ""
        facts = {"cpu_seconds": seconds.cpu}
        yield Measurement("start", OURS, seconds.wall, "s", ratio, name, target, facts)


def main(argv: list[str]) -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("--nodes", type=int, default=100_000, help="nodes in the checkpoint")
    parser.add_argument("--cold", action="store_true", help="compile all kernels anew, too")
    given = parser.parse_args(argv)
    nodes = min(given.nodes, 20_000) if given.quick else given.nodes
    with tempfile.TemporaryDirectory(prefix="livetree-bench-") as folder:

        def measurements() -> Iterator[Measurement]:
            yield from imports(given.rounds)
            yield from starts(Path(folder), nodes, given.rounds, cold=given.cold)

        report(measurements(), given.json)


if __name__ == "__main__":
    main(sys.argv[1:])
