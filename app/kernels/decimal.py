"""A decimal number to the nearest double, exactly as every correct reader rounds it.

Digits are read eight at a time. The product with a power of five of 128 bits decides the rounding
[Lem21]: D. Lemire, Number Parsing at a Gigabyte per Second, Software: Practice and Experience 51,
2021. What it cannot decide, and what is no ordinary number, is refused; another reader takes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from learner.kernels.jit import (
    byte_at,
    float_of,
    high_product,
    inlined,
    int64,
    leading_zeros,
    trailing_zeros,
    word_at,
)

# A word of 64 bits without a sign; it must not meet one with a sign, or both become doubles.
U: Callable[[Any], int] = np.uint64  # type: ignore[assignment]

REFUSED = -1
MOST_DIGITS = 19  # of a number that 64 bits hold
LOWEST, HIGHEST = -342, 308  # powers of ten beyond which nothing but 0 and infinity lies
LARGEST_EXPONENT = 10_000  # of a number as it is written; keeps the sum small

ZEROS = U(0x3030303030303030)
OVER_NINE = U(0x7676767676767676)
HIGHS = U(0x8080808080808080)
PAIRS, FOURS, ALL = U(2561), U(6553601), U(42949672960001)
LOW_DIGITS, LOW_BYTES, LOW_PAIRS = (
    U(0x0F0F0F0F0F0F0F0F),
    U(0x00FF00FF00FF00FF),
    U(0x0000FFFF0000FFFF),
)
NONE, ONE, THREE, EIGHT, SIXTEEN = U(0), U(1), U(3), U(8), U(16)
THIRTY_TWO, FIFTY_SIX, SIXTY_THREE = U(32), U(56), U(63)
UNDECIDED = U(0x1FF)  # the nine bits below the 55 that a double and its rounding need
EVERY_BIT = U(0xFFFFFFFFFFFFFFFF)
HIDDEN_BIT, OVERFLOWN = U(1 << 52), U(1 << 53)
MINUS, PLUS, DOT, ZERO, NINE, SMALL_E, BIG_E = 45, 43, 46, 48, 57, 101, 69
TENS: npt.NDArray[np.uint64] = np.array([10**k for k in range(8)], np.uint64)
EIGHT_DIGITS = U(10**8)


def _powers_of_five() -> npt.NDArray[np.uint64]:
    """The highest 128 bits of 5^q, rounded down, or up where q < 0 ([Lem21] section 5)."""
    found = []
    for q in range(LOWEST, HIGHEST + 1):
        power = 5 ** abs(q)
        if q < 0:
            bits = (power - 1).bit_length()
            wide = (1 << (bits + 127 if q >= -27 else 2 * bits + 128)) // power + 1
        else:
            wide = power << 128
        wide >>= max(0, wide.bit_length() - 128)
        found.append([wide >> 64, wide & (2**64 - 1)])
    return np.array(found, np.uint64)


FIVES = _powers_of_five()


@inlined
def number_of(digits: int) -> int:
    """The number that eight digits are, the first one lowest in the word."""
    pairs = ((digits & LOW_DIGITS) * PAIRS) >> EIGHT
    fours = ((pairs & LOW_BYTES) * FOURS) >> SIXTEEN
    return ((fours & LOW_PAIRS) * ALL) >> THIRTY_TWO


@inlined
def read_digits(at: int, w: int) -> tuple[int, int]:
    """W with the digits from a place on behind it, and where they end."""
    while True:
        digits = word_at(at) ^ ZEROS
        others = ((digits + OVER_NINE) | digits) & HIGHS
        if others != NONE:
            break
        w = w * EIGHT_DIGITS + number_of(digits)
        at += 8
    count = trailing_zeros(others) >> THREE  # fewer than eight
    rest = (digits << (FIFTY_SIX - (count << THREE))) << EIGHT
    return w * TENS[count] + number_of(rest), at + int64(count)


@inlined
def zeros_from(at: int) -> int:
    """How many zeros stand at a place."""
    end = at
    while byte_at(end) == ZERO:
        end += 1
    return end - at


@inlined
def read_decimal(at: int) -> tuple[int, int, int, bool, bool]:
    """(-1)^negative w 10^q as JSON writes numbers: where it ends, w, q, negative, whole.

    It ends at REFUSED where it is no number, or has too many digits. A whole zero has no sign.
    """
    negative = byte_at(at) == MINUS
    at += int64(negative)
    first = at
    if byte_at(at + 1) == DOT and byte_at(at) >= ZERO and byte_at(at) <= NINE:
        w, at = U(byte_at(at) - ZERO), at + 1  # most numbers: the next place is known at once
    else:
        w, at = read_digits(at, NONE)
    digits, q, whole = at - first, 0, True
    refused = digits == 0 or (digits > 1 and byte_at(first) == ZERO)
    if byte_at(at) == DOT:
        whole = False
        at += 1
        after = at
        w, at = read_digits(at, w)
        refused |= at == after
        digits += at - after
        q = after - at
        if digits > MOST_DIGITS and byte_at(first) == ZERO:
            digits -= 1 + zeros_from(after)
    if byte_at(at) == SMALL_E or byte_at(at) == BIG_E:
        whole = False
        at += 1
        below = byte_at(at) == MINUS
        if below or byte_at(at) == PLUS:
            at += 1
        after = at
        exponent, at = read_digits(at, NONE)
        refused |= at == after or at - after > 8 or int64(exponent) > LARGEST_EXPONENT
        q += -int64(exponent) if below else int64(exponent)
    if refused or digits > MOST_DIGITS:
        at = REFUSED
    return at, w, q, negative and not (whole and w == NONE), whole


@inlined
def double_of(w: int, q: int, negative: bool) -> tuple[float, bool]:
    """The double nearest to (-1)^negative w 10^q, and whether it was found [Lem21] Alg. 1."""
    sign = int64(1) << int64(63) if negative else int64(0)
    if w == NONE:
        return float_of(sign), True
    if q < LOWEST or q > HIGHEST:
        return 0.0, False
    shift = leading_zeros(w)
    w <<= shift
    row = q - LOWEST
    high, low = high_product(w, FIVES[row, 0]), w * FIVES[row, 0]
    if high & UNDECIDED == UNDECIDED:
        more = high_product(w, FIVES[row, 1])
        low += more
        if more > low:
            high += ONE
    if low == EVERY_BIT and (q < -27 or q > 55):
        return 0.0, False
    upper = high >> SIXTY_THREE
    dropped = upper + U(9)
    m = high >> dropped
    power = ((217706 * q) >> 16) + 63 + int64(upper) - int64(shift) + 1023
    if power <= 0:
        return 0.0, False  # below the normal ones
    if low <= ONE and q >= -4 and q <= 23 and m & THREE == ONE and m << dropped == high:
        m &= ~ONE  # exactly between two doubles: to the even one
    m = (m + (m & ONE)) >> ONE
    if m >= OVERFLOWN:
        m = HIDDEN_BIT
        power += 1
    if power >= 2047:
        return 0.0, False
    return float_of(int64(m & ~HIDDEN_BIT) | (power << 52) | sign), True
