"""Machine code is kept by what the sources hold, not by where they lie."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from learner.kernels import machine_code

ROOT = Path(__file__).parents[2]
COMPILER = "1.0"
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


def test_a_folder_that_cannot_be_written_is_used_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in an image with a read-only file system."""
    ready = (
        tmp_path / "ready" / f"kernels-{machine_code.sources_digest(COMPILER)}" / "learner-kernels"
    )
    ready.mkdir(parents=True)
    (ready / "bound.nbi").write_bytes(b"index")
    monkeypatch.setattr(machine_code, "_writable", lambda _: False)

    folder = machine_code.cache_folder(str(tmp_path / "ready"), COMPILER)

    assert not folder.is_relative_to(tmp_path)
    assert (folder / "learner-kernels" / "bound.nbi").read_bytes() == b"index"
    replacement = folder / "learner-kernels" / "new"
    replacement.write_bytes(b"another")
    replacement.replace(folder / "learner-kernels" / "bound.nbi")  # as numba writes
    assert (ready / "bound.nbi").read_bytes() == b"index"
    shutil.rmtree(folder)


def test_no_folder_at_all_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "_writable", lambda _: False)

    folder = machine_code.cache_folder(str(tmp_path / "missing"), COMPILER)

    assert not folder.is_relative_to(tmp_path)
    assert list(folder.iterdir()) == []
    folder.rmdir()
