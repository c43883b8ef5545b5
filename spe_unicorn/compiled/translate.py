"""From functions to LLVM code, by numba. Nothing else imports it, and this only to compile."""

from __future__ import annotations

import re
from types import FunctionType
from typing import Any, Final

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from spe_unicorn.compiled.calls import KINDS, Builtin, ForeignCall
from spe_unicorn.compiled.functions import Entry, reached, routine_of
from spe_unicorn.compiled.machine_code import SYMBOL

_TYPES: Final = {
    "void": types.void,
    "bool": types.boolean,
    "int32": types.int32,
    "uint32": types.uint32,
    "int64": types.int64,
    "uint64": types.uint64,
    "pointer": types.voidptr,
}
_OPTIONS: Final = {"error_model": "numpy", "_nrt": False}
"""Compiled code raises nothing and allocates nothing."""
_INNER: Final = {**_OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Nobody but compiled code calls a routine's compiled form."""
_APART: Final = re.compile(r"\{ noinline \}")
"""By this numba keeps an entry apart from the function that it calls, which costs two calls."""
_routines: Final[dict[FunctionType, Any]] = {}
_foreign: Final[dict[ForeignCall, Any]] = {}


def llvm_of(entry: Entry) -> str:
    """The LLVM code of an entry, as the function :data:`~.machine_code.SYMBOL`."""
    signature = _TYPES[entry.result](*(_TYPES[kind] for kind in entry.arguments))
    compiled = numba.cfunc(signature, **_OPTIONS)(_with_meanings(entry.function))
    module = binding.parse_assembly(compiled.inspect_llvm())
    module.get_function(compiled.native_name).name = SYMBOL
    return _APART.sub("{ nounwind }", str(module))


def _with_meanings(function: FunctionType) -> FunctionType:
    """The function with the meanings that its global names have for the compiler."""
    namespace = dict(function.__globals__)
    namespace.update((name, _meaning(value)) for name, value in reached(function))
    return FunctionType(function.__code__, namespace, function.__name__)


def _meaning(value: Any) -> Any:
    called = routine_of(value)
    if called is not None:
        known = _routines.get(called)
        if known is None:
            known = _routines[called] = numba.njit(**_INNER)(_with_meanings(called))
        return known
    if isinstance(value, Builtin):
        return _BUILTINS[value.name]
    if isinstance(value, ForeignCall):
        known = _foreign.get(value)
        if known is None:
            known = _foreign[value] = _foreign_call(value)
        return known
    return int(value) if isinstance(value, int | np.integer) else value


def _foreign_call(call: ForeignCall) -> Any:
    """The intrinsic for calls of a C function at an address."""
    widths = [ir.IntType(KINDS[kind]) for kind in call.arguments]
    result = ir.VoidType() if call.result == "void" else ir.IntType(KINDS[call.result])
    fixed = widths if call.variadic is None else widths[: call.variadic]
    kind = ir.FunctionType(result, fixed, var_arg=call.variadic is not None)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        cut = [
            value if width.width == value.type.width else builder.trunc(value, width)
            for value, width in zip(args[1:], widths, strict=True)
        ]
        answer = builder.call(builder.inttoptr(args[0], kind.as_pointer()), cut)
        return context.get_dummy_value() if call.result == "void" else answer

    returned = types.none if call.result == "void" else _TYPES[call.result]
    signature = returned(types.int64, *[types.int64] * len(widths))
    return intrinsic(_WITH_ARGUMENTS[len(widths)]((signature, codegen)))


_WITH_ARGUMENTS: Final[tuple[Any, ...]] = (
    lambda made: lambda _, f: made,
    lambda made: lambda _, f, a: made,
    lambda made: lambda _, f, a, b: made,
    lambda made: lambda _, f, a, b, c: made,
    lambda made: lambda _, f, a, b, c, d: made,
    lambda made: lambda _, f, a, b, c, d, e: made,
    lambda made: lambda _, f, a, b, c, d, e, g: made,
)
"""Numba counts an intrinsic's arguments by the function that types it."""


@intrinsic  # type: ignore[untyped-decorator]
def _address_of(_: Any, pointer: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ptrtoint(args[0], ir.IntType(64))

    return types.int64(pointer), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _pointer_to(_: Any, address: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _array_at(_: Any, pointer: Any, shape: Any, dtype: Any) -> Any:
    """Numba's own ``carray`` does the same and takes ten times as long to be compiled."""
    kind = types.Array(dtype.dtype, len(shape), "C")

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(kind)(context, builder)
        wide = context.get_value_type(types.intp)
        size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
        lengths = [
            context.cast(builder, length, part, types.intp)
            for length, part in zip(cgutils.unpack_tuple(builder, args[1]), shape, strict=True)
        ]
        steps = [wide(size)]
        for length in reversed(lengths[1:]):
            steps.insert(0, builder.mul(steps[0], length))
        populate_array(
            array,
            data=builder.bitcast(args[0], array.data.type),
            shape=lengths,
            strides=steps,
            itemsize=size,
            meminfo=None,
        )
        return array._getvalue()

    return kind(pointer, shape, dtype), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _record_at(_: Any, pointer: Any, dtype: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(signature.return_type))

    return dtype.dtype(pointer, dtype), codegen


_BUILTINS: Final = {
    "address_of": _address_of,
    "pointer_to": _pointer_to,
    "array_at": _array_at,
    "record_at": _record_at,
}
