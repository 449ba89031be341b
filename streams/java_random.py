"""The generator of ``java.util.Random``, bit for bit, as compiled functions over an array.

The published results of streaming trees rest on MOA's streams, and those on this generator: a
48-bit linear congruence. With the same numbers in the same order, a stream here is the same
stream there.

    >>> random = new_random(1)
    >>> [int(next_int(random, 10)) for _ in range(8)]
    [5, 8, 7, 3, 4, 4, 4, 6]
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from learner.kernels.jit import bits_of, float_of, kernel
from streams.strict_log import strict_log

Random = npt.NDArray[np.int64]
"""A generator's state: the 48 bits, whether a normal variate waits, and that variate's bits."""

_MULTIPLIER = 0x5DEECE66D
_INCREMENT = 0xB
_MASK = (1 << 48) - 1
_INT_MAX = (1 << 31) - 1
_TWO_POW_MINUS_53 = 2.0**-53


def new_random(seed: int) -> Random:
    """The generator that Java's ``new Random(seed)`` gives."""
    return np.array([(seed ^ _MULTIPLIER) & _MASK, 0, 0], np.int64)


@kernel
def next_bits(random: Random, bits: int) -> int:
    """Step once; the highest ``bits`` (at most 32) of the new state, as a number >= 0."""
    state = (int(random[0]) * _MULTIPLIER + _INCREMENT) & _MASK
    random[0] = state
    return state >> (48 - bits)


@kernel
def next_int(random: Random, bound: int) -> int:
    """Uniform on 0..bound-1."""
    bits = next_bits(random, 31)
    if bound & (bound - 1) == 0:
        return (bound * bits) >> 31
    value = bits % bound
    # The last, incomplete run of ``bound`` numbers below 2^31 would favour small values.
    while bits - value + bound - 1 > _INT_MAX:
        bits = next_bits(random, 31)
        value = bits % bound
    return value


@kernel
def next_double(random: Random) -> float:
    """Uniform on [0, 1), 53 bits from two steps."""
    high = next_bits(random, 26)
    return ((high << 27) + next_bits(random, 27)) * _TWO_POW_MINUS_53


@kernel
def next_gaussian(random: Random) -> float:
    """Standard normal by Marsaglia's polar method; the second of each pair is kept."""
    if random[1] != 0:
        random[1] = 0
        return float_of(random[2])
    a = 0.0
    b = 0.0
    square = 0.0
    while square >= 1.0 or square == 0.0:
        a = 2.0 * next_double(random) - 1.0
        b = 2.0 * next_double(random) - 1.0
        square = a * a + b * b
    scale = math.sqrt(-2.0 * strict_log(square) / square)
    random[1] = 1
    random[2] = bits_of(b * scale)
    return a * scale
