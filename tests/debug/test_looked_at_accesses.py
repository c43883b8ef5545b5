"""An access to a System register that somebody looks at is made once, with what follows it.

The engine executes a block to its end after most reads. So the rest of the block was executed
twice where such a read was looked at, and a call in it saved a wrong address.
"""

from __future__ import annotations

import pytest

from spe_unicorn.arch.pe import EL1, EL3
from spe_unicorn.arch.registers.sysreg import Encoding
from spe_unicorn.debug.gdb.events import EventBreaks
from spe_unicorn.debug.tracing.accesses import Registers
from spe_unicorn.host.native.state.actions import READ, WRITE
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

CODE, VECTORS = 0x4000_0000, 0x4000_1000
VBAR, CONTEXTIDR, CPACR = (3, 0, 12, 0, 0), (3, 0, 13, 0, 1), (3, 0, 1, 0, 2)
ELR = Encoding(3, 0, 4, 0, 1)
ADDS = 3


def machine(code: list[int], runner: type[Runner] = Runner, el: int = EL1) -> Machine:
    vectors = a.code([a.b(0)] * 0x200)
    return Machine(image_of({CODE: a.code(code), VECTORS: vectors}, CODE), runner=runner, el=el)


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
@pytest.mark.parametrize("adds", [0, 1, 3])
def test_a_call_after_a_read_saves_its_own_address(runner: type[Runner], adds: int) -> None:
    code = [*a.mov64(2, VECTORS), a.msr(VBAR, 2), a.mrs(4, CONTEXTIDR)]
    code += [a.add_imm(5, 5, 1)] * adds + [a.svc(0)]
    subject = machine(code, runner)
    EventBreaks(subject.board).break_at_register("CONTEXTIDR_EL1", read=True, write=False)
    subject.run(len(code) + 3)
    engine = subject.board.cpu.engine
    assert engine.system(ELR) == CODE + 4 * len(code)
    assert engine.x(5) == adds


def executed_after(kind: int, key: int, name: str | None, el: int) -> tuple[int, ...]:
    """What is executed after an access that may be watched: additions, operations, where it is."""
    e = Encoding.from_key(key)
    op = (e.op0, e.op1, e.crn, e.crm, e.op2)
    access = a.mrs(4, op) if kind == READ else a.msr(op, 4)
    read = [] if kind == READ else [a.mrs(4, op)]
    allowed = [*a.mov64(6, 3 << 20), a.msr(CPACR, 6)]
    code = [*allowed, *read, access, *[a.add_imm(5, 5, 1)] * ADDS, a.b(0)]
    subject = machine(code, el=el)
    if name is not None:
        EventBreaks(subject.board).break_at_register(name, read=kind == READ, write=kind == WRITE)
    subject.run(len(code) + 2)
    cpu = subject.board.cpu
    return cpu.engine.x(5), cpu.executed, cpu.el


OF_THE_ENGINE = ("FPCR", "FPSR", "NZCV", "DAIF", "TPIDR_EL0", "TPIDR_EL1", "PAN", "SPSEL")
"""Registers that no rule of ours knows."""


@pytest.mark.sweep
@pytest.mark.parametrize("kind", [READ, WRITE])
@pytest.mark.parametrize("name", [*OF_THE_ENGINE, "TTBR0_EL1", "PMSCR_EL1", "ICC_PMR_EL1"])
def test_what_follows_one_is_executed_once(name: str, kind: int) -> None:
    found = Registers(machine([a.b(0)]).board.pes[0]).named(name)
    assert found is not None
    (key, *_) = sorted(found[1])
    plain = executed_after(kind, key, None, EL1)
    assert plain[0] == ADDS
    assert executed_after(kind, key, name, EL1) == plain


@pytest.mark.slow
@pytest.mark.parametrize("el", [EL1, EL3])
@pytest.mark.parametrize("kind", [READ, WRITE])
def test_what_follows_an_access_is_executed_once(kind: int, el: int) -> None:
    pe = machine([a.b(0)]).board.pes[0]
    registers = Registers(pe)
    known = [register.__name__ for register in (*pe.cpu.registers, *pe.device_registers)]
    looked_at = 0
    for name in (*known, *OF_THE_ENGINE):
        found = registers.named(name)
        assert found is not None
        key = min(found[1])
        plain = executed_after(kind, key, None, el)
        assert executed_after(kind, key, name, el) == plain, name
        looked_at += plain[0] == ADDS
    assert looked_at > 50
