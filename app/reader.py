"""Values of records to the arrays that a tree learns from; what cannot be learned, with its reason.

PlainReader takes every form of event and every schema. For the usual ones there are quicker
readers, which give the same for every value (app/json_reader.py, app/binary.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from app.decode import Decoded, Rejected, decoder_for
from app.event import short
from app.format import EventFormat
from app.settings import Settings
from learner import LONGEST_TEXT, Batch, Codes, Encoder, UnknownLabel

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


class Rows(NamedTuple):
    """The events among the values of a batch; the arrays hold until the next batch is read."""

    places: Places  # of each event's value in the batch, ascending
    batch: Batch
    labels: Codes
    weights: Floats | None  # None: every event weighs 1
    times: Floats | None  # Unix time, NaN where the event has none; None: none has
    rejected: list[Rejected]
    tombstones: int = 0


class Reader(Protocol):
    """What turns values into rows."""

    def read(self, values: Sequence[bytes | None]) -> Rows:
        """Read every value; new classes and nominal values are taken up by the encoder."""


class PlainReader:
    """Decodes record by record, then encodes column by column."""

    def __init__(self, encoder: Encoder, settings: Settings, form: EventFormat) -> None:
        self._encoder, self._settings = encoder, settings
        self._decoder = decoder_for(encoder, settings.event, settings.schema_.max_features, form)

    def read(self, values: Sequence[bytes | None]) -> Rows:
        """Read every value."""
        decoded = self._decoder.decode(values)
        labels = self._encoder.encode_labels(decoded.labels)
        if labels.size and labels.min() < 0:
            labels = self._refuse_labels(decoded, labels)
        return Rows(
            np.array(decoded.places, np.int64),
            self._encoder.encode(decoded.rows),
            labels,
            None if self._settings.event.weight_field is None else np.array(decoded.weights),
            None if self._settings.event.time_field is None else _seconds(decoded.times),
            decoded.rejected,
            decoded.tombstones,
        )

    def _refuse_labels(self, decoded: Decoded, labels: Codes) -> Codes:
        """Take the events out whose class would be one too many."""
        name, most = self._settings.event.label_field, self._settings.schema_.max_classes
        keep = [row for row, code in enumerate(labels) if code >= 0]
        for row in np.flatnonzero(labels < 0):
            label = decoded.labels[row]
            expected = (
                f"one of the {most} known classes, as many as LIVETREE_SCHEMA__MAX_CLASSES allows"
            )
            if isinstance(label, str) and len(label) > LONGEST_TEXT:
                expected = f"a known class, or a new one of at most {LONGEST_TEXT} characters"
            error = UnknownLabel(f"label '{name}' is {short(label)}; expected {expected}")
            decoded.rejected.append(Rejected(decoded.places[row], error, stage="learn"))
        decoded.places = [decoded.places[row] for row in keep]
        decoded.rows = [decoded.rows[row] for row in keep]
        decoded.weights = [decoded.weights[row] for row in keep] if decoded.weights else []
        decoded.times = [decoded.times[row] for row in keep] if decoded.times else []
        return labels[keep]


def no_tokens(rows: int) -> tuple[Places, Codes]:
    """Return the sets of a batch without sets."""
    return np.zeros(rows + 1, np.int64), np.zeros(0, np.int32)


def _seconds(times: Sequence[float | None]) -> Floats:
    return np.array(times, np.float64)  # None becomes NaN
