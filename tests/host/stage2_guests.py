"""Random programs as guests, whose pages of 4 KiB are mapped at stage 2 when they are touched.

The tables are random. The hypervisor maps a page upon each stage 2 fault, and unmaps vectors or
code at every fourth exit. It lies above the memory of the program, of whose registers it changes
PAR_EL1 alone.
"""

from __future__ import annotations

import struct
from dataclasses import astuple
from random import Random

from spe_unicorn.arch.registers import system
from spe_unicorn.machine.boot.image import Image
from spe_unicorn.machine.memory_map import RAM_BASE
from tests.host.guests import EL1H, FROM_LOWER, put
from tests.support import a64 as a
from tests.support.machine_runs import image_of
from tests.support.random_programs import RAM as GUEST_SIZE
from tests.support.random_programs import RESUME, Settings, random_program

RAM = 2 * GUEST_SIZE
HYPERVISOR = RAM_BASE + GUEST_SIZE
VECTORS, SAVED = HYPERVISOR + 0x1000, HYPERVISOR + 0x2000
LEVEL1, LEVEL2, LEVEL3 = HYPERVISOR + 0x4000, HYPERVISOR + 0x5000, HYPERVISOR + 0x6000
"""Stage 2 tables; those of level 3 follow one another."""
_PAGES = GUEST_SIZE >> 12
_READ, _WRITE, _NEVER_EXECUTE, _ACCESSED = 1 << 6, 1 << 7, 1 << 54, 1 << 10
_NORMAL = _READ | _WRITE | _ACCESSED | 0b11 << 8 | 0b1111 << 2
_TABLE = 0b11
_VTCR = system.VTCR_EL2.of(T0SZ=25, SL0=1, PS=2).value | 1 << 31
_TRAPS = tuple(1 << bit for bit in range(13, 26))
"""HCR_EL2.TWI to TTLB. What is trapped is skipped, so no trap keeps the program from its MMU."""
_MDCR, _PAR = astuple(system.MDCR_EL2.encoding), (3, 0, 7, 4, 0)
_ESR, _ELR = astuple(system.ESR_EL2.encoding), astuple(system.ELR_EL2.encoding)
_FAR, _HPFAR = astuple(system.FAR_EL2.encoding), astuple(system.HPFAR_EL2.encoding)
_TLBI_VMALLS12E1IS = a.sys(4, 8, 3, 6)
_HASH = 2_654_435_761


def _lsl(rd: int, rn: int, shift: int) -> int:
    return 0xD340_0000 | 64 - shift << 16 | 63 - shift << 10 | rn << 5 | rd


def _handler() -> list[int]:
    """What EL2 does upon a synchronous exception from below."""
    restore = [
        *[a.ldr(4, 31, 32), a.pair(True, 2, 3, 31, 16), a.pair(True, 0, 1, 31)],
        a.ERET,
    ]
    skip = [a.mrs(1, _ELR), a.add_imm(1, 1, 4), a.msr(_ELR, 1), *restore]
    # where no page can be mapped: a fetch resumes where the program says, an access is skipped
    outside = [a.tbnz(0, 28, 4 * (2 + len(restore))), a.msr(_ELR, RESUME), *restore, *skip]
    other = [a.lsr_imm(1, 0, 26), a.sub_imm(1, 1, 0x16), a.cbnz(1, 4 * (1 + len(restore)))]
    other += [*restore, *skip]  # HVC returns, what is trapped is skipped
    flush = [a.DSB_SY, _TLBI_VMALLS12E1IS, a.DSB_SY, a.ISB]
    map_page = [
        *[*a.mov64(3, _NORMAL | _TABLE), _lsl(1, 1, 12), a.orr(1, 1, 3)],
        *[*a.mov64(3, LEVEL3), a.str_reg(1, 3, 2, a.LSL, 1), *flush, *restore],
    ]
    # X1 is the page number: of the guest's memory, or not
    found = [a.movz(2, RAM_BASE >> 28, 16), a.subs(2, 1, 2), a.lsr_imm(3, 2, 10)]
    found += [a.cbz(3, 4 * (1 + len(outside))), *outside, *map_page]
    # a permission fault writes HPFAR_EL2 for a stage 1 walk only
    by_at = [a.mrs(1, _FAR), a.sys(0, 7, 8, 0, 1), a.ISB, a.mrs(1, _PAR)]
    by_at += [a.tbz(1, 0, 4 * (1 + len(outside))), *outside]
    by_at += [a.lsr_imm(1, 1, 12), a.and_low_bits(1, 1, 0, 36)]
    by_hpfar = [a.mrs(1, _HPFAR), a.lsr_imm(1, 1, 4), a.b(4 * (1 + len(by_at)))]
    abort = [a.tbnz(0, 7, 16), a.and_low_bits(1, 0, 2, 4), a.sub_imm(1, 1, 0xC)]
    abort += [a.cbz(1, 4 * (1 + len(by_hpfar))), *by_hpfar, *by_at, *found]
    # at every fourth exit: one of the pages of the vectors and the code
    unmap = [
        *[*a.mov64(3, _HASH), a.mul(3, 3, 4), a.lsr_imm(3, 3, 20), a.and_low_bits(2, 3, 0, 1)],
        *[a.and_low_bits(3, 3, 4, 1), a.orr(3, 3, 2)],
        *[*a.mov64(2, LEVEL3), a.str_reg(31, 2, 3, a.LSL, 1), *flush],
    ]
    return [
        *[a.pair(False, 0, 1, 31), a.pair(False, 2, 3, 31, 16), a.str_(4, 31, 32)],
        *[a.ldr(4, 31, 40), a.add_imm(4, 4, 1), a.str_(4, 31, 40), a.and_low_bits(3, 4, 0, 2)],
        *[a.cbnz(3, 4 * (1 + len(unmap))), *unmap],
        *[a.mrs(0, _ESR), a.lsr_imm(1, 0, 26), a.movz(2, 4), a.orr(1, 1, 2)],
        *[a.sub_imm(1, 1, 0x24), a.cbz(1, 4 * (1 + len(other))), *other],
        *abort,
    ]


def _page(random: Random, address: int) -> int:
    """A level 3 descriptor: none, a good one, or one that refuses something."""
    if random.random() < 0.6:
        return random.getrandbits(64) & ~1
    page = address | _NORMAL | _TABLE
    for refuses in (_READ, _WRITE, _ACCESSED):
        if random.random() < 0.15:
            page &= ~refuses
    return page | (_NEVER_EXECUTE if random.random() < 0.15 else 0)


def _tables(random: Random) -> dict[int, bytes]:
    """Tables with blocks one to one, but for the memory of the program."""
    gibibytes = [n << 30 | _NORMAL | 1 for n in range(512)]
    gibibytes[RAM_BASE >> 30] = LEVEL2 | _TABLE
    blocks = [RAM_BASE + (n << 21) | _NORMAL | 1 for n in range(512)]
    for number in range(_PAGES // 512):
        blocks[number] = LEVEL3 + 0x1000 * number | _TABLE
    pages = [_page(random, RAM_BASE + 0x1000 * n) for n in range(_PAGES)]
    return {
        LEVEL1: struct.pack("<512Q", *gibibytes),
        LEVEL2: struct.pack("<512Q", *blocks),
        LEVEL3: struct.pack(f"<{_PAGES}Q", *pages),
    }


def stage2_guest(seed: int, settings: Settings) -> Image:
    """The random program of a seed, and its hypervisor, which starts at EL2."""
    random = Random(f"stage 2 {seed}")
    program = random_program(seed, settings)
    hcr = 1 << 31 | 1 | sum(bit for bit in _TRAPS if random.random() < 0.25)
    boot = [
        *[*put(system.VBAR_EL2, VECTORS), *a.mov64(0, SAVED), a.add_imm(31, 0, 0)],
        *[
            *put(system.VTTBR_EL2, LEVEL1 | random.randrange(256) << 48),
            *put(system.VTCR_EL2, _VTCR),
        ],
        *[a.mrs(1, _MDCR), a.movz(0, 0b11 << 12), a.orr(0, 0, 1), a.msr(_MDCR, 0)],
        *[
            *put(system.HCR_EL2, hcr),
            *put(system.SPSR_EL2, EL1H),
            *put(system.ELR_EL2, program.entry),
        ],
        a.ERET,
    ]
    segments = {segment.address: segment.data for segment in program.segments}
    segments |= {
        HYPERVISOR: a.code(boot),
        VECTORS + 0x200: a.code([a.b(0)]),
        VECTORS + FROM_LOWER: a.code([a.b(0x400), *[a.NOP] * 31, a.ERET]),
        VECTORS + FROM_LOWER + 0x400: a.code(_handler()),
        **_tables(random),
    }
    return image_of(segments, HYPERVISOR)
