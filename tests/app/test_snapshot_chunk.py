"""Messages in parts: put together as a whole, or not at all."""

from __future__ import annotations

import itertools
import random

import pytest

from app.errors import SnapshotDamaged, SnapshotFormat, SnapshotIncomplete, SnapshotRefused
from app.snapshot_chunk import FRAME, Assembly, parts_of

NAMES = ["aa" * 16, "bb" * 16]
MESSAGES = [bytes(range(256)) * 20, bytes(range(255, -1, -1)) * 13]
LIMIT = 10_000


def cut(which: int, part_bytes: int = 1000) -> list[bytes]:
    return list(parts_of([MESSAGES[which][:99], MESSAGES[which][99:]], NAMES[which], part_bytes))


@pytest.mark.parametrize("part_bytes", [FRAME.size + 1, 100, 999, 5119, 5120, 5164, 9000])
def test_any_size_of_parts_gives_the_message(part_bytes: int) -> None:
    parts = cut(0, part_bytes)
    assembly = Assembly(LIMIT)

    found = [assembly.add(part) for part in parts]

    assert max(map(len, parts)) <= part_bytes
    assert found[:-1] == [None] * (len(parts) - 1)
    assert found[-1] == MESSAGES[0]


def test_no_disorder_ever_makes_a_message_that_nobody_sent() -> None:
    source = random.Random(5)
    pool = [*cut(0), *cut(1)]
    made = 0
    for _ in range(3000):
        assembly = Assembly(LIMIT)
        if source.random() < 0.5:
            stream = [source.choice(pool) for _ in range(20)]
        else:  # two writers among each other, or some parts lost
            stream = [part for part in pool * 2 if source.random() < 0.95]
        for part in stream:
            try:
                whole = assembly.add(part)
            except SnapshotRefused:
                continue
            if whole is not None:
                made += 1
                assert whole in MESSAGES
    assert made > 100


def test_a_message_that_is_begun_anew_is_whole() -> None:
    assembly, parts = Assembly(LIMIT), cut(0)
    for part in parts[:3]:
        assert assembly.add(part) is None

    found = [assembly.add(part) for part in parts]

    assert found[-1] == MESSAGES[0]


def test_a_lost_part_is_told() -> None:
    assembly, parts = Assembly(LIMIT), cut(0)
    assembly.add(parts[0])

    with pytest.raises(SnapshotIncomplete, match="part 3 of 6"):
        assembly.add(parts[2])
    for part in parts[3:]:
        with pytest.raises(SnapshotIncomplete):
            assembly.add(part)


@pytest.mark.parametrize("record", [b"", b"x" * 500, b"LIVECHNK", b"LIVECHNK" + bytes(36)])
def test_garbage_is_refused_and_disturbs_nothing(record: bytes) -> None:
    assembly, parts = Assembly(LIMIT), cut(0)
    for part in parts[:-1]:
        assembly.add(part)
    with pytest.raises((SnapshotDamaged, SnapshotFormat)):
        assembly.add(record)

    assert assembly.add(parts[-1]) == MESSAGES[0]


def test_parts_of_another_version_are_told_from_damaged_ones() -> None:
    record = bytearray(cut(0)[0])
    record[8] = 2

    with pytest.raises(SnapshotFormat, match="version 2; expected 1"):
        Assembly(LIMIT).add(bytes(record))


def test_a_message_beyond_the_limit_is_refused_at_its_first_part() -> None:
    with pytest.raises(SnapshotDamaged, match="expected at most 5119 bytes"):
        Assembly(5119).add(cut(0)[0])


@pytest.mark.parametrize(("at", "by"), list(itertools.product([0, 2, 5], [-1, 1])))
def test_a_part_of_another_length_is_refused(at: int, by: int) -> None:
    assembly, parts = Assembly(LIMIT), cut(0)
    parts[at] = parts[at][:by] if by < 0 else parts[at] + b"x"

    def add_all() -> list[memoryview | None]:
        return [assembly.add(part) for part in parts]

    with pytest.raises(SnapshotDamaged):
        add_all()
