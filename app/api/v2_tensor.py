"""Tensors of the Open Inference Protocol, as JSON or as bytes behind it; a column a feature.

Data in JSON may be flat or nested as the shape is, and null is a missing value, as NaN is in
bytes. A text in bytes comes after its length, four bytes, the lowest first.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from app.api.problems import Refused
from app.render import label_words
from learner import Feature, Kind, Value

BYTES, BOOL, INT64, FP64 = "BYTES", "BOOL", "INT64", "FP64"
NUMBERS = {
    BOOL: np.dtype("?"),
    **{f"INT{8 * size}": np.dtype(f"<i{size}") for size in (1, 2, 4, 8)},
    **{f"UINT{8 * size}": np.dtype(f"<u{size}") for size in (1, 2, 4, 8)},
    **{f"FP{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
}
SIZE = "binary_data_size"
LENGTH = struct.Struct("<I")
LARGEST = 2**63

Parameters = dict[str, Any]


class RequestInput(msgspec.Struct):
    """One column: the name of a feature, and its values."""

    name: str
    shape: list[int]
    datatype: str
    parameters: Parameters = {}
    data: list[Any] | UnsetType = UNSET


class ResponseOutput(msgspec.Struct, omit_defaults=True):
    """One column of the answer."""

    name: str
    shape: list[int]
    datatype: str
    parameters: Parameters = {}
    data: list[Any] | UnsetType = UNSET


def read_columns(
    inputs: Sequence[RequestInput], behind: bytes, features: Sequence[Feature], max_rows: int
) -> list[dict[str, Any]]:
    """Return the rows of a request, each a mapping; raises Refused."""
    if not inputs:
        raise Refused(
            400, "field 'inputs' is empty; expected a tensor for each feature that is known"
        )
    known = {feature.name: feature for feature in features}
    columns: dict[str, list[Any]] = {}
    for tensor, raw in _with_bytes(inputs, behind):
        if tensor.name not in known:
            detail = "is no feature of the model; expected one that the model's metadata lists"
            raise Refused(400, f"input '{tensor.name:.80}' {detail}")
        if tensor.name in columns:
            raise Refused(400, f"input '{tensor.name:.80}' is there twice; expected it once")
        columns[tensor.name] = _column(tensor, raw, known[tensor.name].kind)
    rows = {len(column) for column in columns.values()}
    if len(rows) > 1:
        found = ", ".join(f"'{name:.40}' has {len(each)}" for name, each in columns.items())
        raise Refused(400, f"inputs differ in their rows: {found:.400}; expected as many in each")
    count = rows.pop()
    if not 1 <= count <= max_rows:
        status = 413 if count else 400
        raise Refused(status, f"inputs have {count} rows; expected 1 to {max_rows}")
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def _with_bytes(
    inputs: Sequence[RequestInput], behind: bytes
) -> Iterator[tuple[RequestInput, bytes | None]]:
    """Yield each tensor with its part of the bytes behind the JSON, if it says that it has one."""
    at = 0
    for tensor in inputs:
        size = tensor.parameters.get(SIZE)
        if size is None:
            yield tensor, None
            continue
        if type(size) is not int or not 0 <= size <= len(behind) - at:
            detail = f"expected a whole number, at most the {len(behind) - at} bytes that are left"
            raise Refused(400, f"input '{tensor.name:.80}': {SIZE} is {size!r:.40}; {detail}")
        yield tensor, behind[at : at + size]
        at += size
    if at != len(behind):
        left = len(behind) - at
        raise Refused(400, f"{left} bytes follow the last tensor; expected none")


def _column(tensor: RequestInput, raw: bytes | None, kind: Kind) -> list[Any]:
    """Return the values of a feature, a row each; of a set the list of its tokens."""
    name, shape = f"input '{tensor.name:.80}'", tensor.shape
    if tensor.datatype != BYTES and tensor.datatype not in NUMBERS:
        expected = f"{BYTES}, {', '.join(NUMBERS)}"
        raise Refused(400, f"{name}: datatype is '{tensor.datatype:.40}'; expected {expected}")
    is_set = kind == Kind.SPARSE
    wide = len(shape) == 2 and (is_set or shape[1] == 1)
    if not (len(shape) == 1 or wide) or min(shape) < 0:
        expected = "[rows] or [rows, most tokens]" if is_set else "[rows] or [rows, 1]"
        raise Refused(400, f"{name}: shape is {shape!s:.80}; expected {expected}")
    values = _from_json(tensor, name) if raw is None else _from_bytes(tensor.datatype, raw, name)
    if len(values) != prod(shape):
        raise Refused(400, f"{name}: has {len(values)} values; expected {prod(shape)} by its shape")
    if not is_set:
        return values
    width = shape[1] if wide else 1
    return [
        [token for token in values[at * width : (at + 1) * width] if token not in (None, "")]
        for at in range(shape[0])
    ]


def _from_json(tensor: RequestInput, name: str) -> list[Any]:
    if tensor.data is UNSET:
        raise Refused(400, f"{name}: has neither data nor {SIZE}; expected one of them")
    values = tensor.data
    if len(tensor.shape) == 2 and values and all(isinstance(part, list) for part in values):
        values = [value for part in values for value in part]
    allowed = _allowed(tensor.datatype)
    for place, value in enumerate(values):
        if value is not None and type(value) not in allowed:
            detail = f"expected {tensor.datatype} or null"
            raise Refused(400, f"{name}: value {place} is {value!r:.80}; {detail}")
    return values


def _allowed(datatype: str) -> tuple[type, ...]:
    if datatype == BYTES:
        return (str,)
    if datatype == BOOL:
        return (bool,)
    return (int, float) if datatype.startswith("FP") else (int,)


def _from_bytes(datatype: str, raw: bytes, name: str) -> list[Any]:
    if datatype == BYTES:
        return _texts(raw, name)
    dtype = NUMBERS[datatype]
    if len(raw) % dtype.itemsize:
        detail = f"expected a multiple of {dtype.itemsize}, the size of {datatype}"
        raise Refused(400, f"{name}: {SIZE} is {len(raw)}; {detail}")
    values: list[Any] = np.frombuffer(raw, dtype).tolist()
    if dtype.kind == "f":
        values = [None if value != value else value for value in values]
    return values


def _texts(raw: bytes, name: str) -> list[Any]:
    found: list[str] = []
    at = 0
    while at < len(raw):
        start = at + LENGTH.size
        end = start + LENGTH.unpack_from(raw, at)[0] if start <= len(raw) else start
        if end > len(raw):
            raise Refused(
                400, f"{name}: text {len(found)} ends beyond its bytes; expected it whole"
            )
        try:
            found.append(raw[start:end].decode())
        except UnicodeDecodeError as exc:
            raise Refused(400, f"{name}: text {len(found)} is not UTF-8; expected that") from exc
        at = end
    return found


def datatype_of(values: Sequence[Value]) -> str:
    """Return the datatype of values such as these; texts where they are of several kinds."""
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return BOOL
    if kinds == {int} and all(-LARGEST <= value < LARGEST for value in values):  # type: ignore[operator]
        return INT64
    return FP64 if kinds and kinds <= {int, float} else BYTES


def column_of(values: Sequence[Value], datatype: str) -> list[Any]:
    """Return values as their datatype has them."""
    return [label_words(value) for value in values] if datatype == BYTES else list(values)


def to_bytes(values: Sequence[Any], datatype: str) -> bytes:
    """Return a flat column as bytes."""
    if datatype != BYTES:
        return np.array(values, NUMBERS[datatype]).tobytes()
    raw = [value.encode("utf-8", "surrogatepass") for value in values]
    return b"".join(LENGTH.pack(len(each)) + each for each in raw)


def input_metadata(features: Sequence[Feature]) -> list[Mapping[str, Any]]:
    """Return what a client may send."""
    return [
        {
            "name": feature.name,
            "datatype": FP64 if feature.kind == Kind.NUMERIC else datatype_of(feature.values),
            "shape": [-1, -1] if feature.kind == Kind.SPARSE else [-1],
        }
        for feature in features
    ]
