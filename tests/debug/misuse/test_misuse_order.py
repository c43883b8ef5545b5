"""The order that a drain needs, on an engine of the user's: each step left out, and none."""

from __future__ import annotations

import pytest

import spe_unicorn
from spe_unicorn.arch.pe import EL1, EL2
from spe_unicorn.arch.registers.system import TTBR0_EL2
from spe_unicorn.debug.misuse import watch_misuse
from tests.debug.misuse.drivers import ENABLE, SET_UP, STOP, WORK, found_in, names
from tests.support import a64 as a
from tests.support.small_boards import RAM, board_at
from tests.support.user_engine import (
    BUFFER,
    CODE,
    PMBLIMITR_EL1,
    PMBPTR_EL1,
    PMBSR_EL1,
    PMSCR_EL1,
    PMSFCR_EL1,
    PMSICR_EL1,
    PMSIRR_EL1,
    end,
    engine,
)

READ = a.mrs(10, PMBPTR_EL1)


DRAIN = [STOP, a.ISB, a.PSB_CSYNC, a.ISB, READ]


def test_a_drain_in_order_may_be_followed_by_a_read() -> None:
    assert found_in([*SET_UP, *ENABLE, *WORK, *DRAIN]) == []


@pytest.mark.parametrize("missing", [1, 2, 3], ids=["first ISB", "PSB CSYNC", "second ISB"])
def test_each_step_of_the_drain_is_needed(missing: int) -> None:
    steps = [step for n, step in enumerate(DRAIN) if n != missing]
    assert found_in([*SET_UP, *ENABLE, *WORK, *steps]) == ["read-not-synchronized"]


def test_the_steps_are_needed_in_their_order() -> None:
    steps = [STOP, a.PSB_CSYNC, a.ISB, a.ISB, READ]
    assert found_in([*SET_UP, *ENABLE, *WORK, *steps]) == ["read-not-synchronized"]
    before = [a.ISB, a.PSB_CSYNC, a.ISB, STOP, READ]
    assert found_in([*SET_UP, *ENABLE, *WORK, *before]) == ["read-not-synchronized"]


def test_the_interval_counter_needs_the_first_step_only() -> None:
    read = a.mrs(10, PMSICR_EL1)
    assert found_in([*SET_UP, *ENABLE, *WORK, STOP, a.ISB, read]) == []
    assert found_in([*SET_UP, *ENABLE, *WORK, STOP, read]) == ["read-not-synchronized"]


def test_the_interval_counter_may_be_written_behind_the_first_step() -> None:
    write = a.msr(PMSICR_EL1, 31)
    assert found_in([*SET_UP, *ENABLE, *WORK, STOP, a.ISB, write]) == []
    assert found_in([*SET_UP, *ENABLE, *WORK, STOP, write]) == ["write-before-drain"]
    filters = a.msr(PMSFCR_EL1, 31)
    assert found_in([*SET_UP, *ENABLE, *WORK, STOP, a.ISB, filters]) == ["write-before-drain"]


def test_polling_needs_its_own_drain_each_time() -> None:
    poll = [a.ISB, a.PSB_CSYNC, a.ISB, a.mrs(10, PMBSR_EL1)]
    assert found_in([*SET_UP, *ENABLE, *WORK, *poll, *WORK, *poll, *DRAIN]) == []
    again = [*poll, *WORK, a.mrs(10, PMBSR_EL1)]
    found = found_in([*SET_UP, *ENABLE, *WORK, *again, *DRAIN])
    assert found == ["read-not-synchronized"]


def test_nothing_has_to_be_drained_before_anything_was_profiled() -> None:
    assert found_in([*SET_UP, READ, a.msr(PMBLIMITR_EL1, 31)]) == []


def test_the_buffer_is_drained_before_it_is_switched_off() -> None:
    off = a.msr(PMBLIMITR_EL1, 31)
    assert found_in([*SET_UP, *ENABLE, *WORK, STOP, a.ISB, a.PSB_CSYNC, off]) == []
    assert found_in([*SET_UP, *ENABLE, *WORK, STOP, a.ISB, off]) == ["write-before-drain"]
    assert found_in([*SET_UP, *ENABLE, *WORK, off]) == ["write-while-profiling"]


def test_the_place_is_that_of_the_instruction() -> None:
    words = [*SET_UP, *ENABLE, *WORK, STOP, a.ISB, READ, a.NOP]
    spe = spe_unicorn.attach(engine(words))
    misuses = watch_misuse(spe)
    spe.emu_start(CODE, end(words))
    place = CODE + 4 * words.index(READ)
    assert [(m.pc, m.el, m.count, m.cpu) for m in misuses.found] == [(place, 1, 1, None)]


def test_what_the_user_runs_by_himself_is_taken_to_be_in_order() -> None:
    words = [*SET_UP, *ENABLE, *WORK, STOP, a.ISB, a.PSB_CSYNC, a.ISB, READ, a.NOP]
    drain = CODE + 4 * (words.index(STOP, len(SET_UP)) + 1)
    uc = engine(words)
    spe = spe_unicorn.attach(uc)
    misuses = watch_misuse(spe)
    spe.emu_start(CODE, drain)
    uc.emu_start(drain, end(words))
    assert spe.statistics.written
    assert names(misuses) == []


def test_sampling_from_outside_leaves_nothing_to_misuse() -> None:
    words = [*WORK, a.NOP]
    spe = spe_unicorn.attach(engine(words))
    spe.program(interval=7)
    misuses = watch_misuse(spe)
    spe.emu_start(CODE, end(words))
    assert spe.statistics.written
    assert names(misuses) == []


TTBR0_EL1, TTBR1_EL1 = (3, 0, 2, 0, 0), (3, 0, 2, 0, 1)
PMSCR_EL2 = (3, 4, 9, 9, 0)


@pytest.mark.parametrize(("name", "found"), [(TTBR0_EL1, True), (TTBR1_EL1, False)])
def test_a_host_changes_its_tables_by_the_names_of_el1(
    name: tuple[int, int, int, int, int], found: bool
) -> None:
    """While records are on their way, by the half of the addresses in which the buffer is."""
    buffer = RAM + 0x1_0000
    words = [
        *a.mov64(9, 1 << 34 | 1 << 31),  # E2H, RW
        a.msr((3, 4, 1, 1, 0), 9),
        a.ISB,
        a.msr(PMBSR_EL1, 31),
        *a.mov64(9, buffer),
        a.msr(PMBPTR_EL1, 9),
        *a.mov64(9, buffer + 0x1_0000 | 1),
        a.msr(PMBLIMITR_EL1, 9),
        a.movz(9, 256),
        a.msr(PMSIRR_EL1, 9),
        a.msr(PMSFCR_EL1, 31),
        a.msr(PMSICR_EL1, 31),
        a.movz(9, 0b10),
        a.ISB,
        a.msr(PMSCR_EL2, 9),
        a.ISB,
        *WORK,
        *a.mov64(9, 0x4000_0000),
        a.msr(name, 9),
        a.ISB,
        a.b(0),
    ]
    board = board_at(words, el=EL2)
    board.cpu.registers.set_raw(TTBR0_EL2, 0)
    misuses = watch_misuse(board)
    board.run(len(words) + 10)
    assert board.unit.statistics.written
    assert ("context-before-drain" in names(misuses)) == found


@pytest.mark.parametrize(("name", "found"), [(TTBR0_EL1, True), (TTBR1_EL1, False)])
def test_the_tables_that_count_are_those_of_the_pointer_as_it_is_now(
    name: tuple[int, int, int, int, int], found: bool
) -> None:
    """The pointer was in the upper half when tables were changed last, and is in the lower one."""
    words = [
        *a.mov64(9, 0xFFFF_0000_0000_0000),
        a.msr(PMBPTR_EL1, 9),
        *a.mov64(9, 0x4000_0000),
        a.msr(TTBR0_EL1, 9),
        a.msr(TTBR1_EL1, 9),
        a.ISB,
        *[a.msr(PMBSR_EL1, 31), *a.mov64(9, RAM + 0x1_0000), a.msr(PMBPTR_EL1, 9)],
        *[*a.mov64(9, RAM + 0x2_0000 | 1), a.msr(PMBLIMITR_EL1, 9)],
        *[a.movz(9, 256), a.msr(PMSIRR_EL1, 9), a.msr(PMSFCR_EL1, 31), a.msr(PMSICR_EL1, 31)],
        *ENABLE,
        *WORK,
        *a.mov64(9, 0x4001_0000),
        a.msr(name, 9),
        a.ISB,
        a.b(0),
    ]
    board = board_at(words, el=EL1)
    misuses = watch_misuse(board)
    board.run(len(words) + 10)
    assert board.unit.statistics.written
    assert ("context-before-drain" in names(misuses)) == found


def test_a_pointer_that_the_unit_moved_is_the_fault_of_who_went_on_with_it() -> None:
    """The buffer has room for one record, and is not moved back before the status is cleared."""
    one = BUFFER + 0x1000 - 128  # the largest record
    words = [
        *[a.msr(PMSCR_EL1, 31), a.msr(PMBSR_EL1, 31), *a.mov64(9, one), a.msr(PMBPTR_EL1, 9)],
        *[*a.mov64(9, BUFFER + 0x1000 | 1), a.msr(PMBLIMITR_EL1, 9)],
        *[a.movz(9, 256), a.msr(PMSIRR_EL1, 9), a.msr(PMSFCR_EL1, 31), a.msr(PMSICR_EL1, 31)],
        *ENABLE,
        *WORK,
        *DRAIN,
        a.msr(PMBSR_EL1, 31),
        a.ISB,
        a.movz(9, 0b10),
        a.msr(PMSCR_EL1, 9),
        a.ISB,
        *DRAIN,
    ]
    spe = spe_unicorn.attach(engine(words))
    misuses = watch_misuse(spe)
    spe.emu_start(CODE, end(words))
    assert spe.statistics.written == 1
    cleared = [n for n, word in enumerate(words) if word == a.msr(PMBSR_EL1, 31)][-1]
    assert [(m.rule.name, m.pc) for m in misuses.found] == [
        ("write-while-buffer-enabled", CODE + 4 * cleared),
        ("pointer-too-high", CODE + 4 * cleared),
    ]


LOCKED = "write-while-buffer-enabled"
OFF = [a.msr(PMBLIMITR_EL1, 31), a.ISB]


@pytest.mark.parametrize("register", [PMBPTR_EL1, PMBSR_EL1], ids=["PMBPTR", "PMBSR"])
def test_the_buffer_is_off_before_its_registers_are_written(register: int) -> None:
    write = a.msr(register, 31)
    assert found_in([*SET_UP, *ENABLE, *WORK, *DRAIN, write]) == [LOCKED]
    assert found_in([*SET_UP, *ENABLE, *WORK, *DRAIN, *OFF, write]) == []


def test_the_limit_of_a_buffer_that_is_on_may_only_be_written_to_put_it_off() -> None:
    again = [a.mrs(9, PMBLIMITR_EL1), a.msr(PMBLIMITR_EL1, 9)]
    assert found_in([*SET_UP, *ENABLE, *WORK, *DRAIN, *again]) == [LOCKED]
    assert found_in([*SET_UP, *ENABLE, *WORK, *DRAIN, *OFF, *again]) == []


def test_the_end_of_the_records_is_read_before_the_pointer_is_written() -> None:
    reset, drained = a.msr(PMBPTR_EL1, 31), [*DRAIN[:-1], *OFF]
    recorded = [*SET_UP, *ENABLE, *WORK, *drained]
    assert found_in([*recorded, reset, a.ISB, READ]) == ["end-not-read"]
    assert found_in([*recorded, READ, reset, a.ISB, READ]) == []
    assert found_in([*recorded, reset, a.ISB, reset, READ]) == []
    assert found_in([*recorded, reset]) == []
    assert found_in([*SET_UP, *OFF, reset, READ]) == []
