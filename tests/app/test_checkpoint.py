"""Checkpoints: whole or not at all, the newest whole one wins, one learner at a time."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.checkpoint import PREAMBLE, Checkpoint, CheckpointFolder, require_fit
from app.errors import (
    CheckpointLocked,
    CheckpointMismatch,
    CheckpointUnreadable,
    CheckpointUnwritable,
)
from app.handover import Handover
from learner import seal

SHAPING: dict[str, Any] = {"variant": "vfdt", "tree": {"tau": 0.05}, "schema": {"declared": None}}


def checkpoint(events: int = 10, **changed: Any) -> Checkpoint:
    arrays = bytes(range(256)) * events
    made = Checkpoint(
        model=arrays + seal([arrays])[0],
        offsets={0: events, 12: 3},
        topic="t",
        identity="cluster",
        events=events,
        created_at="2026-01-01T00:00:00Z",
        shaping=SHAPING,
        evaluation={"events": events, "last_actual": [0, 1]},
    )
    return dataclasses.replace(made, **changed)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[CheckpointFolder]:
    made = CheckpointFolder(tmp_path / "checkpoints", keep=2)
    made.acquire()
    yield made
    made.release()


def test_what_is_saved_is_what_is_loaded(folder: CheckpointFolder) -> None:
    size = folder.save(checkpoint())

    assert folder.load() == checkpoint()
    assert folder.files()[0].stat().st_size == size


def test_a_model_in_pieces_is_saved_as_the_same_in_one(folder: CheckpointFolder) -> None:
    arrays = checkpoint().model[:-32]
    folder.save(checkpoint(model=b"", unsealed=[arrays[:100], memoryview(arrays)[100:]]))

    found = folder.load()
    assert found == checkpoint()
    assert found.model_hash == seal([arrays])[1]


def test_a_file_of_the_first_version_is_still_read() -> None:
    """It has the model's hash in its header, and the model's own digest behind the model."""
    kept = checkpoint()
    header = {
        "offsets": {"0": 10, "12": 3}, "topic": "t", "identity": "cluster", "events": 10,
        "model_hash": kept.model_hash, "created_at": kept.created_at, "shaping": SHAPING,
        "evaluation": dict(kept.evaluation), "topic_id": None,
    }  # fmt: skip
    text = json.dumps(header).encode()
    body = PREAMBLE.pack(b"LIVETREE", 1, len(text)) + text + kept.model

    assert Checkpoint.from_bytes(body + hashlib.sha256(body).digest()) == kept


def test_equal_checkpoints_have_equal_bytes() -> None:
    assert checkpoint().to_bytes() == checkpoint(offsets={12: 3, 0: 10}).to_bytes()


def test_the_newest_wins_and_only_the_last_few_stay(folder: CheckpointFolder) -> None:
    for events in (1, 2, 3):
        folder.save(checkpoint(events))

    found = folder.load()

    assert found is not None
    assert found.events == 3
    assert len(folder.files()) == 2


def test_an_empty_folder_holds_none(folder: CheckpointFolder) -> None:
    assert folder.load() is None


@pytest.mark.parametrize("damage", ["cut", "flip a bit", "empty", "another version", "not ours"])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(
    folder: CheckpointFolder, damage: str
) -> None:
    folder.save(checkpoint(1))
    folder.save(checkpoint(2))
    newest = folder.files()[0]
    content = bytearray(newest.read_bytes())
    if damage == "flip a bit":
        content[len(content) // 2] ^= 1
    elif damage == "another version":
        content[8] = 99
    replaced = {"cut": bytes(content[:-100]), "empty": b"", "not ours": b"x" * 1000}
    newest.write_bytes(replaced.get(damage, bytes(content)))

    found = folder.load()

    assert found is not None
    assert found.events == 1
    folder.save(checkpoint(3))
    assert folder.files()[0].name > newest.name


@pytest.mark.parametrize("place", range(0, 3000, 97))
def test_no_single_wrong_byte_goes_unnoticed(place: int) -> None:
    content = bytearray(checkpoint().to_bytes())
    content[place % len(content)] ^= 0xFF

    with pytest.raises(CheckpointUnreadable):
        Checkpoint.from_bytes(bytes(content))


def test_checkpoints_of_which_none_is_readable_stop_the_start(folder: CheckpointFolder) -> None:
    folder.save(checkpoint())
    folder.files()[0].write_bytes(b"broken")

    with pytest.raises(
        CheckpointUnreadable, match=r"000000000001.checkpoint: .*; expected|cut off"
    ):
        folder.load()


def test_a_crash_while_writing_leaves_the_old_one(
    folder: CheckpointFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.save(checkpoint(1))

    def crash(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", crash)
    with pytest.raises(CheckpointUnwritable, match="No space left"):
        folder.save(checkpoint(2))
    monkeypatch.undo()

    found = folder.load()
    assert found is not None
    assert found.events == 1
    assert not list(folder.folder.glob("*.tmp"))


def test_the_file_that_was_dropped_is_written_over(folder: CheckpointFolder) -> None:
    """Also by a shorter one, and it is never taken for a checkpoint."""
    for events in range(1, 5):
        folder.save(checkpoint(events))
    spare = folder.folder / "spare"
    room = spare.stat().st_ino
    before = spare.stat().st_size
    assert len(folder.files()) == 2

    shorter = checkpoint(5, model=checkpoint(1).model)
    size = folder.save(shorter)

    newest = folder.files()[0]
    assert newest.stat().st_ino == room
    assert newest.stat().st_size == size == len(shorter.to_bytes()) < before
    assert folder.load() == shorter
    assert [Checkpoint.from_bytes(p.read_bytes()).events for p in folder.files()] == [5, 4]
    assert spare.stat().st_ino != room


def test_a_model_that_cannot_be_copied_to_its_end_makes_no_checkpoint(
    folder: CheckpointFolder,
) -> None:
    folder.save(checkpoint(1))
    copied = Handover()

    def pieces() -> Iterator[bytes]:
        yield checkpoint().model[:100]
        raise MemoryError

    with pytest.raises(MemoryError):
        copied.fill(pieces())
    with pytest.raises(RuntimeError, match="not whole"):
        folder.save(checkpoint(2, model=b"", unsealed=copied))

    found = folder.load()
    assert found is not None
    assert found.events == 1


def test_leftovers_of_a_crash_are_removed(tmp_path: Path) -> None:
    (tmp_path / "000000000009.tmp").write_bytes(b"half")
    folder = CheckpointFolder(tmp_path)

    folder.acquire()
    folder.release()

    assert folder.load() is None
    assert not list(tmp_path.glob("*.tmp"))


def test_a_second_learner_is_refused(folder: CheckpointFolder) -> None:
    second = CheckpointFolder(folder.folder)
    with pytest.raises(CheckpointLocked, match="in use by another learner"):
        second.acquire()

    folder.release()
    second.acquire()
    second.release()


def test_a_second_process_is_refused_and_the_lock_ends_with_a_process(
    folder: CheckpointFolder,
) -> None:
    code = (
        "import os, sys; from pathlib import Path; from app.checkpoint import CheckpointFolder\n"
        "CheckpointFolder(Path(sys.argv[1])).acquire(); os._exit(0)"
    )

    def other_process() -> str:
        command = [sys.executable, "-c", code, str(folder.folder)]
        return subprocess.run(command, capture_output=True, text=True, check=False).stderr

    assert "CheckpointLocked" in other_process()
    folder.release()
    assert other_process() == ""
    folder.acquire()


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(CheckpointUnwritable, match="LIVETREE_CHECKPOINT__FOLDER"):
        CheckpointFolder(tmp_path / "file" / "folder").acquire()


def test_a_checkpoint_of_other_settings_is_refused_with_the_difference() -> None:
    with pytest.raises(CheckpointMismatch) as caught:
        require_fit(checkpoint(), {**SHAPING, "tree": {"tau": 0.1}}, "u", {})

    said = str(caught.value)
    assert "tree.tau is 0.1, in the checkpoint 0.05" in said
    assert "topic is 'u', in the checkpoint 't'" in said


def test_the_same_settings_fit() -> None:
    require_fit(checkpoint(), SHAPING, "t", {})


def test_a_setting_younger_than_the_checkpoint_fits_with_its_default_only() -> None:
    defaults = {**SHAPING, "tree": {"tau": 0.05, "young": 1}}
    require_fit(checkpoint(), {**SHAPING, "tree": {"tau": 0.05, "young": 1}}, "t", defaults)

    with pytest.raises(CheckpointMismatch, match=r"tree\.young is 2, in the checkpoint 1"):
        require_fit(checkpoint(), {**SHAPING, "tree": {"tau": 0.05, "young": 2}}, "t", defaults)


def test_a_reader_beside_a_learner_finds_a_checkpoint_although_files_come_and_go(
    tmp_path: Path,
) -> None:
    folder = CheckpointFolder(tmp_path, keep=1)
    done = threading.Event()

    def learner() -> None:
        for number in range(300):
            folder.save(checkpoint(events=number))
        done.set()

    folder.save(checkpoint(events=0))
    writer = threading.Thread(target=learner)
    writer.start()
    while not done.is_set():
        assert CheckpointFolder(tmp_path).load() is not None
    writer.join()
