"""PMBIDR_EL1.EA is 2: an External abort on record data is an SError, taken when it is unmasked."""

from __future__ import annotations

from dataclasses import astuple, replace

import pytest

from spe_unicorn.arch.registers import spe, system
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

CODE, VECTORS, NOWHERE, SOMEWHERE = 0x4000_0000, 0x4010_0000, 0x0B00_0000, 0x4020_0000
SERROR_HERE, SERROR_BELOW = 0x380, 0x580
"""Offsets of vectors: from the same Exception level with its own stack, from AArch64 below."""
EC_SERROR = 0x2F
A_BIT = 1 << 8
ISR_A = 1 << 8
COUNT = 100


def handler(el: int) -> bytes:
    """Keep the syndrome and the return address in X7 to X9, and stay."""
    op1 = (0, 0, 4, 6)[el]
    esr, elr = (3, op1, 5, 2, 0), (3, op1, 4, 0, 1)
    return a.code(
        [a.mrs(7, elr), a.mrs(8, esr), a.mrs(9, astuple(system.ISR_EL1.encoding)), a.b(0)]
    )


def machine_with(
    program: list[int], runner: type[Runner], pointer: int, ea: int = 2, vector: int = SERROR_HERE
) -> Machine:
    """A program that is profiled at EL1 from its first operation on, each 257th operation."""
    core = load_core("max")
    core = replace(core, impdef=replace(core.impdef, external_abort=ea))
    machine = Machine(image_of({CODE: a.code(program)}, CODE), runner=runner, core=core)
    machine.board.memory.fill(VECTORS + vector, handler(1 if vector == SERROR_HERE else 2))
    registers = machine.board.cpu.registers
    for register, value in (
        (system.VBAR_EL1, VECTORS),
        (system.VBAR_EL2, VECTORS),
        (spe.PMSIRR_EL1, 1 << 8),
        (spe.PMSICR_EL1, 0),
        (spe.PMSFCR_EL1, 0),
        (spe.PMBSR_EL1, 0),
        (spe.PMSCR_EL1, spe.PMSCR_EL1.of(E1SPE=1).value),
        (spe.PMBPTR_EL1, pointer),
        (spe.PMBLIMITR_EL1, pointer + 0x4000 | 1),
    ):
        registers.write(register, value)
    machine.board.handler.controls_written()
    machine.board.pes[0].unit.reload()
    return machine


LOOP = [*a.mov64(0, COUNT), a.subs_imm(0, 0, 1), a.b_cond(a.NE, -4)]
LOOPED = 1 + 2 * COUNT
MASKED = [
    *LOOP,
    *LOOP,
    a.mrs(5, astuple(system.ISR_EL1.encoding)),
    a.daifclr(4),
    a.add_imm(6, 6, 1),
    a.b(0),
]


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_abort_of_record_data_is_pending_until_serrors_are_unmasked(runner: type[Runner]) -> None:
    machine = machine_with(MASKED, runner, NOWHERE)
    machine.run(2 * LOOPED + 2 + 5)
    cpu, engine = machine.board.cpu, machine.board.cpu.engine
    assert len(machine.sampled) == 1
    assert engine.x(5) & ISR_A
    assert engine.x(6) == 0  # it was taken in front of the next operation
    assert engine.x(7) == CODE + 4 * (len(MASKED) - 2)
    assert engine.x(8) >> 26 == EC_SERROR
    assert not engine.x(9) & ISR_A  # taken once
    assert cpu.registers.read(spe.PMBSR_EL1) == spe.PMBSR_EL1(0)
    assert cpu.registers.raw(spe.PMBPTR_EL1) == NOWHERE + len(machine.sampled[0].record)


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_unmasked_it_is_taken_behind_the_sampled_operation(runner: type[Runner]) -> None:
    machine = machine_with([a.daifclr(4), *LOOP, *LOOP, a.b(0)], runner, NOWHERE)
    machine.run(450)
    (sampled,) = machine.sampled
    assert sampled.operation == 257
    # the loop's second run: 1 + 201 operations came before it, then MOVZ, SUBS, B.NE by turns
    assert sampled.pc == CODE + 4 * (1 + len(LOOP) + 1 + (257 - 1 - LOOPED - 1 - 1) % 2)
    following = {1: sampled.pc + 4, 2: sampled.pc - 4}
    is_branch = machine.operations[0].target is not None
    assert machine.board.cpu.engine.x(7) == following[2 if is_branch else 1]


@pytest.mark.parametrize("pointer", [SOMEWHERE, NOWHERE])
@pytest.mark.parametrize("ea", [1, 2])
def test_serror_comes_only_of_aborts_and_where_the_core_says_so(pointer: int, ea: int) -> None:
    machine = machine_with([a.daifclr(4), *LOOP, *LOOP, a.b(0)], Runner, pointer, ea)
    machine.run(2000)
    assert len(machine.sampled) > 1 or (pointer, ea) == (NOWHERE, 2)
    taken = machine.board.cpu.engine.x(8) >> 26 == EC_SERROR
    assert taken == ((pointer, ea) == (NOWHERE, 2))


def test_el2_takes_it_from_el1_whatever_el1_masks() -> None:
    machine = machine_with([*LOOP, *LOOP, a.b(0)], Runner, NOWHERE, vector=SERROR_BELOW)
    registers = machine.board.cpu.registers
    routed = registers.read(system.HCR_EL2).replace(AMO=1)
    registers.set_raw(system.HCR_EL2, routed.value)
    machine.board.handler.controls_written()
    assert machine.board.cpu.pstate & A_BIT
    machine.run(600)
    assert machine.board.cpu.el == 2
    assert machine.board.cpu.engine.x(8) >> 26 == EC_SERROR


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_pending_it_ends_a_wait_for_an_interrupt(runner: type[Runner]) -> None:
    machine = machine_with([*LOOP, *LOOP, a.WFI, a.add_imm(6, 6, 1), a.b(0)], runner, NOWHERE)
    machine.run(2 * LOOPED + 2)
    assert machine.board.cpu.engine.x(6) == 1


def test_both_runners_take_it_at_the_same_operation() -> None:
    program = [a.daifclr(4), *LOOP, *LOOP, a.b(0)]
    fast, stepped = (
        machine_with(program, runner, NOWHERE).run(1000) for runner in (Runner, ReferenceRunner)
    )
    assert fast.differences(stepped) == {}
