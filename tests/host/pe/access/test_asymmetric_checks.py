"""FEAT_MTE3: checks that are synchronous for what reads and asynchronous for what only writes.

Expected values are worked out by hand from AArch64.EffectiveTCF(), AArch64.CheckTag() and
MemAtomic() (Arm ARM J1.1), SCTLR_EL1.TCF (D24.2), and D10.7.
"""

from __future__ import annotations

import pytest

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.id import ID_AA64PFR1_EL1
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from tests.host.guests import put
from tests.host.pe.access.copy_words import PROLOGUE, cpyf
from tests.host.pe.access.tag_words import (
    ATA,
    ATA0,
    DATA,
    ESR_CHECK,
    MSR_TCO,
    VECTORS,
    stg,
    tag,
)
from tests.host.pe.access.tagged_boards import USER, tagged
from tests.support import a64 as a
from tests.support.small_boards import RAM, board_at

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
CORE = load_core("cortex-x4")
ASYMMETRIC, ASYMMETRIC0 = 3 << 40, 3 << 38
STXR = 0xC805_7C22
"""STXR W5, X2, [X1]."""


def after(code: list[int], runner: type[Runner], core: str = "cortex-x4") -> tuple[Board, int]:
    """The board after ``code``, whose last operation may fault, and where that operation is.

    The granules from DATA on have the tag 4, and X1 has an address there with the tag 7.
    """
    start = [*a.mov64(0, DATA), *a.mov64(3, tag(4)), stg(3, 0, 0, kind=2), stg(3, 0, 32, kind=2)]
    start += [*put(system.CPACR_EL1, 3 << 20 | 3 << 16), *put(system.TFSR_EL1, 0), a.ISB]
    start += [0x25D8_E3E0, *a.mov64(1, tag(7, DATA)), *a.mov64(2, 0x99), *a.mov64(4, 0)]
    whole = [*start, *code, a.b(0)]
    board, begun = tagged(whole, runner, ATA | ASYMMETRIC, core=load_core(core))
    board.run(len(whole) - 1)
    return board, RAM + 4 * (begun + len(whole) - 2)


@RUNNERS
@pytest.mark.parametrize(
    "word",
    [
        a.ldr(2, 1),
        0xA940_1022,  # LDP X2, X4, [X1]
        0x3DC0_0022,  # LDR Q2, [X1]
        0xC85F_7C22,  # LDXR X2, [X1]
        0xC8DF_FC22,  # LDAR X2, [X1]
        0xF822_0024,  # LDADD X2, X4, [X1]
        0xF822_003F,  # STADD X2, [X1]
        0xF822_8024,  # SWP X2, X4, [X1]
        0xC8A2_7C24,  # CAS X2, X4, [X1]
        0xA5E0_A020,  # LD1D {Z0.D}, P0/Z, [X1]
    ],
)
def test_what_reads_faults(word: int, runner: type[Runner]) -> None:
    """An atomic reads as well as it writes, and ESR_ELx.WnR is that of the read."""
    board, at = after([word], runner)
    registers = board.cpu.registers
    assert board.cpu.pc == VECTORS + 0x200
    assert registers.raw(system.ELR_EL1) == at
    assert registers.raw(system.ESR_EL1) == ESR_CHECK
    assert registers.raw(system.FAR_EL1) == tag(7, DATA)
    assert registers.raw(system.TFSR_EL1) == 0
    assert board.memory.read(DATA, 16) == bytes(16)


@RUNNERS
@pytest.mark.parametrize(
    ("word", "stored"),
    [
        (a.str_(2, 1), b"\x99"),
        (0xA900_1022, b"\x99"),  # STP X2, X4, [X1]
        (0xC89F_FC22, b"\x99"),  # STLR X2, [X1]
        (0xD50B_7421, b"\0"),  # DC ZVA, X1
        (0xE5E0_E020, b"\0"),  # ST1D {Z0.D}, P0, [X1]
    ],
)
def test_what_only_writes_is_noted(word: int, stored: bytes, runner: type[Runner]) -> None:
    fill = [*a.mov64(1, tag(4, DATA)), *a.mov64(6, 0x55), a.str_(6, 1), *a.mov64(1, tag(7, DATA))]
    board, at = after([*fill, word], runner)
    assert board.cpu.pc == at + 4
    assert board.cpu.registers.raw(system.TFSR_EL1) == 1
    assert board.memory.read(DATA, 8) == stored.ljust(8, b"\0")


@RUNNERS
def test_a_store_exclusive_is_noted(runner: type[Runner]) -> None:
    """The load exclusive before it is not checked, as PSTATE.TCO is 1 then."""
    board, at = after([MSR_TCO[1], 0xC85F_7C24, MSR_TCO[0], STXR], runner)
    assert board.cpu.pc == at + 4
    assert board.cpu.registers.raw(system.TFSR_EL1) == 1
    assert board.cpu.engine.x(5) == 0
    assert board.memory.read(DATA, 8) == b"\x99".ljust(8, b"\0")


@RUNNERS
@pytest.mark.parametrize(("source", "noted"), [(tag(7, DATA), 0), (tag(4, DATA), 1)])
def test_a_copy_reads_and_writes_apart(source: int, noted: int, runner: type[Runner]) -> None:
    """CPYFP: the source faults; the destination, whose tag is wrong in any case, is noted."""
    to = tag(7, DATA + 0x20)
    code = [*a.mov64(11, to), *a.mov64(12, source), *a.mov64(13, 16), cpyf(PROLOGUE, 11, 12, 13)]
    board, at = after(code, runner, "max")
    registers = board.cpu.registers
    assert board.cpu.pc == (at + 4 if noted else VECTORS + 0x200)
    assert registers.raw(system.TFSR_EL1) == noted
    if not noted:
        assert registers.raw(system.ESR_EL1) == ESR_CHECK
        assert registers.raw(system.FAR_EL1) == tag(7, DATA)


@RUNNERS
@pytest.mark.parametrize(
    ("word", "esr", "noted"), [(a.ldr(2, 1), 0x9200_0011, 0), (a.str_(2, 1), 0x5600_0000, 1)]
)
def test_el0_has_a_field_of_its_own(word: int, esr: int, noted: int, runner: type[Runner]) -> None:
    user = [*a.mov64(1, tag(7, USER - 0x800)), word, a.svc(0)]
    code = [*put(system.ELR_EL1, USER), *put(system.TFSRE0_EL1, 0)]
    code += [*put(system.SPSR_EL1, 0x3C0), a.ERET]
    board, _ = tagged(code, runner, ATA | ATA0 | ASYMMETRIC0, user=user, core=CORE)
    board.run(len(code) + len(user))
    assert board.cpu.registers.raw(system.ESR_EL1) == esr
    assert board.cpu.registers.raw(system.TFSRE0_EL1) == noted


@RUNNERS
def test_a_store_that_goes_on_leaves_what_a_load_finds(runner: type[Runner]) -> None:
    """The granule at DATA + 0x40 has the tag 0. The load begins in the one before."""
    ldur = 0xF840_4024  # LDUR X4, [X1, #4]
    board, at = after([*a.mov64(1, tag(4, DATA + 0x38)), a.str_(2, 1, 8), ldur], runner)
    assert board.cpu.pc == VECTORS + 0x200
    assert board.cpu.registers.raw(system.TFSR_EL1) == 1
    assert board.cpu.registers.raw(system.FAR_EL1) == tag(4, DATA + 0x40)
    assert board.cpu.registers.raw(system.ELR_EL1) == at


@pytest.mark.parametrize(
    ("core", "level"), [("neoverse-n2", 2), ("neoverse-v2", 3), ("cortex-x4", 3), ("max", 3)]
)
def test_the_field_shows_it(core: str, level: int) -> None:
    profile = load_core(core)
    assert (Feature.FEAT_MTE3 in profile.features) == (level == 3)
    registers = board_at([a.b(0)], el=1, core=profile).cpu.registers
    assert level == registers.read(ID_AA64PFR1_EL1).MTE
