"""MOA in a JVM of its own, on the same rows: nothing of Python between it and its data.

MOA comes inside capymoa (extra ``peers``) and is never imported from there: that would start a JVM
in this process and cross into it once an event.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from learner import Batch, Codes, Kind, Schema

DRIVER = Path(__file__).with_name("MoaLearn.java")
AS_OURS = "-g 200 -c 1e-7 -t 0.05"
LEARNERS = {
    "HoeffdingTree": f"trees.HoeffdingTree -l MC {AS_OURS}"
    " -n (GaussianNumericAttributeClassObserver -n 10)",
    "NBAdaptive": f"trees.HoeffdingTree -l NBAdaptive {AS_OURS}"
    " -n (GaussianNumericAttributeClassObserver -n 10)",
    "EFDT": f"trees.EFDT -l MC {AS_OURS} -R 2000",
    "exhaustive": f"trees.HoeffdingTree -l MC {AS_OURS} -n BinaryTreeNumericAttributeClassObserver",
}
# What measures the bytes of a model looks into the classes of Java itself.
OPENED = ("java.util", "java.lang", "java.util.concurrent", "java.lang.ref")


class MoaRun(NamedTuple):
    """One learner on one stream, seconds of CPU time."""

    train: float
    prequential: float
    accuracy: float
    nodes: int
    bytes: int


def moa_jar() -> Path | None:
    """MOA's jar, where capymoa and Java are installed."""
    spec = find_spec("capymoa")
    if spec is None or not spec.submodule_search_locations or shutil.which("java") is None:
        return None
    jar = Path(spec.submodule_search_locations[0]) / "jar" / "moa.jar"
    return jar if jar.exists() else None


@contextmanager
def rows_file(schema: Schema, batch: Batch, labels: Codes) -> Iterator[Path]:
    """Yield a file with the rows as MoaLearn.java reads them."""
    numeric, nominal = iter(batch.numeric.T), iter(batch.nominal.T)
    columns = [next(numeric if f.kind == Kind.NUMERIC else nominal) for f in schema.features]
    values = [0 if f.kind == Kind.NUMERIC else len(f.values) for f in schema.features]
    with tempfile.NamedTemporaryFile(prefix="livetree-rows-") as file:
        head = [len(labels), len(columns), len(schema.classes), 0, *values]
        file.write(np.array(head, "<i4").tobytes())
        file.write(np.column_stack(columns).astype("<f8").tobytes())
        file.write(labels.astype("<i4").tobytes())
        file.flush()
        yield Path(file.name)


def run_moa(jar: Path, rows: Path, learner: str, passes: int) -> MoaRun:
    """Time one of LEARNERS."""
    with tempfile.TemporaryDirectory(prefix="livetree-moa-") as folder:
        agent = Path(folder) / "agent.jar"
        with zipfile.ZipFile(agent, "w") as archive:  # the agent's class is in MOA's jar
            manifest = "Manifest-Version: 1.0\nPremain-Class: sizeof.agent.SizeOfAgent\n"
            archive.writestr("META-INF/MANIFEST.MF", manifest)
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
        command = ["java", "-Xmx6g", *opened, f"-javaagent:{agent}", "-cp", str(jar), str(DRIVER)]
        command += [str(rows), str(passes), LEARNERS[learner]]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not found:
        raise RuntimeError(f"MOA's {learner} gave no result: {done.stderr[-2000:]}")
    return MoaRun(**json.loads(found[-1]))
