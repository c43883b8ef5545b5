"""An engine of a user's own, and guests for it, for the tests of the plugin."""

from __future__ import annotations

import pytest
from unicorn import (
    UC_ARCH_ARM64,
    UC_MODE_ARM,
    Uc,
)
from unicorn import arm64_const as regs

from spe_unicorn.plugin.attach import Attachment
from tests.support import a64 as a

CODE = 0x4000_0000
DATA = 0x4010_0000
BUFFER = 0x4018_0000
SIZE = 0x20_0000
DEFAULT, MAX = regs.UC_CPU_ARM64_A72, regs.UC_CPU_ARM64_MAX
MODELS = pytest.mark.parametrize("model", [DEFAULT, MAX], ids=["default", "max"])
PMSCR_EL1 = (3, 0, 9, 9, 0)
PMSICR_EL1 = (3, 0, 9, 9, 2)
PMSIRR_EL1 = (3, 0, 9, 9, 3)
PMSFCR_EL1 = (3, 0, 9, 9, 4)
PMBLIMITR_EL1 = (3, 0, 9, 10, 0)
PMBPTR_EL1 = (3, 0, 9, 10, 1)
PMBSR_EL1 = (3, 0, 9, 10, 3)
LOOP = [
    a.ldr9(3, 0, 8, a.POST),
    a.str9(3, 1, 8, a.POST),
    a.add(4, 4, 3),
    a.eor(5, 4, 3),
    a.tbz(4, 0, 8),
    a.add_imm(6, 6, 1),
    a.subs_imm(2, 2, 1),
    a.b_cond(a.NE, -28),
]
"""Copies and sums words; skips an operation where the sum is even."""


def program(rounds: int) -> list[int]:
    """The loop with its own start, and a NOP where it ends."""
    return [
        *a.mov64(0, DATA),
        *a.mov64(1, DATA + 0x4_0000),
        a.movz(2, rounds),
        a.movz(4, 0),
        a.movz(6, 0),
        *LOOP,
        a.NOP,
    ]


WORDS = bytes((7 * n + 3) & 0xFF for n in range(0x4_0000))


def engine(words: list[int], model: int | None = None) -> Uc:
    """A Uc as a user makes one. None leaves the model as the binding chooses it."""
    uc = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
    if model is not None and model != DEFAULT:
        uc.ctl_set_cpu_model(model)
    uc.mem_map(CODE, SIZE)
    uc.mem_write(CODE, a.code(words))
    uc.mem_write(DATA, WORDS)
    return uc


def end(words: list[int]) -> int:
    return CODE + 4 * len(words)


def collect(spe: Attachment) -> list[bytes]:
    raw: list[bytes] = []
    spe.on_record(lambda record, data: raw.append(bytes(data)))
    return raw


def guest(rounds: int) -> list[int]:
    """Profiles the loop as a driver does: interval 256, all packets, a buffer of 64 KiB."""
    return [
        a.msr(PMSCR_EL1, 31),  # UNKNOWN at reset
        *a.mov64(9, BUFFER),
        a.msr(PMBPTR_EL1, 9),
        *a.mov64(9, BUFFER + 0x1_0000 | 1),
        a.msr(PMBLIMITR_EL1, 9),
        a.msr(PMBSR_EL1, 31),
        a.movz(9, 256),
        a.msr(PMSIRR_EL1, 9),
        a.msr(PMSICR_EL1, 31),
        a.msr(PMSFCR_EL1, 31),
        *program(rounds)[: -len(LOOP) - 1],
        a.movz(9, 0b11_0010),  # TS, PA, E1SPE
        a.msr(PMSCR_EL1, 9),
        a.ISB,
        *LOOP,
        a.PSB_CSYNC,
        a.msr(PMSCR_EL1, 31),
        a.ISB,
        a.mrs(10, PMBPTR_EL1),
        a.mrs(11, PMBSR_EL1),
        a.NOP,
    ]
