"""EL1 names at EL2 with HCR_EL2.E2H: registers of EL2, also where compiled code answers."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from spe_unicorn.arch.pe import EL2
from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

CODE = 0x4000_0000
VECTORS = CODE + 0x1000
E2H, TGE, RW = 1 << 34, 1 << 27, 1 << 31
PAIRS: dict[type[SysReg], type[SysReg]] = {
    system.ESR_EL1: system.ESR_EL2,
    system.FAR_EL1: system.FAR_EL2,
    system.ELR_EL1: system.ELR_EL2,
    system.SPSR_EL1: system.SPSR_EL2,
}
OLD, NEW = 0x2000_03C9, 0x4000_0BC9
"""Also two values of SPSR_EL2 from which an ERET goes to EL2."""
RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])


def put(register: type[SysReg], value: int) -> list[int]:
    return [*a.mov64(0, value), a.msr(astuple(register.encoding), 0)]


def run(runner: type[Runner], words: list[int]) -> Machine:
    """Run ``words`` and what is before them as a host at EL2."""
    loop = a.code([a.b(0)])
    vectors = {VECTORS + 0x80 * n: loop for n in range(16)}
    begin = [*put(system.HCR_EL2, E2H | TGE | RW), *put(system.VBAR_EL2, VECTORS), a.ISB]
    code = a.code([*begin, *words, a.b(0)])
    machine = Machine(image_of({CODE: code, **vectors}, CODE), runner=runner, el=EL2)
    machine.run(len(begin) + len(words) + 8)
    return machine


@RUNNERS
@pytest.mark.parametrize("name", PAIRS, ids=lambda register: register.__name__)
def test_el1_name_is_el2s_register_at_el2(runner: type[Runner], name: type[SysReg]) -> None:
    read = a.mrs(1, astuple(name.encoding))
    machine = run(runner, [*put(PAIRS[name], OLD), read, *put(name, NEW)])
    registers = machine.board.cpu.registers
    assert machine.board.cpu.engine.x(1) == OLD
    assert registers.raw(PAIRS[name]) == NEW
    assert registers.raw(name) != NEW


@RUNNERS
def test_return_from_an_illegal_spsr_written_by_its_el1_name_is_illegal(
    runner: type[Runner],
) -> None:
    to_el1_with_tge = 0x3C5
    words = [*put(system.SPSR_EL1, to_el1_with_tge), *put(system.ELR_EL1, CODE + 0x100), a.ERET]
    cpu = run(runner, words).board.cpu
    assert cpu.el == EL2
    assert cpu.registers.raw(system.ESR_EL2) == 0x3A00_0000  # illegal execution state
    assert cpu.pc == VECTORS + 0x200


@RUNNERS
def test_legal_spsr_written_by_its_el1_name_makes_the_return_legal_again(
    runner: type[Runner],
) -> None:
    to_el1_with_tge, to_el2 = 0x3C5, 0x3C9
    target = CODE + 0x100
    words = [*put(system.SPSR_EL1, to_el1_with_tge), *put(system.SPSR_EL1, to_el2)]
    cpu = run(runner, [*words, *put(system.ELR_EL1, target), a.ERET]).board.cpu
    assert cpu.el == EL2
    assert cpu.registers.raw(system.ELR_EL2) == target
