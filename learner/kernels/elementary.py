"""Elementary functions in plain arithmetic: branch-free, so that loops over them vectorise.

Written out rather than taken from the machine's mathematics library, whose last digit differs
between versions: the same events must give the same bytes on every machine.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from learner.kernels.jit import bits_of, float_of, fma, inlined, kernel

Floats = npt.NDArray[np.float64]

VECTOR = 8  # numbers that one instruction takes, at most

_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it rounds a double to an integer in its low bits
_ROUND_BITS = 0x4338000000000000
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10


@inlined
def log2(x: float) -> float:
    """log2(x) for x > 1e-300, below that log2(1e-300): exponent plus an atanh series."""
    bits = bits_of(x if x > 1e-300 else 1e-300)
    exponent = (bits - _SQRT_HALF_BITS) >> 52
    m = float_of(bits - (exponent << 52))  # in [sqrt(1/2), sqrt(2))
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    # by halves: as one chain, in which each step waits for the one before, it took 25 ns, not 20
    q2 = q * q
    q4 = q2 * q2
    low = fma(fma(1.0 / 7, q, 1.0 / 5), q2, fma(1.0 / 3, q, 1.0))
    middle = fma(fma(1.0 / 15, q, 1.0 / 13), q2, fma(1.0 / 11, q, 1.0 / 9))
    p = fma(fma(1.0 / 19, q, 1.0 / 17), q4 * q4, fma(middle, q4, low))
    # the exponent as a double without a conversion, which would not vectorise
    return 2.8853900817779268 * s * p + (float_of(_ROUND_BITS + exponent) - _ROUND)


@inlined
def xlog2x(z: float) -> float:
    """L(z) = z log2 z, with L(0) = 0: the only entropy primitive that is needed."""
    return z * log2(z)


@kernel
def fill_xlog2x(table: Floats) -> None:
    """L(z) at place z."""
    for z in range(len(table)):
        table[z] = xlog2x(float(z))


@inlined
def exp_negative(x: float) -> float:
    """exp(x) for -700 <= x <= 0: 2^k times the series of the rest."""
    y = x * _LOG2_E + _ROUND
    k = bits_of(y) - _ROUND_BITS
    rounded = y - _ROUND
    r = (x - rounded * _LN2_HIGH) - rounded * _LN2_LOW
    p = 1.0 / 479001600
    p = fma(p, r, 1.0 / 39916800)
    p = fma(p, r, 1.0 / 3628800)
    p = fma(p, r, 1.0 / 362880)
    p = fma(p, r, 1.0 / 40320)
    p = fma(p, r, 1.0 / 5040)
    p = fma(p, r, 1.0 / 720)
    p = fma(p, r, 1.0 / 120)
    p = fma(p, r, 1.0 / 24)
    p = fma(p, r, 1.0 / 6)
    p = fma(p, r, 0.5)
    p = fma(p, r, 1.0)
    p = fma(p, r, 1.0)
    return p * float_of((k + 1023) << 52)


@inlined
def bell(z: float) -> float:
    """exp(-z^2 / 2), |z| cut at 7."""
    a = abs(z)
    a = a if a < 7.0 else 7.0
    return exp_negative(-0.5 * a * a)


@inlined
def normal_cdf_of(z: float, bell_of_z: float) -> float:
    """Phi(z) by Hart's rational approximation, |z| cut at 7 (beyond it the rest is 1e-12)."""
    a = abs(z)
    a = a if a < 7.0 else 7.0
    b = fma(3.52624965998911e-02, a, 0.700383064443688)
    b = fma(b, a, 6.37396220353165)
    b = fma(b, a, 33.912866078383)
    b = fma(b, a, 112.079291497871)
    b = fma(b, a, 221.213596169931)
    b = fma(b, a, 220.206867912376)
    c = fma(8.83883476483184e-02, a, 1.75566716318264)
    c = fma(c, a, 16.064177579207)
    c = fma(c, a, 86.7807322029461)
    c = fma(c, a, 296.564248779674)
    c = fma(c, a, 637.333633378831)
    c = fma(c, a, 793.826512519948)
    c = fma(c, a, 440.413735824752)
    tail = bell_of_z * b / c
    return tail if z <= 0.0 else 1.0 - tail


@inlined
def whole_vectors(count: int) -> int:
    """So many numbers and as many more as make whole vectors.

    What is left over is done one by one otherwise, which takes as long as all the others where
    there are few.
    """
    return -(-count // VECTOR) * VECTOR
