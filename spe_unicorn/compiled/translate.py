"""From functions to LLVM code, by numba. Nothing else imports it, and this only to compile."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, Final

import numba
import numpy as np
from llvmlite import ir
from llvmlite.binding import ModuleRef
from numba import types
from numba.core import cgutils, typed_passes, untyped_passes
from numba.core.base import BaseContext
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager
from numba.core.registry import cpu_target
from numba.core.typing import Context, Signature
from numba.extending import intrinsic
from numba.np import arrayobj
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


class _Pipeline(CompilerBase):  # type: ignore[misc]
    """Numba's passes without those for what no routine has, such as closures and whole arrays."""

    def define_pipelines(self) -> list[PassManager]:
        passes = PassManager("routine")
        for one in (
            untyped_passes.TranslateByteCode,
            untyped_passes.FixupArgs,
            untyped_passes.IRProcessing,
            untyped_passes.GenericRewrites,
            untyped_passes.ReconstructSSA,
            untyped_passes.DeadBranchPrune,
            typed_passes.NopythonTypeInference,
            typed_passes.PreLowerStripPhis,
            typed_passes.IRLegalization,
            typed_passes.NativeLowering,
            typed_passes.NoPythonBackend,
        ):
            passes.add_pass(one, one._name)
        passes.finalize()
        return [passes]


class _Library(JITCodeLibrary):  # type: ignore[misc]
    """The LLVM code of one function as it was written. Numba would optimize, link and load it."""

    def _optimize_functions(self, ll_module: ModuleRef) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0

    def linked(self) -> ModuleRef:
        """One module with this function and all that it calls."""
        module = self._final_module.clone()
        libraries = {self}
        waiting = [*self._linking_libraries]
        while waiting:
            library = waiting.pop()
            if library not in libraries:
                libraries.add(library)
                module.link_in(library._final_module, preserve=True)
                waiting += library._linking_libraries
        return module


class _Codegen(JITCPUCodegen):  # type: ignore[misc]
    """Makes :class:`_Library`; nothing of it is ever called, so no environment is set."""

    _library_class = _Library

    def set_env(self, env_name: str, env: object) -> None:
        pass


_Typed = tuple[Signature, Callable[..., ir.Value]]
"""The types of an intrinsic, and what makes its code."""
_OPTIONS: Final = {"error_model": "numpy", "_nrt": False, "pipeline_class": _Pipeline}
"""Compiled code raises nothing and allocates nothing."""
_INNER: Final = {**_OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Only compiled code calls a routine's compiled form."""
_APART: Final = re.compile(r"\{ noinline \}")
"""By this numba keeps an entry apart from the function that it calls, which costs two calls."""
_routines: Final[dict[FunctionType, Any]] = {}
_foreign: Final[dict[ForeignCall, object]] = {}
_codegen: Final = _Codegen("spe_unicorn")


def llvm_of(entry: Entry) -> str:
    """The LLVM code of an entry, as the function :data:`~.machine_code.SYMBOL`."""
    signature = _TYPES[entry.result](*(_TYPES[kind] for kind in entry.arguments))
    with _unfinished():
        compiled = numba.cfunc(signature, **_OPTIONS)(_with_meanings(entry.function))
    module = compiled._library.linked()
    module.get_function(compiled.native_name).name = SYMBOL
    return _APART.sub("{ nounwind }", str(module))


@contextmanager
def _unfinished() -> Iterator[None]:
    """Have numba stop at the LLVM code, and take indices as they are.

    A program that uses numba itself gets its own back.
    """
    context = cpu_target.target_context
    finishing, fixing = context._internal_codegen, arrayobj.fix_integer_index
    context._internal_codegen = _codegen
    arrayobj.fix_integer_index = _index
    try:
        yield
    finally:
        context._internal_codegen = finishing
        arrayobj.fix_integer_index = fixing


def _index(
    context: BaseContext, builder: ir.IRBuilder, kind: types.Integer, index: ir.Value, _: ir.Value
) -> ir.Value:
    """An index as it is. Numba's own asks of each whether it counts from the array's end."""
    return context.cast(builder, index, kind, types.intp)


def _with_meanings(function: FunctionType) -> FunctionType:
    """The function with the meanings that its global names have for the compiler."""
    namespace = dict(function.__globals__)
    namespace.update((name, _meaning(value)) for name, value in reached(function))
    return FunctionType(function.__code__, namespace, function.__name__)


def _meaning(value: object) -> object:
    called = routine_of(value)
    if called is not None:
        known = _routines.get(called)
        if known is None:
            known = _routines[called] = _once(numba.njit(**_INNER)(_with_meanings(called)))
        return known
    if isinstance(value, Builtin):
        return _BUILTINS[value.name]
    if isinstance(value, ForeignCall):
        word = _foreign.get(value)
        if word is None:
            word = _foreign[value] = _foreign_call(value)
        return word
    return int(value) if isinstance(value, int | np.integer) else value


def _once(routine: Any) -> Any:
    """The routine, compiled once for numbers and not again for each constant that it is given."""
    template = routine.get_call_template
    routine.get_call_template = lambda args, kws: template([*map(types.unliteral, args)], kws)
    return routine


def _foreign_call(call: ForeignCall) -> object:
    """The intrinsic for calls of a C function at an address."""
    widths = [ir.IntType(KINDS[kind]) for kind in call.arguments]
    result = ir.VoidType() if call.result == "void" else ir.IntType(KINDS[call.result])
    fixed = widths if call.variadic is None else widths[: call.variadic]
    kind = ir.FunctionType(result, fixed, var_arg=call.variadic is not None)

    def codegen(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: list[ir.Value]
    ) -> ir.Value:
        cut = [
            value if width.width == value.type.width else builder.trunc(value, width)
            for value, width in zip(args[1:], widths, strict=True)
        ]
        answer = builder.call(builder.inttoptr(args[0], kind.as_pointer()), cut)
        return context.get_dummy_value() if call.result == "void" else answer

    returned = types.none if call.result == "void" else _TYPES[call.result]
    signature = returned(types.int64, *[types.int64] * len(widths))
    return intrinsic(_WITH_ARGUMENTS[len(widths)]((signature, codegen)))


_WITH_ARGUMENTS: Final[tuple[Callable[..., object], ...]] = (
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
def _address_of(_: Context, pointer: types.Type) -> _Typed:
    def codegen(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: list[ir.Value]
    ) -> ir.Value:
        return builder.ptrtoint(args[0], ir.IntType(64))

    return types.int64(pointer), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _pointer_to(_: Context, address: types.Type) -> _Typed:
    def codegen(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: list[ir.Value]
    ) -> ir.Value:
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _array_at(_: Context, pointer: types.Type, shape: types.BaseTuple, dtype: types.Type) -> _Typed:
    """Numba's own ``carray`` does the same and takes ten times as long to be compiled."""
    kind = types.Array(dtype.dtype, len(shape), "C")

    def codegen(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: list[ir.Value]
    ) -> ir.Value:
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
def _record_at(_: Context, pointer: types.Type, dtype: types.Type) -> _Typed:
    def codegen(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: list[ir.Value]
    ) -> ir.Value:
        return builder.bitcast(args[0], context.get_value_type(signature.return_type))

    return dtype.dtype(pointer, dtype), codegen


_BUILTINS: Final = {
    "address_of": _address_of,
    "pointer_to": _pointer_to,
    "array_at": _array_at,
    "record_at": _record_at,
}
