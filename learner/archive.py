"""Named arrays as bytes: numbers and their shapes, nothing that runs when it is read.

    magic  format u32  count u32
    then for every array, in the order of the names:
    length u16  name   length u8  dtype   dimensions u8  sizes u64 ...   raw little-endian bytes
    and the SHA-256 of all before it

A whole model begins with b"LIVETREE". A snapshot begins with b"LIVESNAP", and zeros before the raw
bytes of each array let them begin at a multiple of 64, so that kernels can read them in place.

The digest finds accidents. Whoever can write the file can write the digest too, so reading trusts
nothing else either: no array reaches beyond the bytes that are there, and none is copied.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learner.errors import SnapshotError, SnapshotVersion

DIGEST = 32


class Form(NamedTuple):
    """What is told apart by the first bytes."""

    magic: bytes
    version: int
    alignment: int  # of the raw bytes of an array


MODEL = Form(b"LIVETREE", 3, 1)
SNAPSHOT = Form(b"LIVESNAP", 1, 64)

# All that a model is made of. Texts are looked up here and never parsed.
_TYPES = {np.dtype(code).str.encode(): np.dtype(code) for code in ("i1", "<i4", "<i8", "<f8", "u1")}
_MOST_DIMENSIONS = 4
_LONGEST = 1 << 31  # along one dimension; an empty array may be long along others

Array = npt.NDArray[Any]
Made = Callable[[], Array]
Piece = bytes | memoryview
Bytes = bytes | bytearray | memoryview


def pack(named: dict[str, Array]) -> bytes:
    """Arrays by name as bytes."""
    parts = list(Pieces(named))
    return b"".join([*parts, seal(parts)[0]])


class Pieces:
    """The bytes of ``pack`` up to the digest, one after the other; large arrays are not copied.

    An array that is a function is made when its turn comes.
    """

    def __init__(self, named: Mapping[str, Array | Made], form: Form = MODEL) -> None:
        self._named, self._form = named, form

    def __iter__(self) -> Iterator[Piece]:
        form, named = self._form, self._named
        begin = form.magic + struct.pack("<II", form.version, len(named))
        yield begin
        at = len(begin)
        for name in sorted(named):
            given = named[name]
            array = np.ascontiguousarray(given() if callable(given) else given)
            array = array.astype(array.dtype.newbyteorder("<"), copy=False)
            dtype = array.dtype.newbyteorder("<").str.encode()
            head = struct.pack("<H", len(name.encode())) + name.encode()
            head += struct.pack("<B", len(dtype)) + dtype + struct.pack("<B", array.ndim)
            head += struct.pack(f"<{array.ndim}Q", *array.shape)
            head += bytes(-(at + len(head)) % form.alignment)
            yield head
            yield array.reshape(-1).view(np.uint8).data
            at += len(head) + array.nbytes


def seal(parts: Iterable[Piece]) -> tuple[bytes, str]:
    """The digest that follows these bytes, and the SHA-256 of all with it: the model's hash."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    end = digest.digest()
    digest.update(end)
    return end, digest.hexdigest()


def unpack(data: Bytes, form: Form = MODEL) -> dict[str, Array]:
    """The arrays that ``pack`` wrote, as views of the bytes; raises SnapshotError."""
    if data[: len(form.magic)] != form.magic:
        raise SnapshotError(f"model bytes begin with {bytes(data[:8])!r}; expected {form.magic!r}")
    end = max(0, len(data) - DIGEST)
    reader = _Reader(data, len(form.magic), end, form.alignment)
    version, count = reader.numbers("<II")
    if version != form.version:
        raise SnapshotVersion(
            f"model format is {version}; this program reads format {form.version}"
        )
    if hashlib.sha256(memoryview(data)[:-DIGEST]).digest() != data[-DIGEST:]:
        raise SnapshotError("model bytes are damaged: their checksum does not hold")
    named: dict[str, Array] = {}
    last = ""
    for _ in range(count):
        name, array = reader.array()
        if named and name <= last:
            raise SnapshotError(
                f"model array {name!r:.80} follows {last!r:.80}; expected names in order, each once"
            )
        named[name] = array
        last = name
    if reader.at != reader.end:
        raise SnapshotError(
            f"model bytes go on for {reader.end - reader.at} bytes behind the last array; "
            "expected the checksum there"
        )
    return named


class _Reader:
    """Takes one thing after the other, and never from beyond the end."""

    def __init__(self, data: Bytes, at: int, end: int, alignment: int) -> None:
        self.data = data
        self.at = at
        self.end = end
        self.alignment = alignment

    def array(self) -> tuple[str, Array]:
        """The next name, and what it names."""
        (length,) = self.numbers("<H")
        name = self.raw(length, "a name").decode(errors="replace")
        (length,) = self.numbers("<B")
        code = self.raw(length, f"the type of array {name!r:.80}")
        if code not in _TYPES:
            raise SnapshotError(
                f"model array {name!r:.80} is of type {code.decode('latin-1')!r}; expected numbers"
            )
        (dimensions,) = self.numbers("<B")
        if dimensions > _MOST_DIMENSIONS:
            raise SnapshotError(
                f"model array {name!r:.80} has {dimensions} dimensions; "
                f"expected at most {_MOST_DIMENSIONS}"
            )
        shape = self.numbers(f"<{dimensions}Q")
        if max(shape, default=0) >= _LONGEST:
            raise SnapshotError(
                f"model array {name!r:.80} is {max(shape)} long; expected less than {_LONGEST}"
            )
        self.skip(-self.at % self.alignment, f"array {name!r:.80}")
        start = self.skip(math.prod(shape) * _TYPES[code].itemsize, f"array {name!r:.80}")
        array = np.frombuffer(self.data, _TYPES[code], math.prod(shape), start)
        return name, array.reshape(shape)

    def numbers(self, form: str) -> tuple[int, ...]:
        """The next whole numbers."""
        return struct.unpack(form, self.raw(struct.calcsize(form), "a number"))

    def raw(self, size: int, what: str) -> bytes:
        """The next bytes."""
        start = self.skip(size, what)
        return bytes(self.data[start : self.at])

    def skip(self, size: int, what: str) -> int:
        """Pass over the next bytes; returns where they begin."""
        if size > self.end - self.at:
            raise SnapshotError(
                f"model bytes end inside {what}; expected {size} more bytes, "
                f"found {self.end - self.at}"
            )
        self.at += size
        return self.at - size
