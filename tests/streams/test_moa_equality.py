"""Rows equal MOA's to the last bit; see moa_golden for where the digests come from."""

from __future__ import annotations

import hashlib

import pytest

from streams import open_stream
from tests.streams.moa_golden import GOLDEN, Golden
from tests.streams.rows import matrix

_CHUNK = 10_000


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.moa[:70])
def test_rows_are_those_of_moa(golden: Golden) -> None:
    stream = open_stream(golden.stream, **golden.options)
    digest = hashlib.sha256()
    for start in range(0, golden.rows, _CHUNK):
        batch, labels = stream.take(min(_CHUNK, golden.rows - start))
        digest.update(matrix(stream.schema, batch, labels).tobytes())
    assert digest.hexdigest()[:32] == golden.digest


def test_the_first_rows_of_sea_g_read_as_in_moa() -> None:
    # generators.SEAGenerator -b
    first, second = open_stream("sea_g").events(2)
    assert first == {
        "attrib1": 7.308781907032909,
        "attrib2": 4.100808114922017,
        "attrib3": 2.077148413097171,
        "label": "B",
    }
    assert second == {
        "attrib1": 1.5957805424728078,
        "attrib2": 5.54072319674416,
        "attrib3": 9.10950480954083,
        "label": "A",
    }


def test_the_first_row_of_agrawal_reads_as_in_moa() -> None:
    # generators.AgrawalGenerator gives the codes 3, 14, 4; cars and zipcodes count from 1
    assert open_stream("agrawal").events(1) == [
        {
            "salary": float.fromhex("0x1.afa3bc43c16b8p+16"),
            "commission": 0.0,
            "age": 54.0,
            "elevel": "e3",
            "car": "c15",
            "zipcode": "z5",
            "hvalue": 135000.0,
            "hyears": 30.0,
            "loan": float.fromhex("0x1.5a690bae9254fp+18"),
            "label": "B",
        }
    ]
