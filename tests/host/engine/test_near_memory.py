"""Machine code of ours has to be within reach of jumps from all of the engine's."""

from __future__ import annotations

import ctypes
import mmap

import pytest

from spe_unicorn.host.engine import known, near_memory
from spe_unicorn.host.engine.near_memory import REACH, memory_near, unmap

SIZE = 1 << 20
PRIVATE, NO_RESERVE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, 0x4000
pytestmark = pytest.mark.skipif(
    known.why_not() is not None, reason="inline counting is for Linux on x86-64"
)


def code_of(size: int) -> tuple[mmap.mmap, int]:
    """Memory to write and execute, and where it lies."""
    code = mmap.mmap(-1, size, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    return code, ctypes.addressof(ctypes.c_char.from_buffer(code))


def reaches(at: int, size: int, begin: int, end: int) -> bool:
    return at + size - begin < REACH and end - at < REACH


def test_all_of_the_code_is_within_reach():
    _code, begin = code_of(SIZE)
    at = memory_near(begin + SIZE // 2, SIZE)
    assert reaches(at, SIZE, begin, begin + SIZE)
    unmap(at, SIZE)


def test_where_there_is_no_room_below_it_is_above():
    """As where the code of another engine lies below, a gigabyte of it."""
    code = mmap.mmap(-1, REACH + 4 * SIZE, flags=PRIVATE | NO_RESERVE)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(code)) + REACH - SIZE
    libc, gap = ctypes.CDLL(None), begin + 3 * SIZE
    assert libc.mprotect(ctypes.c_void_p(begin), ctypes.c_size_t(SIZE), 7) == 0
    unmap(gap, SIZE)
    at = memory_near(begin, SIZE)
    assert at == gap
    assert reaches(at, SIZE, begin, begin + SIZE)


def test_code_that_cannot_be_written_has_none():
    code = mmap.mmap(-1, SIZE)
    assert memory_near(ctypes.addressof(ctypes.c_char.from_buffer(code)), SIZE) == -1


def test_without_proc_there_is_none(monkeypatch, tmp_path):
    _code, begin = code_of(SIZE)
    monkeypatch.setattr(near_memory, "_MAPS", str(tmp_path / "maps"))
    assert memory_near(begin, SIZE) == -1
