"""Loads and stores of every kind and size, anywhere in the devices, with interrupts coming in."""

from __future__ import annotations

from pathlib import Path
from random import Random

from hostile import control, levels, program, run, value

from spe_unicorn.machine.memory_map import FIXED, Kind
from tests.support import a64 as a

ACCESSES = 150
OPERATIONS = 30_000
WINDOWS = [region for region in FIXED if region.kind is Kind.DEVICE]
SMALL = 0x1000
"""Most registers of a device are within so many bytes of its start, or of a frame of its."""
ICC_SRE, ICC_PMR, ICC_IGRPEN1 = (3, 0, 12, 12, 5), (3, 0, 4, 6, 0), (3, 0, 12, 12, 7)
ICC_IAR1, ICC_EOIR1 = (3, 0, 12, 12, 0), (3, 0, 12, 12, 1)
TIMERS = ((3, 3, 14, 3, 1), (3, 3, 14, 3, 2), (3, 3, 14, 2, 1), (3, 3, 14, 2, 2))


def _address(random: Random) -> int:
    window = random.choice(WINDOWS)
    offset = random.randrange(min(SMALL, window.size))
    if random.random() < 0.6:
        offset &= ~3
    if window.size > SMALL and random.random() < 0.5:
        offset += random.randrange(window.size // 0x1_0000 or 1) * 0x1_0000 % window.size
    return min(window.base + offset, window.end - 1)


def _access(random: Random) -> int:
    """An access of [X1], of X2 or V2."""
    size = random.randrange(4)
    return random.choice(
        (
            a.ldr(2, 1, 0, size),
            a.str_(2, 1, 0, size),
            a.ldr(2, 1, 0, 2),
            a.str_(2, 1, 0, 2),
            a.ldrs(2, 1, 0, min(size, 2)),
            a.ldr9(2, 1, 4, a.POST, size),
            a.str9(2, 1, -4, a.PRE, size),
            a.pair(True, 2, 3, 1),
            a.pair(False, 2, 3, 1),
            a.ldr_q(2, 1),
            a.str_q(2, 1),
            a.ld1_two(2, 1),
            a.st2_post(2, 1, 31),
            a.ldxr(2, 1),
            a.stxr(3, 2, 1),
            a.ldadd(2, 3, 1),
            a.swp(2, 3, 1),
            a.cas(2, 3, 1),
            a.ldar(2, 1),
            a.stlr(2, 1),
            a.dc_zva(1),
            a.br(1),
        )
    )


def _between(random: Random) -> list[int]:
    return random.choice(
        (
            [],
            [],
            [],
            [a.daifclr(15)],
            [a.daifset(15)],
            [a.WFE],
            [a.WFI],
            [a.movz(0, 7), a.msr(ICC_SRE, 0), a.movz(0, 255), a.msr(ICC_PMR, 0)],
            [a.movz(0, 1), a.msr(ICC_IGRPEN1, 0), a.ISB],
            [a.mrs(0, ICC_IAR1), a.msr(ICC_EOIR1, 0)],
            [*a.mov64(0, value(random)), a.msr(random.choice(TIMERS), 0)],
            [a.movz(0, random.randrange(4)), a.msr(random.choice(TIMERS), 0)],
            control(random),
        )
    )


def attack(random: Random, folder: Path) -> int:
    """One program of such accesses."""
    start, target = levels(random)
    code = []
    for _ in range(ACCESSES):
        stored = value(random) if random.random() < 0.5 else random.getrandbits(32)
        code += [*a.mov64(1, _address(random)), *a.mov64(2, stored), _access(random)]
        code += _between(random)
    elf = program(random, code, start=start, target=target)
    secure = ["--secure"] if start == 3 and random.random() < 0.5 else []
    run(random, folder, elf, start, OPERATIONS, *secure)
    return ACCESSES
