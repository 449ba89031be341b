"""The C library inside of the Kafka client: functions that its Python side does not offer."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from confluent_kafka import cimpl as bindings

POINTER, TEXT, NUMBER, SIZE = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t


def functions(prototypes: Mapping[str, tuple[Any, list[Any]]]) -> Any:
    """Return the library with these functions, given by result and arguments.

    Raises OSError or AttributeError where it does not show all of them.
    """
    library = ctypes.CDLL(bindings.__file__)
    for name, (result, arguments) in prototypes.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def address(function: Any) -> int:
    """Return where a function of the library lies, for compiled callers."""
    return ctypes.cast(function, POINTER).value or 0
