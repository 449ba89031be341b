"""The messages of a batch as they lie in the Kafka client's memory, read without making objects.

A message is an address; librdkafka's rdkafka.h says what lies there (rd_kafka_message_t, of the
64-bit systems). Functions of the library are called at their addresses.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from learner.kernels.jit import (
    JIT_DISABLED,
    address_of,
    byte_at,
    called,
    copy_bytes,
    int64,
    kernel,
    word_at,
)

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]

COMPILED = not JIT_DISABLED  # what is not cannot read memory

# where in a message what is, in bytes
ERROR, PARTITION, VALUE, VALUE_LENGTH, KEY, KEY_LENGTH, OFFSET = 0, 16, 24, 32, 40, 48, 56


class Columns(NamedTuple):
    """What messages hold, one array each; values and keys as the address of their bytes."""

    message: Longs
    error: Longs  # 0: none
    partition: Longs
    offset: Longs
    value: Longs  # 0: there is none, not even an empty one
    length: Longs
    key: Longs
    key_length: Longs
    stamp: Longs  # milliseconds, below 1: unknown
    headers: Longs  # the address of all of them, 0: none


class Functions(NamedTuple):
    """Addresses of functions of the library."""

    timestamp: int
    headers: int
    header_count: int
    header: int
    destroy: int


@kernel
def look_at(functions: Functions, spare: Longs, out: Columns) -> int:
    """Fill the columns of messages whose addresses are there; returns how many are faulty."""
    faulty, answer = 0, address_of(spare)
    for i in range(len(out.message)):
        message = out.message[i]
        error = int64(np.int32(word_at(message + ERROR)))
        out.error[i] = error
        out.partition[i] = int64(np.int32(word_at(message + PARTITION)))
        out.offset[i] = int64(word_at(message + OFFSET))
        out.value[i] = int64(word_at(message + VALUE))
        out.length[i] = int64(word_at(message + VALUE_LENGTH)) if out.value[i] != 0 else 0
        out.key[i] = int64(word_at(message + KEY))
        out.key_length[i] = int64(word_at(message + KEY_LENGTH)) if out.key[i] != 0 else 0
        out.stamp[i] = 0
        out.headers[i] = 0
        if error != 0:
            faulty += 1
            continue
        out.stamp[i] = called(functions.timestamp, message, answer, 0, 0, 0)
        found = np.int32(called(functions.headers, message, answer, 0, 0, 0))
        if found == 0:
            out.headers[i] = spare[0]
    return faulty


@kernel
def join(starts: Longs, lengths: Longs, gap: int, text: Bytes) -> None:
    """Copy bytes one after the other, so many zeros behind each; the text ends in zeros too."""
    to = address_of(text)
    at = int64(0)
    for i in range(len(starts)):
        at += copy_bytes(to + at, starts[i], lengths[i])
        for _ in range(gap):
            text[at] = 0
            at += 1
    text[at:] = 0


@kernel
def count_headers(functions: Functions, headers: Longs, counts: Longs) -> int:
    """How many headers each message has; returns how many they are in all."""
    total = 0
    for i in range(len(headers)):
        counts[i] = 0
        if headers[i] != 0:
            counts[i] = called(functions.header_count, headers[i], 0, 0, 0, 0)
        total += counts[i]
    return total


@kernel
def find_headers(
    functions: Functions, headers: Longs, counts: Longs, spare: Longs, names: Longs, values: Longs
) -> None:
    """Address and length of every name and every value; an address 0 is no value."""
    answer, place = address_of(spare), 0
    for i in range(len(headers)):
        for number in range(counts[i]):
            called(functions.header, headers[i], number, answer, answer + 8, answer + 16)
            end = spare[0]
            while byte_at(end) != 0:
                end += 1
            names[0, place], names[1, place] = spare[0], end - spare[0]
            values[0, place], values[1, place] = spare[1], spare[2]
            place += 1


@kernel
def destroy(functions: Functions, messages: Longs) -> None:
    """Let go of messages; their addresses mean nothing any more."""
    for i in range(len(messages)):
        called(functions.destroy, messages[i], 0, 0, 0, 0)
