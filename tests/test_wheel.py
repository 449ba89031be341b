"""What users install: the wheel holds the program and nothing else, and runs in a clean place."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import urllib.request
import zipfile
from pathlib import Path

import pytest

from tests.faults.served import wait
from tests.port import free_port

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
COLD_SECONDS = 600.0  # kernels may have to be compiled, on a busy machine
PACKAGES = ("app", "learner", "streams")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel, built from a copy of the sources as a release is."""
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (found,) = folder.glob("*.whl")
    return found


def in_git() -> set[str]:
    listed = subprocess.run(
        ["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}


def test_the_wheel_holds_the_packages_whole_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}

    assert {name for name in names if not name.startswith(PACKAGES)} == set()
    assert in_git() <= names
    assert not [name for name in names if "test" in Path(name).stem or name.endswith(".pyc")]


def test_the_version_is_told_once_and_is_everywhere(wheel: Path) -> None:
    assert wheel.name == f"livetree-{PROJECT['version']}-py3-none-any.whl"


def test_a_wheel_in_a_clean_environment_starts_the_demo(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    install(place, "--require-hashes", "-r", str(ROOT / "requirements-run.lock"))
    install(place, "--no-deps", str(wheel))

    shown = subprocess.run(
        [place / "bin/livetree", "--version"], cwd=tmp_path, capture_output=True, text=True
    )
    assert PROJECT["version"] in shown.stdout

    output, port = tmp_path / "output", free_port()
    with output.open("w") as out:
        demo = subprocess.Popen(
            [place / "bin/livetree", "demo", "--port", str(port)],
            cwd=tmp_path,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        wait(lambda: ready(port) or demo.poll() is not None, output.read_text, COLD_SECONDS)
        assert demo.poll() is None, output.read_text()
    finally:
        demo.terminate()
        code = demo.wait(120)
    assert code == 0


def install(place: Path, *what: str) -> None:
    """Install into an environment, with uv where it is there."""
    uv = shutil.which("uv")
    python = str(place / "bin/python")
    command = [uv, "pip", "install", "--python", python] if uv else [python, "-m", "pip", "install"]
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    subprocess.run([*command, "-q", *what], env=environment, check=True, capture_output=True)


def ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
