"""Exceptions whose vectors cannot be fetched: most are another level's, which maps the page."""

from __future__ import annotations

import struct
from dataclasses import astuple
from typing import Any

import pytest

from spe_unicorn.arch.registers import debug, system
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.snapshot.board_state import BoardSaver
from tests.host.guests import EL1H, FROM_LOWER, enter_application, put
from tests.support import a64 as a
from tests.support.machine_runs import Machine, Result, image_of
from tests.support.small_boards import RAM

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
CODE, GUEST, EL2_VECTORS, APPLICATION = RAM, RAM + 0x1000, RAM + 0x2000, RAM + 0x4000
VECTORS, LOG, STACK = RAM + 0x6000, RAM + 0x8000, RAM + 0xA000
STAGE2, STAGE1 = RAM + 0x1_0000, RAM + 0x1_4000
"""Each is a table of level 1; those of levels 2 and 3 follow."""
NOWHERE = 0x7000_0000
"""An address that neither stage maps."""
NO_MEMORY = RAM + 0x10_0000
"""An address that both stages map, and where nothing is."""
SIZE = 1 << 20
VALID, TABLE = 1, 2
S2_NORMAL = 0b11 << 6 | 1 << 10 | 0b11 << 8 | 0b1111 << 2
S1_NORMAL, S1_USER, READ_ONLY = 1 << 10 | 0b11 << 8, 1 << 6, 1 << 7
VTCR = system.VTCR_EL2.of(T0SZ=25, SL0=1, PS=2).value | 1 << 31
RW, VM, VI, IMO = 1 << 31, 1 << 0, 1 << 7, 1 << 4
SCTLR_EL1 = 0x30D0_0800 | 1 << 26 | 1 << 14
CHECKS_SP = 1 << 4 | 1 << 3 | 1 << 1
"""SCTLR_EL1.SA0, SA and A."""
FETCH, LEVEL_3, S1PTW = 0x8200_0000, 0x07, 1 << 7
TTBR1_OFF = 1 << 23


def table_of(first: int, attributes: int, without: tuple[int, ...] = ()) -> dict[int, bytes]:
    """Tables of 4 KiB pages, one to one, for the first 2 MiB of RAM."""
    level1, level2, level3 = first, first + 0x1000, first + 0x2000
    pages = [
        0 if RAM + 0x1000 * n in without else RAM + 0x1000 * n | attributes | TABLE | VALID
        for n in range(512)
    ]
    return {
        level1 + 8: struct.pack("<Q", level2 | TABLE | VALID),
        level2: struct.pack("<Q", level3 | TABLE | VALID),
        level3: struct.pack("<512Q", *pages),
    }


def lsl(rd: int, rn: int, shift: int) -> int:
    return 0xD340_0000 | 64 - shift << 16 | 63 - shift << 10 | rn << 5 | rd


def mapping_handler(maps: bool = True) -> list[int]:
    """Log ESR_EL2, ELR_EL2, FAR_EL2 and HPFAR_EL2 at X28, and map the page one to one."""
    words = []
    for register in (system.ESR_EL2, system.ELR_EL2, system.FAR_EL2, system.HPFAR_EL2):
        words += [a.mrs(24, astuple(register.encoding)), 0xF800_8400 | 28 << 5 | 24]
    if maps:
        words += [
            lsl(25, 24, 8),
            *a.mov64(26, S2_NORMAL | TABLE | VALID),
            a.orr(25, 25, 26),
            a.lsr_imm(24, 24, 4),
            a.and_low_bits(24, 24, 0, 9),
            *a.mov64(26, STAGE2 + 0x2000),
            a.str_reg(25, 26, 24, a.LSL, 1),
            a.DSB_SY,
        ]
    return [*words, a.ERET]


CAUSES = {
    "SVC": [a.svc(0x12)],
    "undefined": [a.udf(0)],
    "data abort": [*a.mov64(1, NO_MEMORY), a.ldr(2, 1)],
    "fetch": [*a.mov64(1, NO_MEMORY), a.br(1)],
    "misaligned SP": [*a.mov64(1, STACK + 8), a.add_imm(31, 1, 0), a.ldr(2, 31)],
    "misaligned PC": [*a.mov64(1, GUEST + 2), a.br(1)],
    "floating point": [a.fadd(0, 0, 0)],
    "IRQ": [a.daifclr(2), a.NOP, a.NOP],
}
KIND = {"IRQ": 0x80}


def machine(
    cause: str,
    *,
    runner: type[Runner] = Runner,
    el0: bool = False,
    stage1: bool = False,
    unmapped: tuple[int, ...] = (VECTORS,),
    stage1_without: tuple[int, ...] = (),
    maps: bool = True,
    more: list[int] | None = None,
    hcr: int = 0,
    **options: object,
) -> Machine:
    """A guest that takes an exception, and a hypervisor that maps its pages on first touch.

    ``hcr`` are bits that it sets in HCR_EL2 beside those that it needs.
    """
    sctlr = SCTLR_EL1 | (CHECKS_SP if cause == "misaligned SP" else 0)
    guest = [*put(system.VBAR_EL1, VECTORS), *put(system.SCTLR_EL1, sctlr)]
    if stage1:
        guest += [
            *put(system.TTBR0_EL1, STAGE1),
            *put(system.TCR_EL1, 25 | TTBR1_OFF | 2 << 32),
            *put(system.MAIR_EL1, 0xFF),
            *put(system.SCTLR_EL1, sctlr | 1),
            a.ISB,
        ]
    causes = CAUSES[cause]
    guest += [*(more or [])]
    guest += enter_application() if el0 else causes
    if el0 and cause == "IRQ":
        causes = [a.NOP, a.NOP]
        guest = [
            *guest[:-5],
            *put(system.SPSR_EL1, 0x340),
            *put(system.ELR_EL1, APPLICATION),
            a.ERET,
        ]
    code = [
        *[*put(system.VBAR_EL2, EL2_VECTORS), *a.mov64(28, LOG)],
        *[*put(system.VTTBR_EL2, STAGE2), *put(system.VTCR_EL2, VTCR)],
        *put(system.HCR_EL2, RW | VM | (VI | IMO if cause == "IRQ" else 0) | hcr),
        *[*put(system.SPSR_EL2, EL1H), *put(system.ELR_EL2, GUEST), a.ERET],
    ]
    vector = [
        *[a.mrs(10, astuple(system.ESR_EL1.encoding)), a.mrs(11, astuple(system.ELR_EL1.encoding))],
        *[
            a.mrs(12, astuple(system.FAR_EL1.encoding)),
            a.mrs(13, astuple(system.SPSR_EL1.encoding)),
        ],
        a.b(0),
    ]
    image = image_of(
        {
            CODE: a.code(code),
            GUEST: a.code([*guest, a.b(0)]),
            APPLICATION: a.code([*causes, a.b(0)]),
            EL2_VECTORS + FROM_LOWER: a.code(mapping_handler(maps)),
            EL2_VECTORS + 0x200: a.code([a.b(0)]),
            **{VECTORS + 0x80 * n: a.code(vector) for n in range(16)},
            **table_of(STAGE2, S2_NORMAL, unmapped),
            **table_of(STAGE1, S1_NORMAL | S1_USER | READ_ONLY, stage1_without),
        },
        CODE,
    )
    result = Machine(image, runner=runner, el=2, ram=SIZE, **options)
    for pe in result.board.pes:
        pe.start(2, CODE)
    return result


def logged(subject: Machine) -> list[tuple[int, int, int, int]]:
    """ESR_EL2, ELR_EL2, FAR_EL2 and HPFAR_EL2 of each exception that EL2 has taken."""
    data = subject.board.memory.read(LOG, 32 * 32)
    entries = list(struct.iter_unpack("<4Q", data))
    return entries[: entries.index((0, 0, 0, 0))]


def offset_of(cause: str, el0: bool) -> int:
    return (FROM_LOWER if el0 else 0x200) + KIND.get(cause, 0)


def finish(subject: Machine, operations: int = 200) -> Result:
    result = subject.run(operations)
    assert result.ending is Ending.LIMIT, result.failure
    return result


@pytest.mark.sweep(first=True)
@RUNNERS
@pytest.mark.parametrize("stage1", [False, True], ids=["stage 1 off", "stage 1 on"])
@pytest.mark.parametrize("el0", [False, True], ids=["EL1", "EL0"])
@pytest.mark.parametrize("cause", CAUSES)
def test_vectors_are_mapped_on_first_touch(
    runner: type[ReferenceRunner] | type[Runner], cause: str, el0: bool, stage1: bool
) -> None:
    subject = machine(cause, runner=runner, el0=el0, stage1=stage1)
    finish(subject)
    vector = VECTORS + offset_of(cause, el0)
    assert logged(subject) == [(FETCH | LEVEL_3, vector, vector, VECTORS >> 8)]
    cpu = subject.board.cpu
    assert (cpu.el, cpu.pc) == (1, vector + 16)
    # EL2 has interrupted EL1 before the first operation of its vector, with all masked
    assert cpu.registers.raw(system.SPSR_EL2) & 0x3CF == EL1H
    expected = {
        "SVC": 0x5600_0012,
        "undefined": 0x0200_0000,
        "data abort": 0x9200_0010 if el0 else 0x9600_0010,
        "fetch": 0x8200_0010 if el0 else 0x8600_0010,
        "misaligned SP": 0x9A00_0000,
        "misaligned PC": 0x8A00_0000,
        "floating point": 0x1FE0_0000,
    }
    if cause != "IRQ":
        assert cpu.engine.x(10) == expected[cause]


@RUNNERS
@pytest.mark.parametrize("cause", ["SVC", "IRQ"])
def test_a_table_of_the_guest_is_mapped_before_its_vector_is(
    runner: type[ReferenceRunner] | type[Runner], cause: str
) -> None:
    """VBAR_EL1 is in the next 2 MiB, whose stage 1 table is in a page of its own."""
    table, vectors = STAGE1 + 0x3000, RAM + 0x20_0000
    subject = machine(
        cause,
        runner=runner,
        stage1=True,
        unmapped=(table, VECTORS),
        more=put(system.VBAR_EL1, vectors),
    )
    memory = subject.board.memory
    memory.fill(STAGE1 + 0x1008, struct.pack("<Q", table | TABLE | VALID))
    memory.fill(table, struct.pack("<Q", VECTORS | S1_NORMAL | TABLE | VALID))
    finish(subject)
    vector = vectors + offset_of(cause, el0=False)
    assert logged(subject) == [
        (FETCH | S1PTW | LEVEL_3, vector, vector, table >> 8),
        (FETCH | LEVEL_3, vector, vector, VECTORS >> 8),
    ]
    assert subject.board.cpu.pc == vector + 16


@RUNNERS
@pytest.mark.parametrize("pieces", [1, 200])
@pytest.mark.parametrize("cause", ["SVC", "data abort", "IRQ"])
def test_hpfar_is_of_the_abort_whatever_is_above_the_gap(
    runner: type[ReferenceRunner] | type[Runner], cause: str, pieces: int
) -> None:
    """TTBR1_EL1 leads out of the IPA size, and nothing is accessed by it.

    The engine looks at the address where a run was to end. That walk leaves HPFAR_EL2 of its own.
    """
    subject = machine(
        cause,
        runner=runner,
        stage1=True,
        more=[
            *put(system.TTBR1_EL1, 0xEC7E_DBAD_C000),
            *put(system.TCR_EL1, 25 | 25 << 16 | 2 << 30 | 2 << 32),
            a.ISB,
        ],
    )
    while subject.board.executed < 200:
        subject.run(pieces)
    vector = VECTORS + offset_of(cause, el0=False)
    assert logged(subject) == [(FETCH | LEVEL_3, vector, vector, VECTORS >> 8)]


@RUNNERS
@pytest.mark.parametrize("el0", [False, True], ids=["EL1", "EL0"])
@pytest.mark.parametrize("cause", CAUSES)
def test_an_external_abort_at_the_vector_goes_where_ea_says(
    runner: type[ReferenceRunner] | type[Runner], cause: str, el0: bool
) -> None:
    """Stage 1 has the vectors where no memory is; EL3 takes External aborts."""
    subject = machine(cause, runner=runner, el0=el0, stage1=True, unmapped=())
    board, cpu = subject.board, subject.board.cpu
    page = STAGE1 + 0x2000 + 8 * (VECTORS - RAM >> 12)
    board.memory.fill(page, struct.pack("<Q", NO_MEMORY | S1_NORMAL | TABLE | VALID))
    cpu.registers.set_raw(system.VBAR_EL3, EL2_VECTORS + 0x800)
    cpu.registers.set_raw(system.SCR_EL3, cpu.registers.raw(system.SCR_EL3) | 1 << 3)
    board.memory.fill(EL2_VECTORS + 0x800 + FROM_LOWER, a.code([a.b(0)]))
    board.handler.controls_written()
    finish(subject)
    assert (cpu.el, cpu.pc) == (3, EL2_VECTORS + 0x800 + FROM_LOWER)
    if cause in ("data abort", "fetch"):  # the exception itself goes to EL3
        assert cpu.registers.raw(system.ESR_EL3) >> 26 == (0x24 if cause == "data abort" else 0x20)
        return
    assert cpu.registers.raw(system.ESR_EL3) == 0x8200_0010
    assert cpu.registers.raw(system.ELR_EL3) == cpu.registers.raw(system.FAR_EL3)
    assert cpu.registers.raw(system.FAR_EL3) == VECTORS + offset_of(cause, el0)


@RUNNERS
@pytest.mark.parametrize("cause", ["SVC", "data abort", "IRQ"])
def test_a_hypervisor_without_vectors_ends_the_run(
    runner: type[ReferenceRunner] | type[Runner], cause: str
) -> None:
    """EL2 would fetch at its own vector for ever. The guest's exception has been taken."""
    subject = machine(cause, runner=runner)
    subject.board.cpu.registers.set_raw(system.VBAR_EL2, 0)
    code = a.code([a.NOP] * 4)
    subject.board.memory.fill(CODE, code[: 4 * len(put(system.VBAR_EL2, EL2_VECTORS))])
    subject.board.cpu.registers.set_raw(system.VBAR_EL2, NOWHERE)
    result = subject.run(200)
    assert result.ending is Ending.FAILED
    vector = VECTORS + offset_of(cause, el0=False)
    assert result.failure.reason == (
        f"InstructionAbort (translation fault, level 3) ESR 0x82000007 FAR {vector:#x},"
        f" and no code at its vector {NOWHERE + FROM_LOWER:#x}"
    )
    assert result.failure.pc == subject.board.cpu.pc == vector
    assert subject.board.cpu.el == 1


@RUNNERS
@pytest.mark.parametrize("el0", [False, True], ids=["EL1", "EL0"])
@pytest.mark.parametrize("cause", sorted(set(CAUSES) - {"IRQ"}))
def test_vectors_that_stage_1_does_not_map_end_the_run(
    runner: type[ReferenceRunner] | type[Runner], cause: str, el0: bool
) -> None:
    """The fetch would fault at EL1 for ever. EL2 has no part in it."""
    subject = machine(cause, runner=runner, el0=el0, stage1=True, stage1_without=(VECTORS,))
    result = subject.run(200)
    assert result.ending is Ending.FAILED
    vector = VECTORS + offset_of(cause, el0)
    assert result.failure.reason.endswith(f", and no code at its vector {vector:#x}")
    assert result.failure.hint == (
        "have the vectors at VBAR_EL1 mapped, to be executed: their fetch ends in"
        " translation fault, level 3"
    )
    assert logged(subject) == []


@RUNNERS
def test_an_abort_taken_at_the_vector_it_enters_goes_on(
    runner: type[ReferenceRunner] | type[Runner],
) -> None:
    """EL0 branches to the vector for EL0's exceptions, where only EL1 may execute."""
    vector = VECTORS + FROM_LOWER
    subject = machine("SVC", runner=runner, el0=True, stage1=True)
    subject.board.memory.fill(APPLICATION, a.code([*a.mov64(1, vector), a.br(1)]))
    page = STAGE1 + 0x2000 + 8 * (VECTORS - RAM >> 12)
    for_el1 = VECTORS | S1_NORMAL | 1 << 54 | TABLE | VALID
    subject.board.memory.fill(page, struct.pack("<Q", for_el1))
    finish(subject)
    cpu = subject.board.cpu
    assert (cpu.el, cpu.pc, cpu.engine.x(10)) == (1, vector + 16, 0x8200_000F)
    assert (cpu.engine.x(11), cpu.engine.x(12)) == (vector, vector)
    assert logged(subject) == [(FETCH | LEVEL_3, vector, vector, VECTORS >> 8)]


@RUNNERS
def test_an_exception_that_its_vector_repeats_ends_the_run(
    runner: type[ReferenceRunner] | type[Runner],
) -> None:
    """The first UDF is executed with interrupts unmasked, the next with PSTATE as it is then."""
    vector = VECTORS + 0x200
    more = [a.daifclr(15), *a.mov64(1, vector), a.br(1)]
    subject = machine("SVC", runner=runner, more=more)
    subject.board.memory.fill(vector, a.code([a.udf(0)]))
    result = subject.run(200)
    assert result.ending is Ending.FAILED
    assert result.failure.reason.endswith(" at the first instruction of its own vector")
    assert result.failure.pc == vector
    cpu = subject.board.cpu
    assert (cpu.registers.raw(system.ELR_EL1), cpu.pstate & 0x3CF) == (vector, EL1H)


@pytest.mark.sweep
@pytest.mark.parametrize("stage1", [False, True], ids=["stage 1 off", "stage 1 on"])
@pytest.mark.parametrize("el0", [False, True], ids=["EL1", "EL0"])
@pytest.mark.parametrize("cause", CAUSES)
def test_runners_agree_on_such_exceptions_with_every_operation_sampled(
    cause: str, el0: bool, stage1: bool
) -> None:
    options = {"el0": el0, "stage1": stage1}
    for period in (None, 1, 3):
        fast = finish(machine(cause, period=period, **options))
        stepped = finish(machine(cause, period=period, runner=ReferenceRunner, **options))
        assert not fast.differences(stepped)
        if period == 1:
            # an operation that took the exception at once has no record, each other one has
            assert len(fast.records) >= 150


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("cause", CAUSES)
def test_a_run_in_pieces_of_one_operation_is_the_same(cause: str) -> None:
    """A debugger that steps sees the vector before EL2 does."""
    whole, pieces = machine(cause), machine(cause)
    expected = finish(whole)
    places = []
    while pieces.board.executed < 200:
        result = pieces.run(1)
        places.append((pieces.board.cpu.el, pieces.board.cpu.pc))
    assert not expected.differences(result)
    vector = VECTORS + offset_of(cause, el0=False)
    if cause == "SVC":
        at = places.index((1, vector))
        assert places[at + 1] == (2, EL2_VECTORS + FROM_LOWER + 4)


@pytest.mark.parametrize("cause", CAUSES)
def test_a_snapshot_before_the_fetch_at_the_vector_goes_on_there(cause: str) -> None:
    expected = finish(machine(cause))
    first = machine(cause)
    while first.board.cpu.entries.last_exception is None:
        assert first.run(1).operations < 200
    saved = BoardSaver(first.board).save()
    second = machine(cause)
    BoardSaver(second.board).restore(saved)
    done = second.board.executed
    assert not finish(second, 200 - done).differences(expected)


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("cause", ["SVC", "data abort", "IRQ"])
def test_several_pes_map_the_same_vectors(cause: str) -> None:
    results = []
    for runner in (Runner, ReferenceRunner):
        subject = machine(cause, runner=runner, smp=2, period=7)
        results.append(finish(subject, 20_000))
        for pe in subject.board.pes:
            assert pe.cpu.pc == VECTORS + offset_of(cause, el0=False) + 16
        assert all(entry[0] == FETCH | LEVEL_3 for entry in logged(subject))
    assert not results[0].differences(results[1])


@RUNNERS
@pytest.mark.parametrize("fetches", [True, False], ids=["fetch", "UDF"])
def test_a_loop_that_no_interrupt_will_leave_ends_the_run(
    runner: type[ReferenceRunner] | type[Runner], fetches: bool
) -> None:
    """EL2 takes IRQs, by HCR_EL2.IMO, and there is nothing that could raise one."""
    without = (VECTORS,) if fetches else ()
    subject = machine("undefined", runner=runner, stage1=True, stage1_without=without, hcr=IMO)
    subject.board.memory.fill(VECTORS + 0x200, a.code([a.udf(0)]))
    result = subject.run(300)
    assert result.ending is Ending.FAILED
    assert "its vector" in result.failure.reason or "its own vector" in result.failure.reason


@RUNNERS
@pytest.mark.parametrize("fetches", [True, False], ids=["fetch", "UDF"])
def test_a_loop_is_left_by_the_next_interrupt_of_a_higher_level(
    runner: type[ReferenceRunner] | type[Runner], fetches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EL2 takes the IRQ from the vector. What happens next on the board raises it."""
    without = (VECTORS,) if fetches else ()
    subject = machine("undefined", runner=runner, stage1=True, stage1_without=without, hcr=IMO)
    board, cpu = subject.board, subject.board.cpu
    board.memory.fill(VECTORS + 0x200, a.code([a.udf(0)]))
    board.memory.fill(EL2_VECTORS + FROM_LOWER + 0x80, a.code([a.b(0)]))
    pe = board.pes[0]
    pe._of_devices = 1 << 40

    def wait() -> bool:
        board.handler.interrupts.irq.set_level(True)
        return True

    monkeypatch.setattr(pe, "wait", wait)
    finish(subject, 300)
    assert (cpu.el, cpu.pc) == (2, EL2_VECTORS + FROM_LOWER + 0x80)
    assert cpu.registers.raw(system.ELR_EL2) == VECTORS + 0x200


STEP_WITHOUT_OPERATION, SPSR_SS = 0xCA00_0022, 1 << 21
"""ESR_EL2 of a Software Step exception that no stepped operation has led to, and PSTATE.SS."""


@pytest.mark.sweep(first=True)
@RUNNERS
@pytest.mark.parametrize("where", ["stage 1", "stage 2", "no memory"])
@pytest.mark.parametrize("cause", ["SVC", "undefined", "data abort"])
def test_who_steps_a_guest_sees_it_at_a_vector_that_cannot_be_fetched(
    runner: type[ReferenceRunner] | type[Runner], cause: str, where: str
) -> None:
    """EL2 steps EL1. Its exception has priority over the Instruction Abort (Arm ARM D1.4.5.6)."""
    subject = machine(
        cause,
        runner=runner,
        stage1=True,
        unmapped=(VECTORS,) if where == "stage 2" else (),
        stage1_without=(VECTORS,) if where == "stage 1" else (),
    )
    board, registers = subject.board, subject.board.cpu.registers
    if where == "no memory":
        page = STAGE1 + 0x2000 + 8 * (VECTORS - RAM >> 12)
        board.memory.fill(page, struct.pack("<Q", NO_MEMORY | S1_NORMAL | TABLE | VALID))
    spsr = astuple(system.SPSR_EL2.encoding)
    again = [a.mrs(24, spsr), a.movz(25, SPSR_SS >> 16, 16), a.orr(24, 24, 25), a.msr(spsr, 24)]
    handler = [*mapping_handler(maps=False)[:-1], *again, a.ERET]
    board.memory.fill(EL2_VECTORS + FROM_LOWER, a.code(handler))
    registers.set_raw(debug.OSLSR_EL1, 0)
    registers.set_raw(debug.MDSCR_EL1, 1)
    registers.set_raw(system.MDCR_EL2, registers.raw(system.MDCR_EL2) | 1 << 8)
    board.handler.controls_written()
    finish(subject, 900)
    entries = struct.iter_unpack("<4Q", board.memory.read(LOG, 0x1800) or b"")
    at_vector = [esr for esr, elr, _, _ in entries if elr == VECTORS + 0x200]
    # stage 2 aborts to EL2, which steps once more; an abort to EL1 is again at its vector
    after = FETCH | LEVEL_3 if where == "stage 2" else STEP_WITHOUT_OPERATION
    assert at_vector[:2] == [STEP_WITHOUT_OPERATION, after]


@RUNNERS
@pytest.mark.parametrize("fetches", [True, False], ids=["fetch", "UDF"])
@pytest.mark.parametrize("other", ["executes", "repeats an exception", "waits"])
def test_a_guest_that_loops_at_its_vector_leaves_other_pes_to_go_on(
    runner: type[ReferenceRunner] | type[Runner], other: str, fetches: bool
) -> None:
    """EL2 takes IRQs of the guest of the first PE. Without the second PE nothing would happen."""
    without = (VECTORS,) if fetches else ()
    options: dict[str, Any] = {"stage1_without": without, "hcr": IMO, "smp": 2}
    subject = machine("undefined", runner=runner, stage1=True, **options)
    board, spot = subject.board, RAM + 0xC000
    board.memory.fill(VECTORS + 0x200, a.code([a.udf(0)]))
    board.memory.fill(EL2_VECTORS + FROM_LOWER + 0x80, a.code([a.b(0)]))
    if other != "repeats an exception":
        board.memory.fill(spot, a.code([a.b(0) if other == "executes" else a.WFI]))
        board.pes[1].start(2, spot)
        board.pes[1].s.turn = 128
    result = subject.run(1000)
    if other != "executes":
        assert result.ending is Ending.FAILED
        return
    assert result.ending is Ending.LIMIT, result.failure
    first, second = board.pes
    assert second.cpu.executed > 100
    assert (first.cpu.el, first.cpu.pc) == (1, VECTORS + 0x200)
    first.interrupts.irq.set_level(True)
    finish(subject, 1000)
    assert (first.cpu.el, first.cpu.pc) == (2, EL2_VECTORS + FROM_LOWER + 0x80)
    assert first.cpu.registers.raw(system.ELR_EL2) == VECTORS + 0x200
