"""Records tell the context of their operation, whenever CONTEXTIDR_EL1 was written."""

from __future__ import annotations

import itertools
from dataclasses import astuple

import pytest

from spe_unicorn.arch.registers import spe
from spe_unicorn.arch.registers import system as s
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.spe.record import PlacedRecord, read_record
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

CODE = 0x4000_0000
BUFFER = CODE + 0x10_0000
FIRST, SECOND, THIRD = 0x1111, 0x2222, 0x3333
LOOP = [a.subs_imm(3, 3, 1), a.b_cond(a.NE, -4)]


def put(register: type[SysReg], value: int) -> list[int]:
    return [*a.mov64(0, value), a.msr(astuple(register.encoding), 0)]


def context(value: int) -> list[int]:
    return [*put(s.CONTEXTIDR_EL1, value), a.ISB]


def profile(enabled: bool) -> list[int]:
    pmscr = spe.PMSCR_EL1.of(E1SPE=int(enabled), CX=1).value
    return [*put(spe.PMSCR_EL1, pmscr), a.ISB]


SOME_WORK = [a.movz(3, 1200), *LOOP]
PROGRAM = [
    *put(spe.PMBPTR_EL1, BUFFER),
    *put(spe.PMBLIMITR_EL1, BUFFER + 0x1_0000 | 1),
    *put(spe.PMBSR_EL1, 0),
    *put(spe.PMSFCR_EL1, 0),
    *put(spe.PMSIRR_EL1, 256),
    *put(spe.PMSICR_EL1, 0),
    *(*context(FIRST), *profile(True), *SOME_WORK),
    *(*profile(False), *context(SECOND), *SOME_WORK),  # nobody looks
    *(*profile(True), *SOME_WORK),
    *(*context(FIRST), *SOME_WORK),  # what was known when somebody last looked
    *(*context(THIRD), *SOME_WORK),
    *(*profile(False), a.PSB_CSYNC, a.DSB_SY, a.b(0)),
]


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_records_have_the_context_of_their_operation(runner: type[Runner]) -> None:
    machine = Machine(image_of({CODE: a.code(PROGRAM)}, CODE), runner=runner)
    machine.run(12_500)
    contexts = []
    for sampled in machine.sampled:
        placed = read_record(sampled.record, 0)
        assert isinstance(placed, PlacedRecord)
        contexts.append(placed.record.context_el1)
    assert len(contexts) > 30
    assert list(dict.fromkeys(contexts)) == [FIRST, SECOND, THIRD]
    changes = sum(one != other for one, other in itertools.pairwise(contexts))
    assert changes == 3
