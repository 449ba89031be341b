"""Seeded streams for the demo, the tests and the benchmarks; the published ones bit for bit.

Where a stream has a twin in MOA, its rows equal MOA's to the last bit, so results compare.
"""

from __future__ import annotations

from streams.catalog import STREAMS, StreamInfo, open_stream
from streams.drift import Drifting
from streams.errors import BadOption, StreamError, UnknownStream
from streams.option import Option
from streams.stream import Stream

__all__ = [
    "STREAMS",
    "BadOption",
    "Drifting",
    "Option",
    "Stream",
    "StreamError",
    "StreamInfo",
    "UnknownStream",
    "open_stream",
]
