"""A hash table from the bytes of texts, and from numbers, to small codes; one for many lists.

A list is told from the others by its `space`. Nothing is ever taken out. A text that finds no
place near its own is left out, and so is one that JSON writes with escapes: what is not found here
must be looked for elsewhere, and no choice of texts makes a search long.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from app.kernels.decimal import EIGHT, HIGHS, NONE, ONE, THREE, U
from learner.kernels.jit import (
    address_of,
    bits_of,
    byte_at,
    inlined,
    int64,
    kernel,
    trailing_zeros,
    word_at,
)

Bytes = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.int64]

MISS = -2
NEAR = 16  # places that are looked at
HASH, SPACE, LENGTH, FROM, CODE = 0, 1, 2, 3, 4  # of a row of the table
WIDTH = 40  # bytes of a row
NUMBER = -1  # instead of a length: FROM has the number's bits
FREE = -2  # instead of a length

PAD = 16  # zeros behind texts that are read eight bytes at a time
QUOTE = 34
QUOTES = U(0x2222222222222222)
ONES = U(0x0101010101010101)
FACTOR = U(0x9E3779B97F4A7C15)
HALF = U(32)


@inlined
def mixed(h: int, word: int) -> int:
    """The next state of a hash."""
    h = (h ^ word) * FACTOR
    return h ^ (h >> HALF)


@inlined
def below(word: int, count: int) -> int:
    """The lowest so many bytes of a word, fewer than eight."""
    return word & ((ONE << (count << THREE)) - ONE)


@inlined
def text_end(word: int) -> Any:
    """At which of eight bytes a text ends, by a quote or by the end of all; eight: at none."""
    quotes = word ^ QUOTES
    found = (((quotes - ONES) & ~quotes) | ((word - ONES) & ~word)) & HIGHS
    return trailing_zeros(found) >> THREE


@inlined
def same(at: int, other: int, length: int) -> bool:
    """Whether two texts have the same bytes."""
    while length >= 8:
        if word_at(at) != word_at(other):
            return False
        at += 8
        other += 8
        length -= 8
    return below(word_at(at) ^ word_at(other), U(length)) == NONE


@inlined
def column(row: int, name: int) -> int:
    """A number of a row of the table."""
    return int64(word_at(row + 8 * name))


@inlined
def find_text(table: int, last: int, pool: int, space: int, at: int) -> tuple[int, int]:
    """The code of the text that begins at a place, or MISS; and where it ends, at its quote."""
    first, h = at, mixed(U(space), ONE)
    while True:
        word = word_at(at)
        count = text_end(word)
        if count != EIGHT:
            break
        h = mixed(h, word)
        at += 8
    h = mixed(h, below(word, count))
    at += int64(count)
    length, place = at - first, int64(h)
    if byte_at(at) != QUOTE:  # it has no end, and what follows is none of its
        return MISS, at
    for _ in range(NEAR):
        row = table + (place & last) * WIDTH
        if column(row, HASH) == int64(h) and column(row, SPACE) == space:
            if column(row, LENGTH) == length and same(first, pool + column(row, FROM), length):
                return column(row, CODE), at
        if column(row, LENGTH) == FREE:
            break
        place += 1
    return MISS, at


@inlined
def find_number(table: int, last: int, space: int, x: float) -> int:
    """The code of a number, or MISS; 0 and -0 are one."""
    bits = bits_of(x + 0.0)
    place = int64(mixed(mixed(U(space), NONE), U(bits)))
    for _ in range(NEAR):
        row = table + (place & last) * WIDTH
        if column(row, FROM) == bits and column(row, SPACE) == space:
            if column(row, LENGTH) == NUMBER:
                return column(row, CODE)
        if column(row, LENGTH) == FREE:
            break
        place += 1
    return MISS


@inlined
def put(table: Rows, key: int, entry: tuple[int, int, int, int]) -> None:
    """Take up a text or a number that is not there yet, if there is a free place near its own."""
    for step in range(NEAR):
        row = (key + step) & (len(table) - 1)
        if table[row, LENGTH] == FREE:
            table[row, HASH] = key
            table[row, SPACE], table[row, LENGTH], table[row, FROM], table[row, CODE] = entry
            return


@kernel
def put_text(table: Rows, pool: Bytes, space: int, start: int, length: int, code: int) -> None:
    """Take up the text at a place of the pool."""
    at, h = address_of(pool) + start, mixed(U(space), ONE)
    end = at + length
    while at + 8 <= end:
        h = mixed(h, word_at(at))
        at += 8
    h = mixed(h, below(word_at(at), U(end - at)))
    put(table, int64(h), (space, length, start, code))


@kernel
def put_number(table: Rows, space: int, x: float, code: int) -> None:
    """Take up a number."""
    bits = bits_of(x + 0.0)
    put(table, int64(mixed(mixed(U(space), NONE), U(bits))), (space, NUMBER, bits, code))


Entry = tuple[int, str | float, int]  # space, text or number, code


class Lookup:
    """The table, and the pool of bytes that its texts lie in."""

    def __init__(self) -> None:
        self.table: Rows = _empty(64)
        self.pool: Bytes = np.frombuffer(bytes(PAD), np.uint8)
        self._texts = bytearray()
        self._held: list[tuple[Entry, int, int]] = []  # with the text's place in the pool

    def add(self, entries: Iterable[Entry]) -> list[int]:
        """Take up what is not there yet; returns where the texts lie in the pool."""
        new = []
        for entry in entries:
            text = entry[1].encode() if isinstance(entry[1], str) else b""
            new.append((entry, len(self._texts), len(text)))
            self._texts += text + b'"'
        self._held += new
        self.pool = np.frombuffer(self._texts + bytes(PAD), np.uint8)
        room = len(self.table)
        while room < 4 * len(self._held):
            room *= 2
        grown = room > len(self.table)
        if grown:
            self.table = _empty(room)
        for (space, value, code), start, length in self._held if grown else new:
            if isinstance(value, str):
                put_text(self.table, self.pool, space, start, length, code)
            else:
                put_number(self.table, space, value, code)
        return [start for _, start, _ in new]


def _empty(room: int) -> Rows:
    table = np.zeros((room, 5), np.int64)
    table[:, LENGTH] = FREE
    return table
