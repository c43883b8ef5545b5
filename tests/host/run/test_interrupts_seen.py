"""An interrupt that Python has seen is entered at once: the engine begins at its vector."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from spe_unicorn.arch.exceptions.entry import ExceptionType
from spe_unicorn.arch.exceptions.syndromes import EC
from spe_unicorn.arch.registers import system
from spe_unicorn.host.accelerators import OPTION
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.small_boards import RAM

CODE, VECTORS = RAM, RAM + 0x2000
OF_IRQ, OF_SYNC = VECTORS + 0x280, VECTORS + 0x200
"""Vectors of exceptions from the same Exception level, with SP_ELx."""
PROLOGUE = [*a.mov64(0, VECTORS), a.msr(astuple(system.VBAR_EL1.encoding), 0), a.daifclr(0xF)]
LOOP = CODE + 4 * len(PROLOGUE)
NOWHERE = 0x7000_0000
"""An address at which there is neither memory nor a device."""


def machine_in_a_loop(runner: type[Runner] = Runner) -> Machine:
    """A machine at EL1 with interrupts unmasked. Its code is a loop, and so is each vector."""
    vectors = {VECTORS + 0x80 * n: a.code([a.b(0)]) for n in range(16)}
    machine = Machine(image_of({CODE: a.code([*PROLOGUE, a.b(0)]), **vectors}, CODE), runner=runner)
    machine.run(len(PROLOGUE) + 10)
    assert machine.board.cpu.pc == LOOP
    return machine


@pytest.mark.parametrize("accelerators", ["", "none"])
def test_the_engine_does_not_begin_where_the_interrupt_comes(
    accelerators: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OPTION, accelerators)
    machine = machine_in_a_loop()
    begun: list[int] = []
    execute = UnicornCPU.execute

    def noted(cpu: UnicornCPU, pc: int, until: int, **how: bool) -> int:
        begun.append(pc)
        return execute(cpu, pc, until, **how)

    monkeypatch.setattr(UnicornCPU, "execute", noted)
    before = machine.board.cpu.executed
    machine.board.pes[0].handler.interrupts.irq.set_level(True)
    result = machine.run(5)
    assert set(begun) == {OF_IRQ}
    taken = result.last_exception[0]
    assert taken is not None
    assert (taken.kind, taken.elr, taken.after) == (ExceptionType.IRQ, LOOP, before)
    assert machine.board.cpu.executed == before + 5


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_an_abort_of_the_fetch_comes_first(runner: type[Runner]) -> None:
    machine = machine_in_a_loop(runner)
    cpu = machine.board.cpu
    cpu.pc = NOWHERE
    machine.board.pes[0].handler.interrupts.irq.set_level(True)
    result = machine.run(2)
    taken = result.last_exception[0]
    assert taken is not None
    assert (taken.kind, taken.elr, taken.far) == (ExceptionType.SYNC, NOWHERE, NOWHERE)
    assert taken.esr is not None
    assert taken.esr >> 26 == EC.InstructionAbort + 1
    assert cpu.pc == OF_SYNC


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_a_masked_interrupt_waits(runner: type[Runner]) -> None:
    machine = machine_in_a_loop(runner)
    cpu = machine.board.cpu
    cpu.set_pstate(cpu.pstate | system.SPSR.I.mask)
    machine.board.pes[0].handler.interrupts.irq.set_level(True)
    machine.run(5)
    assert cpu.pc == LOOP
    cpu.set_pstate(cpu.pstate & ~system.SPSR.I.mask)
    machine.run(5)
    assert cpu.pc == OF_IRQ
