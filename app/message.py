"""A batch of Kafka's messages as records, which are made one by one, and only for who asks.

These are the client's own objects; app/raw_message.py does without them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self, overload

import numpy as np
import numpy.typing as npt
from confluent_kafka import KafkaError, Message

from app.header import headers_of
from app.source import Headers, Record, Records
from app.values import ListedValues, Values


class Fault(NamedTuple):
    """What a message says instead of bringing a record."""

    error: KafkaError
    partition: int | None
    offset: int | None


class Delivery(Records):
    """Records as they come from the broker, with their places in the topic."""

    @abstractmethod
    def ends(self) -> tuple[dict[int, int], dict[int, int]]:
        """Return the first and the last offset of each partition."""

    @abstractmethod
    def since(self, positions: Mapping[int, int]) -> Self:
        """Return the records that do not lie before the position in their partition."""


class Messages(Delivery):
    """Messages without errors, of one topic."""

    def __init__(self, topic: str, messages: list[Message]) -> None:
        self._topic = topic
        self._messages = messages
        self._headers: Sequence[Headers | None] | None = None

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, place: int) -> Record: ...
    @overload
    def __getitem__(self, place: slice) -> Records: ...
    def __getitem__(self, place: int | slice) -> Record | Records:
        if isinstance(place, slice):
            part = Messages(self._topic, self._messages[place])
            part._headers = self.headers()[place]
            return part
        message: Any = self._messages[place]
        return Record(
            self._topic,
            message.partition(),
            message.offset(),
            message.key(),
            message.value(),
            message.timestamp()[1],
            self.headers()[place],
        )

    def values(self) -> Values:
        """Return the value of each message."""
        return ListedValues(list(map(Message.value, self._messages)))

    def headers(self) -> Sequence[Headers | None]:
        """Return the headers of each message; they can be asked for only once."""
        if self._headers is None:
            self._headers = headers_of(self._messages)
        return self._headers

    def timestamps_ms(self, step: int = 1) -> npt.NDArray[np.float64]:
        """Return the time of every so many-th message."""
        asked: Any = map(Message.timestamp, self._messages[::step])
        return np.array([stamp for _, stamp in asked], np.float64)

    def ends(self) -> tuple[dict[int, int], dict[int, int]]:
        """Return the first and the last offset of each partition."""
        partitions: list[Any] = list(map(Message.partition, self._messages))
        first: dict[int, Any] = {}
        last: dict[int, Any] = {}
        backwards = partitions[::-1]
        for partition in set(partitions):
            first[partition] = self._messages[partitions.index(partition)].offset()
            last[partition] = self._messages[-1 - backwards.index(partition)].offset()
        return first, last

    def since(self, positions: Mapping[int, int]) -> Messages:
        """Return the messages that do not lie before the position in their partition."""
        placed: list[Any] = [(m, m.partition(), m.offset()) for m in self._messages]
        return Messages(
            self._topic, [m for m, p, offset in placed if offset >= positions.get(p, 0)]
        )
