"""Illegal exception returns, PSTATE.IL and the alignment of the PC, which the engine checks not."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from spe_unicorn.arch.pe import EL1, EL2, EL3
from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

CODE = 0x4000_0000
TARGET = CODE + 0x400
VECTORS = CODE + 0x1000
SYNC_FROM_SPX = 0x200
SYNC_FROM_LOWER = 0x400
UNMAPPED = 0x0B00_0000
ERET = 0xD69F_03E0
ERETAA = 0xD69F_0BFF
ILLEGAL_STATE = 0x3A00_0000
PC_ALIGNMENT = 0x8A00_0000
IL = 1 << 20
VBAR = {1: system.VBAR_EL1, 2: system.VBAR_EL2, 3: system.VBAR_EL3}
SPSR = {1: system.SPSR_EL1, 2: system.SPSR_EL2, 3: system.SPSR_EL3}
ELR = {1: system.ELR_EL1, 2: system.ELR_EL2, 3: system.ELR_EL3}
ESR = {1: system.ESR_EL1, 2: system.ESR_EL2, 3: system.ESR_EL3}

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])


def put(register: type[SysReg], value: int) -> list[int]:
    return [*a.mov64(0, value), a.msr(astuple(register.encoding), 0)]


def machine(words: list[int], runner: type[Runner] = Runner, el: int = EL1) -> Machine:
    """Runs ``words``, and whatever it meets elsewhere loops there."""
    loop = a.code([a.b(0)])
    vectors = {VECTORS + 0x80 * n: loop for n in range(16)}
    segments = {CODE: a.code([*put(VBAR[el], VECTORS), *words]), TARGET: loop, **vectors}
    return Machine(image_of(segments, CODE), runner=runner, el=el)


def returning(el: int, spsr: int, elr: int = TARGET, eret: int = ERET) -> list[int]:
    return [*put(SPSR[el], spsr), *put(ELR[el], elr), eret]


def run_to(m: Machine, words: list[int], el: int) -> None:
    """Run ``words`` and the code before them, and not one operation more."""
    m.run(len(put(VBAR[el], VECTORS)) + len(words))


@pytest.mark.sweep(first=True)
@RUNNERS
@pytest.mark.parametrize(
    ("el", "mode"),
    [
        *((EL1, mode) for mode in (0x1, 0x6, 0x7, 0x8, 0x9, 0xD)),
        *((EL2, mode) for mode in (0x1, 0xA, 0xC, 0xD)),
        *((EL3, mode) for mode in (0x2, 0xE, 0xF)),
    ],
)
def test_illegal_return_stays_and_the_next_operation_raises(
    runner: type[Runner], el: int, mode: int
) -> None:
    nzcv, daif, pan = 0xA << 28, 0x5 << 6, 1 << 22
    words = returning(el, nzcv | daif | mode)
    m = machine(words, runner, el)
    run_to(m, words, el)
    cpu = m.board.cpu
    assert (cpu.pc, cpu.el) == (TARGET, el)
    assert cpu.pstate & ~pan == nzcv | daif | IL | el << 2 | 1
    before = cpu.executed
    m.run(1)
    assert cpu.executed == before + 1
    assert cpu.pc == VECTORS + SYNC_FROM_SPX
    raw = cpu.registers.raw
    assert raw(ESR[el]) == ILLEGAL_STATE
    assert raw(ELR[el]) == TARGET
    assert raw(SPSR[el]) & ~pan == nzcv | daif | IL | el << 2 | 1
    assert not cpu.pstate & IL


@RUNNERS
def test_legal_return_with_il_raises_at_the_lower_level(runner: type[Runner]) -> None:
    words = returning(EL1, IL | 0x3C0)
    m = machine(words, runner)
    run_to(m, words, EL1)
    cpu = m.board.cpu
    assert (cpu.pc, cpu.el) == (TARGET, 0)
    m.run(1)
    assert cpu.pc == VECTORS + SYNC_FROM_LOWER
    assert cpu.registers.raw(system.ESR_EL1) == ILLEGAL_STATE
    assert cpu.registers.raw(system.SPSR_EL1) == IL | 0x3C0


@RUNNERS
def test_return_that_authenticates_may_be_illegal_too(runner: type[Runner]) -> None:
    words = returning(EL1, 0x3C9, eret=ERETAA)
    m = machine(words, runner)
    run_to(m, words, EL1)
    m.run(1)
    assert m.board.cpu.registers.raw(system.ESR_EL1) == ILLEGAL_STATE


@RUNNERS
def test_tge_makes_a_return_to_el1_illegal_that_was_legal_when_spsr_was_written(
    runner: type[Runner],
) -> None:
    tge = system.HCR_EL2.of(RW=1, TGE=1).value
    words = [*put(SPSR[2], 0x3C5), *put(ELR[2], TARGET), *put(system.HCR_EL2, tge), ERET]
    m = machine(words, runner, EL2)
    run_to(m, words, EL2)
    m.run(1)
    assert m.board.cpu.el == EL2
    assert m.board.cpu.registers.raw(system.ESR_EL2) == ILLEGAL_STATE


@RUNNERS
def test_handler_that_clears_il_returns_as_if_nothing_had_been(runner: type[Runner]) -> None:
    handler = [
        a.mrs(1, astuple(system.SPSR_EL1.encoding)),
        *a.mov64(2, IL),
        a.eor(1, 1, 2),
        a.msr(astuple(system.SPSR_EL1.encoding), 1),
        ERET,
    ]
    words = returning(EL1, 0x3C9)
    m = machine(words, runner)
    m.board.memory.write(VECTORS + SYNC_FROM_SPX, a.code(handler))
    run_to(m, words, EL1)
    m.run(1 + len(handler) + 1)
    cpu = m.board.cpu
    assert (cpu.pc, cpu.el, cpu.pstate & IL) == (TARGET, EL1, 0)
    assert not cpu.state.suspect >> EL1 & 1


@RUNNERS
def test_abort_of_the_fetch_goes_before_illegal_state(runner: type[Runner]) -> None:
    words = returning(EL1, 0x3C9, elr=UNMAPPED)
    m = machine(words, runner)
    run_to(m, words, EL1)
    m.run(1)
    assert m.board.cpu.registers.raw(system.ESR_EL1) == 0x8600_0010
    assert m.board.cpu.registers.raw(system.SPSR_EL1) & IL


@RUNNERS
def test_return_to_aarch32_stops_with_a_sentence(runner: type[Runner]) -> None:
    m = machine(returning(EL1, 0x10), runner)
    assert m.run(100).ending is Ending.FAILED
    failure = m.board.handler.failure
    assert failure is not None
    assert "AArch32" in failure.reason


@RUNNERS
@pytest.mark.parametrize("low", [1, 2, 3])
@pytest.mark.parametrize("where", [TARGET, UNMAPPED])
def test_branch_to_an_odd_address_is_a_pc_alignment_fault(
    runner: type[Runner], low: int, where: int
) -> None:
    words = [*a.mov64(1, where + low), a.br(1)]
    m = machine(words, runner)
    run_to(m, words, EL1)
    cpu = m.board.cpu
    executed = cpu.executed
    m.run(1)
    raw = cpu.registers.raw
    assert raw(system.ESR_EL1) == PC_ALIGNMENT
    assert raw(system.FAR_EL1) == raw(system.ELR_EL1) == where + low
    # nothing was fetched, so nothing was executed; the one operation is the vector's
    assert cpu.executed == executed + 1
    assert cpu.pc == VECTORS + SYNC_FROM_SPX


@RUNNERS
def test_odd_address_is_found_each_time_and_by_a_long_run(runner: type[Runner]) -> None:
    words = [*a.mov64(1, TARGET + 2), a.br(1)]
    m = machine(words, runner)
    m.board.memory.write(VECTORS + SYNC_FROM_SPX, a.code([a.add_imm(5, 5, 1), a.br(1)]))
    m.run(1000)
    assert m.board.cpu.engine.x(5) == (1000 - len(put(VBAR[1], VECTORS)) - len(words)) // 2


@RUNNERS
def test_pc_alignment_goes_before_illegal_state(runner: type[Runner]) -> None:
    words = returning(EL1, 0x3C9, elr=TARGET + 1)
    m = machine(words, runner)
    run_to(m, words, EL1)
    m.run(1)
    assert m.board.cpu.registers.raw(system.ESR_EL1) == PC_ALIGNMENT
    assert m.board.cpu.registers.raw(system.SPSR_EL1) & IL


FMOV = 0x1E60_4000  # FMOV D0, D0
NO_FP = system.CPACR_EL1.of(FPEN=0).value


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("period", [1, 2, 3, 5, 7, 11])
def test_operations_that_trap_do_so_also_next_to_samples(period: int) -> None:
    skip = [a.mrs(1, astuple(ELR[1].encoding)), a.add_imm(1, 1, 4)]
    handler = [*skip, a.msr(astuple(ELR[1].encoding), 1), a.add_imm(5, 5, 1), ERET]
    loop = [a.add_imm(2, 2, 1), FMOV, a.add_imm(3, 3, 1), FMOV, a.b(-16)]
    results = []
    for runner in (Runner, ReferenceRunner):
        image = {
            CODE: a.code([*put(VBAR[1], VECTORS), *put(system.CPACR_EL1, NO_FP), *loop]),
            VECTORS + SYNC_FROM_SPX: a.code(handler),
        }
        m = Machine(image_of(image, CODE), runner=runner, period=period)
        results.append((m, m.run(500)))
    (_, fast), (m, plain) = results
    assert fast.differences(plain) == {}
    assert m.board.cpu.engine.x(5) >= 2 * 400 // 15


WFI = 0xD503_207F
TWI = system.HCR_EL2.of(RW=1, TWI=1).value
VIRTUAL_IRQ = system.HCR_EL2.of(RW=1, TWI=1, IMO=1, VI=1).value


@RUNNERS
@pytest.mark.parametrize(("hcr", "trapped"), [(TWI, True), (VIRTUAL_IRQ, False)])
def test_wfi_is_trapped_only_if_it_would_wait(
    runner: type[Runner], hcr: int, trapped: bool
) -> None:
    words = [*put(system.HCR_EL2, hcr), *put(SPSR[2], 0x3C5), *put(ELR[2], TARGET), ERET]
    m = machine(words, runner, EL2)
    m.board.memory.write(TARGET, a.code([WFI, a.b(0)]))
    run_to(m, words, EL2)
    before = m.board.cpu.executed
    m.run(1)
    cpu = m.board.cpu
    assert cpu.executed == before + 1
    assert cpu.pc == (VECTORS + SYNC_FROM_LOWER if trapped else TARGET + 4)
    if trapped:
        assert cpu.registers.raw(system.ESR_EL2) == 0x07E0_0000
        assert cpu.registers.raw(system.ELR_EL2) == TARGET


@pytest.mark.parametrize("el", [EL1, EL2, EL3])
@pytest.mark.parametrize("seed", range(4))
def test_no_return_is_suspect_at_a_start(el: int, seed: int) -> None:
    m = Machine(image_of({CODE: a.code([a.b(0)])}, CODE), el=el, seed=seed)
    assert not m.board.cpu.state.suspect >> el & 1
