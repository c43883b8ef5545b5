"""The breakpoints that a debugger has set, by GDB's kinds."""

from __future__ import annotations

from typing import Final

SOFTWARE, HARDWARE = 0, 1
_KINDS: Final = frozenset({SOFTWARE, HARDWARE})
MOST: Final = 1 << 10
"""Breakpoints at a time: each costs something whenever the machine goes on."""
_SIZE: Final = 4
"""The kind that GDB gives an A64 instruction: its bytes."""


class BreakpointError(ValueError):
    """A breakpoint that cannot be set; the message is one line."""


class Breakpoints:
    """Those of one debugger. Software and hardware ones are of one kind to us: both are marks."""

    def __init__(self) -> None:
        self._set: set[tuple[int, int]] = set()

    @property
    def addresses(self) -> frozenset[int]:
        """The virtual addresses where PEs stop."""
        return frozenset(address for _, address in self._set)

    def is_hardware(self, address: int) -> bool:
        """Whether the breakpoint at an address is a hardware one alone."""
        return (SOFTWARE, address) not in self._set

    def insert(self, kind: int, address: int, size: int) -> bool:
        """Set one; False for a kind that there is not. Raises BreakpointError."""
        if kind not in _KINDS:
            return False
        if size != _SIZE or address % 4 or not 0 <= address < 1 << 64:
            raise BreakpointError(f"no A64 instruction is at {address:#x} with {size} bytes")
        if len(self._set) >= MOST:
            raise BreakpointError(f"there are {MOST} breakpoints already, and no more at a time")
        self._set.add((kind, address))
        return True

    def remove(self, kind: int, address: int, size: int) -> bool:
        """Take one away, if it is there; False for a kind that there is not."""
        if kind not in _KINDS:
            return False
        self._set.discard((kind, address))
        return True

    def clear(self) -> None:
        """Take all away."""
        self._set.clear()
