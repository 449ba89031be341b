"""Orders to a worker and what came of them, as bytes; arrays travel as they are."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from app.distributed.shared_rows import Laid
from learner import Child, Done, Drop, Known, LocalResult, Message, Wave

Array = npt.NDArray[Any]
ARRAY = 1  # code of an extension of msgpack
HEAD = struct.Struct("<3sB")  # of an array: type, dimensions; then its shape


class LaidBlock(NamedTuple):
    """A block whose events lie in memory that the worker reaches."""

    block: int
    laid: Laid


class Taken(NamedTuple):
    """What came of orders."""

    results: list[LocalResult]
    busy_seconds: float
    held_bytes: int


Order = Message | LaidBlock
KINDS = {kind.__name__: kind for kind in (Child, Done, Drop, Known, LaidBlock, Wave)}


def orders_bytes(orders: Sequence[tuple[int, Order]]) -> bytes:
    """Numbered orders as bytes."""
    return _encoder.encode([(number, type(order).__name__, order) for number, order in orders])


def orders_from(data: bytes) -> list[tuple[int, Order]]:
    """Return what orders_bytes was given."""
    return [(number, _order(kind, fields)) for number, kind, fields in _decoder.decode(data)]


def taken_bytes(taken: Taken) -> bytes:
    """What came of orders as bytes."""
    return _encoder.encode(taken)


def taken_from(data: bytes) -> Taken:
    """Return what taken_bytes was given."""
    results, busy_seconds, held_bytes = _decoder.decode(data)
    return Taken([LocalResult(*result) for result in results], busy_seconds, held_bytes)


def _order(kind: str, fields: list[Any]) -> Order:
    if kind == LaidBlock.__name__:
        fields[1] = Laid(*fields[1])
    order: Order = KINDS[kind](*fields)
    return order


def _of_array(array: Any) -> msgspec.msgpack.Ext:
    if not isinstance(array, np.ndarray):
        raise NotImplementedError(f"a {type(array).__name__} has no bytes")
    head = HEAD.pack(array.dtype.str.encode(), array.ndim) + struct.pack(
        f"<{array.ndim}q", *array.shape
    )
    return msgspec.msgpack.Ext(ARRAY, head + array.tobytes())


def _to_array(code: int, data: memoryview) -> Array:
    assert code == ARRAY
    kind, dimensions = HEAD.unpack_from(data)
    shape = struct.unpack_from(f"<{dimensions}q", data, HEAD.size)
    values = np.frombuffer(data, kind.decode(), offset=HEAD.size + 8 * dimensions)
    return values.reshape(shape).copy()  # kernels want it aligned, and as one that may be written


_encoder = msgspec.msgpack.Encoder(enc_hook=_of_array)
_decoder = msgspec.msgpack.Decoder(ext_hook=_to_array)
