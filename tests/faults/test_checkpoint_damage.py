"""Damaged checkpoints: the one before takes over, the events between are learned again."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from structlog.testing import capture_logs

from app import wiring
from app.checkpoint import DIGEST_BYTES, FORMAT_VERSION, PREAMBLE, Checkpoint, CheckpointFolder
from app.errors import CheckpointVersion, policy_of
from app.settings import Settings
from tests.app.conftest import events
from tests.app.test_wiring import learn_to, model_of
from tests.brokers import Broker
from tests.faults.conftest import given, settings_on
from tests.faults.served import Served
from tests.kafka.broker import Kafka

PASSED_OVER = "checkpoint unreadable, trying the one before"


class Learned(NamedTuple):
    """A topic of 900 events, and a folder with checkpoints after 300, 600 and 900."""

    broker: Broker
    topic: str
    folder: Path
    model_hash: str

    def copy(self, to: Path) -> Settings:
        shutil.copytree(self.folder, to)
        return settings_on(self.broker, self.topic, to)


@pytest.fixture(scope="module")
def learned(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Learned:
    topic, folder = kafka.topic(), tmp_path_factory.mktemp("learned") / "checkpoints"
    settings = settings_on(kafka, topic, folder)
    for part in (1, 2, 3):
        kafka.send(topic, *events(300, seed=part))
        learn_to(wiring.build(settings), 300 * part)
    return Learned(kafka, topic, folder, model_of(folder))


@pytest.fixture
def kept(learned: Learned, tmp_path: Path) -> Settings:
    """Return the settings of a learner that finds a copy of the three checkpoints."""
    return learned.copy(tmp_path / "checkpoints")


def newest(settings: Settings, place: int = 0) -> Path:
    return CheckpointFolder(settings.checkpoint.folder).files()[place]


def cut(to: float) -> Callable[[Path], None]:
    """Keep so many bytes: a share of the file, from its beginning or, below 0, up to its end."""

    def damage(path: Path) -> None:
        content = path.read_bytes()
        length = int(to * len(content)) if 0 < to < 1 else int(to)
        path.write_bytes(content[:length])

    return damage


def flip(place: float) -> Callable[[Path], None]:
    """Turn one bit round."""

    def damage(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[int(place * len(content)) if 0 < place < 1 else int(place)] ^= 4
        path.write_bytes(bytes(content))

    return damage


def become_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def spoil_the_model(path: Path) -> None:
    """Write a checkpoint that is whole, with a model in it that is not."""
    rewritten(path, lambda found: b"?" + found.model[1:])


def rewritten(path: Path, model: Callable[[Checkpoint], bytes]) -> None:
    found = Checkpoint.from_bytes(path.read_bytes())
    path.write_bytes(dataclasses.replace(found, model=model(found)).to_bytes())


DAMAGES: dict[str, Callable[[Path], None]] = {
    "empty": cut(0),
    "cut within the magic": cut(7),
    "cut after the preamble": cut(PREAMBLE.size),
    "cut within the header": cut(60),
    "cut within the model": cut(0.7),
    "cut before the digest": cut(-DIGEST_BYTES),
    "one byte short": cut(-1),
    "flipped magic": flip(0),
    "flipped version": flip(8),
    "flipped header length": flip(12),
    "flipped header": flip(50),
    "flipped model": flip(0.7),
    "flipped digest": flip(-1),
    "a folder": become_a_folder,
    "a spoilt model": spoil_the_model,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_newest_checkpoint_costs_time_only(
    damage: str, kept: Settings, learned: Learned
) -> None:
    damaged = newest(kept)
    DAMAGES[damage](damaged)
    leftover = damaged.with_suffix(".tmp")
    leftover.write_bytes(b"half a checkpoint")

    service = wiring.build(kept)
    with capture_logs() as entries:
        learn_to(service, 900)

    (passed_over,) = [entry for entry in entries if entry["event"] == PASSED_OVER]
    assert passed_over["path"] == str(damaged)
    assert passed_over["reason"]
    assert passed_over["log_level"] == "error"
    sample = service.metrics.registry.get_sample_value
    assert sample("livetree_checkpoints_total", {"outcome": "unreadable"}) == 1
    assert sample("livetree_events_consumed_total", {"topic": learned.topic}) == 300
    assert not leftover.exists()
    assert newest(kept).name > damaged.name
    assert model_of(kept.checkpoint.folder) == learned.model_hash


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Return a folder that other users may enter."""
    made = Path(tempfile.mkdtemp(prefix="livetree-test-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def test_a_checkpoint_that_may_not_be_read_is_passed_over_too(
    learned: Learned, open_folder: Path
) -> None:
    folder = CheckpointFolder(learned.copy(open_folder / "checkpoints").checkpoint.folder)
    folder.files()[0].chmod(0)

    root = os.geteuid() == 0
    if root:  # root reads everything
        os.seteuid(65534)
    try:
        with capture_logs() as entries:
            found = folder.load()
    finally:
        if root:
            os.seteuid(0)

    assert found is not None
    assert found.events == 600
    assert folder.unreadable == 1
    assert "Permission denied" in entries[0]["reason"]


def test_two_damaged_checkpoints_are_passed_over_both(kept: Settings, learned: Learned) -> None:
    DAMAGES["flipped model"](newest(kept, 0))
    DAMAGES["empty"](newest(kept, 1))

    service = wiring.build(kept)
    learn_to(service, 900)

    sample = service.metrics.registry.get_sample_value
    assert sample("livetree_checkpoints_total", {"outcome": "unreadable"}) == 2
    assert sample("livetree_events_consumed_total", {"topic": learned.topic}) == 600
    assert model_of(kept.checkpoint.folder) == learned.model_hash


def test_checkpoints_that_are_all_damaged_end_the_process_with_exit_code_4(
    kept: Settings, learned: Learned, serve: Callable[..., Served]
) -> None:
    for path in CheckpointFolder(kept.checkpoint.folder).files():
        DAMAGES["flipped model"](path)

    served = serve(given(learned.broker, learned.topic, kept.checkpoint.folder))

    assert served.ended() == 4, served.log
    assert len(served.said(PASSED_OVER)) == 3
    (end,) = served.said("the learner failed")
    assert end["kind"] == "CheckpointUnreadable"
    assert "no checkpoint in" in end["error"]
    assert "000000000001.checkpoint: its checksum does not fit" in end["error"]
    assert len(list(kept.checkpoint.folder.glob("*.checkpoint"))) == 3


def of_a_newer_format(path: Path) -> None:
    body = bytearray(path.read_bytes()[:-DIGEST_BYTES])
    struct.pack_into("<I", body, 8, FORMAT_VERSION + 1)
    path.write_bytes(bytes(body) + hashlib.sha256(body).digest())


def with_a_newer_model(path: Path) -> None:
    rewritten(path, lambda found: found.model[:8] + b"\xff\x7f" + found.model[10:])


@pytest.mark.parametrize("change", [of_a_newer_format, with_a_newer_model])
def test_a_checkpoint_of_another_version_is_refused_and_left_alone(
    change: Callable[[Path], None], kept: Settings, learned: Learned
) -> None:
    foreign = newest(kept)
    change(foreign)
    content = foreign.read_bytes()

    service = wiring.build(kept)
    with pytest.raises(CheckpointVersion, match="written by another version") as caught:
        service.start()
    service.stop()

    assert str(foreign) in str(caught.value)
    assert policy_of(caught.value).exit_code == 4
    assert foreign.read_bytes() == content

    foreign.unlink()  # as the message says
    learn_to(wiring.build(kept), 900)
    assert model_of(kept.checkpoint.folder) == learned.model_hash


def test_a_checkpoint_without_a_topic_id_is_read_as_one_of_an_unknown_topic(
    kept: Settings, learned: Learned
) -> None:
    path = newest(kept)
    content = path.read_bytes()
    header_end = PREAMBLE.size + PREAMBLE.unpack_from(content)[2]
    found = Checkpoint.from_bytes(content)
    named = f',"topic_id":"{found.topic_id}"'.encode()
    header = content[PREAMBLE.size : header_end]
    assert header.count(named) == 1
    old = header.replace(named, b"")
    body = PREAMBLE.pack(b"LIVETREE", 1, len(old)) + old + found.model
    path.write_bytes(body + hashlib.sha256(body).digest())

    service = wiring.build(kept)
    learn_to(service, 900)

    sample = service.metrics.registry.get_sample_value
    assert sample("livetree_checkpoints_total", {"outcome": "unreadable"}) == 0
    assert service.consumer.source.topic_id == found.topic_id  # known again
    assert model_of(kept.checkpoint.folder) == learned.model_hash
