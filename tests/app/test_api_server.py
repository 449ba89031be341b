"""The server as a process: start, stop, signals, exit codes."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.api.server import GracefulServer, Starter, bind, settle_collector
from app.checkpoint import CheckpointFolder
from app.errors import SettingsError, SourceError, policy_of
from app.training import BATCH
from streams import open_stream
from tests.app.fake_service import FakeService
from tests.port import free_port

ROOT = Path(__file__).parents[2]
DEADLINE_SECONDS = 300  # a cold compile on a slow machine


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """Return a file with some thousand events."""
    path = tmp_path / "events.jsonl"
    lines = [json.dumps(event) for event in open_stream("sea").events(3000)]
    path.write_text("\n".join(lines) + "\n")
    return path


class Process:
    """A `livetree serve` on a free port."""

    def __init__(self, events: Path, folder: Path, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.log = folder / "log.txt"
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("LIVETREE_")},
            "LIVETREE_SOURCE": "file",
            "LIVETREE_FILE__PATH": str(events),
            "LIVETREE_CHECKPOINT__FOLDER": str(folder / "checkpoints"),
            "LIVETREE_LOG_FORMAT": "json",
        }
        with self.log.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "app", "serve", "--port", str(port)],
                env=environment,
                cwd=ROOT,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def get(self, path: str) -> tuple[int, Any]:
        """Return status and body; status 0 while nothing listens."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as exc:
            return exc.code, exc.read()
        except OSError:
            return 0, b""

    def wait_until_ready(self) -> None:
        """Wait for readiness; fail with the log when the process ends before."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while self.get("/readyz")[0] != 200:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)

    def wait_until_learned(self, events: int) -> None:
        """Wait until the served model knows so many events."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while json.loads(self.get("/model")[1])["events"] < events:
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)

    def ended(self) -> int:
        """Return the exit code once the process has ended."""
        return self.process.wait(DEADLINE_SECONDS)


@pytest.fixture
def process(events: Path, tmp_path: Path) -> Iterator[Process]:
    """Return a running service; it is gone after the test, whatever happens."""
    running = Process(events, tmp_path, free_port())
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.kill()
            running.process.wait()


def test_an_interrupt_ends_the_service_cleanly_with_a_checkpoint(
    process: Process, tmp_path: Path
) -> None:
    process.wait_until_ready()
    process.wait_until_learned(3000)

    process.process.send_signal(signal.SIGINT)  # SIGTERM: see the walk

    assert process.ended() == 0, process.log.read_text()
    saved = CheckpointFolder(tmp_path / "checkpoints").load()
    assert saved is not None
    assert saved.events == 3000
    shown = subprocess.run(
        [sys.executable, "-m", "app", "tree", "--checkpoint", str(tmp_path / "checkpoints")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "3,000 events" in shown.stdout


def test_the_probes_answer_while_the_learner_is_not_there_yet(process: Process) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while (status := process.get("/livez")[0]) == 0:
        assert time.monotonic() < deadline, process.log.read_text()
        time.sleep(0.02)

    assert status == 200


def test_a_learner_that_cannot_start_ends_the_process_with_its_exit_code(
    events: Path, tmp_path: Path
) -> None:
    folder = CheckpointFolder(tmp_path / "checkpoints")
    folder.acquire()
    try:
        process = Process(events, tmp_path, free_port())

        assert process.ended() == 4, process.log.read_text()
        assert "in use by another learner" in process.log.read_text()
    finally:
        folder.release()


def test_a_port_that_is_taken_is_a_settings_error_in_one_line() -> None:
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(SettingsError, match=f"cannot listen on 127.0.0.1:{port}: address al"):
            bind("127.0.0.1", port)


def test_an_address_that_is_not_ours_is_a_settings_error() -> None:
    with pytest.raises(SettingsError, match=r"cannot listen on 192\.0\.2\.1:0"):
        bind("192.0.2.1", 0)


def server_of(service: Any) -> GracefulServer:
    """Return a server that does not run."""
    import uvicorn

    return GracefulServer(uvicorn.Config(lambda: None), service, Starter(service, None))


def test_the_first_signal_takes_the_service_out_of_rotation_at_once() -> None:
    service = FakeService()

    server_of(service).handle_exit(signal.SIGTERM, None)

    assert service.calls == ["begin_shutdown"]
    assert service.ready() == (False, "shutting down")


def test_the_second_signal_ends_the_process_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    server = server_of(FakeService())

    server.handle_exit(signal.SIGTERM, None)
    server.handle_exit(signal.SIGINT, None)

    assert codes == [130]


def test_a_failed_learner_ends_the_server() -> None:
    import asyncio

    service = FakeService()
    server = server_of(service)

    assert asyncio.run(server.on_tick(1)) is False
    service.failure = SourceError("the broker went away")

    assert asyncio.run(server.on_tick(2)) is True
    assert service.shutting_down
    assert server.failure is not None
    assert policy_of(server.failure).exit_code == 3


def test_a_service_that_ends_before_it_began_does_not_start_to_learn() -> None:
    service: Any = FakeService()
    starter = Starter(service, lambda: starter.cancel())

    starter.run()

    assert service.calls == []


def test_a_failure_at_the_start_is_kept() -> None:
    service: Any = FakeService()

    def failing() -> None:
        raise SourceError("no kernel")

    starter = Starter(service, failing)
    starter.run()

    assert isinstance(starter.failure, SourceError)


def test_a_batch_of_events_starts_no_garbage_collection() -> None:
    before = gc.get_threshold()
    try:
        settle_collector()
        assert gc.get_threshold()[0] > BATCH
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
