"""SPE on an engine of somebody else's: the exceptions that it raises, and its PMU events."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unicorn import UC_HOOK_INTR, Uc
from unicorn import arm64_const as regs

import spe_unicorn
from spe_unicorn.cores.profile import Core, load_core
from spe_unicorn.plugin.attach import Attachment, ProfilingExceptionError
from spe_unicorn.spe.feed import SampleEvent
from tests.support import a64 as a
from tests.support.user_engine import BUFFER, CODE, MAX, MODELS, collect, end, engine, guest

VECTORS = CODE + 0x1_0000
SYNC_HERE, SERROR_HERE = 0x200, 0x380
VBAR_EL1, ELR_EL1, ESR_EL1 = (3, 0, 12, 0, 0), (3, 0, 4, 0, 1), (3, 0, 5, 2, 0)
PROFILING_ESR = 0x3D << 26 | 1 << 25 | 0b10  # EC, IL, FSC: SPE
NOWHERE = 0x0900_0000
UNMASK_PM, MASK_PM = 0xD501_421F, 0xD501_431F  # MSR PM, #0 and #1
PERIOD = 257
"""Operations from sample to sample with PMSIRR_EL1.INTERVAL 1."""
COUNT = 400
WORK = [a.add_imm(3, 3, 1), a.subs_imm(2, 2, 1), a.b_cond(a.NE, -8)]


def programmed(
    words: list[int], core: Core | str = "max", *, room: int = 0, vectors: bool = True
) -> tuple[Uc, Attachment]:
    """An engine whose ``words`` are profiled from outside its program, up to ``room`` bytes."""
    uc = engine(words, MAX)
    spe = spe_unicorn.attach(uc, core=core)
    if vectors:
        uc.mem_write(VECTORS + SYNC_HERE, a.code([a.mrs(7, ELR_EL1), a.mrs(8, ESR_EL1), a.b(0)]))
        uc.mem_write(VECTORS + SERROR_HERE, a.code([a.mrs(8, ESR_EL1), a.b(0)]))
        uc.reg_write(regs.UC_ARM64_REG_VBAR_EL1, VECTORS)
    registers = spe.registers
    registers.PMBPTR_EL1 = BUFFER + 0x1000 - room
    registers.PMBLIMITR_EL1 = BUFFER + 0x1000 | 1
    registers.PMSFCR_EL1 = registers.PMSICR_EL1 = registers.PMBSR_EL1 = 0
    registers.PMSIRR_EL1 = 1 << 8
    registers.PMSCR_EL1 = 0b10  # E1SPE
    return uc, spe


def raises_at_el1(spe: Attachment) -> None:
    """EL3 and EL2 let EL1 have the exception; EL1 wants it, at EL1 too."""
    spe.registers.MDCR_EL3.PMSEE = 1
    spe.registers.PMSCR_EL2.EE = 1
    spe.registers.PMSCR_EL1.EE = 3
    spe.registers.PMSCR_EL1.KE = 1


def test_a_full_buffer_raises_the_profiling_exception_where_the_guest_wants_it() -> None:
    words = [a.movz(2, COUNT), *WORK, a.NOP]
    uc, spe = programmed(words, room=320)
    raises_at_el1(spe)
    records = collect(spe)
    spe.emu_start(CODE, end(words), count=4 * PERIOD)
    assert len(records) == 2  # of 64 bytes each; behind them none of 256 bytes fits
    taken_behind = 2 * PERIOD  # MOVZ, then rounds of three: the next operation is
    assert uc.reg_read(regs.UC_ARM64_REG_X7) == CODE + 4 + 4 * ((taken_behind - 1) % 3)
    assert uc.reg_read(regs.UC_ARM64_REG_X8) == PROFILING_ESR
    assert uc.reg_read(regs.UC_ARM64_REG_PC) == VECTORS + SYNC_HERE + 8
    assert spe.registers.PMBSR_EL1.S == 1


@pytest.mark.parametrize("wanted", ["EE", "KE"])
def test_without_both_controls_a_full_buffer_is_told_by_its_register_alone(wanted: str) -> None:
    words = [a.movz(2, COUNT), *WORK, a.NOP]
    uc, spe = programmed(words, room=320)
    raises_at_el1(spe)
    setattr(spe.registers.PMSCR_EL1, wanted, 0)
    spe.emu_start(CODE, end(words))
    assert uc.reg_read(regs.UC_ARM64_REG_PC) == end(words)
    assert spe.registers.PMBSR_EL1.S == 1


def test_masked_it_waits_until_the_guest_unmasks_it() -> None:
    words = [MASK_PM, a.movz(2, COUNT), *WORK, a.movz(6, 1), UNMASK_PM, a.movz(6, 2), a.NOP]
    uc, spe = programmed(words, room=320)
    raises_at_el1(spe)
    spe.emu_start(CODE, end(words), count=4 * PERIOD + COUNT)
    assert uc.reg_read(regs.UC_ARM64_REG_X8) == PROFILING_ESR
    assert uc.reg_read(regs.UC_ARM64_REG_X6) == 1
    assert uc.reg_read(regs.UC_ARM64_REG_X7) == CODE + 4 * (len(words) - 2)


def test_without_vectors_it_is_an_error_that_names_the_level() -> None:
    words = [a.movz(2, COUNT), *WORK, a.NOP]
    uc, spe = programmed(words, room=320, vectors=False)
    raises_at_el1(spe)
    with pytest.raises(ProfilingExceptionError, match="Profiling exception before") as caught:
        spe.emu_start(CODE, end(words))
    assert caught.value.target_el == 1
    assert uc.reg_read(regs.UC_ARM64_REG_PC) in range(CODE + 4, end(words), 4)


def test_runs_of_the_users_own_do_not_stop_for_what_is_pending() -> None:
    words = [a.movz(2, COUNT), *WORK, a.NOP]
    uc, spe = programmed(words, room=320, vectors=False)
    raises_at_el1(spe)
    with pytest.raises(ProfilingExceptionError):
        spe.emu_start(CODE, end(words))
    uc.emu_start(CODE, end(words))
    assert uc.reg_read(regs.UC_ARM64_REG_PC) == end(words)
    spe.registers.PMBSR_EL1 = 0
    spe.emu_start(CODE, CODE + 4)  # nothing is pending any more
    assert uc.reg_read(regs.UC_ARM64_REG_PC) == CODE + 4


def test_hooks_for_interrupts_do_not_see_what_spe_raises() -> None:
    words = [a.movz(2, COUNT), *WORK, a.NOP]
    uc, spe = programmed(words, room=320)
    raises_at_el1(spe)
    numbers: list[int] = []
    uc.hook_add(UC_HOOK_INTR, lambda uc, number, data: numbers.append(number))
    spe.emu_start(CODE, end(words), count=3 * PERIOD)
    assert uc.reg_read(regs.UC_ARM64_REG_X8) == PROFILING_ESR
    assert numbers == []


@pytest.mark.parametrize("ea", [1, 2])
def test_record_data_that_aborts_is_an_serror_where_the_core_says_so(ea: int) -> None:
    core = load_core("max")
    core = replace(core, impdef=replace(core.impdef, external_abort=ea))
    unmask = a.daifclr(4)
    words = [unmask, a.movz(2, COUNT), *WORK, a.NOP]
    uc, spe = programmed(words, core)
    spe.registers.PMBPTR_EL1 = NOWHERE
    spe.registers.PMBLIMITR_EL1 = NOWHERE + 0x1000 | 1
    spe.emu_start(CODE, end(words), count=2 * PERIOD)
    taken = uc.reg_read(regs.UC_ARM64_REG_X8) >> 26 == 0x2F
    assert taken == (ea == 2)


# PMU events


@MODELS
def test_events_are_counted_as_the_guest_samples(model: int) -> None:
    words = guest(1000)
    uc = engine(words, model)
    spe = spe_unicorn.attach(uc, core="max" if model == MAX else "generic")
    records = collect(spe)
    assert spe.events.counts == {}
    spe.emu_start(CODE, end(words) - 4)
    counts = spe.events.counts
    assert counts[SampleEvent.POP] == spe.statistics.population > 0
    assert counts[SampleEvent.FEED] == counts[SampleEvent.FILTRATE] == len(records) > 0
    loads = sum(raw.count(b"\x49\x00", 0) > 0 for raw in records)
    assert counts[SampleEvent.FEED_LD] == loads
    assert SampleEvent.BUFFER_FULL not in counts


def test_a_full_buffer_and_collisions_are_events() -> None:
    words = [a.movz(2, COUNT), *WORK, a.NOP]
    _, spe = programmed(words, room=320)
    spe.emu_start(CODE, end(words))
    assert spe.events.counts[SampleEvent.BUFFER_FULL] == 1
    assert SampleEvent.COLLISION not in spe.events.counts


def test_sampling_from_outside_is_no_event_of_the_guests() -> None:
    words = [a.movz(2, COUNT), *WORK, a.NOP]
    uc = engine(words, MAX)
    spe = spe_unicorn.attach(uc)
    spe.program(interval=10)
    records = collect(spe)
    spe.emu_start(CODE, end(words))
    assert len(records) == (1 + 3 * COUNT) // 10
    assert spe.events.counts == {}
