"""Machines with armed debug registers or counters that count, saved anywhere and restored."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from spe_unicorn.arch.registers import debug as d
from spe_unicorn.arch.registers import pmu as r
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.boot.plan import boot_plan
from spe_unicorn.machine.options import MachineOptions, Sampling
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.machine.snapshot.board_state import BoardSaver
from tests.firmware.programs import MADE_FOR
from tests.host.run.debug.debugged import (
    DATA,
    LOG,
    OPERATIONS,
    board,
    random_code,
    random_registers,
)
from tests.support import a64 as a

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])


def seen(made: Board) -> list[object]:
    return [
        *(made.executed, made.memory.read(DATA, 256), made.memory.read(LOG, 2048)),
        *(made.exit_status, made.unit.statistics),
        [
            (cpu.pc, cpu.pstate, [cpu.engine.x(n) for n in range(31)])
            for cpu in (pe.cpu for pe in made.pes)
        ],
        [made.cpu.registers.raw(register) for register in d.DEBUG_REGISTERS],
    ]


@pytest.mark.sweep
@RUNNERS
@pytest.mark.parametrize("seed", range(12))
def test_random_debug_registers_are_armed_in_the_machine_that_goes_on(
    seed: int, runner: type[ReferenceRunner] | type[Runner]
) -> None:
    random = Random(seed)
    chosen, words = random_registers(random), random_code(random)
    sampling = Sampling(random.choice((1, 7)), jitter=False)
    make = partial(board, words, chosen, runner, el=random.choice((1, 1, 2)), sampling=sampling)
    plain, before = make()
    plain.run(before + OPERATIONS)
    saved, other = make()[0], make()[0]
    saver, elsewhere = BoardSaver(saved), BoardSaver(other)
    for at in sorted(random.sample(range(1, plain.executed), 6)):  # some cannot go on early
        saved.run(at - saved.executed)
        elsewhere.restore(saver.save())
        other.run(before + OPERATIONS - at)
        assert seen(other) == seen(plain), at
    saved.run(before + OPERATIONS - saved.executed)
    assert seen(saved) == seen(plain)


SS, PSTATE_SS = 1, 1 << 21


@RUNNERS
def test_a_software_step_that_is_pending_is_pending_in_the_machine_that_goes_on(
    runner: type[ReferenceRunner] | type[Runner],
) -> None:
    """Every place: not stepped yet, between ERET and the step, and with the exception to come."""
    words = [a.add_imm(1, 1, 1), a.ldxr(3, 6), a.stxr(4, 3, 6), a.str_(1, 6), a.b(-16)]
    stepping = {d.MDSCR_EL1: d.MDSCR_EL1.of(SS=1, MDE=1).value}
    make = partial(board, words, stepping, runner, at=0, el=1, spsr=0x1C0 | PSTATE_SS)
    plain, before = make()
    plain.run(before + 60)
    assert plain.cpu.engine.x(19) > LOG  # steps were taken
    saved, other = make()[0], make()[0]
    saver, elsewhere = BoardSaver(saved), BoardSaver(other)
    for at in range(before - 2, before + 40):
        saved.run(at - saved.executed)
        elsewhere.restore(saver.save())
        other.run(before + 60 - at)
        assert seen(other) == seen(plain), at


def made_of(name: str, runner: type[Runner]) -> Board:
    options = MachineOptions(shipped_firmware(name), **MADE_FOR.get(name, {}))
    made = Board(options, runner=runner)
    made.start(boot_plan(options))
    return made


@pytest.mark.sweep
@RUNNERS
@pytest.mark.parametrize("name", ["debug_break", "debug_step", "debug_watch", "pmu_counts"])
def test_programs_that_debug_and_count_go_on_from_many_places(
    name: str, runner: type[ReferenceRunner] | type[Runner]
) -> None:
    most = 100_000 if runner is Runner else 4_000
    plain = made_of(name, runner)
    ending = plain.run(most)
    places = Random(name)
    saved, other = made_of(name, runner), made_of(name, runner)
    saver, elsewhere = BoardSaver(saved), BoardSaver(other)
    for at in sorted(places.sample(range(1, plain.executed), 5)):
        saved.run(at - saved.executed)
        elsewhere.restore(saver.save())
        assert other.run(most - at) is ending
        assert seen(other) == seen(plain), at
        assert [other.cpu.registers.raw(c) for c in r.PMEVCNTRS if c in other.cpu.registers] == [
            plain.cpu.registers.raw(c) for c in r.PMEVCNTRS if c in plain.cpu.registers
        ]
