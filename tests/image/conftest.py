"""The image, built once by `make image`; skipped in one clear line where that cannot be."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.image.container import Container
from tests.image.containers import IMAGE, Unavailable, base_image, require_programs, run
from tests.requirement import missing

ROOT = Path(__file__).parents[2]
REQUIRED = "REQUIRE_PODMAN"
numbers = count()


@pytest.fixture(scope="session")
def image() -> str:
    """Return the name of the image, made from the sources as they are, for one variant."""
    try:
        require_programs()
        base = base_image()
    except Unavailable as exc:
        missing(f"no containers: {exc}", REQUIRED)
    arguments = f"--network host --build-arg BASE={base} --build-arg VARIANTS=vfdt"
    run("make", "image", f"IMAGE={IMAGE}", f"BUILD_ARGS={arguments}", cwd=ROOT)
    run("podman", "image", "prune", "--force", "--filter", "until=12h")  # layers of old sources
    return f"{IMAGE}:{run('make', '-s', 'version', cwd=ROOT)}"


@pytest.fixture
def start(image: str) -> Iterator[Callable[..., Container]]:
    """Return a starter of containers of the image; what it started is gone after the test."""
    started: list[Container] = []

    def make(*options: str, command: tuple[str, ...] = ()) -> Container:
        started.append(Container(image, f"livetree-test-{next(numbers)}", options, command))
        return started[-1]

    yield make
    for container in started:
        container.remove()


@pytest.fixture(scope="session")
def description(image: str) -> dict[str, Any]:
    """Return what the image says of itself."""
    (found,) = json.loads(run("podman", "image", "inspect", image))
    return dict(found)
