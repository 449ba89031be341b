"""The natural logarithm as Java's ``StrictMath`` prescribes it, to the last bit.

Java's normal variates use it, and the machine's own logarithm differs in the last digit for one
argument in fourteen. The method is the classical one of the freely distributable C library: write
x as 2^k (1 + f), then log(1 + f) = 2 atanh(s) with s = f / (2 + f) by a minimax polynomial in s^2.
The order of the operations is part of the definition: no term may be regrouped.
"""

from __future__ import annotations

from learner.kernels.jit import bits_of, float_of, kernel

_LN2_HIGH = 6.93147180369123816490e-01  # its low bits are zero: k times it is exact
_LN2_LOW = 1.90821492927058770002e-10
_C1 = 6.666666666666735130e-01
_C2 = 3.999999999940941908e-01
_C3 = 2.857142874366239149e-01
_C4 = 2.222219843214978396e-01
_C5 = 1.818357216161805012e-01
_C6 = 1.531383769920937332e-01
_C7 = 1.479819860511658591e-01

_MANTISSA = (1 << 52) - 1
_TOP = (1 << 20) - 1  # the mantissa's upper 20 bits decide which branch is taken
_TO_SQRT_2 = 0x95F64  # added to them, it carries when 1 + f exceeds about sqrt(2)
_MIDDLE_FROM = 0x6147A
_MIDDLE_TO = 0x6B851


@kernel
def strict_log(x: float) -> float:
    """log(x) for a normal x > 0."""
    bits = bits_of(x)
    top = (bits >> 32) & _TOP
    halved = (top + _TO_SQRT_2) >> 20
    exponent = (bits >> 52) - 1023 + halved
    f = float_of((bits & _MANTISSA) | ((1023 - halved) << 52)) - 1.0
    k = float(exponent)
    if abs(f) < 2.0**-20:
        return _near_power_of_two(f, k)
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * (_C2 + w * (_C4 + w * _C6))
    odd = z * (_C1 + w * (_C3 + w * (_C5 + w * _C7)))
    rest = odd + even
    if _MIDDLE_FROM <= top <= _MIDDLE_TO:
        half = 0.5 * f * f
        return k * _LN2_HIGH - ((half - (s * (half + rest) + k * _LN2_LOW)) - f)
    return k * _LN2_HIGH - ((s * (f - rest) - k * _LN2_LOW) - f)


@kernel
def _near_power_of_two(f: float, k: float) -> float:
    if f == 0.0:
        return k * _LN2_HIGH + k * _LN2_LOW
    rest = f * f * (0.5 - 0.33333333333333333 * f)
    return k * _LN2_HIGH - ((rest - k * _LN2_LOW) - f)
