"""Breakpoints: by address and by context, before what else an operation does; BRK; the locks."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers import debug as d
from spe_unicorn.arch.registers import system
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.options import Sampling
from tests.host.guests import put
from tests.host.run.debug.debugged import (
    CODE,
    DATA,
    EL0_AND_EL1,
    EL2_ALONE,
    IL,
    KDE,
    LOG,
    MDE,
    VECTORS,
    board,
    encoding,
    taken,
)
from tests.support import a64 as a
from tests.support.small_boards import board_at

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
BAS, E = 0xF << 5, 1
FROM_LOWER, FROM_HERE = 0x30, 0x31
CONTEXTIDR = (3, 0, 13, 0, 1)


def break_at(offset: int, n: int = 0, levels: int = EL0_AND_EL1, more: int = 0) -> dict[type, int]:
    return {d.DBGBVRS[n]: CODE + offset, d.DBGBCRS[n]: BAS | E | levels | more}


def context(n: int, value: int, bt: int, levels: int = EL0_AND_EL1) -> dict[type, int]:
    return {d.DBGBVRS[n]: value, d.DBGBCRS[n]: bt << 20 | BAS | E | levels}


def esr(ec: int) -> int:
    return ec << 26 | IL | 0x22


@RUNNERS
@pytest.mark.parametrize(("at", "el"), [(0, 1), (1, 1), (0, 2), (1, 2), (2, 2)])
def test_an_operation_is_not_executed(at: int, el: int, runner: type[Runner]) -> None:
    """In the middle of a block, at its beginning and behind a branch."""
    levels = EL2_ALONE if at == 2 else EL0_AND_EL1
    code = [a.movz(1, 1), a.movz(2, 2), a.movz(3, 3), a.b(8), a.NOP, a.movz(4, 4)]
    registers = {**break_at(4, 0, levels), **break_at(20, 3, levels)}
    found, made = taken(code, registers, runner, at, el)
    ec = FROM_HERE if at == el else FROM_LOWER
    assert [(one.place, one.esr) for one in found] == [(4, esr(ec)), (20, esr(ec))]
    assert [made.cpu.engine.x(n) for n in (1, 2, 3, 4)] == [1, 0, 3, 0]


@RUNNERS
@pytest.mark.parametrize(
    ("registers", "spsr"),
    [
        ({d.MDSCR_EL1: KDE}, 0x1C0),
        ({d.MDSCR_EL1: MDE}, 0x1C0),
        ({}, 0x3C0),
        ({d.OSLAR_EL1: 1}, 0x1C0),
        ({d.DBGBCRS[0]: BAS | EL0_AND_EL1}, 0x1C0),
        ({d.DBGBCRS[0]: BAS | E | 2 << 1}, 0x1C0),
    ],
)
def test_what_disables_a_breakpoint(
    registers: dict[type, int], spsr: int, runner: type[Runner]
) -> None:
    found, _ = taken([a.NOP], {**break_at(0), **registers}, runner, spsr=spsr)
    assert found == []


@RUNNERS
def test_unmasking_debug_exceptions_counts_from_there(runner: type[Runner]) -> None:
    code = [a.movz(1, 2), a.NOP, a.daifclr(8), a.sub_imm(1, 1, 1), a.cbnz(1, -12)]
    found, _ = taken(code, break_at(4), runner, spsr=0x3C0)
    assert [one.place for one in found] == [4]


@RUNNERS
def test_a_context_needs_no_address(runner: type[Runner]) -> None:
    """Every operation is broken at, from a context synchronization on at the latest."""
    code = [a.movz(1, 7), a.msr(CONTEXTIDR, 1), a.ISB, a.movz(2, 2), a.movz(3, 3), *[a.NOP] * 20]
    made, before = board(code, context(5, 7, 2), runner)
    assert made.run(before + 30) is Ending.LIMIT
    log = made.memory.read(LOG, 72) or b""
    places = [int.from_bytes(log[24 * n : 24 * n + 8], "little") - CODE for n in range(3)]
    assert places in ([8, 12, 16], [12, 16, 20])
    assert made.cpu.engine.x(2) == made.cpu.engine.x(3) == 0


@RUNNERS
@pytest.mark.parametrize(("value", "places"), [(7, [12]), (8, [])])
def test_an_address_linked_to_a_context(
    value: int, places: list[int], runner: type[Runner]
) -> None:
    registers = {**break_at(12, 1, more=1 << 20 | 4 << 16), **context(4, 7, 3)}
    code = [a.movz(1, value), a.msr(CONTEXTIDR, 1), a.ISB, a.movz(2, 2)]
    found, made = taken(code, registers, runner)
    assert [one.place for one in found] == places
    assert made.cpu.engine.x(2) == (0 if places else 2)


@RUNNERS
def test_it_goes_before_what_else_the_operation_raises(runner: type[Runner]) -> None:
    """A trap that the host finds, one that the engine finds, a call, BRK, an abort."""
    code = [a.fadd(0, 0, 0), a.udf(0), a.svc(1), a.brk(2), a.ldr(1, 31)]
    registers = {system.CPACR_EL1: 0}
    for n in range(5):
        registers |= break_at(4 * n, n)
    found, _ = taken(code, registers, runner)
    assert [(one.place, one.esr) for one in found] == [
        (4 * n, esr(FROM_HERE)) for n in range(len(code))
    ]


@RUNNERS
def test_brk_needs_neither_mde_nor_the_lock(runner: type[Runner]) -> None:
    found, _ = taken([a.brk(0x55)], {d.MDSCR_EL1: 0, d.OSLAR_EL1: 1}, runner)
    assert [(one.place, one.esr) for one in found] == [(0, 0x3C << 26 | IL | 0x55)]
    found, _ = taken([a.brk(0x55)], {}, runner, at=1, el=2)
    assert [(one.place, one.esr) for one in found] == [(0, 0x3C << 26 | IL | 0x55)]


@RUNNERS
def test_a_breakpoint_that_is_moved(runner: type[Runner]) -> None:
    """The code at EL1 sets it for itself, twice: what was translated before is looked at anew."""
    value, control = encoding(d.DBGBVRS[2]), encoding(d.DBGBCRS[2])
    code = [
        *[*a.mov64(3, CODE + 0x40), a.movz(9, 3)],
        *[*a.mov64(2, BAS | E | EL0_AND_EL1), a.msr(value, 3), a.msr(control, 2), a.ISB],
    ]
    code += [a.NOP] * (16 - len(code))
    code += [a.NOP, a.NOP, a.NOP, a.add_imm(3, 3, 4), a.msr(value, 3), a.ISB]
    code += [a.sub_imm(9, 9, 1), a.cbnz(9, -28)]
    found, _ = taken(code, {}, runner)
    assert [one.place for one in found] == [0x40, 0x44, 0x48]


def test_an_operation_at_a_breakpoint_is_in_the_population_once() -> None:
    records = []
    for runner in (Runner, ReferenceRunner):
        pcs: list[tuple[int, bool]] = []
        made, before = board(
            [a.movz(1, 3), a.str_(1, 6), a.movz(2, 3)],
            break_at(4),
            runner,
            sampling=Sampling(1, jitter=False),
        )
        made.unit.recorded.connect(
            lambda _, operation, pcs=pcs: pcs.append((operation.pc - CODE, operation.exception))
        )
        made.run(before + 30)
        records.append([one for one in pcs if 0 <= one[0] < 12])
    assert records[0] == records[1]
    assert records[0] == [(0, False), (4, True), (8, False)]


@RUNNERS
@pytest.mark.parametrize("core", ["minimal", "generic"])
def test_the_double_lock_is_there_on_cores_that_have_it(core: str, runner: type[Runner]) -> None:
    registers = {**break_at(0), d.OSDLR_EL1: 1}
    found, _ = taken([a.NOP], registers, runner, core=load_core(core))
    assert len(found) == (core == "generic")
    registers[d.DBGPRCR_EL1] = 1
    found, _ = taken([a.NOP], registers, runner, core=load_core(core))
    assert len(found) == 1


def read_back(code: list[int], runner: type[Runner], el: int = 3) -> list[int]:
    """X20 to X25 after ``code``, at the highest Exception level."""
    made = board_at([*code, a.b(0)], el=el, runner=runner)
    assert made.run(len(code) + 3) is Ending.LIMIT
    return [made.cpu.engine.x(n) for n in range(20, 26)]


@RUNNERS
def test_what_registers_hold(runner: type[Runner]) -> None:
    def mrs(n: int, register: type) -> int:
        return a.mrs(n, encoding(register))

    ones = [*a.mov64(1, (1 << 64) - 1)]
    lock = [mrs(20, d.OSLSR_EL1), a.msr(encoding(d.OSLAR_EL1), 31), mrs(21, d.OSLSR_EL1)]
    control = [a.msr(encoding(d.MDSCR_EL1), 1), mrs(22, d.MDSCR_EL1), mrs(23, d.MDRAR_EL1)]
    assert read_back([*ones, *lock, *control], runner)[:4] == [0xA, 0x8, 0xB001, 0]
    # SS with KDE would step EL3 if it had debug exceptions; the OS lock opens external debug's bits
    locked = [a.msr(encoding(d.MDSCR_EL1), 1), mrs(20, d.MDSCR_EL1)]
    assert read_back([*ones, *locked], runner)[0] == 0xECE8_F041
    claim = [
        *[mrs(20, d.DBGCLAIMSET_EL1), mrs(21, d.DBGCLAIMCLR_EL1)],
        *[*put(d.DBGCLAIMSET_EL1, 0xF5), *put(d.DBGCLAIMCLR_EL1, 0x05)],
        *[mrs(22, d.DBGCLAIMCLR_EL1), mrs(23, d.DBGCLAIMSET_EL1)],
    ]
    assert read_back(claim, runner)[:4] == [0xFF, 0, 0xF0, 0xFF]
    channel = [
        *[mrs(20, d.MDCCSR_EL0), *put(d.DBGDTRTX_EL0, 0x41), mrs(21, d.MDCCSR_EL0)],
        *[mrs(22, d.MDSCR_EL1), mrs(23, d.OSDTRTX_EL1), mrs(24, d.DBGAUTHSTATUS_EL1)],
    ]
    assert read_back(channel, runner)[:5] == [0, 1 << 29, 1 << 29, 0x41, 0xAE]
    widths = [
        *[a.msr(encoding(d.DBGBVRS[0]), 1), a.msr(encoding(d.DBGBCRS[5]), 1)],
        *[a.msr(encoding(d.DBGWVRS[3]), 1), a.msr(encoding(d.DBGWCRS[3]), 1)],
        *[mrs(20, d.DBGBVRS[0]), mrs(21, d.DBGBCRS[5]), mrs(22, d.DBGWVRS[3])],
        *[mrs(23, d.DBGWCRS[3]), a.msr(encoding(d.OSDLR_EL1), 1), mrs(24, d.OSDLR_EL1)],
    ]
    everything = (1 << 64) - 1
    assert read_back([*ones, *widths], runner)[:5] == [
        *(everything, 0xFF_E1E7, everything & ~3, 0x1F1F_FFFF, 0),
    ]


@RUNNERS
def test_accesses_are_trapped_where_the_engine_has_the_register(runner: type[Runner]) -> None:
    """MDCR_EL2.TDA, and a fine-grained trap of one register."""
    code = [
        a.mrs(1, encoding(d.MDSCR_EL1)),
        a.msr(encoding(d.DBGWVRS[0]), 1),
        a.mrs(1, encoding(d.OSLSR_EL1)),
        a.mrs(1, encoding(d.DBGCLAIMCLR_EL1)),
        a.mrs(1, encoding(d.MDCCSR_EL0)),
    ]
    for mdcr, places in ((1 << 9, [0, 4, 12, 16]), (1 << 10, [8]), (1 << 27, [16]), (0, [])):
        start = [
            *put(system.VBAR_EL2, VECTORS),
            *put(system.MDCR_EL2, mdcr | 3 << 12),
            *put(system.SPSR_EL2, 0x3C5),
            *put(system.ELR_EL2, CODE),
            *a.mov64(19, DATA),
            a.ERET,
        ]
        elr = encoding(system.ELR_EL2)
        handler = [a.mrs(20, elr), a.str_(20, 19), a.add_imm(19, 19, 8)]
        handler += [a.add_imm(20, 20, 4), a.msr(elr, 20), a.ERET]
        made = board_at(start, el=2, runner=runner)
        made.memory.fill(CODE, a.code([*code, a.b(0)]))
        made.memory.fill(VECTORS + 0x400, a.code(handler))
        assert made.run(200) is Ending.LIMIT
        count = (made.cpu.engine.x(19) - DATA) // 8
        log = made.memory.read(DATA, 8 * count) or b""
        found = [int.from_bytes(log[n : n + 8], "little") - CODE for n in range(0, 8 * count, 8)]
        assert found == places
