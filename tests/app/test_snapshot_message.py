"""A snapshot with what is known of it, as one message; whatever is wrong, all of it is refused."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from app.errors import ForeignSnapshot, SnapshotDamaged, SnapshotFormat, SnapshotRefused
from app.snapshot_message import DIGEST_BYTES, PREAMBLE, MessageReader
from tests.app.snapshots import answers, message, published


@pytest.mark.parametrize("leaves", ["mc", "nba"])
def test_what_is_known_of_a_snapshot_travels_with_it(leaves: str) -> None:
    sent = published(
        leaves=leaves, kappa=0.8, window_accuracy=0.95, window_kappa=None, window_events=1000
    )

    found = MessageReader("livetree").read(message(sent))

    assert answers(found) == answers(sent)
    assert found.snapshot.id == sent.snapshot.id
    for field in dataclasses.fields(sent):
        if field.name not in ("snapshot", "kept"):
            assert getattr(found, field.name) == getattr(sent, field.name), field.name


def test_a_snapshot_of_another_model_is_refused() -> None:
    with pytest.raises(ForeignSnapshot, match="'other'; expected 'livetree'"):
        MessageReader("livetree").read(message(published(), "other"))


def test_a_message_of_another_version_is_told_from_a_damaged_one() -> None:
    found = message(published())
    PREAMBLE.pack_into(found, 0, b"LIVETSNP", 7, 0)

    with pytest.raises(SnapshotFormat, match="7; expected 1"):
        MessageReader("livetree").read(found)


def test_a_header_that_was_exchanged_is_noticed() -> None:
    found = message(published())
    at = bytes(found).index(b'"events-0":600')
    found[at : at + 14] = b'"events-0":601'

    with pytest.raises(SnapshotDamaged, match="checksum"):
        MessageReader("livetree").read(found)


def test_a_header_of_another_snapshot_is_refused() -> None:
    with pytest.raises(SnapshotDamaged, match="in its header 'vfdt-7'"):
        MessageReader("livetree").read(message(published(), snapshot="vfdt-7", events=7))


@pytest.mark.parametrize(
    "wrong",
    [{"published_at": float("1e300")}, {"offsets": {"events-0": -1}}, {"accuracy": 2.0}],
    ids=str,
)
def test_a_header_with_nonsense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SnapshotDamaged, match="header"):
        MessageReader("livetree").read(message(published(), **wrong))


def test_every_changed_byte_is_noticed() -> None:
    good = message(published(60))
    reader = MessageReader("livetree")
    for place in range(0, len(good), 5):
        bad = memoryview(bytearray(good))
        bad[place] ^= 1
        with pytest.raises(SnapshotRefused):
            reader.read(bad)
    assert answers(reader.read(good)) == answers(published(60))


@pytest.mark.parametrize("kept", [0, 1, 15, 16, 79, 80, 500, -DIGEST_BYTES, -1])
def test_a_message_that_was_cut_off_is_refused(kept: int) -> None:
    with pytest.raises(SnapshotDamaged):
        MessageReader("livetree").read(message(published())[:kept])


@pytest.mark.parametrize(
    "garbage", [b"", b"\x00" * 200, b"LIVETSNP" + b"\xff" * 300, b"{}", b"LIVETREE" * 40]
)
def test_garbage_is_refused(garbage: bytes) -> None:
    with pytest.raises(SnapshotRefused):
        MessageReader("livetree").read(memoryview(bytearray(garbage)))


def test_the_header_is_json_that_a_person_can_read() -> None:
    found = message(published())
    _, _, length = PREAMBLE.unpack_from(found)

    header = msgspec.json.decode(found[PREAMBLE.size : PREAMBLE.size + length])

    assert header["model"] == "livetree"
    assert header["events"] == 600
    assert header["nodes"] >= 3
