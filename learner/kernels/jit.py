"""The one decorator of all kernels, and what only compiled code can say.

This is the only file that speaks to the compiler.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, imputils
from numba.core.caching import UserProvidedCacheLocator
from numba.core.compiler import Compiler
from numba.core.datamodel import models
from numba.core.datamodel.registry import default_manager
from numba.core.typing.templates import AttributeTemplate
from numba.experimental import structref
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, lower_setattr_generic

from learner.kernels.machine_code import cache_folder, folder_of_source

F = TypeVar("F", bound=Callable[..., Any])

# A whole number of the machine's width. Kernels name it where a record's 32-bit field would give
# their callees a second signature, which would be compiled once more.
int64: Callable[[Any], int] = np.int64  # type: ignore[assignment]

# A truth value that is not a constant: kernels are compiled once more for every constant they get.
flag: Callable[[Any], bool] = np.bool_  # type: ignore[assignment]

# A place in an array that is known not to be negative: no check for counting from the end.
place: Callable[[Any], int] = np.uint64  # type: ignore[assignment]

_njit: Any = numba.njit
_config: Any = numba.config

_MEMINFO_DATA = 3  # word of numba's MemInfo that points to what it counts references of

JIT_DISABLED: bool = bool(_config.DISABLE_JIT)


class Locator(UserProvidedCacheLocator):
    """Keeps the machine code of a source file by its place in the project.

    Numba would take its whole path, so that a second clone or an image compiles everything anew.
    The folder for all of it is named by what the sources hold: equal ones may share it.
    """

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """The folder of a source file, below that of all machine code."""
        theirs = str(super().get_suitable_cache_subpath(py_file))  # type: ignore[no-untyped-call]
        return folder_of_source(py_file) or theirs


_config.CACHE_DIR = str(cache_folder(str(_config.CACHE_DIR), numba.__version__))
_config.CACHE_LOCATOR_CLASSES = f"{Locator.__module__}.{Locator.__qualname__}"

# No fast-math: results must not depend on the width of the machine's vectors, on a compiler's
# choice to fuse operations, or on NaN being assumed away (NaN means "missing" here).
_FLAGS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "_nrt": True}

# Kernels that only kernels call neither make arrays nor keep any, so they do not count references,
# which took a seventh of the time of an event.
_UNCOUNTED = _FLAGS | {"_nrt": False}


def kernel(function: F) -> F:
    """Compile a kernel: cached, without the GIL, division by zero as in numpy."""
    compiled: F = _njit(**_FLAGS)(function)
    return compiled


def inner(function: F) -> F:
    """Compile a kernel that only kernels call.

    The wrapper that takes a whole tree apart for Python costs more to compile than the kernel.
    """
    flags = {} if JIT_DISABLED else {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    compiled: F = _njit(**_UNCOUNTED, **flags)(function)
    return compiled


def inlined(function: F) -> F:
    """Compile a tiny formula that must disappear into its caller's loop."""
    compiled: F = _njit(forceinline=True, **_UNCOUNTED)(function)
    return compiled


class _Apart(Compiler):
    """A compiler that takes all arrays of a function's arguments to lie apart."""

    def define_pipelines(self) -> Any:
        self.state.flags.noalias = True
        return super().define_pipelines()  # type: ignore[no-untyped-call]


def apart(function: F) -> F:
    """Compile a formula over rows of arrays, none of which overlaps one that is written.

    Otherwise a loop begins with finding that out: rows of fifty numbers took three times as long.
    """
    compiled: F = _njit(forceinline=True, pipeline_class=_Apart, **_UNCOUNTED)(function)
    return compiled


def entry_of(compiled: Any, *arguments: Any) -> Any:
    """The machine code of a kernel for arguments of these types, compiled if need be.

    A call of it does not find out their types again, which takes 3.1 of the 3.9 us of a call that
    hands over a whole tree. Whoever calls it answers for the types.
    """
    if JIT_DISABLED:
        return compiled
    return compiled.compile(tuple(map(numba.typeof, arguments)))


def direct(compiled: Any) -> Any:
    """A kernel that is called by its machine code.

    Only groups of arrays may differ in their types from call to call, as strided or read-only ones
    do; who calls it answers for the other arguments.
    """
    found: dict[tuple[int, ...], tuple[Any, list[Any]]] = {}

    def call(*arguments: Any) -> Any:
        groups = [getattr(argument, "_type", None) for argument in arguments]
        key = tuple(map(id, groups))
        if key not in found:
            found[key] = entry_of(compiled, *arguments), groups  # which keeps the types alive
        return found[key][0](*arguments)

    return compiled if JIT_DISABLED else call


def by_reference(group: type[Any]) -> Callable[[Any], Any]:
    """How a named tuple of arrays is handed to kernels: as one pointer.

    By value, every array is seven arguments of every call, which costs compile time at each of
    them and half a microsecond a call. Kernels read the fields by name either way.
    """
    if JIT_DISABLED:
        return lambda value: value
    fields = list(group._fields)
    kind = type(f"{group.__name__}Type", (types.StructRef,), {"__module__": __name__})
    proxy = type(f"{group.__name__}Proxy", (structref.StructRefProxy,), {"__module__": __name__})
    globals()[kind.__name__], globals()[proxy.__name__] = kind, proxy  # where the cache finds them
    references: Any = structref
    managers: Any = default_manager
    managers.register(kind, models.StructRefModel)
    _define_fields(kind)
    references.define_proxy(proxy, kind, fields)

    def make(*arrays: Any) -> Any:
        return proxy(*arrays)

    compiled = _njit(**_FLAGS)(make)
    return lambda value: compiled(*value)


def _define_fields(kind: Any) -> None:
    """How kernels read the fields of a group, also those that do not count references."""
    getters: Any = infer_getattr
    reads: Any = lower_getattr_generic
    writes: Any = lower_setattr_generic
    proxy_of: Any = cgutils.create_struct_proxy
    borrowed: Any = imputils.impl_ret_borrowed

    @getters
    class Fields(AttributeTemplate):
        key = kind

        def generic_resolve(self, value: Any, attr: str) -> Any:  # type: ignore[override]
            return value.field_dict.get(attr)

    def pointer(context: Any, builder: Any, group: Any, reference: Any) -> Any:
        """To the fields, of which the reference's block of memory knows the place."""
        block = proxy_of(group)(context, builder, value=reference).meminfo
        words = builder.bitcast(block, ir.IntType(8).as_pointer().as_pointer())
        fields = builder.load(builder.gep(words, [ir.IntType(32)(_MEMINFO_DATA)]))
        payload = group.get_data_type()
        held = context.data_model_manager[payload].get_value_type().as_pointer()
        place_of = builder.bitcast(fields, held)
        return proxy_of(payload)(context, builder, ref=place_of)

    def read(context: Any, builder: Any, group: Any, reference: Any, name: str) -> Any:
        value = getattr(pointer(context, builder, group, reference), name)
        return borrowed(context, builder, group.field_dict[name], value)

    def fill(context: Any, builder: Any, signature: Any, args: Any, name: str) -> None:
        group, given = signature.args
        value = context.cast(builder, args[1], given, group.field_dict[name])
        context.nrt.incref(builder, given, value)
        setattr(pointer(context, builder, group, args[0]), name, value)

    reads(kind)(read)
    writes(kind)(fill)


if JIT_DISABLED:

    def bits_of(x: float) -> int:
        """The 64 bits of a double as an integer."""
        return int(struct.unpack("<q", struct.pack("<d", x))[0])

    def float_of(bits: int) -> float:
        """The double with these 64 bits."""
        return float(struct.unpack("<d", struct.pack("<q", bits))[0])

    def fma(a: float, b: float, c: float) -> float:
        """A b + c, rounded once."""
        return float(Fraction(a) * Fraction(b) + Fraction(c))

    def address_of(array: Any) -> int:
        """Nothing: only what is compiled has addresses."""
        raise NotImplementedError

    def byte_at(address: int) -> int:
        """Nothing."""
        raise NotImplementedError

    def word_at(address: int) -> Any:
        """Nothing."""
        raise NotImplementedError

    def called(function: int, a: int, b: int, c: int, d: int, e: int) -> int:
        """Nothing."""
        raise NotImplementedError

    def copy_bytes(to: int, source: int, count: int) -> int:
        """Nothing."""
        raise NotImplementedError

    def read_shared(words: Any, at: int) -> int:
        """A word that another thread writes."""
        return int(words[at])

    def write_shared(words: Any, at: int, value: int) -> None:
        """Write a word that another thread reads."""
        words[at] = value

    def fetch(address: int) -> None:
        """Nothing: only what is compiled has a cache to fill."""

    def high_product(a: Any, b: Any) -> Any:
        """The upper 64 bits of the 128 of a b."""
        return np.uint64((int(a) * int(b)) >> 64)

    def leading_zeros(word: Any) -> Any:
        """How many of the 64 bits are zero before the highest that is not."""
        return np.uint64(64 - int(word).bit_length())

    def trailing_zeros(word: Any) -> Any:
        """How many of the 64 bits are zero below the lowest that is not; 64 for none."""
        return np.uint64((int(word) & -int(word)).bit_length() - 1 if word else 64)

else:

    def _same_bits(kind: Any) -> Any:
        return lambda _, builder, __, args: builder.bitcast(args[0], kind)

    @intrinsic
    def bits_of(typingctx: Any, x: Any) -> Any:  # noqa: ARG001 (numba's calling convention)
        """The 64 bits of a double as an integer."""
        return types.int64(types.float64), _same_bits(ir.IntType(64))

    @intrinsic
    def float_of(typingctx: Any, bits: Any) -> Any:  # noqa: ARG001 (numba's calling convention)
        """The double with these 64 bits."""
        return types.float64(types.int64), _same_bits(ir.DoubleType())

    @intrinsic
    def fma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:  # noqa: ARG001 (numba's convention)
        """A b + c, rounded once: the same on every machine, one instruction on most."""

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
            return builder.fma(*args)

        return types.float64(types.float64, types.float64, types.float64), emit

    # Addresses instead of arrays: an array that is handed from function to function is counted at
    # every call, by which a reader of bytes took three times as long.
    @intrinsic
    def address_of(typingctx: Any, array: Any) -> Any:  # noqa: ARG001 (numba's convention)
        """Where an array lies; it must outlive the use of its address."""

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, args[0]).data
            return builder.ptrtoint(data, ir.IntType(64))

        return types.int64(array), emit

    def _loaded(builder: Any, address: Any, bits: int) -> Any:
        word = builder.load(builder.inttoptr(address, ir.IntType(bits).as_pointer()))
        word.align = 1
        return word

    @intrinsic
    def byte_at(typingctx: Any, address: Any) -> Any:  # noqa: ARG001 (numba's convention)
        """The byte at an address."""

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
            return builder.zext(_loaded(builder, args[0], 8), ir.IntType(64))

        return types.int64(types.int64), emit

    @intrinsic
    def word_at(typingctx: Any, address: Any) -> Any:  # noqa: ARG001 (numba's convention)
        """The eight bytes from an address on, the first one lowest."""

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
            return _loaded(builder, args[0], 64)

        return types.uint64(types.int64), emit

    @intrinsic
    def fetch(typingctx: Any, address: Any) -> Any:  # noqa: ARG001 (numba's convention)
        """Have the cache get what lies at an address, and do not wait for it."""

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
            byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
            function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
            how = number(0), number(3), number(1)  # to read, to be kept in all caches, as data
            builder.call(function, [builder.inttoptr(args[0], byte), *how])
            return context.get_dummy_value()

        return types.void(types.int64), emit

    def _word_of(context: Any, builder: Any, array: Any, words: Any, at: Any) -> Any:
        data = context.make_array(array)(context, builder, words).data
        return builder.gep(data, [at])

    # A word between threads: who sees it sees all that was written before it, in one order for all.
    @intrinsic
    def read_shared(typingctx: Any, words: Any, at: Any) -> Any:  # noqa: ARG001 (numba's convention)
        """A word that another thread writes."""

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            word = _word_of(context, builder, signature.args[0], *args)
            return builder.load_atomic(word, "seq_cst", 8)

        return types.int64(words, types.int64), emit

    @intrinsic
    def write_shared(typingctx: Any, words: Any, at: Any, value: Any) -> Any:  # noqa: ARG001
        """Write a word that another thread reads."""

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            word = _word_of(context, builder, signature.args[0], args[0], args[1])
            builder.store_atomic(args[2], word, "seq_cst", 8)
            return context.get_dummy_value()

        return types.void(words, types.int64, types.int64), emit

    @intrinsic
    def called(typingctx: Any, function: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:  # noqa: ARG001
        """What the C function at an address answers to whole numbers and addresses.

        One that takes fewer of them does not look at the rest; of an `int` only the lower half
        of the answer holds.
        """

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
            word = ir.IntType(64)
            kind = ir.FunctionType(word, [word] * 5).as_pointer()
            return builder.call(builder.inttoptr(args[0], kind), args[1:])

        return types.int64(*[types.int64] * 6), emit

    @intrinsic
    def copy_bytes(typingctx: Any, to: Any, source: Any, count: Any) -> Any:  # noqa: ARG001
        """Copy so many bytes from one address to another; returns how many."""

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
            byte = ir.IntType(8).as_pointer()
            ends = (builder.inttoptr(at, byte) for at in args[:2])
            copy: Any = cgutils.raw_memcpy
            copy(builder, *ends, args[2], 1)
            return args[2]

        return types.int64(types.int64, types.int64, types.int64), emit

    @intrinsic
    def high_product(typingctx: Any, a: Any, b: Any) -> Any:  # noqa: ARG001 (numba's convention)
        """The upper 64 bits of the 128 of a b."""

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
            wide = ir.IntType(128)
            product = builder.mul(*(builder.zext(factor, wide) for factor in args))
            return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

        return types.uint64(types.uint64, types.uint64), emit

    @intrinsic
    def leading_zeros(typingctx: Any, word: Any) -> Any:  # noqa: ARG001 (numba's convention)
        """How many of the 64 bits are zero before the highest that is not."""

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
            return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 0))

        return types.uint64(types.uint64), emit

    @intrinsic
    def trailing_zeros(typingctx: Any, word: Any) -> Any:  # noqa: ARG001 (numba's convention)
        """How many of the 64 bits are zero below the lowest that is not; 64 for none."""

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
            return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

        return types.uint64(types.uint64), emit
