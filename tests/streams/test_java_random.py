"""The expected values were printed by Java 17's java.util.Random and StrictMath."""

from __future__ import annotations

import math

import pytest

from streams.java_random import new_random, next_double, next_gaussian, next_int
from streams.strict_log import strict_log


def test_small_integers_are_those_of_java() -> None:
    random = new_random(1)
    assert [next_int(random, 10) for _ in range(8)] == [5, 8, 7, 3, 4, 4, 4, 6]


def test_powers_of_two_take_the_high_bits() -> None:
    random = new_random(42)
    bounds = (1, 2, 16, 1024, 1 << 30)
    assert [next_int(random, bound) for bound in bounds] == [0, 0, 10, 49, 331484985]


def test_a_bound_that_rejects_half_of_the_draws_is_still_java() -> None:
    random = new_random(42)
    assert [next_int(random, (1 << 30) + 1) for _ in range(8)] == [
        117392763,
        102948884,
        662969970,
        595021505,
        196118093,
        969067502,
        791955276,
        819572292,
    ]


def test_doubles_with_a_negative_seed() -> None:
    random = new_random(-7)
    assert [next_double(random).hex() for _ in range(4)] == [
        "0x1.1394aae6c88b8p-2",
        "0x1.58ab34791176fp-1",
        "0x1.0b00b092be14ep-1",
        "0x1.b42962286481ap-1",
    ]


def test_normal_variates_come_in_pairs() -> None:
    random = new_random(42)
    assert [next_gaussian(random) for _ in range(5)] == [
        float.fromhex("0x1.2453e82115d86p0"),
        float.fromhex("0x1.d6bca38120847p-1"),
        float.fromhex("-0x1.e654eb7a040c2p-1"),
        float.fromhex("-0x1.1b63b7251328p0"),
        float.fromhex("0x1.1fb89a19b83afp-2"),
    ]


def test_many_normal_variates_add_up_to_the_same_bits() -> None:
    random = new_random(42)
    total = 0.0
    for _ in range(100_000):
        total += next_gaussian(random)
    assert total == float.fromhex("-0x1.832ac79b0d8ep4")


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (0.5, "-0x1.62e42fefa39efp-1"),
        (1.0, "0x0.0p0"),
        (1.0000001, "0x1.ad7f2847b6492p-24"),
        (0.999999, "-0x1.0c6f82d74d23p-20"),
        (0.7071067811865475, "-0x1.62e42fefa39f1p-2"),
        (0.7071067811865477, "-0x1.62e42fefa39ebp-2"),
        (1.3826, "0x1.4bbdafc64cf5dp-2"),
        (1.41, "0x1.5fd5fabe64084p-2"),
        (3.0e-9, "-0x1.39fe94b812f88p4"),
        (0.1, "-0x1.26bb1bbb55515p1"),
        (0.2, "-0x1.9c041f7ed8d33p0"),
        (0.3, "-0x1.34378fcbda721p0"),
        (0.9, "-0x1.af8e8210a415cp-4"),
    ],
)
def test_the_logarithm_is_strict_to_the_last_bit(x: float, expected: str) -> None:
    assert strict_log(x) == float.fromhex(expected)


def test_many_logarithms_add_up_to_the_same_bits() -> None:
    random = new_random(42)
    total = 0.0
    for _ in range(100_000):
        total += strict_log(next_double(random))
    assert total == float.fromhex("-0x1.86b621f85a953p16")


def test_the_logarithm_is_a_logarithm() -> None:
    random = new_random(3)
    for _ in range(1000):
        x = next_double(random)
        assert math.isclose(strict_log(x), math.log(x), rel_tol=4e-16)
