"""Calls from compiled hooks to C functions at addresses, and integers as pointers.

numba can cache what it compiles only if no address is compiled in: addresses come from the state.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import from_dtype, types
from numba.extending import intrinsic
from unicorn import UC_PROT_EXEC, UC_PROT_READ

from spe_unicorn.host.native.state import LAYOUT

USER: Final = types.CPointer(from_dtype(LAYOUT))
"""What hooks are given. Compiled code is cached by its signature: with the layout in it, what was
compiled for another layout is not taken."""


@intrinsic  # type: ignore[untyped-decorator]
def call0(_: Any, function: Any) -> Any:
    """Call a C function at an address, ``int f(void)``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [])
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), [])

    return types.int32(types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def call1(_: Any, function: Any, a: Any) -> Any:
    """Call a C function at an address, ``int f(void *)``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [ir.IntType(64)])
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])

    return types.int32(types.int64, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def call2(_: Any, function: Any, a: Any, b: Any) -> Any:
    """Call a C function at an address, ``int f(void *, void *)``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [ir.IntType(64)] * 2)
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])

    return types.int32(types.int64, types.int64, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def call_register(_: Any, function: Any, engine: Any, register: Any, value: Any) -> Any:
    """Call ``uc_reg_read`` or ``uc_reg_write``: ``int f(void *, int, void *)``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [ir.IntType(64), ir.IntType(32), ir.IntType(64)])
        number = builder.trunc(args[2], ir.IntType(32))
        return builder.call(
            builder.inttoptr(args[0], kind.as_pointer()), [args[1], number, args[3]]
        )

    return types.int32(types.int64, types.int64, types.int64, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def call_translate(_: Any, function: Any, engine: Any, va: Any, kind: Any, pa: Any) -> Any:
    """Call ``uc_vmem_translate``: ``int f(void *, uint64_t, uint32_t, uint64_t *)``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(64)
        kinds = [wide, wide, ir.IntType(32), wide]
        kind = ir.FunctionType(ir.IntType(32), kinds)
        number = builder.trunc(args[3], ir.IntType(32))
        return builder.call(
            builder.inttoptr(args[0], kind.as_pointer()), [args[1], args[2], number, args[4]]
        )

    return types.int32(types.int64, types.int64, types.int64, types.int64, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def call_vmem_read(_: Any, function: Any, engine: Any, va: Any, word: Any) -> Any:
    """Call ``uc_vmem_read`` for 4 bytes: ``int f(void *, uint64_t, uint32_t, void *, size_t)``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide, half = ir.IntType(64), ir.IntType(32)
        kind = ir.FunctionType(half, [wide, wide, half, wide, wide])
        function, engine, va, word = args
        return builder.call(
            builder.inttoptr(function, kind.as_pointer()),
            [engine, va, ir.Constant(half, UC_PROT_READ), word, ir.Constant(wide, 4)],
        )

    return types.int32(types.int64, types.int64, types.int64, types.int64), codegen


def _call_wide(arguments: int, *, result: bool) -> Any:
    """Calls of functions whose ``arguments`` are all 64 bits wide, as is their result if any."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(64)
        kind = ir.FunctionType(wide if result else ir.VoidType(), [wide] * arguments)
        answer = builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return answer if result else context.get_dummy_value()

    signature = (types.int64 if result else types.none)(*[types.int64] * (arguments + 1))
    return signature, codegen


@intrinsic  # type: ignore[untyped-decorator]
def call_forget(_: Any, function: Any, data_side: Any) -> Any:
    """Call ``cores.caches.forget_translations``."""
    return _call_wide(1, result=False)


@intrinsic  # type: ignore[untyped-decorator]
def call_access(_: Any, function: Any, data_side: Any, last: Any, pa: Any, size: Any) -> Any:
    """Call ``cores.caches.access``."""
    return _call_wide(4, result=False)


@intrinsic  # type: ignore[untyped-decorator]
def call_resolve(
    _: Any, function: Any, predictor: Any, branch: Any, kind: Any, target: Any, actual: Any
) -> Any:
    """Call ``cores.predictor.resolve``."""
    return _call_wide(5, result=True)


@intrinsic  # type: ignore[untyped-decorator]
def call_misprediction(
    _: Any, function: Any, engine: Any, state: Any, branch: Any, predicted: Any, actual: Any
) -> Any:
    """Call ``ModelState.on_misprediction``."""
    return _call_wide(5, result=False)


@intrinsic  # type: ignore[untyped-decorator]
def call_fetch(_: Any, function: Any, engine: Any, va: Any, to: Any, size: Any) -> Any:
    """Call ``uc_vmem_read`` for code: ``int f(void *, uint64_t, uint32_t, void *, size_t)``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide, half = ir.IntType(64), ir.IntType(32)
        kind = ir.FunctionType(half, [wide, wide, half, wide, wide])
        execute = ir.Constant(half, UC_PROT_EXEC)
        return builder.call(
            builder.inttoptr(args[0], kind.as_pointer()), [*args[1:3], execute, *args[3:]]
        )

    return types.int32(types.int64, types.int64, types.int64, types.int64, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def address_of(_: Any, pointer: Any) -> Any:
    """A pointer as an integer."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ptrtoint(args[0], ir.IntType(64))

    return types.int64(pointer), codegen


@intrinsic  # type: ignore[untyped-decorator]
def pointer_to(_: Any, address: Any) -> Any:
    """An integer as a pointer."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), codegen
