"""A message cut into parts that a broker takes, and put together again: all of it or nothing.

    magic         8 bytes   b"LIVECHNK"
    version       4 bytes   little endian
    publication  16 bytes   which message it is a part of
    index, count  4 bytes each
    length        8 bytes   of the whole message
    the part

Parts of one message come in order. One that is missing, or parts of two messages among each other,
make no message: what was begun is given up.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from app.errors import SnapshotDamaged, SnapshotFormat, SnapshotIncomplete
from learner import Piece

MAGIC = b"LIVECHNK"
VERSION = 1
FRAME = struct.Struct("<8sI16sIIQ")


def parts_of(message: Sequence[Piece], publication: str, part_bytes: int) -> Iterator[bytes]:
    """Yield the message in parts of so many bytes at most, frame included."""
    whole, name = memoryview(b"".join(message)), bytes.fromhex(publication)
    room = part_bytes - FRAME.size
    count = max(1, -(-len(whole) // room))
    for index in range(count):
        part = whole[index * room : (index + 1) * room]
        yield FRAME.pack(MAGIC, VERSION, name, index, count, len(whole)) + part


class Assembly:
    """Puts the messages of one model together."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._publication = b""
        self._parts: list[memoryview] = []  # of the message that was begun

    def add(self, record: bytes) -> memoryview | None:
        """Return the message that this part completes, if it does; raises SnapshotRefused."""
        name, index, count, length, part = self._read(record)
        unfinished = len(self._parts)
        continues = name == self._publication and index == unfinished
        if not continues:
            self._publication, self._parts = name, []
            if index > 0:
                raise SnapshotIncomplete(
                    f"part {index + 1} of {count} of a snapshot came after {unfinished} parts of "
                    "this or another one; expected all of them in order"
                )
        self._parts.append(part)
        held = sum(map(len, self._parts))
        if held > length or (len(self._parts) == count) != (held == length):
            self._parts = []
            raise SnapshotDamaged(
                f"{index + 1} of {count} parts of a snapshot have {held} bytes; expected {length} "
                "in all of them"
            )
        if len(self._parts) < count:
            return None
        whole, self._parts = bytearray().join(self._parts), []
        return memoryview(whole)

    def _read(self, record: bytes) -> tuple[bytes, int, int, int, memoryview]:
        if len(record) <= FRAME.size or not record.startswith(MAGIC):
            raise SnapshotDamaged("a record on the topic is no part of a snapshot, or was cut off")
        _, version, name, index, count, length = FRAME.unpack_from(record)
        if version != VERSION:
            raise SnapshotFormat(
                f"a part of a snapshot is of version {version}; expected {VERSION}"
            )
        if not index < count or not 0 < length <= self._max_bytes:
            raise SnapshotDamaged(
                f"part {index + 1} of {count} of a snapshot of {length} bytes; expected at most "
                f"{self._max_bytes} bytes (LIVETREE_SNAPSHOTS__MAX_BYTES)"
            )
        return name, index, count, length, memoryview(record)[FRAME.size :]
