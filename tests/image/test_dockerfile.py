"""What can be told of the image without building it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"^([a-z0-9-]+)==(\S+)(?: ; (.*?))? \\$", re.MULTILINE)


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_dockerfile_has_no_bad_habits() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    subprocess.run([hadolint, "Dockerfile"], cwd=ROOT, check=True)


@pytest.mark.parametrize("lock", ["requirements-run.lock", "requirements-ray.lock"])
def test_the_image_installs_what_the_tests_ran_with(lock: str) -> None:
    tested, shipped = PIN.findall(read("requirements.lock")), PIN.findall(read(lock))
    assert len(shipped) > 20
    assert {pin[:2] for pin in shipped} <= {pin[:2] for pin in tested}


def test_the_image_installs_nothing_that_only_developers_need() -> None:
    shipped = {name for name, *_ in PIN.findall(read("requirements-run.lock"))}
    assert not shipped & {"pytest", "ray", "onnx", "ruff", "mypy", "playwright", "helm-binary"}


def test_only_what_the_image_is_made_of_is_sent_to_the_builder() -> None:
    copied = {
        word
        for line in re.findall(r"^COPY (?!--from)(.*)$", read("Dockerfile"), re.MULTILINE)
        for word in line.split()[:-1]
    }
    allowed = {
        line.removeprefix("!")
        for line in read(".dockerignore").splitlines()
        if line.startswith("!")
    }
    assert copied == allowed
