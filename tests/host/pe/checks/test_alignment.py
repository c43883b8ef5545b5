"""Alignment of data with SCTLR_ELx.A, and of SP beside it."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from spe_unicorn.arch.pe import EL1, EL2
from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

CODE = 0x4000_0000
LOWER = CODE + 0x400
VECTORS = CODE + 0x1000
DATA = CODE + 0x8000
SYNC = 0x200
ERET = 0xD69F_03E0
LOAD_FAULT, STORE_FAULT, SP_FAULT = 0x9600_0021, 0x9600_0061, 0x9A00_0000
SCTLR = 0x30D0_0800
A, SA = 1 << 1, 1 << 3
VBAR = {1: system.VBAR_EL1, 2: system.VBAR_EL2}
SCTLRS = {1: system.SCTLR_EL1, 2: system.SCTLR_EL2}
RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])


def put(register: type[SysReg], value: int) -> list[int]:
    return [*a.mov64(0, value), a.msr(astuple(register.encoding), 0)]


def start(controls: int, el: int = EL1) -> list[int]:
    """X1 is the data, X2 an index of 1, X7 and SP not aligned."""
    return [
        *put(VBAR[el], VECTORS),
        *put(system.CPACR_EL1, 3 << 20),
        *put(SCTLRS[el], SCTLR | controls),
        *a.mov64(1, DATA),
        *a.mov64(2, 1),
        *a.mov64(7, DATA + 0x48),
        a.add_imm(31, 7, 0),
    ]


def machine(
    words: list[int],
    runner: type[Runner] = Runner,
    el: int = EL1,
    handler: list[int] | None = None,
    period: int | None = None,
) -> Machine:
    segments = {
        CODE: a.code([*words, a.b(0)]),
        VECTORS + SYNC: a.code(handler or [a.b(0)]),
        DATA: bytes(range(128)),
    }
    return Machine(image_of(segments, CODE), runner=runner, el=el, period=period)


REFUSED = [
    (a.ldr(3, 1, 0), 1, LOAD_FAULT),
    (a.ldr(3, 1, 0, size=2), 2, LOAD_FAULT),
    (a.ldr(3, 1, 0, size=1), 1, LOAD_FAULT),
    (a.ldrs(3, 1, 0, size=2), 2, LOAD_FAULT),
    (a.str_(3, 1, 0), 4, STORE_FAULT),
    (a.str_(3, 1, 0, size=1), 3, STORE_FAULT),
    (a.pair(True, 3, 4, 1), 4, LOAD_FAULT),
    (a.pair(False, 3, 4, 1), 4, STORE_FAULT),
    (a.ldr9(3, 1, 4, a.PRE), 0, LOAD_FAULT),
    (a.ldr9(3, 1, 8, a.POST), 4, LOAD_FAULT),
    (a.ldr_reg(3, 1, 2), 0, LOAD_FAULT),
    (a.ldr_reg(3, 1, 2, scaled=0, size=1), 0, LOAD_FAULT),
    (a.ldr_q(0, 1), 8, LOAD_FAULT),
    (a.str_d(0, 1), 4, STORE_FAULT),
    (a.ldar(3, 1), 4, LOAD_FAULT),
]
ALLOWED = [
    (a.ldr(3, 1, 0, size=0), 1),
    (a.ldr(3, 1, 8), 8),
    (a.pair(True, 3, 4, 1), 8),
    (a.ldr_reg(3, 1, 2, scaled=1), 0),
    (a.ldr9(3, 1, 4, a.POST), 8),
    (a.ldr_q(0, 1), 16),
    (a.prfm(1), 3),
    (a.add_imm(3, 1, 1), 3),
]


def address_of(instruction: int, offset: int) -> int:
    """Where the instructions above go that do not go to X1 itself."""
    if instruction == a.ldr9(3, 1, 4, a.PRE):
        return DATA + offset + 4
    indexed = (a.ldr_reg(3, 1, 2), a.ldr_reg(3, 1, 2, scaled=0, size=1))
    return DATA + offset + (1 if instruction in indexed else 0)


@pytest.mark.sweep(first=True)
@RUNNERS
@pytest.mark.parametrize(("instruction", "offset", "esr"), REFUSED)
def test_misaligned_access_faults_where_a_is_set(
    runner: type[Runner], instruction: int, offset: int, esr: int
) -> None:
    words = [*start(A), a.add_imm(1, 1, offset), a.ldr(5, 31, 8), instruction]
    m = machine(words, runner)
    m.run(len(words))
    cpu = m.board.cpu
    assert cpu.executed == len(words)
    assert cpu.pc == VECTORS + SYNC
    raw = cpu.registers.raw
    assert raw(system.ESR_EL1) == esr
    assert raw(system.FAR_EL1) == address_of(instruction, offset)
    assert raw(system.ELR_EL1) == CODE + 4 * (len(words) - 1)
    assert cpu.engine.x(1) == DATA + offset  # nothing was written back


@RUNNERS
@pytest.mark.parametrize(("instruction", "offset"), ALLOWED)
def test_aligned_access_and_what_is_none_do_not(
    runner: type[Runner], instruction: int, offset: int
) -> None:
    words = [*start(A), a.add_imm(1, 1, offset), instruction]
    m = machine(words, runner)
    m.run(len(words))
    assert m.board.cpu.pc == CODE + 4 * len(words)


@RUNNERS
@pytest.mark.parametrize(("instruction", "offset", "esr"), REFUSED[:4])
def test_without_a_nothing_is_checked(
    runner: type[Runner], instruction: int, offset: int, esr: int
) -> None:
    again = put(system.SCTLR_EL1, SCTLR)
    words = [*start(A), *again, a.add_imm(1, 1, offset), instruction]
    m = machine(words, runner)
    m.run(len(words))
    assert m.board.cpu.pc == CODE + 4 * len(words)
    assert not m.board.handler.controls.checks.active


@RUNNERS
@pytest.mark.parametrize(
    ("controls", "instruction", "esr"),
    [
        (A | SA, a.ldr(3, 31, 8), SP_FAULT),
        (A | SA, a.str_(3, 31, 0, size=0), SP_FAULT),
        (A, a.ldr(3, 31, 8), None),
        (A | SA, a.add_imm(3, 31, 8), None),
        (A | SA, a.ldr(3, 7, 8), None),
    ],
)
def test_sp_is_checked_with_sa(
    runner: type[Runner], controls: int, instruction: int, esr: int | None
) -> None:
    words = [*start(controls), instruction]
    m = machine(words, runner)
    before = m.board.cpu.registers.raw(system.FAR_EL1)
    m.run(len(words))
    cpu = m.board.cpu
    if esr is None:
        assert cpu.pc == CODE + 4 * len(words)
    else:
        assert cpu.pc == VECTORS + SYNC
        assert cpu.registers.raw(system.ESR_EL1) == esr
        assert cpu.registers.raw(system.FAR_EL1) == before


@RUNNERS
def test_each_exception_level_has_its_own_a(runner: type[Runner]) -> None:
    load = a.ldr(3, 1, 0)
    words = [
        *start(A, EL2),
        *put(system.SCTLR_EL1, SCTLR),
        *put(system.SPSR_EL2, 0x3C5),
        *put(system.ELR_EL2, LOWER),
        a.add_imm(1, 1, 1),
        ERET,
    ]
    below = [load, load, a.hvc(0)]
    m = machine(words, runner, EL2)
    m.board.memory.write(LOWER, a.code(below))
    m.board.memory.write(VECTORS + 0x400, a.code([load]))
    m.run(len(words) + len(below) + 1)
    cpu = m.board.cpu
    assert cpu.pc == VECTORS + SYNC
    assert cpu.registers.raw(system.ESR_EL2) == LOAD_FAULT
    assert cpu.registers.raw(system.ELR_EL2) == VECTORS + 0x400


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("period", [1, 2, 3, 5, 7, 13])
def test_samples_beside_faults_are_those_of_the_reference(period: int) -> None:
    elr = astuple(system.ELR_EL1.encoding)
    skip = [a.mrs(6, elr), a.add_imm(6, 6, 4), a.msr(elr, 6), a.add_imm(5, 5, 1), ERET]
    loop = [
        a.ldr(3, 1, 0),
        a.add_imm(4, 1, 1),
        a.ldr(3, 4, 0),  # its base comes from this block
        a.ldr(3, 1, 8),
        a.str_(3, 4, 0, size=1),
        a.b(-20),
    ]
    runs = []
    for runner in (Runner, ReferenceRunner):
        m = machine([*start(A), *loop], runner, handler=skip, period=period)
        runs.append((m.run(800), m.board.cpu.engine.x(5)))
    (fast, faults), (plain, _) = runs
    assert fast.differences(plain) == {}
    assert faults >= 2 * (800 - 20) // 16 - 1


UART = 0x0900_0000


@RUNNERS
@pytest.mark.parametrize(
    ("instruction", "offset", "esr"),
    [
        (a.ldr(3, 1, 0, size=2), 0x1A, LOAD_FAULT),
        (a.str_(3, 1, 0, size=1), 0x01, STORE_FAULT),
        (a.ldr(3, 1, 0, size=2), 0x18, None),
        (a.ldr(3, 1, 0, size=0), 0x19, None),
    ],
)
def test_devices_refuse_what_is_not_aligned(
    runner: type[Runner], instruction: int, offset: int, esr: int | None
) -> None:
    words = [*put(system.VBAR_EL1, VECTORS), *a.mov64(1, UART + offset), instruction]
    m = machine(words, runner)
    m.run(len(words))
    cpu = m.board.cpu
    assert cpu.executed == len(words)
    if esr is None:
        assert cpu.pc == CODE + 4 * len(words)
    else:
        assert cpu.pc == VECTORS + SYNC
        assert cpu.registers.raw(system.ESR_EL1) == esr
        assert cpu.registers.raw(system.FAR_EL1) == UART + offset
