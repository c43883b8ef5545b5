"""What compiled code can say and Python cannot: calls of C functions at addresses, raw memory.

These are names only. Compiled code uses them as functions; ``translate`` knows what each means.
Machine code can be kept only if no address is compiled in: addresses come from shared state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn, cast, overload

import numpy as np

if TYPE_CHECKING:
    from spe_unicorn.compiled.layouts import Layout, Pointer, R, Rows, Table, Words

KINDS: Final = {
    "void": 0,
    "bool": 8,
    "int32": 32,
    "uint32": 32,
    "int64": 64,
    "uint64": 64,
    "pointer": 64,
}
"""The types of C that arguments and results can have, with their width in bits."""


def check_kinds(result: str, arguments: tuple[str, ...]) -> None:
    """Raise TypeError for a type that C functions cannot have here."""
    for kind in (result, *arguments):
        if kind not in KINDS:
            raise TypeError(f"{kind!r} is none of {', '.join(KINDS)}")
    if "void" in arguments:
        raise TypeError("an argument cannot be void")


class Builtin:
    """A function that ``translate`` has; ``name`` is its name there."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def __call__(self, *arguments: object) -> NoReturn:
        """Python cannot do this."""
        raise TypeError(f"{self} can be called by compiled code only")


@dataclass(frozen=True, repr=False, eq=False)
class ForeignCall:
    """The call of a C function at an address, which is its first argument in compiled code.

    All further arguments are 64-bit numbers there and are cut to the types of ``arguments``; so is
    what an int32 ``result`` is widened to. ``variadic`` is how many arguments stand before the
    dots in the function's prototype, None where it has no dots.
    """

    result: str
    arguments: tuple[str, ...] = ()
    variadic: int | None = None

    def __post_init__(self) -> None:
        check_kinds(self.result, self.arguments)

    def __repr__(self) -> str:
        return f"{self.result}({', '.join(self.arguments)}; {self.variadic})"

    def __call__(self, *arguments: int | Pointer) -> int:
        """Python cannot do this."""
        raise TypeError(f"{self} can be called by compiled code only")


if TYPE_CHECKING:
    Integers = type[np.int64] | type[np.uint8] | type[np.uint16] | type[np.uint32]

    def address_of(pointer: Pointer) -> int:
        """A pointer as a 64-bit number."""

    def pointer_to(address: int) -> Pointer:
        """A 64-bit number as a pointer."""

    @overload
    def array_at(pointer: Pointer, shape: tuple[int], dtype: Layout[R]) -> Rows[R]: ...
    @overload
    def array_at(pointer: Pointer, shape: tuple[int], dtype: Integers) -> Words: ...
    @overload
    def array_at(pointer: Pointer, shape: tuple[int, int], dtype: Integers) -> Table: ...
    def array_at(pointer: Pointer, shape: tuple[int, ...], dtype: object) -> object:
        """The array that lies there, of numbers or of records."""

    def record_at(pointer: Pointer, dtype: Layout[R]) -> R:
        """The record that lies there."""

else:
    address_of = Builtin("address_of")
    pointer_to = Builtin("pointer_to")
    array_at = Builtin("array_at")
    record_at = Builtin("record_at")

int64: Final = cast("Callable[[int], int]", np.int64)
"""A number as one of 64 bits with a sign, in compiled code and in Python."""
