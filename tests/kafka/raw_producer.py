"""Records that the Python client refuses to send: header names that are not UTF-8.

The client's own library does send them, as producers in other languages may.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from confluent_kafka import cimpl

TOPIC, VALUE, FLAGS, HEADERS = 1, 4, 7, 10  # rd_kafka_vtype_t
COPY = 2  # RD_KAFKA_MSG_F_COPY
ERROR_BYTES = 512


class _Memory(ctypes.Structure):
    _fields_ = [("pointer", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class _Union(ctypes.Union):
    _fields_ = [
        ("text", ctypes.c_char_p),
        ("number", ctypes.c_int32),
        ("memory", _Memory),
        ("headers", ctypes.c_void_p),
        ("padding", ctypes.c_char * 64),
    ]


class _Argument(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("u", _Union)]


def send_raw(
    bootstrap_servers: str, topic: str, value: bytes, headers: Sequence[tuple[bytes, bytes | None]]
) -> None:
    """Produce one record with headers of any bytes, and wait until the broker has it."""
    library = _library()
    error = ctypes.create_string_buffer(ERROR_BYTES)
    settings = library.rd_kafka_conf_new()
    set_to = (settings, b"bootstrap.servers", bootstrap_servers.encode(), error, ERROR_BYTES)
    assert library.rd_kafka_conf_set(*set_to) == 0, error.value
    producer = library.rd_kafka_new(0, settings, error, ERROR_BYTES)
    assert producer, error.value
    listed = library.rd_kafka_headers_new(len(headers))
    for name, content in headers:
        library.rd_kafka_header_add(listed, name, len(name), content, len(content or b""))
    held = ctypes.create_string_buffer(value, len(value))
    arguments = (_Argument * 4)()
    arguments[0].kind, arguments[0].u.text = TOPIC, topic.encode()
    arguments[1].kind = VALUE
    arguments[1].u.memory = _Memory(ctypes.cast(held, ctypes.c_void_p), len(value))
    arguments[2].kind, arguments[2].u.number = FLAGS, COPY
    arguments[3].kind, arguments[3].u.headers = HEADERS, listed
    assert not library.rd_kafka_produceva(producer, arguments, len(arguments))
    assert library.rd_kafka_flush(producer, 60_000) == 0
    library.rd_kafka_destroy(producer)


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(cimpl.__file__)
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    for name, result, arguments in (
        ("rd_kafka_conf_new", pointer, []),
        ("rd_kafka_conf_set", ctypes.c_int, [pointer, text, text, text, size]),
        ("rd_kafka_new", pointer, [ctypes.c_int, pointer, text, size]),
        ("rd_kafka_headers_new", pointer, [size]),
        ("rd_kafka_header_add", ctypes.c_int, [pointer, text, ctypes.c_ssize_t, text, size]),
        ("rd_kafka_produceva", pointer, [pointer, ctypes.POINTER(_Argument), size]),
        ("rd_kafka_flush", ctypes.c_int, [pointer, ctypes.c_int]),
        ("rd_kafka_destroy", None, [pointer]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
