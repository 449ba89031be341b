"""LED digits (Breiman et al. 1984): seven segments of a display, noise, and 17 idle lights."""

from __future__ import annotations

import numpy as np

from learner import Batch, Feature, Kind, Schema
from learner.kernels.jit import kernel
from streams.java_random import Random, new_random, next_int
from streams.stream import Codes, Labels, Stream, empty_rows, numbered, without_tokens

_SEGMENTS = 7
_LIGHTS = 24
# Top, upper left, upper right, middle, lower left, lower right, bottom.
_DIGITS = np.array(
    [
        [1, 1, 1, 0, 1, 1, 1],
        [0, 0, 1, 0, 0, 1, 0],
        [1, 0, 1, 1, 1, 0, 1],
        [1, 0, 1, 1, 0, 1, 1],
        [0, 1, 1, 1, 0, 1, 0],
        [1, 1, 0, 1, 0, 1, 1],
        [1, 1, 0, 1, 1, 1, 1],
        [1, 0, 1, 0, 0, 1, 0],
        [1, 1, 1, 1, 1, 1, 1],
        [1, 1, 1, 1, 0, 1, 1],
    ],
    np.int32,
)


class Led(Stream):
    """Which digit is shown? 24 lights, off or on; 7 belong to the digit, 17 are random.

    ``noise`` is the share of segments that show the opposite, in whole percents. ``drift``
    exchanges that many segments with idle lights, so that another ``drift`` is another concept.
    """

    def __init__(self, seed: int = 1, *, noise: float = 0.1, drift: int = 0) -> None:
        lights = tuple(
            Feature(name, Kind.NOMINAL, ("off", "on")) for name in numbered("att", _LIGHTS)
        )
        super().__init__("led", Schema(lights, tuple(str(digit) for digit in range(10))))
        self._random = new_random(seed)
        self._noise_percent = round(100 * noise)
        self._place = _places(drift)

    def _draw(self, n: int) -> tuple[Batch, Labels]:
        numeric, nominal, labels = empty_rows(n, 0, _LIGHTS)
        _fill(self._random, nominal, labels, self._noise_percent, self._place, _DIGITS)
        return without_tokens(numeric, nominal), labels


def _places(drift: int) -> Codes:
    """The column of each light: the first ``drift`` segments change places with idle lights."""
    place = np.arange(_LIGHTS, dtype=np.int32)
    for segment in range(drift):
        place[[segment, segment + _SEGMENTS]] = place[[segment + _SEGMENTS, segment]]
    return place


@kernel
def _fill(
    random: Random,
    lights: Codes,
    labels: Labels,
    noise_percent: int,
    place: Codes,
    digits: Codes,
) -> None:
    for row in range(len(labels)):
        digit = next_int(random, 10)
        for i in range(digits.shape[1]):
            flipped = 1 + next_int(random, 100) <= noise_percent
            lights[row, place[i]] = digits[digit, i] ^ flipped
        for i in range(digits.shape[1], len(place)):
            lights[row, place[i]] = next_int(random, 2)
        labels[row] = digit
