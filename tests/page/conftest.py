"""One Chromium, one demo and one service with keys for all tests of a process."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.process import DEADLINE_SECONDS, ROOT, Livetree
from tests.requirement import required_program

CHROMIUM_REQUIRED = "REQUIRE_CHROMIUM"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_SECONDS = 60  # on a machine that does much else
KEY = "a-key-of-the-page-tests"
MARKUP = "<img src=x onerror=alert(1)>"  # a label that would like to be more

expect.set_options(timeout=1000 * PATIENCE_SECONDS)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Return the browser's program; skips, or fails where it is required, without one."""
    return required_program("chromium", CHROMIUM_REQUIRED, "chromium")


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    """Return a browser without a window, gone after the module: it keeps an event loop running."""
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=chromium, args=FLAGS)


@pytest.fixture
def look(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Return an opener of pages; none of them may complain in the browser's console."""
    pages: list[Page] = []
    complaints: list[str] = []

    def open_page(url: str, *, complains: str = "^$", **options: object) -> Page:
        page = browser.new_page(viewport={"width": 1400, "height": 1000}, **options)  # type: ignore[arg-type]
        page.set_default_timeout(1000 * PATIENCE_SECONDS)
        pages.append(page)

        def note(text: str) -> None:
            if not re.search(complains, text):
                complaints.append(text)

        page.on("console", lambda message: message.type == "error" and note(message.text))
        page.on("pageerror", lambda error: note(str(error)))
        page.goto(url)
        return page

    yield open_page
    for page in pages:
        page.context.close()
    assert not complaints


@pytest.fixture(scope="session")
def demo(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a demo whose rule changes so often that its tree keeps growing."""
    log = tmp_path_factory.mktemp("demo") / "log.txt"
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "app", "demo", "--port", "0", "--drift-every", "4"],
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while "Ready." not in (text := log.read_text()):
            assert process.poll() is None, text
            assert time.monotonic() < deadline, text
            time.sleep(0.1)
        found = re.search(r"page +(http://\S+)", text)
        assert found, text
        yield found.group(1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_SECONDS) == 0, log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.fixture(scope="session")
def guarded(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a service that asks for a key, with labels that look like markup."""
    folder = tmp_path_factory.mktemp("guarded")
    rows = [{"a<b>": i % 100, "label": MARKUP if i % 100 > 50 else "plain"} for i in range(3000)]
    events = folder / "events.jsonl"
    events.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = folder / "livetree.yaml"
    settings = {
        "source": "file",
        "file": {"path": str(events)},
        "checkpoint": {"folder": str(Path(folder) / "checkpoints")},
        "tree": {"n_min": 50},
        "auth": {"keys": [KEY]},
        "log_format": "json",
    }
    config.write_text(yaml.safe_dump(settings))
    service = Livetree(config, folder / "log.txt")
    try:
        service.wait_until(lambda: service.get("/readyz").status == 200)
        yield service.url
    finally:
        service.kill()
