"""Disks that refuse: learning and answering go on, the old checkpoint stays, the next one comes."""

from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from app import wiring
from app.checkpoint import CheckpointFolder
from app.errors import CheckpointUnwritable
from app.wiring import Service
from tests.app.conftest import events
from tests.app.test_checkpoint import checkpoint
from tests.app.test_wiring import learn_to, model_of
from tests.faults.conftest import given, settings_on
from tests.faults.served import Served, wait
from tests.kafka.broker import Kafka

OFTEN = {"every_events": 100}
TOO_SMALL_BYTES = 512


def limit_files(process: int, most_bytes: int) -> None:
    """Let the kernel refuse longer files of a running process, as a full disk would."""
    _, hard = resource.prlimit(process, resource.RLIMIT_FSIZE)
    resource.prlimit(process, resource.RLIMIT_FSIZE, (most_bytes, hard))


def kept_events(folder: Path) -> int:
    found = CheckpointFolder(folder).load()
    return found.events if found is not None else 0


def failed(service: Service) -> float | None:
    """Return how many checkpoints were refused so far."""
    return service.metrics.registry.get_sample_value(
        "livetree_checkpoints_total", {"outcome": "failed"}
    )


def straight_hash(kafka: Kafka, topic: str, folder: Path, records: int) -> str:
    """Return the model of a learner that met no fault."""
    learn_to(wiring.build(settings_on(kafka, topic, folder)), records)
    return model_of(folder)


def test_a_disk_without_room_costs_nothing_once_there_is_room_again(
    kafka: Kafka, serve: Callable[..., Served], tmp_path: Path
) -> None:
    topic, folder = kafka.topic(), tmp_path / "checkpoints"
    settings = given(kafka, topic, folder, checkpoint=OFTEN)
    served = serve(settings)
    kafka.send(topic, *events(300))
    served.wait(lambda: kept_events(folder) == 300)

    limit_files(served.process.pid, TOO_SMALL_BYTES)
    kafka.send(topic, *events(300, seed=2))
    refused = served.wait_for("checkpoint not written", times=2)
    served.wait_until_learned(600)

    assert "File too large" in refused["reason"]
    assert refused["level"] == "error"
    assert refused["next_attempt_seconds"] == 2.0  # after the one a second later
    assert served.metric("livetree_checkpoints_total", outcome="failed") >= 2
    assert served.predicts()
    assert served.get("/readyz")[0] == 200
    assert served.get("/livez")[0] == 200
    assert kept_events(folder) == 300
    assert not list(folder.glob("*.tmp"))

    limit_files(served.process.pid, resource.RLIM_INFINITY)
    served.wait(lambda: kept_events(folder) == 600)  # by itself, without a new event
    assert served.terminate() == 0, served.log
    assert model_of(folder) == straight_hash(kafka, topic, tmp_path / "straight", 600)


def test_a_final_checkpoint_that_fails_is_an_exit_code(
    kafka: Kafka, serve: Callable[..., Served], tmp_path: Path
) -> None:
    topic, folder = kafka.topic(), tmp_path / "checkpoints"
    settings = given(kafka, topic, folder, checkpoint={"every_events": 300})
    served = serve(settings)
    kafka.send(topic, *events(300))
    served.wait(lambda: kept_events(folder) == 300)
    limit_files(served.process.pid, TOO_SMALL_BYTES)
    kafka.send(topic, *events(200, seed=2))
    served.wait_until_learned(500)

    assert served.terminate() == 4, served.log
    (end,) = served.said("the learner failed")
    assert end["kind"] == "CheckpointUnwritable"
    assert f"checkpoint folder '{folder}' refuses a file: File too large" in end["error"]

    learn_to(wiring.build(settings_on(kafka, topic, folder)), 500)
    assert model_of(folder) == straight_hash(kafka, topic, tmp_path / "straight", 500)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a file system of its own with room for very little; skips without the right to."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(place)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("no `mount`; a refused file is tested by a limit on its size all the same")
    if mounted.returncode != 0:
        pytest.skip(f"no right to mount a small disk ({mounted.stderr.strip()})")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1024))


def test_a_full_file_system_is_waited_out(kafka: Kafka, small_disk: Path, tmp_path: Path) -> None:
    topic, folder = kafka.topic(), small_disk / "checkpoints"
    service = wiring.build(settings_on(kafka, topic, folder, checkpoint=OFTEN))
    kafka.send(topic, *events(200))
    service.start()
    wait(lambda: kept_events(folder) == 200)

    ballast = small_disk / "ballast"
    with pytest.raises(OSError, match="No space left"):
        fill(ballast)
    with capture_logs() as entries:
        kafka.send(topic, *events(200, seed=2))
        wait(lambda: failed(service))
    assert any("No space left on device" in entry.get("reason", "") for entry in entries)
    assert kept_events(folder) == 200
    assert service.ready()[0]

    ballast.unlink()
    wait(lambda: kept_events(folder) == 400)
    service.stop()
    assert service.failure is None
    assert model_of(folder) == straight_hash(kafka, topic, tmp_path / "straight", 400)


class Disk:
    """A disk that refuses one operation of a checkpoint while it is `broken`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, operation: str, code: int) -> None:
        self.broken = False
        self.done: list[str] = []
        self._operation, self._code = operation, code
        for name in ("open", "rename", "unlink"):
            monkeypatch.setattr(Path, name, self._wrapped(getattr(Path, name), name))
        monkeypatch.setattr(os, "fsync", self._syncing(os.fsync))

    def _meet(self, name: str) -> None:
        self.done.append(name)
        if self.broken and name in self._operation.split(" and "):
            raise OSError(self._code, os.strerror(self._code))

    def _wrapped(self, real: Callable[..., Any], name: str) -> Callable[..., Any]:
        def operate(path: Path, *more: Any, **named: Any) -> Any:
            if path.suffix == ".tmp":
                self._meet(name)
            return real(path, *more, **named)

        return operate

    def _syncing(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def sync(descriptor: int) -> None:
            folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
            self._meet("sync folder" if folder else "sync")
            real(descriptor)

        return sync


REFUSALS = [
    ("open", errno.EROFS),
    ("open and unlink", errno.EACCES),
    ("sync", errno.EIO),
    ("sync and unlink", errno.EIO),
    ("rename", errno.ENOSPC),
    ("sync folder", errno.EIO),
]


@pytest.mark.parametrize(("operation", "code"), REFUSALS)
def test_no_step_of_a_checkpoint_that_is_refused_harms_the_one_before(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str, code: int
) -> None:
    topic, folder = kafka.topic(), tmp_path / "checkpoints"
    service = wiring.build(settings_on(kafka, topic, folder, checkpoint=OFTEN))
    disk = Disk(monkeypatch, operation, code)
    kafka.send(topic, *events(200))
    service.start()
    wait(lambda: kept_events(folder) == 200)

    disk.broken = True
    kafka.send(topic, *events(200, seed=2))
    wait(lambda: failed(service))
    # When the folder alone is not synced the new file is there, and whole; only its name is not
    # safe yet.
    assert kept_events(folder) in ({200, 400} if operation == "sync folder" else {200})
    assert service.alive()
    assert service.ready()[0]
    committed = kafka.committed(topic, "livetree")

    disk.broken = False
    written = service.metrics.checkpoints.labels("written")
    before = written._value.get()
    wait(lambda: written._value.get() > before)
    service.stop()

    assert committed == 200
    assert service.failure is None
    assert not list(folder.glob("*.tmp"))
    assert model_of(folder) == straight_hash(kafka, topic, tmp_path / "straight", 400)


def test_after_a_failed_sync_the_file_is_written_anew_and_not_only_synced_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = CheckpointFolder(tmp_path)
    folder.acquire()
    disk = Disk(monkeypatch, "sync", errno.EIO)
    disk.broken = True
    with pytest.raises(CheckpointUnwritable, match="Input/output error"):
        folder.save(checkpoint(1))
    disk.broken = False

    folder.save(checkpoint(2))
    folder.release()

    assert disk.done == ["open", "sync", "unlink", "open", "sync", "rename", "sync folder"]


def test_an_old_checkpoint_that_cannot_be_removed_does_not_spoil_the_new_one(
    tmp_path: Path,
) -> None:
    folder = CheckpointFolder(tmp_path, keep=1)
    folder.acquire()
    (tmp_path / "000000000001.checkpoint").mkdir()

    with capture_logs() as entries:
        folder.save(checkpoint(2))
    folder.release()

    assert [entry["event"] for entry in entries] == ["file not removed"]
    assert kept_events(tmp_path) == 2


def test_a_folder_that_cannot_be_written_ends_the_start(
    kafka: Kafka, serve: Callable[..., Served], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    served = serve(given(kafka, kafka.topic(), tmp_path / "file" / "checkpoints"))

    assert served.ended() == 4, served.log
    (end,) = served.said("the learner failed")
    assert end["kind"] == "CheckpointUnwritable"
    assert "expected a writable folder with room (LIVETREE_CHECKPOINT__FOLDER)" in end["error"]
