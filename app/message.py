"""A batch of Kafka's messages as records, which are made one by one, and only for who asks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt
from confluent_kafka import Message

from app.header import headers_of
from app.source import Headers, Record, Records


class Messages(Records):
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

    def values(self) -> list[bytes | None]:
        """Return the value of each message."""
        return list(map(Message.value, self._messages))

    def headers(self) -> Sequence[Headers | None]:
        """Return the headers of each message; they can be asked for only once."""
        if self._headers is None:
            self._headers = headers_of(self._messages)
        return self._headers

    def timestamps_ms(self, step: int = 1) -> npt.NDArray[np.float64]:
        """Return the time of every so many-th message."""
        asked: Any = map(Message.timestamp, self._messages[::step])
        return np.array([stamp for _, stamp in asked], np.float64)
