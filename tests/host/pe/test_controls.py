"""What registers mean for the hooks is remembered by their values, and never goes stale."""

from __future__ import annotations

from dataclasses import fields
from random import Random

from spe_unicorn.arch.access.debug import EMULATED
from spe_unicorn.arch.access.kernel import KERNEL_ACCESSORS
from spe_unicorn.arch.access.spe import STEERING_ACCESSORS
from spe_unicorn.arch.access.timer import TIMER_ACCESSORS
from spe_unicorn.arch.access.verdicts import SystemAccessTrap, access
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL2, PEAt
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import (
    CNTHCTL_EL2,
    CNTKCTL_EL1,
    CPACR_EL1,
    CPTR_EL2,
    HCR_EL2,
    MDCR_EL2,
    SCR_EL3,
)
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.engine_traps import _SOME_TRAPS_MISSED, missed_traps
from spe_unicorn.host.pe.meaning import Meaning, legal_returns_of, meaning_of
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of


def values(meaning: Meaning) -> dict[str, object]:
    return {field.name: getattr(meaning, field.name) for field in fields(Meaning)}


def writable(cpu: UnicornCPU) -> list[type[SysReg]]:
    return [register for register in cpu.registers if not register.read_only]


def test_whatever_register_changes_the_hooks_are_told_what_it_means_now() -> None:
    machine = Machine(image_of({0x4000_0000: a.code([a.b(0)])}, 0x4000_0000), core="max")
    cpu, handler = machine.board.cpu, machine.board.handler
    assert Feature.FEAT_VHE in cpu.features
    cpu.start(EL2, 0x4000_0000)
    random = Random(1)
    seen = set()
    for _ in range(600):
        register = random.choice(writable(cpu))
        cpu.registers.set_raw(register, random.getrandbits(64))
        handler.controls.changed()
        fresh = meaning_of(cpu, legal_returns_of(cpu))
        assert values(handler.controls._meaning) == values(fresh), register.__name__
        state = cpu.state
        told = (state.counters, state.engine_identity, state.legal_returns)
        assert told == (fresh.counters, fresh.engine_identity, fresh.legal_returns)
        seen.add((fresh.fp_traps, fresh.psb_traps, *told))
    assert len(seen) > 10


def test_what_registers_come_to_is_remembered_for_all_pes_of_a_kind() -> None:
    first, second = (
        Machine(image_of({0x4000_0000: a.code([a.b(0)])}, 0x4000_0000)).board for _ in range(2)
    )
    remembered = first.handler.controls._meaning
    assert second.handler.controls._meaning is remembered
    first.cpu.registers.set_raw(CPACR_EL1, 0b11 << 20)
    first.handler.controls.changed()
    assert first.handler.controls._meaning is not remembered
    assert second.handler.controls._meaning is remembered


def test_traps_that_the_engine_misses_are_found_register_by_register() -> None:
    """Against all accessors in both directions: a trap is the engine's or it is missed."""
    machine = Machine(image_of({0x4000_0000: a.code([a.b(0)])}, 0x4000_0000), core="max")
    cpu = machine.board.cpu
    random = Random(2)
    steering = (CNTHCTL_EL2, CNTKCTL_EL1, CPACR_EL1, CPTR_EL2, HCR_EL2, MDCR_EL2, SCR_EL3)
    found = 0
    for _ in range(150):
        for register in steering:
            if register in cpu.registers:
                cpu.registers.set_raw(register, random.choice((0, random.getrandbits(44))))
        for el in range(4):
            pe = PEAt(cpu, el)
            missed = missed_traps(pe)
            expected = set()
            for accessor in (*KERNEL_ACCESSORS, *TIMER_ACCESSORS, *STEERING_ACCESSORS):
                takes = _SOME_TRAPS_MISSED.get(accessor.register)
                if takes is None or accessor.encoding.op1 == 5:
                    continue
                for read in (True, False):
                    verdict = access(pe, accessor, read=read)
                    if isinstance(verdict, SystemAccessTrap) and not takes(pe, verdict):
                        expected.add(accessor.encoding.key | read << 16)
            for accessor in EMULATED:  # all their traps are the host's
                for read in (True, False):
                    if isinstance(access(pe, accessor, read=read), SystemAccessTrap):
                        expected.add(accessor.encoding.key | read << 16)
            assert set(missed) == expected
            found += len(missed)
    assert found > 100
