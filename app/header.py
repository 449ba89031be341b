"""The headers of records, as far as the client library can read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import Message

# Stands in for headers that the client library cannot read.
UNREADABLE_HEADERS = ("__livetree.headers", b"lost: a name among them is not UTF-8")


def headers_of(messages: Sequence[Message]) -> list[Any]:
    """Return the headers of each message; where a name is not UTF-8, one that says so.

    The client fails on such a name, and what it holds afterwards must not be touched: no second
    question. Without one this is a single step over the whole list.
    """
    found: list[Any] = []
    asked = map(Message.headers, messages)
    while len(found) < len(messages):
        try:
            found.extend(asked)
        except SystemError:
            found.append([UNREADABLE_HEADERS])
    return found
