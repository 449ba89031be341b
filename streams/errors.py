"""What can go wrong with a stream.

StreamError (a ValueError)
├── UnknownStream      no stream has this name
└── BadOption          a stream has no such option, or the value is out of its range
"""

from __future__ import annotations

__all__ = ["BadOption", "StreamError", "UnknownStream"]


class StreamError(ValueError):
    """Everything the streams raise on purpose."""


class UnknownStream(StreamError):
    """No stream has this name."""


class BadOption(StreamError):
    """An option that the stream does not have, or a value that it cannot take."""
