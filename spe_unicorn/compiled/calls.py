"""What compiled code can say and Python cannot: calls of C functions at addresses, raw memory.

These are names only. Compiled code uses them as functions; ``translate`` knows what each means.
Machine code can be kept only if no address is compiled in: addresses come from shared state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

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


class _Word:
    """A name that means something in compiled code only."""

    def __call__(self, *arguments: Any) -> Any:
        """Python cannot do this."""
        raise TypeError(f"{self} can be called by compiled code only")


class Builtin(_Word):
    """A function that ``translate`` has; ``name`` is its name there."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, repr=False, eq=False)
class ForeignCall(_Word):
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


address_of: Final = Builtin("address_of")
"""``address_of(pointer)``: a pointer as a 64-bit number."""
pointer_to: Final = Builtin("pointer_to")
"""``pointer_to(address)``: a 64-bit number as a pointer."""
array_at: Final = Builtin("array_at")
"""``array_at(pointer, (length,), dtype)``: the array that lies there."""
record_at: Final = Builtin("record_at")
"""``record_at(pointer, dtype)``: the record of a structured type that lies there."""
