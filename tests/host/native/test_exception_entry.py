"""Exceptions that compiled code enters: the same as those that Python enters by the rules."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import pytest

from spe_unicorn.arch.exceptions.entry import pstate_mask
from spe_unicorn.arch.pe import EL1, EL2, EL3
from spe_unicorn.arch.registers import system
from spe_unicorn.host.engine.engine import SP_EL, X
from spe_unicorn.host.pe.interrupts import Interrupts
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.support import a64 as a
from tests.support.machine_runs import Machine, Result, image_of

CODE = 0x4000_0000
VECTORS = CODE + 0x1000
TABLE = CODE + 0x2000
FIRST = CODE + 0x4000
ELSEWHERE = 0x8000_0000
"""Where nothing is mapped."""
READ_ONLY_FOR_ALL = 0b11 << 6 | 1 << 10 | 0b01
"""A block descriptor: access flag, executable at every Exception level."""
RAM = 1 << 20
OPERATIONS = 40
SVE_TRAPS = 0x33FF
"""CPTR_EL2.TZ, and with HCR_EL2.E2H a ZEN of 0."""
E2H, TGE, RW, TWI, IMO = 1 << 34, 1 << 27, 1 << 31, 1 << 13, 1 << 4
VBAR = {1: system.VBAR_EL1, 2: system.VBAR_EL2, 3: system.VBAR_EL3}
SCTLR = {1: system.SCTLR_EL1, 2: system.SCTLR_EL2, 3: system.SCTLR_EL3}
TCR = {1: system.TCR_EL1, 2: system.TCR_EL2, 3: system.TCR_EL3}
TTBR0 = {1: system.TTBR0_EL1, 2: system.TTBR0_EL2, 3: system.TTBR0_EL3}
MAIR = {1: system.MAIR_EL1, 2: system.MAIR_EL2, 3: system.MAIR_EL3}


@dataclass(frozen=True)
class Place:
    """Where an exception is taken from, and to."""

    mode: int
    target: int
    hcr: int = RW


PLACES = {
    "EL0 to EL1": Place(0b0000, EL1),
    "EL1 with SP_EL0": Place(0b0100, EL1),
    "EL1": Place(0b0101, EL1),
    "EL0 to a host at EL2": Place(0b0000, EL2, RW | E2H | TGE),
    "a host at EL2": Place(0b1001, EL2, RW | E2H | TGE),
    "EL2 with SP_EL0": Place(0b1000, EL2),
    "EL2": Place(0b1001, EL2),
}
CALLERS = {
    "EL1 to EL2": Place(0b0101, EL2),
    "EL1 with SP_EL0 to a host at EL2": Place(0b0100, EL2, RW | E2H),
    "EL2": Place(0b1001, EL2),
    "EL2 with SP_EL0, a host": Place(0b1000, EL2, RW | E2H | TGE),
    "EL1 to EL3": Place(0b0101, EL3),
    "EL2 to EL3": Place(0b1001, EL3),
}
"""Where HVC and SMC are from, and where they go."""
CAUSES = {
    "system call": [a.svc(0x1234)],
    "load": [a.add_imm(2, 2, 1), a.ldr(3, 1), a.add_imm(2, 2, 1)],
    "store": [a.add_imm(2, 2, 1), a.str_(3, 4), a.add_imm(2, 2, 1)],
    "fetch": [a.add_imm(2, 2, 1), a.br(1)],
    "SVE": [a.add_imm(2, 2, 1), 0x0420_E3E6, a.add_imm(2, 2, 1)],  # CNTB X6
}


CORES = ("generic", "max")
"""One without PSTATE.PM, and one with it."""
CALLS = {EL2: "hypervisor call", EL3: "monitor call"}
WAITERS = {
    "EL1": Place(0b0101, EL2, RW | TWI),
    "EL1 with SP_EL0, under a host": Place(0b0100, EL2, RW | E2H | TWI),
    "EL0": Place(0b0000, EL2, RW | TWI),
}
"""Where a trapped WFI is."""
WAITING = {"wait": [a.add_imm(2, 2, 1), a.WFI, a.add_imm(2, 2, 1)]}
INTERRUPTED = {
    "EL0 to EL2": Place(0b0000, EL2, RW | IMO),
    "EL1 to EL2": Place(0b0101, EL2, RW | IMO),
    "EL1 with SP_EL0 to a host at EL2": Place(0b0100, EL2, RW | E2H | IMO),
}
CALLING = {"hypervisor call": [a.hvc(0x1234)], "monitor call": [0xD400_0003 | 0x1234 << 5]}


def machine(cause: str, runner: type[Runner], el: int, core: str = "generic") -> Machine:
    loop = a.code([a.b(0)])
    table = struct.pack("<QQ", 0, CODE | READ_ONLY_FOR_ALL)
    vectors = {VECTORS + 0x80 * n: loop for n in range(16)}
    program = a.code([*{**CAUSES, **CALLING, **WAITING}[cause], a.b(0)])
    first = a.code([a.b(4), a.b(4), a.b(0)])
    image = image_of({CODE: program, TABLE: table, FIRST: first, **vectors}, FIRST)
    machine = Machine(image, runner=runner, core=core, el=el, ram=RAM)
    machine.board.run(3)  # as long as no block has come to its end, all exceptions are Python's
    return machine


def put_in_place(machine: Machine, place: Place, random: Random) -> None:
    """A random state of the PE, with translation, before what raises the exception."""
    board = machine.board
    cpu, engine = board.cpu, board.cpu.engine
    target = place.target
    if target != EL1:
        cpu.registers.set_raw(system.HCR_EL2, place.hcr)
    if target == EL3:
        scr = cpu.registers.read(system.SCR_EL3)
        cpu.registers.set_raw(system.SCR_EL3, scr.replace(SMD=0).value)
    if target == EL2:
        cpu.registers.set_raw(system.CPTR_EL2, SVE_TRAPS)
    sctlr = cpu.registers.read(SCTLR[target]).value | 1
    if random.getrandbits(1):
        sctlr |= 1 << 44 | 1 << 23  # DSSBS, SPAN
    host = place.hcr & E2H
    one_half = target == EL3 or (target == EL2 and not host)
    tcr = 25 | (1 << 31 | 1 << 23 if one_half else 1 << 23)
    cpu.registers.set_raw(TTBR0[target], TABLE)
    cpu.registers.set_raw(TCR[target], tcr)
    cpu.registers.set_raw(MAIR[target], 0xFF)
    cpu.registers.set_raw(VBAR[target], VECTORS)
    cpu.registers.set_raw(SCTLR[target], sctlr)
    engine.flush_tlb()
    for number in range(31):
        engine.put(X[number], random.getrandbits(64))
    engine.set_x(1, ELSEWHERE + 8 * random.getrandbits(10))
    engine.set_x(4, CODE + 0x3000)
    flags = (
        random.getrandbits(33)
        & pstate_mask(cpu)
        & ~(0x1F | system.SPSR.IL.mask | system.SPSR.nRW.mask)
    )
    cpu.set_pstate(flags | place.mode)
    for number in SP_EL:
        engine.put(number, random.getrandbits(60) << 4)
    cpu.set_pstate(flags | place.mode)
    cpu.pc = CODE
    board.handler.controls_written()
    board.pes[0].unit.reload()


def entered(
    place: Place,
    cause: str,
    seed: str,
    runner: type[Runner] = Runner,
    plain: bool = False,
    vectors: int = VECTORS,
    core: str = "generic",
    prepare: Callable[[Interrupts], None] = lambda interrupts: None,
    el: int | None = None,
) -> tuple[Result, list[int], int]:
    """A run over an exception, PM and stack pointers after it, and how often Python entered one."""
    subject = machine(cause, runner, place.target if el is None else el, core)
    put_in_place(subject, place, Random(seed))
    cpu = subject.board.cpu
    cpu.registers.set_raw(VBAR[place.target], vectors)
    prepare(subject.board.pes[0].interrupts)
    taken = 0
    take = cpu.entries.take

    def counting(*arguments):
        nonlocal taken
        taken += 1
        return take(*arguments)

    cpu.entries.take = counting
    if plain:
        cpu.exception_taken.connect(lambda record, entry: None)
    result = subject.run(OPERATIONS)
    return result, [cpu.pm, *map(cpu.engine.get, SP_EL)], taken


@pytest.mark.sweep
@pytest.mark.accelerated
@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_compiled_entry_is_the_entry_by_the_rules(place: Place, cause: str) -> None:
    for core in CORES:
        seed = f"{place} {cause} {core}"  # each place and cause has states of its own
        compiled, stacks, by_python = entered(place, cause, seed, core=core)
        plain, plain_stacks, entries = entered(place, cause, seed, plain=True, core=core)
        stepped, stepped_stacks, _ = entered(place, cause, seed, ReferenceRunner, core=core)
        assert not compiled.differences(plain)
        assert not compiled.differences(stepped)
        assert stacks == plain_stacks == stepped_stacks
        assert entries == 1
        # the engine knows no CPTR_EL2.ZEN of a host, so this trap is ours from the beginning
        assert by_python == (cause == "SVE" and bool(place.hcr & E2H))
        assert compiled.ending is Ending.LIMIT
        assert compiled.registers[33] & ~0x7FF == VECTORS


@pytest.mark.accelerated
@pytest.mark.parametrize("place", CALLERS.values(), ids=CALLERS)
def test_calls_of_a_higher_level_are_entered_by_the_rules(place: Place) -> None:
    cause = CALLS[place.target]
    for core in CORES:
        seed = f"{place} {core}"
        compiled, stacks, by_python = entered(place, cause, seed, core=core)
        plain, plain_stacks, entries = entered(place, cause, seed, plain=True, core=core)
        stepped, stepped_stacks, _ = entered(place, cause, seed, ReferenceRunner, core=core)
        assert not compiled.differences(plain)
        assert not compiled.differences(stepped)
        assert stacks == plain_stacks == stepped_stacks
        assert (by_python, entries) == (0, 1)
        assert compiled.registers[33] & ~0x7FF == VECTORS


def assert_irq(interrupts: Interrupts) -> None:
    interrupts.irq.set_level(True)


@pytest.mark.accelerated
@pytest.mark.parametrize("place", WAITERS.values(), ids=WAITERS)
def test_a_trapped_wfi_is_entered_by_the_rules(place: Place) -> None:
    """To EL2 by HCR_EL2.TWI (AArch64.CheckForWFxTrap), while nothing is pending."""
    for core in CORES:
        seed = f"{place} {core}"
        compiled, stacks, by_python = entered(place, "wait", seed, core=core)
        plain, plain_stacks, entries = entered(place, "wait", seed, plain=True, core=core)
        stepped, stepped_stacks, _ = entered(place, "wait", seed, ReferenceRunner, core=core)
        assert not compiled.differences(plain)
        assert not compiled.differences(stepped)
        assert stacks == plain_stacks == stepped_stacks
        assert (by_python, entries) == (place.mode == 0, 1)
        if place.mode:  # EL1 takes those of EL0, by SCTLR_EL1.nTWI
            assert compiled.registers[33] == VECTORS + 0x400


@pytest.mark.accelerated
def test_a_trapped_wfi_completes_while_an_interrupt_is_pending() -> None:
    """One that is masked: PSTATE.I at EL1, where no IRQ goes to EL2."""

    def masked(interrupts: Interrupts) -> None:
        pe = interrupts._cpu
        pe.set_pstate(pe.pstate | system.SPSR.I.mask)
        assert_irq(interrupts)

    place = WAITERS["EL1"]
    compiled, _, by_python = entered(place, "wait", "1", prepare=masked)
    stepped, _, entries = entered(place, "wait", "1", ReferenceRunner, prepare=masked)
    assert not compiled.differences(stepped)
    assert by_python == entries == 0
    assert compiled.registers[33] == CODE + 12


@pytest.mark.accelerated
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("place", INTERRUPTED.values(), ids=INTERRUPTED)
def test_an_irq_to_el2_is_entered_by_the_rules(place: Place, core: str) -> None:
    def run(runner: type[Runner], plain: bool = False) -> tuple[Result, list[int], int]:
        seed = f"{place} {core}"
        return entered(place, "load", seed, runner, plain, core=core, prepare=assert_irq)

    compiled, stacks, by_python = run(Runner)
    plain, plain_stacks, entries = run(Runner, plain=True)
    stepped, stepped_stacks, _ = run(ReferenceRunner)
    assert not compiled.differences(plain)
    assert not compiled.differences(stepped)
    assert stacks == plain_stacks == stepped_stacks
    # from EL0 to an EL2 that runs no host no entry is compiled
    assert (by_python, entries) == (place.mode == 0, 1)
    assert compiled.registers[33] == VECTORS + 0x480


@pytest.mark.accelerated
@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("mode", [0b0000, 0b0100, 0b0101])
def test_a_virtual_irq_is_entered_by_the_rules(mode: int, others: bool) -> None:
    """Alone it is compiled code's; with a virtual FIQ, which goes first, it is Python's."""

    def virtual(interrupts: Interrupts) -> None:
        pe = interrupts._cpu
        pe.registers.set_raw(system.HCR_EL2, RW | IMO | 1 << 3)
        pe.set_pstate(pe.pstate & ~(system.SPSR.I.mask | system.SPSR.F.mask))
        interrupts.virq.set_level(True)
        interrupts.vfiq.set_level(others)
        interrupts.update()

    place = Place(mode, EL1)
    seed = f"{place}"

    def run(runner: type[Runner], plain: bool = False) -> tuple[Result, list[int], int]:
        return entered(place, "load", seed, runner, plain, prepare=virtual, el=EL2)

    compiled, stacks, by_python = run(Runner)
    plain, plain_stacks, entries = run(Runner, plain=True)
    stepped, stepped_stacks, _ = run(ReferenceRunner)
    assert not compiled.differences(plain)
    assert not compiled.differences(stepped)
    assert stacks == plain_stacks == stepped_stacks
    assert entries == 1
    assert by_python == others
    kind = 0x100 if others else 0x80  # FIQ, IRQ
    origin = {0b0000: 0x400, 0b0100: 0, 0b0101: 0x200}[mode]
    assert compiled.registers[33] == VECTORS + origin + kind


def test_a_call_that_firmware_answers_is_not_the_guests() -> None:
    subject = machine("monitor call", Runner, EL2)
    subject.board.cpu.pc = CODE
    subject.board.cpu.engine.set_x(0, 0x8400_0000)  # PSCI_VERSION
    subject.run(2)
    assert subject.board.cpu.engine.x(0) == 1 << 16 | 1
    assert subject.board.cpu.entries.last_exception is None


@pytest.mark.parametrize("vectors", [ELSEWHERE, CODE - 0x400 & ~0x7FF])
@pytest.mark.parametrize("cause", ["system call", "load"])
def test_without_code_at_the_vector_the_run_ends_where_the_exception_was(
    cause: str, vectors: int
) -> None:
    place = PLACES["EL0 to EL1"]
    compiled, stacks, _ = entered(place, cause, "1", vectors=vectors)
    plain, plain_stacks, _ = entered(place, cause, "1", plain=True, vectors=vectors)
    assert compiled.ending is Ending.FAILED
    assert not compiled.differences(plain)
    assert stacks == plain_stacks
