"""The streams that all benchmarks of learning and predicting share, as rows in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from learner import Batch, Codes, Schema
from streams import Stream, open_stream

STREAMS: dict[str, Callable[[], Stream]] = {
    "rtg": lambda: open_stream("rtg", classes=2, nominal=5, numeric=5),
    "sea": lambda: open_stream("sea"),
    "agrawal": lambda: open_stream("agrawal", function=2),
    "led": lambda: open_stream("led"),
    "rbf50": lambda: open_stream("rbf", classes=5, attributes=50, centroids=50),
    "waveform21": lambda: open_stream("waveform21"),
}


class Rows(NamedTuple):
    """The first events of a stream, encoded."""

    schema: Schema
    batch: Batch
    labels: Codes

    def first(self, count: int) -> Rows:
        """The same stream, cut short."""
        count = min(count, len(self.labels))
        return Rows(self.schema, self.batch.part(0, count), self.labels[:count])


def rows_of(name: str, events: int) -> Rows:
    """The first events of one of STREAMS."""
    stream = STREAMS[name]()
    batch, labels = stream.take(events)
    return Rows(stream.schema, batch, labels)
