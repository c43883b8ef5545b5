"""Every access to a register of the Performance Monitors is told to those who watch.

The engine has some of these registers, and others are answered between two runs.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from spe_unicorn.arch.access.verdicts import Allowed, Rule, SystemAccessTrap
from spe_unicorn.arch.registers import pmu as r
from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.fgt import HDFGRTR_EL2, HDFGWTR_EL2
from spe_unicorn.arch.registers.spe import PMBSR_EL1
from spe_unicorn.host.pe.access.system_access import SystemAccess
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.pmu.events import PMUEvent as E
from tests.support import a64 as a
from tests.support.counters import MAX, RUNNERS, enc, get, put, x
from tests.support.small_boards import RAM, board_at

VECTORS = RAM + 0x8000
WRITE_ONLY = {r.PMSWINC_EL0, r.PMZR_EL0}
THERE = [
    register
    for register in r.PMU_REGISTERS
    if register not in {*r.PMEVCNTRS[6:], *r.PMEVTYPERS[6:]} and register.implemented(MAX.features)
]
"""Those of a core with six counters."""
LEVELS = pytest.mark.parametrize("el", [1, 2, 3])


def program(value: int = 0) -> tuple[list[int], list[tuple[int, str, bool]]]:
    """Each register read and then written, and where: the address, its name, whether it is read."""
    code = a.mov64(0, value)
    expected = []
    for register in THERE:
        kinds = [True] * (register not in WRITE_ONLY) + [False] * (not register.read_only)
        for read in kinds:
            expected.append((RAM + 4 * len(code), register.__name__, read))
            code.append(get(register, 1) if read else a.msr(enc(register), 0))
    return code, expected


def heard(board: Board) -> list[SystemAccess]:
    told: list[SystemAccess] = []
    board.pes[0].handler.system.accessed.connect(told.append)
    return told


@RUNNERS
@LEVELS
def test_each_is_told_once_and_in_order(el: int, runner: type[Runner]) -> None:
    code, expected = program()
    board = board_at([*code, a.b(0)], el=el, runner=runner, core=MAX)
    told = heard(board)
    board.run(len(code) + 10)
    assert [(access.pc, access.name, access.read) for access in told] == expected
    assert {access.el for access in told} == {el}
    assert len(expected) > 50


@RUNNERS
@LEVELS
def test_what_is_told_is_what_was_moved(el: int, runner: type[Runner]) -> None:
    code = [*put(r.PMCR_EL0, 1), *put(r.PMEVTYPERS[0], E.INST_RETIRED)]
    code += [*put(r.PMEVCNTRS[0], 100), *put(r.PMCNTENSET_EL0, 1)]
    code += [a.NOP, a.NOP, get(r.PMEVCNTRS[0], 5), a.NOP, get(r.PMEVCNTRS[0], 6)]
    board = board_at([*code, a.b(0)], el=el, runner=runner, core=MAX)
    if el == 2:
        board.cpu.registers.write(system.MDCR_EL2, 6)  # HPMN
    told = heard(board)
    board.run(len(code) + 10)
    reads = [access.value for access in told if access.read]
    assert reads == x(board, 5, 6)
    assert [a.value for a in told if not a.read] == [1, E.INST_RETIRED, 100, 1]


@RUNNERS
@LEVELS
def test_listening_changes_nothing(el: int, runner: type[Runner]) -> None:
    code, _ = program(value=1)
    values = []
    for listens in (False, True):
        board = board_at([*code, a.b(0)], el=el, runner=runner, core=MAX)
        told = heard(board) if listens else []
        board.run(len(code) + 10)
        assert bool(told) == listens
        monitors = board.pes[0].counting.monitors.s
        values.append((x(board, 0, 1), board.cpu.pc, monitors.values, monitors.types, monitors))
    assert values[0] == values[1]


@RUNNERS
def test_an_access_that_traps_is_told_too(runner: type[Runner]) -> None:
    accesses = [get(r.PMEVCNTRS[0], 1), a.msr(enc(r.PMCR_EL0), 0), get(r.PMCCNTR_EL0, 1)]
    code = [*put(system.VBAR_EL1, VECTORS), *put(r.PMUSERENR_EL0, 0)]
    code += [*put(system.SPSR_EL1, 0), *put(system.ELR_EL1, RAM + 0x1000), a.ERET]
    board = board_at(code, el=1, runner=runner, core=MAX)
    board.memory.fill(RAM + 0x1000, a.code([*accesses, a.b(0)]))
    skip = [
        a.mrs(9, enc(system.ELR_EL1)),
        a.add_imm(9, 9, 4),
        a.msr(enc(system.ELR_EL1), 9),
        a.ERET,
    ]
    board.memory.fill(VECTORS + 0x400, a.code(skip))
    told = heard(board)
    board.run(100)
    at_el0 = [(t.name, t.read, t.verdict.rule.name) for t in told if t.el == 0]
    assert [found[:2] for found in at_el0] == [
        ("PMEVCNTR0_EL0", True),
        ("PMCR_EL0", False),
        ("PMCCNTR_EL0", True),
    ]
    assert all(t.register is None for t in told if t.el == 0)


@RUNNERS
def test_what_is_undefined_at_el3_is_told_too(runner: type[Runner]) -> None:
    absent = replace(MAX, counters=2)
    code = [*put(system.VBAR_EL3, VECTORS), get(r.PMEVCNTRS[3], 1), a.msr(enc(r.PMEVTYPERS[3]), 1)]
    board = board_at([*code, a.b(0)], el=3, runner=runner, core=absent)
    skip = [
        a.mrs(9, enc(system.ELR_EL3)),
        a.add_imm(9, 9, 4),
        a.msr(enc(system.ELR_EL3), 9),
        a.ERET,
    ]
    board.memory.fill(VECTORS + 0x200, a.code(skip))
    told = heard(board)
    board.run(50)
    assert [(t.name, t.read, t.register) for t in told] == [
        ("PMEVCNTR3_EL0", True, None),
        ("PMEVTYPER3_EL0", False, None),
    ]


@RUNNERS
def test_what_a_fine_grained_trap_takes_is_told_too(runner: type[Runner]) -> None:
    """HDFGRTR_EL2.PMEVCNTRn_EL0 is bit 12, HDFGWTR_EL2's too."""
    code = [*put(system.VBAR_EL2, VECTORS), *put(system.MDCR_EL2, 6), *put(system.SPSR_EL2, 5)]
    code += [*put(HDFGRTR_EL2, 1 << 12), *put(HDFGWTR_EL2, 1 << 12)]
    code += [*put(system.ELR_EL2, RAM + 0x1000), a.ERET]
    board = board_at(code, el=2, runner=runner, core=MAX)
    accesses = [get(r.PMEVCNTRS[0], 1), a.msr(enc(r.PMEVCNTRS[1]), 1), get(r.PMCR_EL0, 1)]
    board.memory.fill(RAM + 0x1000, a.code([*accesses, a.b(0)]))
    skip = [
        a.mrs(9, enc(system.ELR_EL2)),
        a.add_imm(9, 9, 4),
        a.msr(enc(system.ELR_EL2), 9),
        a.ERET,
    ]
    board.memory.fill(VECTORS + 0x400, a.code(skip))
    told = heard(board)
    board.run(100)
    assert [(t.name, t.read, t.register) for t in told if t.el == 1] == [
        ("PMEVCNTR0_EL0", True, None),
        ("PMEVCNTR1_EL0", False, None),
        ("PMCR_EL0", True, r.PMCR_EL0),
    ]


class TellError(Exception):
    pass


@RUNNERS
@LEVELS
def test_what_a_listener_raises_ends_the_run(el: int, runner: type[Runner]) -> None:
    code = [a.NOP, get(r.PMCCNTR_EL0, 1), a.NOP, a.b(0)]
    board = board_at(code, el=el, runner=runner, core=MAX)

    def refuse(access: SystemAccess) -> None:
        raise TellError(access.name)

    stop = board.pes[0].handler.system.accessed.connect(refuse)
    with pytest.raises(TellError, match="PMCCNTR_EL0"):
        board.run(20)
    stop()
    board.run(20)
    assert board.cpu.pc == RAM + 12


def test_an_access_reads_as_a_line() -> None:
    """``repr`` is the same between angle brackets."""
    why = Rule("EL1/register", "nothing traps it")
    allowed = Allowed(PMBSR_EL1, why)
    read = SystemAccess(0x4008_1AB4, 1, "PMBSR_EL1", PMBSR_EL1, True, 0x2_0000, 1, 1, allowed)
    assert str(read) == "0x40081ab4 at EL1: MRS PMBSR_EL1 -> 0x20000"
    write = SystemAccess(0x4008_1AB4, 2, "PMBSR_EL1", PMBSR_EL1, False, 0, 0x2_0000, 0, allowed)
    assert repr(write) == "<SystemAccess 0x40081ab4 at EL2: MSR PMBSR_EL1 = 0x0, was 0x20000>"
    trap = SystemAccessTrap(2, 0x18, why)
    trapped = SystemAccess(0x4000_0000, 1, "PMBSR_EL1", None, False, 16, None, None, trap)
    assert str(trapped) == "0x40000000 at EL1: MSR PMBSR_EL1 = 0x10 (SystemAccessTrap)"
