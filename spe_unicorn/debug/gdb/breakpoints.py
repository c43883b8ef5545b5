"""The breakpoints and watchpoints that a debugger has set, by GDB's kinds."""

from __future__ import annotations

from typing import Final

from spe_unicorn.host.run.debug_stops import Watchpoint

SOFTWARE, HARDWARE, WRITE, READ, ACCESS = range(5)
_KINDS: Final = frozenset({SOFTWARE, HARDWARE})
_WATCHES: Final = {WRITE: (False, True), READ: (True, False), ACCESS: (True, True)}
_WORDS: Final = {WRITE: "watch", READ: "rwatch", ACCESS: "awatch"}
MOST: Final = 1 << 10
"""The most breakpoints at a time: each costs time whenever the machine goes on."""
MOST_WATCHED: Final = 32
"""The most watchpoints at a time: the compiled hook has room for so many besides the guest's."""
_ADDRESSES: Final = 1 << 64
_SIZE: Final = 4
"""The kind that GDB gives an A64 instruction: its bytes."""


class BreakpointError(ValueError):
    """A breakpoint that cannot be set; the message is one line."""


class Breakpoints:
    """The breakpoints of one debugger. Software and hardware breakpoints are alike here: marks.

    To insert what is there already changes nothing, and is no error.
    """

    def __init__(self) -> None:
        self._set: set[tuple[int, int]] = set()
        self._watched: dict[tuple[int, int, int], Watchpoint] = {}

    @property
    def addresses(self) -> frozenset[int]:
        """The virtual addresses where PEs stop."""
        return frozenset(address for _, address in self._set)

    @property
    def watchpoints(self) -> tuple[Watchpoint, ...]:
        """What is watched."""
        return tuple(self._watched.values())

    def kind_of_watch(self, address: int) -> str:
        """GDB's word for the watchpoint that a byte belongs to."""
        for (kind, _, _), watched in self._watched.items():
            if watched.first <= address <= watched.last:
                return _WORDS[kind]
        return _WORDS[WRITE]

    def is_hardware(self, address: int) -> bool:
        """Whether the breakpoint at an address is a hardware one alone."""
        return (SOFTWARE, address) not in self._set

    def insert(self, kind: int, address: int, size: int) -> bool:
        """Set a breakpoint or watchpoint; False for an unknown kind. Raises BreakpointError."""
        if kind in _WATCHES:
            self._watch(kind, address, size)
            return True
        if kind not in _KINDS:
            return False
        if size != _SIZE or address % 4 or not 0 <= address < 1 << 64:
            raise BreakpointError(f"no A64 instruction is at {address:#x} with {size} bytes")
        if (kind, address) not in self._set and len(self._set) >= MOST:
            raise BreakpointError(f"there are {MOST} breakpoints already, and no more at a time")
        self._set.add((kind, address))
        return True

    def _watch(self, kind: int, address: int, size: int) -> None:
        if size < 1 or not 0 <= address <= _ADDRESSES - size:
            raise BreakpointError(f"{size} bytes at {address:#x} cannot be watched")
        key = kind, address, size
        if key not in self._watched and len(self._watched) >= MOST_WATCHED:
            raise BreakpointError(f"{MOST_WATCHED} watchpoints are there, and no more at a time")
        read, write = _WATCHES[kind]
        self._watched[key] = Watchpoint(address, address + size - 1, read, write)

    def remove(self, kind: int, address: int, size: int) -> bool:
        """Remove a breakpoint or watchpoint, if it is there; False for an unknown kind."""
        if kind in _WATCHES:
            self._watched.pop((kind, address, size), None)
            return True
        if kind not in _KINDS:
            return False
        self._set.discard((kind, address))
        return True

    def clear(self) -> None:
        """Remove all."""
        self._set.clear()
        self._watched.clear()
