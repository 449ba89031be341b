"""Machine code is kept by what the sources hold, not by where they lie."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
KERNEL = """
from learner.kernels.bound import hoeffding_bound
print(hoeffding_bound(1.0, 0.1, 100.0))
"""


def run_copy(folder: Path, machine_code: Path) -> str:
    """Run one kernel of a copy of the sources."""
    for package in ("learner", "streams", "app/kernels"):
        shutil.copytree(
            ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(machine_code), "PYTHONPATH": str(folder)}
    environment.pop("NUMBA_DISABLE_JIT", None)
    done = subprocess.run(
        [sys.executable, "-c", KERNEL],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_a_second_copy_of_the_sources_compiles_nothing_anew(tmp_path: Path) -> None:
    machine_code = tmp_path / "machine-code"
    first = run_copy(tmp_path / "here", machine_code)
    kept = {path: path.stat().st_mtime_ns for path in machine_code.rglob("*.nbc")}
    assert kept

    assert run_copy(tmp_path / "elsewhere", machine_code) == first
    assert {path: path.stat().st_mtime_ns for path in machine_code.rglob("*.nbc")} == kept
