"""Counters on the machine: exact at every read, whichever runner, and overflow at its operation.

A write to a register of the Performance Monitors takes effect before its own events count, a read
gives the value before those of the read.
"""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers import pmu as r
from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.pmu.events import PMUEvent as E
from tests.support import a64 as a
from tests.support.counters import MAX, RUNNERS, counters, enc, get, put, ran, x
from tests.support.small_boards import board_at


@RUNNERS
@pytest.mark.parametrize("number", [0, 5])
def test_a_read_in_the_middle_of_a_block_is_exact(runner: type[Runner], number: int) -> None:
    """The engine has counters 0 to 3 of its own, and lacks those from 4 on."""
    register = r.PMEVCNTRS[number]
    code = [
        *counters(*[E.INST_RETIRED] * 6),
        *put(register, 0),  # counts itself: 1
        a.NOP,
        a.NOP,
        get(register, 1),  # 3
        a.NOP,
        get(register, 2),  # 5
    ]
    assert x(ran(code, runner), 1, 2) == [3, 5]


@RUNNERS
def test_cpu_cycles_are_the_cycle_counter(runner: type[Runner]) -> None:
    code = [
        *counters(E.CPU_CYCLES),
        *put(r.PMCR_EL0, 0b111),
        *[a.NOP] * 7,
        get(r.PMEVCNTRS[0], 1),
        get(r.PMCCNTR_EL0, 2),
    ]
    assert x(ran(code, runner), 1, 2) == [8, 9]


@RUNNERS
def test_what_is_disabled_counts_nothing_after_the_write(runner: type[Runner]) -> None:
    code = [
        *counters(E.INST_RETIRED),
        *put(r.PMEVCNTRS[0], 0),
        *a.mov64(3, 1),
        a.msr(enc(r.PMCNTENCLR_EL0), 3),
        a.ISB,
        *[a.NOP] * 5,
        get(r.PMEVCNTRS[0], 1),
    ]
    assert x(ran(code, runner), 1) == [2]


HPMD, SPME = 1 << 17, 1 << 17
"""Of MDCR_EL2: counters of the first range stop at EL2; of MDCR_EL3: at EL3 they count."""


@pytest.mark.sweep(first=True)
@RUNNERS
@pytest.mark.parametrize("event", [E.INST_RETIRED, E.CPU_CYCLES, E.SIMD_INST_SPEC])
@pytest.mark.parametrize(
    ("el", "register", "counts", "stops"),
    [
        (2, system.MDCR_EL2, 6, 6 | HPMD),
        (2, system.MDCR_EL2, 6, 0),  # HPMN: counter 0 is the second range's, HPME is 0
        (3, system.MDCR_EL3, SPME, 0),
    ],
)
def test_a_write_of_another_register_acts_after_its_own_events(
    runner: type[Runner], el: int, register: type[SysReg], counts: int, stops: int, event: E
) -> None:
    """The one that stops counting is counted, the one that lets it go on is not."""
    op = a.add_4s(1, 1, 1) if event is E.SIMD_INST_SPEC else a.NOP
    code = [*put(register, counts), *counters(event, filters=r.PMEVTYPER.of(NSH=1).value)]
    code += [*a.mov64(5, stops), *a.mov64(6, counts), *put(r.PMEVCNTRS[0], 0), op]
    code += [a.msr(enc(register), 5), op, op, get(r.PMEVCNTRS[0], 1)]
    code += [a.msr(enc(register), 6), get(r.PMEVCNTRS[0], 2), op, get(r.PMEVCNTRS[0], 3)]
    board = board_at([*code, a.b(0)], el=el, runner=runner, core=MAX)
    board.run(2000)
    # the MSR to the counter, the operation, the MSR that stops it; the second read, the operation
    assert x(board, 1, 2, 3) == ([1, 1, 2] if event is E.SIMD_INST_SPEC else [3, 3, 5])


@RUNNERS
def test_software_increments_what_counts_them(runner: type[Runner]) -> None:
    code = [
        *counters(E.SW_INCR, E.INST_RETIRED, E.SW_INCR),
        *put(r.PMEVCNTRS[1], 0),
        *put(r.PMSWINC_EL0, 0b011),
        *put(r.PMSWINC_EL0, 0b111),
        *(get(r.PMEVCNTRS[n], n + 1) for n in range(3)),
    ]
    assert x(ran(code, runner), 1, 2, 3) == [2, 6, 1]


@RUNNERS
@pytest.mark.parametrize("distance", [1, 2, 3, 7, 64, 1000])
def test_an_overflow_lands_on_its_operation(runner: type[Runner], distance: int) -> None:
    """With FZO, the counter beside it stops with that operation."""
    code = [
        *counters(E.INST_RETIRED, E.INST_RETIRED, control=0b10_0000_0001),
        *put(r.PMEVCNTRS[1], 0),
        *put(r.PMEVCNTRS[0], (1 << 32) - distance),
        a.movz(4, 0),
        a.add_imm(4, 4, 1),  # counts on and on
        a.b(-4),
    ]
    board = ran(code, runner)
    monitors = board.pes[0].counting.monitors.s
    before = len(put(r.PMEVCNTRS[0], (1 << 32) - distance))  # MSR to counter 1, the moves
    assert monitors.overflowed == 1
    assert monitors.values[0] & 0xFFFF_FFFF == 0
    assert monitors.values[1] == before + distance


@RUNNERS
def test_an_overflow_chains(runner: type[Runner]) -> None:
    code = [
        *counters(E.CPU_CYCLES, E.CHAIN, E.CHAIN),
        *put(r.PMEVCNTRS[0], (1 << 32) - 10),
        a.b(0),
    ]
    monitors = ran(code, runner).pes[0].counting.monitors.s
    assert monitors.values[1] == 1
    assert monitors.overflowed == 1


@RUNNERS
def test_what_ends_in_an_exception_takes_time_and_does_not_retire(runner: type[Runner]) -> None:
    """BRK, and a load from nowhere; SVC retires. The handler goes on after each."""
    vectors = 0x4000_0800
    handler = [
        a.mrs(9, (3, 0, 5, 2, 0)),  # ESR_EL1
        a.mrs(10, (3, 0, 4, 0, 1)),  # ELR_EL1
        a.add_imm(11, 10, 4),
        a.msr((3, 0, 4, 0, 1), 11),
        a.ERET,
    ]
    code = [
        *a.mov64(0, vectors),
        a.msr((3, 0, 12, 0, 0), 0),
        *counters(E.INST_RETIRED, E.CPU_CYCLES),
        *put(r.PMCR_EL0, 0b111),
        a.brk(0),
        get(r.PMEVCNTRS[0], 1),  # the MSR and the handler: 6
        get(r.PMEVCNTRS[1], 2),  # those, BRK and the MRS: 8
    ]
    board = board_at([*code, a.b(0)], el=1, runner=runner, core=MAX)
    board.memory.fill(vectors + 0x200, a.code(handler))
    board.run(400)
    assert x(board, 1, 2) == [6, 8]


@RUNNERS
def test_counters_obey_the_filter_of_their_level(runner: type[Runner]) -> None:
    """Counter 0 leaves out EL1, counter 1 EL0: to EL0 by an ERET, and back by SVC."""
    vectors, user = 0x4000_0800, 0x4000_0400
    code = [
        *a.mov64(0, vectors),
        a.msr((3, 0, 12, 0, 0), 0),
        *counters(E.INST_RETIRED, E.INST_RETIRED),
        *put(r.PMEVTYPERS[0], E.INST_RETIRED | 1 << 31),
        *put(r.PMEVTYPERS[1], E.INST_RETIRED | 1 << 30),
        *[*a.mov64(0, user), a.msr((3, 0, 4, 0, 1), 0), *a.mov64(0, 0), a.msr((3, 0, 4, 0, 0), 0)],
        *put(r.PMCR_EL0, 0b111),  # 1
        a.ERET,  # 2
    ]
    handler = [get(r.PMEVCNTRS[0], 1), get(r.PMEVCNTRS[1], 2), a.b(0)]
    board = board_at(code, el=1, runner=runner, core=MAX)
    board.memory.fill(user, a.code([a.NOP, a.NOP, a.NOP, a.svc(0)]))
    board.memory.fill(vectors + 0x400, a.code(handler))
    board.run(400)
    assert x(board, 1, 2) == [4, 3]


@RUNNERS
def test_the_interrupt_is_that_of_an_overflow(runner: type[Runner]) -> None:
    code = [
        *counters(E.INST_RETIRED),
        *put(r.PMINTENSET_EL1, 1),
        *put(r.PMEVCNTRS[0], (1 << 32) - 20),
    ]
    board = board_at([*code, a.b(0)], el=1, runner=runner, core=MAX)
    levels = []
    board.run(len(code) + 18)
    levels.append(board.pes[0].counting.monitors.interrupt)
    board.run(1)
    levels.append(board.pes[0].counting.monitors.interrupt)
    assert levels == [False, True]


@RUNNERS
def test_a_core_without_the_monitors_has_no_register_of_theirs(runner: type[Runner]) -> None:
    bare = load_core("minimal")
    for register in (r.PMCCNTR_EL0, r.PMCR_EL0, r.PMEVCNTRS[0], r.PMEVCNTRS[9]):
        board = ran([get(register, 1)], runner, bare, 1)
        last = board.cpu.entries.last_exception
        assert last is not None
        assert last.esr is not None
        assert last.esr >> 26 == 0  # Undefined


@RUNNERS
@pytest.mark.parametrize("enabled", [0, 1])
@pytest.mark.parametrize("number", [0, 5])
def test_what_user_software_may_not_read_traps_to_el1(
    runner: type[Runner], enabled: int, number: int
) -> None:
    """An MRS at EL0: allowed by PMUSERENR_EL0.EN, else a trap of class 0x18 that does not count."""
    vectors, user = 0x4000_0800, 0x4000_0400
    code = [
        *[*a.mov64(0, vectors), a.msr((3, 0, 12, 0, 0), 0)],
        *counters(*[E.INST_RETIRED] * 6),
        *put(r.PMUSERENR_EL0, enabled),
        *[*a.mov64(0, user), a.msr((3, 0, 4, 0, 1), 0), *a.mov64(0, 0), a.msr((3, 0, 4, 0, 0), 0)],
        *put(r.PMEVCNTRS[number], 0),  # 1
        a.ERET,  # 2
    ]
    board = board_at(code, el=1, runner=runner, core=MAX)
    board.memory.fill(user, a.code([get(r.PMEVCNTRS[number], 1), a.svc(0)]))
    handler = [get(r.PMEVCNTRS[number], 2), a.mrs(9, (3, 0, 5, 2, 0)), a.b(0)]
    board.memory.fill(vectors + 0x400, a.code(handler))
    board.run(600)
    assert x(board, 9)[0] >> 26 == (0x15 if enabled else 0x18)
    assert x(board, 1, 2) == ([2, 4] if enabled else [0, 2])
