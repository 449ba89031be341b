"""A batch of messages in the Kafka client's own memory, as records that are made for who asks.

A batch holds until the next one is taken; then its memory is the client's again. What outlives it
(records that were made, rows that were read) was copied.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt
from confluent_kafka import KafkaError

from app.header import UNREADABLE_HEADERS
from app.kernels.messages import (
    Columns,
    Functions,
    count_headers,
    destroy,
    find_headers,
    join,
    look_at,
)
from app.librdkafka import NUMBER, POINTER, SIZE, TEXT, address, functions
from app.message import Delivery, Fault
from app.source import Headers, Record, Records
from app.values import NO_VALUE, Bytes, Longs, Values

PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "rd_kafka_message_timestamp": (ctypes.c_int64, [POINTER, POINTER]),
    "rd_kafka_message_headers": (NUMBER, [POINTER, POINTER]),
    "rd_kafka_header_cnt": (SIZE, [POINTER]),
    "rd_kafka_header_get_all": (NUMBER, [POINTER, SIZE, POINTER, POINTER, POINTER]),
    "rd_kafka_message_destroy": (None, [POINTER]),
    "rd_kafka_message_errstr": (TEXT, [POINTER]),
}


class Memory:
    """The client's memory of one batch: its messages, until they are let go."""

    def __init__(self) -> None:
        self._library = functions(PROTOTYPES)
        self.functions = Functions(
            *(address(getattr(self._library, name)) for name in list(PROTOTYPES)[:5])
        )
        self._messages = np.empty(0, np.int64)
        self._spare = np.zeros(3, np.int64)  # where the library puts its answers
        self.batch = 0  # a number for each

    def hold(self, messages: Longs) -> Columns:
        """Take over messages by their addresses; returns what they hold."""
        self.release()
        self._messages = messages.copy()
        columns = Columns(self._messages, *np.empty((9, len(messages)), np.int64))
        look_at(self.functions, self._spare, columns)
        return columns

    def rehearse(self) -> None:
        """Have everything compiled, with no message at all."""
        nothing = np.empty(0, np.int64)
        self.hold(nothing)
        self._headers(nothing)

    def release(self) -> None:
        """Give the messages back; nothing of the batch may be read any more."""
        messages, self._messages = self._messages, np.empty(0, np.int64)
        self.batch += 1
        destroy(self.functions, messages)

    def fault(self, columns: Columns, place: int) -> Fault:
        """Return what a faulty message says."""
        words: bytes = self._library.rd_kafka_message_errstr(int(columns.message[place])) or b""
        error = KafkaError(int(columns.error[place]), words.decode("utf-8", "replace"))
        return Fault(error, int(columns.partition[place]), int(columns.offset[place]))

    def headers(self, headers: Longs) -> list[Headers | None]:
        """Return the headers of each message; where a name is not UTF-8, one that says so."""
        return self._headers(headers) if headers.any() else [None] * len(headers)

    def _headers(self, headers: Longs) -> list[Headers | None]:
        counts = np.empty(len(headers), np.int64)
        total = count_headers(self.functions, headers, counts)
        names, values = np.empty((2, total), np.int64), np.empty((2, total), np.int64)
        find_headers(self.functions, headers, counts, self._spare, names, values)
        pairs = zip(_cut(names[0], names[1]), _cut(values[0], values[1]), strict=True)
        return [self._named(pairs, count) for count in counts.tolist()]

    def _named(self, pairs: Iterator[tuple[Any, bytes | None]], count: int) -> Headers | None:
        own = [next(pairs) for _ in range(count)]
        try:
            return [(name.decode(), value) for name, value in own] or None
        except UnicodeDecodeError:
            return [UNREADABLE_HEADERS]


class RawMessages(Delivery):
    """Messages without errors, of one topic."""

    def __init__(self, topic: str, memory: Memory, columns: Columns) -> None:
        self._topic, self._memory, self._columns = topic, memory, columns
        self._batch = memory.batch

    def __len__(self) -> int:
        return len(self._columns.message)

    @overload
    def __getitem__(self, place: int) -> Record: ...
    @overload
    def __getitem__(self, place: slice) -> Records: ...
    def __getitem__(self, place: int | slice) -> Record | Records:
        if isinstance(place, slice):
            return self._some(place)
        place = range(len(self))[place]
        return next(iter(self._some(slice(place, place + 1))))

    def _some(self, places: Any) -> RawMessages:
        columns = Columns(*(column[places] for column in self._columns))
        part = RawMessages(self._topic, self._memory, columns)
        part._batch = self._batch
        return part

    def __iter__(self) -> Iterator[Record]:
        """Make every record."""
        columns = self._held()
        keys = _cut(columns.key, columns.key_length)
        places = zip(columns.partition.tolist(), columns.offset.tolist(), strict=True)
        of_all = zip(
            places, keys, self.values(), columns.stamp.tolist(), self.headers(), strict=True
        )
        for (partition, offset), key, value, stamp, headers in of_all:
            yield Record(self._topic, partition, offset, key, value, stamp, headers)

    def _held(self) -> Columns:
        if self._batch != self._memory.batch:
            raise RuntimeError("these messages are read after the next ones were taken")
        return self._columns

    def values(self) -> RawValues:
        """Return the value of each message."""
        columns = self._held()
        return RawValues(columns.value, columns.length, self)

    def headers(self) -> Sequence[Headers | None]:
        """Return the headers of each message."""
        return self._memory.headers(self._held().headers)

    def has_headers(self) -> bool:
        """Whether any message has some."""
        return bool(self._columns.headers.any())

    def timestamps_ms(self, step: int = 1) -> npt.NDArray[np.float64]:
        """Return the time of every so many-th message."""
        return self._columns.stamp[::step].astype(np.float64)

    def ends(self) -> tuple[dict[int, int], dict[int, int]]:
        """Return the first and the last offset of each partition."""
        partitions, offsets = self._columns.partition, self._columns.offset
        if len(self) and (partitions == partitions[0]).all():
            only = int(partitions[0])
            return {only: int(offsets[0])}, {only: int(offsets[-1])}
        names, first = np.unique(partitions, return_index=True)
        last = len(self) - 1 - np.unique(partitions[::-1], return_index=True)[1]
        of = names.tolist()
        return (
            dict(zip(of, offsets[first].tolist(), strict=True)),
            dict(zip(of, offsets[last].tolist(), strict=True)),
        )

    def since(self, positions: Mapping[int, int]) -> RawMessages:
        """Return the messages that do not lie before the position in their partition."""
        wanted = [positions.get(partition, 0) for partition in self._columns.partition.tolist()]
        return self._some(self._columns.offset >= np.array(wanted, np.int64))


class RawValues(Values):
    """Values in the client's memory."""

    def __init__(self, starts: Longs, lengths: Longs, messages: RawMessages) -> None:
        self._starts, self._lengths, self._messages = starts, lengths, messages

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, place: int) -> bytes | None: ...
    @overload
    def __getitem__(self, place: slice) -> Values: ...
    def __getitem__(self, place: int | slice) -> bytes | Values | None:
        if isinstance(place, slice):
            return self.chosen(place)
        self._messages._held()
        start, length = int(self._starts[place]), int(self._lengths[place])
        return ctypes.string_at(start, length) if start else None

    def __iter__(self) -> Iterator[bytes | None]:
        self._messages._held()
        return _cut(self._starts, self._lengths)

    def lengths(self) -> Longs:
        """Return the number of bytes of each."""
        return np.where(self._starts == 0, NO_VALUE, self._lengths)

    def chosen(self, places: Any) -> Values:
        """Return those at some places."""
        return RawValues(self._starts[places], self._lengths[places], self._messages)

    def joined(self, gap: int, room: int) -> Bytes:
        """Return all one after the other."""
        self._messages._held()
        return _joined(self._starts, self._lengths, gap, room)


def _joined(starts: Longs, lengths: Longs, gap: int, room: int) -> Bytes:
    text = np.empty(int(lengths.sum()) + gap * len(lengths) + room, np.uint8)
    join(starts, lengths, gap, text)
    return text


def _cut(starts: Longs, lengths: Longs) -> Iterator[bytes | None]:
    """Yield a copy of the bytes at each address, None for no address."""
    text = _joined(starts, lengths, 0, 0).tobytes()
    ends = np.cumsum(lengths)
    for start, begin, end in zip(
        starts.tolist(), (ends - lengths).tolist(), ends.tolist(), strict=True
    ):
        yield text[begin:end] if start else None
