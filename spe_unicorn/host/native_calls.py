"""Calls from compiled hooks to C functions at addresses, and integers as pointers.

numba can cache what it compiles only if no address is compiled in: addresses come from the state.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


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
def address_of(_: Any, pointer: Any) -> Any:
    """A pointer as an integer."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ptrtoint(args[0], ir.IntType(64))

    return types.int64(types.voidptr), codegen


@intrinsic  # type: ignore[untyped-decorator]
def pointer_to(_: Any, address: Any) -> Any:
    """An integer as a pointer."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), codegen
