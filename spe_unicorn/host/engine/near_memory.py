"""Memory for machine code near that of the engine: Linux on x86-64."""

from __future__ import annotations

import ctypes
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

REACH: Final = 1 << 31
"""Bytes that a jump reaches, to either side."""
_PROT_ALL = 7
_PRIVATE = 2
_ANONYMOUS = 0x20
_NO_REPLACE = 0x100000
_NO_RESERVE = 0x4000
_libc: Final = ctypes.CDLL(None)
_mmap: Final = _libc.mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]


class _Mapping(NamedTuple):
    begin: int
    end: int
    rights: str


_MAPS: Final = "/proc/self/maps"


def _mappings() -> list[_Mapping]:
    """What this process has mapped, in ascending order; nothing where that cannot be known."""
    found = []
    try:
        lines = Path(_MAPS).read_text("utf-8", "replace").splitlines()
    except OSError:  # a container without /proc
        return []
    for line in lines:
        bounds, rights, *_ = line.split()
        begin, end = (int(bound, 16) for bound in bounds.split("-"))
        found.append(_Mapping(begin, end, rights))
    return found


def memory_near(place: int, size: int) -> int:
    """Map ``size`` bytes to write and execute, in reach of jumps from all code around ``place``.

    Return their address, -1 if there is no room, if the code at ``place`` cannot be written, or if
    there is no /proc to tell where there is room.
    """
    mappings = _mappings()
    code = next((m for m in mappings if m.begin <= place < m.end), None)
    if code is None or not code.rights.startswith("rwx"):
        return -1
    lowest, highest = code.end - REACH + size, code.begin + REACH - 2 * size
    flags = _PRIVATE | _ANONYMOUS | _NO_REPLACE | _NO_RESERVE
    for before, after in pairwise(mappings):
        if after.begin <= code.begin:
            address = min(after.begin - size, highest)
            if address < max(before.end, lowest):
                continue
        else:
            address = max(before.end, lowest)
            if address + size > after.begin or address > highest:
                continue
        at = _mmap(address, size, _PROT_ALL, flags, -1, 0)
        if at == address:
            return int(at)
        if at not in (None, ctypes.c_void_p(-1).value):
            unmap(at, size)
    return -1


def unmap(at: int, size: int) -> None:
    """Unmap memory of :func:`memory_near`."""
    _libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(size))
