"""JSON objects of a batch to rows of arrays: what can be read at a glance, and nothing else.

A row is read only where every correct reader would find the same in it: flat, no escapes, every
name at most once, numbers that round beyond doubt, values and classes that are known already. Any
other row is refused, whether right or wrong; a careful reader takes it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from app.kernels.decimal import REFUSED, U, double_of, read_decimal
from app.kernels.lookup import MISS, QUOTE, Bytes, Rows, find_number, find_text, same
from learner import HEAVIEST
from learner.kernels.jit import address_of, byte_at, inlined, kernel, word_at

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]
Places = npt.NDArray[np.int64]

# What a field is.
NUMERIC, NOMINAL, LABEL, WEIGHT, TIME, FEATURES, IGNORED = 0, 1, 2, 3, 4, 5, 6

# Spaces of the table: names of fields of the event itself, and of the object that it may hold the
# features in; then for each field its values, at the field's number.
NAMES, VALUES = 0, 2

END, TAB, LINE, RETURN, SPACE, COMMA, COLON, OPEN, CLOSE, BACKSLASH, DELETE = (
    0, 9, 10, 13, 32, 44, 58, 123, 125, 92, 127,
)  # fmt: skip
N, T, F = ord("n"), ord("t"), ord("f")
FOUR_BYTES = U(0xFFFFFFFF)
NULL, TRUE, ALSE = (U(int.from_bytes(word, "little")) for word in (b"null", b"true", b"alse"))
EXACT = U(1 << 53)  # whole numbers up to here are doubles


class Fields(NamedTuple):
    """The fields of an event; a field's number is its place in these."""

    kind: Places
    column: Places  # among those of its kind
    start: Places  # where its name is in the pool, a quote behind it
    length: Places  # of its name
    follower: Places  # [fields + 2] which came after it the last time; at last: first of an object
    row: Places  # the last row that had it


class Read(NamedTuple):
    """What is read of a batch; of a refused row nothing holds."""

    numeric: Floats  # [rows, numeric features], NaN = missing
    nominal: Codes  # [rows, nominal features], -1 = missing
    label: Codes
    weight: Floats
    time: Floats  # NaN = none, or a text
    time_from: Places  # where the time is as a text; 0: it is none
    time_to: Places
    known: npt.NDArray[np.bool_]  # False: refused


@inlined
def after_space(at: int) -> int:
    """Where the next thing begins."""
    while byte_at(at) <= SPACE:
        byte = byte_at(at)
        if byte != SPACE and byte != LINE and byte != RETURN and byte != TAB:
            break
        at += 1
    return at


@inlined
def plain_end(at: int) -> int:
    """Where a text of printable ASCII without escapes ends, at its quote; REFUSED for others."""
    while byte_at(at) != QUOTE:
        if byte_at(at) < SPACE or byte_at(at) >= DELETE or byte_at(at) == BACKSLASH:
            return REFUSED
        at += 1
    return at


@inlined
def literal_end(at: int) -> int:
    """Where null, true or false ends; REFUSED for anything else."""
    word = word_at(at) & FOUR_BYTES
    if word == NULL or word == TRUE:
        return at + 4
    if byte_at(at) == F and word_at(at + 1) & FOUR_BYTES == ALSE:
        return at + 5
    return REFUSED


@inlined
def read_value(table: int, last: int, pool: int, space: int, at: int) -> tuple[int, int]:
    """The code of a nominal value or class, MISS for an unknown one; and where it ends.

    As in Python, 1, 1.0 and true are one value.
    """
    first = byte_at(at)
    if first == QUOTE:
        code, at = find_text(table, last, pool, space, at + 1)
        return code, at + 1
    if first == T or first == F:
        return find_number(table, last, space, 1.0 if first == T else 0.0), literal_end(at)
    end, w, q, negative, whole = read_decimal(at)
    x, found = double_of(w, q, negative)
    if end == REFUSED or not found or (whole and w > EXACT):
        return MISS, REFUSED
    return find_number(table, last, space, x), end


@inlined
def zero_from(at: int) -> int:
    """Where the next zero is."""
    while byte_at(at) != END:
        at += 1
    return at


@kernel
def read_rows(
    text: Bytes, size: int, longest: int, fields: Fields, values: Rows, names: Bytes, out: Read
) -> int:
    """Every object of a text in which each is followed by a zero; how many were read.

    REFUSED where there are not as many of them as there are rows: a zero lies inside of one.
    Events of one topic mostly have their fields in one order: which field comes next is guessed
    from the last time.
    """
    table, mask, pool = address_of(values), len(values) - 1, address_of(names)
    kinds, columns, starts, lengths, followers, rows = fields
    numeric, nominal, label, weight, time, time_from, time_to, known = out
    wanted = 1  # the label
    for field in range(len(kinds)):
        rows[field] = -1
        wanted += kinds[field] == WEIGHT or kinds[field] == FEATURES
    begin = address_of(text)
    end, count = begin, 0
    for row in range(len(known)):
        start, last, depth, found = end, len(kinds), 0, 0
        for column in range(numeric.shape[1]):
            numeric[row, column] = np.nan
        for column in range(nominal.shape[1]):
            nominal[row, column] = -1
        time[row] = np.nan
        time_from[row] = 0
        at = after_space(end)
        good = byte_at(at) == OPEN
        while good:
            at = after_space(at + 1)
            if byte_at(at) != QUOTE:
                good = False
                break
            at += 1
            field = followers[last]
            length = lengths[field]
            if same(at, pool + starts[field], length + 1):
                at += length
            else:
                field, after = find_text(table, mask, pool, NAMES + depth, at)
                if field == MISS:
                    after = plain_end(at)
                    if after == REFUSED:
                        good = False
                        break
                else:
                    followers[last] = field
                at = after
            at = after_space(at + 1)
            if byte_at(at) != COLON:
                good = False
                break
            at = after_space(at + 1)
            kind, place = IGNORED, 0
            if field != MISS:
                if rows[field] == row:
                    good = False
                    break
                rows[field] = row
                kind, place, last = kinds[field], columns[field], field
            first = byte_at(at)
            if kind == NOMINAL or kind == LABEL:
                if first == N and kind == NOMINAL:
                    at = literal_end(at)
                else:
                    code, at = read_value(table, mask, pool, VALUES + field, at)
                    if code == MISS:
                        good = False
                        break
                    if kind == LABEL:
                        label[row] = code
                        found += 1
                    else:
                        nominal[row, place] = code
            elif kind == FEATURES:
                if first != OPEN:
                    good = False
                    break
                depth, last = 1, len(kinds) + 1
                found += 1
                continue
            elif first == QUOTE and (kind == TIME or kind == IGNORED):
                after = plain_end(at + 1)
                if kind == TIME:
                    time_from[row], time_to[row] = at + 1 - begin, after - begin
                at = after if after == REFUSED else after + 1
            elif first == N or ((first == T or first == F) and kind != NUMERIC):
                at = REFUSED if kind == WEIGHT else literal_end(at)
            else:
                at, w, q, negative, whole = read_decimal(at)
                x, good = double_of(w, q, negative)
                if kind == NUMERIC:
                    numeric[row, place] = x
                elif kind == WEIGHT:
                    good &= x > 0.0 and x <= HEAVIEST
                    weight[row] = x
                    found += 1
                elif kind == TIME:
                    good &= not whole or w <= EXACT
                    time[row] = x
            if at == REFUSED or not good:
                good = False
                break
            at = after_space(at)
            if depth == 1 and byte_at(at) == CLOSE:
                at, depth = after_space(at + 1), 0
            if byte_at(at) != COMMA:
                break
        if good:
            good = byte_at(at) == CLOSE and depth == 0 and found == wanted
            at = after_space(at + 1)
            good &= byte_at(at) == END and at - start <= longest
        if not good:
            at = zero_from(start)
        known[row] = good
        count += good
        end = at + 1
        if end - begin > size:
            return REFUSED
    return count if end - begin == size else REFUSED
