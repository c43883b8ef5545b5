"""Blocks that begin at the same address and are not equally long."""

from __future__ import annotations

from dataclasses import astuple

from spe_unicorn.arch.registers import system
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.support import a64 as a
from tests.support.machine_runs import Machine, Result, image_of

CODE = 0x4000_0000
VECTORS = CODE + 0x1000
CURRENT_EL_SPX = VECTORS + 0x200
CPACR = astuple(system.CPACR_EL1.encoding)
CNTB_X6 = 0x0420_E3E6
ERET = 0xD69F_03E0
LOOP = [
    a.msr(CPACR, 1),
    a.ISB,
    CNTB_X6,  # traps, and so ends its block; when it is executed again, the block goes on
    *[a.ldr(4 + n, 0, 8 * n) for n in range(8) if 4 + n != 6],
    a.subs_imm(3, 3, 1),
]
PROGRAM = [
    *(*a.mov64(9, VECTORS), a.msr(astuple(system.VBAR_EL1.encoding), 9)),
    *(a.movz(1, 0), a.movz(2, 0b11, 16), a.movz(3, 400)),
    *a.mov64(0, CODE + 0x8000),
    *LOOP,
    a.b_cond(1, -4 * len(LOOP)),
    a.b(0),
]
HANDLER = [a.msr(CPACR, 2), a.ISB, ERET]


def sampled_run(runner: type[Runner] | type[ReferenceRunner], period: int) -> Result:
    image = image_of({CODE: a.code(PROGRAM), CURRENT_EL_SPX: a.code(HANDLER)}, CODE)
    return Machine(image, runner=runner, period=period).run(6000)


def test_an_operation_behind_one_that_no_longer_traps_is_sampled_as_by_stepping() -> None:
    for period in (3, 13, 61):
        fast, plain = sampled_run(Runner, period), sampled_run(ReferenceRunner, period)
        assert not fast.differences(plain)
        assert len(fast.records) == 6000 // period


FUNCTION = CODE + 0x2000
ONE, OTHER = a.ldr(0, 8, 8), a.add_imm(0, 0, 1)
ROUND = [
    a.str_(5, 1, size=2),
    a.sys(3, 7, 5, 1, 1),  # IC IVAU
    a.ISB,
    a.eor(5, 5, 6),
    a.blr(1),
    a.subs_imm(3, 3, 1),
]
REWRITING = [
    *(*a.mov64(1, FUNCTION), *a.mov64(5, ONE), *a.mov64(6, ONE ^ OTHER), a.movz(3, 300)),
    *a.mov64(8, CODE + 0x8000),
    *ROUND,
    a.b_cond(1, -4 * len(ROUND)),
    a.b(0),
]


def test_samples_of_a_function_that_changes_are_of_the_operation_that_was_executed() -> None:
    function = [OTHER, a.add(4, 4, 0), a.ldr(7, 8), a.ret()]
    image = image_of({CODE: a.code(REWRITING), FUNCTION: a.code(function)}, CODE)

    def run(runner: type[Runner] | type[ReferenceRunner]) -> Machine:
        machine = Machine(image, runner=runner, period=7)
        machine.run(3000)
        return machine

    fast, plain = run(Runner), run(ReferenceRunner)
    assert [o.instruction.word for o in fast.operations] == [
        o.instruction.word for o in plain.operations
    ]
    assert {ONE, OTHER} <= {o.instruction.word for o in fast.operations}
    assert fast.sampled == plain.sampled
