"""Indirect branches: what stands in the place of the engine's lookup, beside what that does."""

from __future__ import annotations

import ctypes
import mmap
from random import Random
from typing import Any

import numpy as np
import pytest

from spe_unicorn.compiled import entry, pointer_to, record_at
from spe_unicorn.host.engine import known
from spe_unicorn.host.engine.builds import code_numbers
from spe_unicorn.host.native.inline.lookup import LOOKUP, looks_up, replace_lookup
from spe_unicorn.host.native.inline.shared import INLINE
from tests.host import stale_tables as t
from tests.support import a64 as a
from tests.support.machine_runs import Machine, Result, image_of

pytestmark = pytest.mark.skipif(
    known.why_not() is not None, reason="inline counting is for Linux on x86-64"
)


@entry("bool", "int64", "int64")
def known_site(at: Any, lookup: Any) -> Any:
    return looks_up(at, lookup)


@entry("int64", "int64", "int64")
def replace(numbers: Any, at: Any) -> Any:
    return replace_lookup(record_at(pointer_to(numbers), INLINE), at)


# The engine's functions


def test_the_engine_s_functions_are_as_they_are_known() -> None:
    assert known.lookup_by()


@pytest.mark.parametrize("code", ["code", "flags_code", "branch_type_code"])
def test_one_byte_that_differs_makes_them_unknown(code: str) -> None:
    pattern = getattr(code_numbers().lookup, code)
    there = bytearray(pattern.bytes)
    buffer = (ctypes.c_char * len(there)).from_buffer(there)
    at = ctypes.addressof(buffer)
    assert known.is_as_known(at, pattern)
    for n, mask in enumerate(pattern.masks):
        there[n] ^= 1
        assert known.is_as_known(at, pattern) == (mask == 0)
        there[n] ^= 1


# The call


class Memory:
    """Memory that can be executed."""

    def __init__(self) -> None:
        self.bytes = mmap.mmap(-1, 4096, prot=7)
        self.at = ctypes.addressof(ctypes.c_char.from_buffer(self.bytes))

    def put(self, offset: int, code: bytes) -> int:
        self.bytes[offset : offset + len(code)] = code
        return offset + len(code)


MOVE, JUMP = b"\x48\x8b\xfd", b"\xff\xe0"
SITE, SITE_FAR, FUNCTION, OURS = 0, 64, 1024, 2048


def sites(memory: Memory) -> None:
    """``mov rdi, rbp; call FUNCTION; jmp rax``, by its distance and by its address."""
    at = memory.put(SITE, MOVE)
    memory.put(at, b"\xe8" + (FUNCTION - at - 5).to_bytes(4, "little") + JUMP)
    at = memory.put(SITE_FAR, MOVE)
    memory.put(at, b"\xff\x15" + (128 - at - 6).to_bytes(4, "little") + JUMP)
    memory.put(128, (memory.at + FUNCTION).to_bytes(8, "little"))


@pytest.mark.parametrize(("site", "length"), [(SITE, 10), (SITE_FAR, 11)])
def test_only_this_call_and_this_jump_are_known(site: int, length: int) -> None:
    memory = Memory()
    sites(memory)
    assert known_site(memory.at + site, memory.at + FUNCTION)
    assert not known_site(memory.at + site, memory.at + FUNCTION + 1)
    for n in (*range(4), length - 2, length - 1):
        memory.bytes[site + n] ^= 0x10
        assert not known_site(memory.at + site, memory.at + FUNCTION), n
        memory.bytes[site + n] ^= 0x10


# What is called instead

LOOK: Any = code_numbers().lookup
PC = code_numbers().pc
ROWS = 1 << 2 * LOOK.recent_bits
STATE = 0xB000
"""Where RBP points to, in memory for a PE."""
BLOCK, BLOCK_CODE, SLOWLY = 0xF000, 0x1234_5678_9ABC, 0xBAD


class PE:
    """A PE's state, the table of recent blocks, and one block."""

    def __init__(self) -> None:
        self.bytes = bytearray(0x1_0000)
        self._buffer = (ctypes.c_char * len(self.bytes)).from_buffer(self.bytes)
        self.at = ctypes.addressof(self._buffer)

    def put(self, at: int, value: int, size: int) -> None:
        self.bytes[at : at + size] = (value % (1 << 8 * size)).to_bytes(size, "little")


def row(pc: int, page_bits: int) -> int:
    """QEMU 5.0's tb_jmp_cache_hash_func."""
    mixed = pc ^ pc >> page_bits - 6
    return mixed >> page_bits - 6 & 0xFC0 | mixed & 0x3F


class Call:
    """The code of both kinds of sites, called with a PE's state."""

    def __init__(self, page_bits: int) -> None:
        self.memory = memory = Memory()
        sites(memory)
        memory.put(FUNCTION, b"\xb8" + SLOWLY.to_bytes(4, "little") + b"\xc3")
        numbers = np.zeros(1, INLINE)
        numbers["lookup"], numbers["free"] = memory.at + FUNCTION, memory.at + OURS
        numbers["page_bits"] = page_bits
        self.calls = []
        for n, site in enumerate((SITE, SITE_FAR)):
            end = replace(numbers.ctypes.data, memory.at + site)
            # in place of `jmp rax`, whose call is kept: pop rbp; ret
            memory.put(end - memory.at, b"\x5d\xc3")
            begin = memory.put(512 + 32 * n, b"\x55\x48\x89\xfd")  # push rbp; mov rbp, rdi
            memory.put(begin, b"\xe9" + (site - begin - 5).to_bytes(4, "little", signed=True))
            call = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64)
            self.calls.append(call(memory.at + 512 + 32 * n))
        self.length = int(numbers["free"][0]) - memory.at - OURS


@pytest.mark.parametrize("page_bits", [10, 12])
def test_it_finds_what_the_table_of_recent_blocks_has_and_else_asks(page_bits: int) -> None:
    """Each thing that QEMU's tb_lookup__cpu_state compares is wrong by turns."""
    call, random = Call(page_bits), Random(7)
    assert call.length <= LOOKUP
    found = 0
    for n in range(2500):
        pe = PE()
        pc = random.getrandbits(48) & -4
        btype, has_btype = random.getrandbits(2), random.random() < 0.5
        flags = 1 << 31 | random.getrandbits(30)
        wanted = flags & ~0xC00 | btype << 10 if has_btype else flags
        group, traced = random.getrandbits(8), random.getrandbits(32)
        wrong = random.choice(
            (None, None, None, "pc", "base", "flags", "traced", "group", "row", "state", "step")
        )
        if wrong == "state":
            flags, wanted = flags & ~(1 << 31), wanted & ~(1 << 31)
        elif wrong == "step":
            flags, wanted = flags | 1 << 30, wanted | 1 << 30
        pe.put(STATE + LOOK.flags, flags, 4)
        pe.put(STATE + PC, pc, 8)
        pe.put(STATE + LOOK.branch_types[0], has_btype * (1 << random.randrange(4)) | 0xF0, 1)
        pe.put(STATE + LOOK.branch_type, btype | random.getrandbits(20) << 2, 4)
        pe.put(STATE + LOOK.traced, traced, 8)
        pe.put(STATE + LOOK.group, group | random.getrandbits(24) << 8, 4)
        if wrong != "row":
            pe.put(STATE + LOOK.recent + 8 * row(pc, page_bits), pe.at + BLOCK, 8)
        bit = 1 << random.randrange(24)
        pe.put(BLOCK + LOOK.block_pc, pc ^ (bit if wrong == "pc" else 0), 8)
        pe.put(BLOCK + LOOK.block_base, bit if wrong == "base" else 0, 8)
        pe.put(BLOCK + LOOK.block_flags, wanted ^ (bit if wrong == "flags" else 0), 4)
        pe.put(BLOCK + LOOK.block_traced, traced ^ (bit if wrong == "traced" else 0), 4)
        kept = group << 24 | random.choice((0, 1 << 16, 0xF << 20)) & ~LOOK.compared
        different = random.choice((1 << 24, 1 << 18, 1)) if wrong == "group" else 0
        pe.put(BLOCK + LOOK.block_group, kept ^ different, 4)
        pe.put(BLOCK + LOOK.block_code, BLOCK_CODE, 8)
        expected = SLOWLY if wrong else BLOCK_CODE
        assert call.calls[n & 1](pe.at + STATE) == expected, (wrong, hex(pc))
        found += wrong is None
    assert found > 300


# Whole programs


def differences(words: list[int], rows: dict[int, int], monkeypatch: pytest.MonkeyPatch) -> Any:
    """How a program with tables ends without blocks that count themselves and with them."""
    segments = {t.CODE: a.code([*t.mapped(), *words, a.b(0)]), **t.tables(rows)}
    seen: list[Result] = []
    for value in ("0", "1"):
        monkeypatch.setenv(known.OPTION, value)
        machine = Machine(image_of(segments, t.CODE), ram=16 << 20)
        machine.board.run(64)
        seen.append(machine.run(20_000))
    assert seen[0].differences(seen[1]) == {}
    return machine.board.cpu.engine.general()


def function(value: int, page: int) -> list[int]:
    """Write a function to a page that adds to X3, and have it be executed."""
    code = a.RET << 32 | a.add_imm(3, 3, value)
    return [*a.mov64(8, t.MEMORY + page * t.PAGE), *a.mov64(1, code), a.str_(1, 8)]


def test_a_page_that_is_mapped_elsewhere_is_executed_there(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {0: t.page(0, executed=True)}
    call = [*a.mov64(0, t.PAGES), *t.loop(60, [a.blr(0), a.blr(0)])]
    other = [*a.mov64(6, t.LEVEL3), *a.mov64(7, t.page(1, executed=True)), a.str_(7, 6)]
    other += [a.DSB_SY, t.TLBI_VMALLE1, a.DSB_SY, a.ISB]
    # the memory of these pages is at its own address, too
    program = [*function(1, 0), *function(100, 1), *call, *other, *call]
    assert differences(program, rows, monkeypatch)[3] == 120 * 101


def test_a_function_that_is_called_from_many_places_returns_to_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each place adds its own bit."""
    body = [op for n in range(8) for op in (a.blr(0), a.add_imm(10, 10, 1 << n))]
    program = [*function(1, 0), *a.mov64(0, t.MEMORY), *t.loop(50, body)]
    registers = differences(program, {}, monkeypatch)
    assert (registers[3], registers[10]) == (400, 50 * 255)
