"""What a legal implementation does late, by hand from Arm ARM D17.9: nothing later than allowed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spe_unicorn.arch.features import Feature, ImpDef
from spe_unicorn.arch.operation import Instruction, Operation
from spe_unicorn.arch.random_source import RandomStream
from spe_unicorn.arch.registers.spe import (
    PMBLIMITR_EL1,
    PMBPTR_EL1,
    PMBSR_EL1,
    PMSCR_EL1,
    PMSICR_EL1,
    SPE_REGISTERS,
)
from spe_unicorn.arch.registers.sysreg import RegisterFile
from spe_unicorn.arch.registers.system import VBAR_EL1
from spe_unicorn.arch.spaces import PASpace
from spe_unicorn.spe.lateness.parts import (
    DirectWrites,
    LateLine,
    WaitingBytes,
    WaitingRecords,
)
from spe_unicorn.spe.lateness.stale import StaleReads
from spe_unicorn.spe.lateness.window import NEVER, Window

LATE = ImpDef(late_writes=8)
SPACE = PASpace.NonSecure
NOP = Operation(Instruction(0xD503201F), 0, 1)


class Clock:
    """Operations executed."""

    now = 100

    def __call__(self) -> int:
        return self.now


def writes(choices: ImpDef, clock: Clock) -> tuple[DirectWrites, RegisterFile]:
    registers = RegisterFile(frozenset({Feature.FEAT_SPE}), SPE_REGISTERS)
    return DirectWrites(registers, choices, Window.of(choices, clock), RandomStream(5)), registers


def test_a_late_write_is_read_back_at_once_and_acts_at_the_next_synchronization() -> None:
    clock = Clock()
    late, registers = writes(LATE, clock)
    assert late.takes(PMSCR_EL1, 2)
    assert (registers.raw(PMSCR_EL1), late.shown(PMSCR_EL1)) == (0, 2)
    assert clock.now < late.due <= clock.now + 8
    late.synchronize()
    assert registers.raw(PMSCR_EL1) == 2
    assert late.due == NEVER


def test_a_late_write_acts_when_its_time_has_come_and_not_before() -> None:
    clock = Clock()
    late, registers = writes(LATE, clock)
    late.takes(PMSICR_EL1, 77)
    clock.now = late.due - 1
    late.happen()
    assert registers.raw(PMSICR_EL1) == 0
    clock.now += 1
    late.happen()
    assert registers.raw(PMSICR_EL1) == 77


def test_writes_of_one_register_stay_in_order() -> None:
    late, registers = writes(LATE, Clock())
    late.takes(PMBPTR_EL1, 0x1000)
    late.takes(PMBPTR_EL1, 0x2000)
    assert late.shown(PMBPTR_EL1) == 0x2000
    late.synchronize()
    assert registers.raw(PMBPTR_EL1) == 0x2000


def test_registers_of_others_are_not_taken() -> None:
    late, _ = writes(LATE, Clock())
    assert not late.takes(VBAR_EL1, 0)


@pytest.mark.parametrize(
    ("first", "last", "late"), [(101, 0, False), (0, 100, False), (100, 101, True)]
)
def test_a_write_is_late_within_the_window_only(first: int, last: int, late: bool) -> None:
    unit, registers = writes(replace(LATE, late_from=first, late_until=last), Clock())
    unit.takes(PMSCR_EL1, 2)
    assert registers.raw(PMSCR_EL1) == (0 if late else 2)


def test_an_enabled_buffer_is_locked_but_for_clearing_e() -> None:
    late, registers = writes(ImpDef(buffer_locked=True), Clock())
    told: list[object] = []
    late.ignored.connect(told.append)
    late.takes(PMBLIMITR_EL1, 0x9000 | 1)
    for register in (PMBPTR_EL1, PMBSR_EL1, PMBLIMITR_EL1):
        late.takes(register, 0x4000 | 1)
    assert told == [PMBPTR_EL1, PMBSR_EL1, PMBLIMITR_EL1]
    assert (registers.raw(PMBLIMITR_EL1), registers.raw(PMBPTR_EL1)) == (0x9001, 0)
    late.takes(PMSCR_EL1, 2)
    assert registers.raw(PMSCR_EL1) == 2  # none of those that are locked
    late.takes(PMBLIMITR_EL1, 0x4000)
    assert registers.raw(PMBLIMITR_EL1) == 0x9000
    late.takes(PMBPTR_EL1, 0x4000)
    assert registers.raw(PMBPTR_EL1) == 0x4000


def waiting(most: int, fits: int = 1 << 20) -> tuple[WaitingRecords, list[bytes]]:
    records = WaitingRecords(most, Window.of(ImpDef(), Clock()))
    written: list[bytes] = []
    records.write = lambda record, _: written.append(record)
    records.fit = lambda size: size <= fits
    return records, written


def test_a_psb_csync_drains_what_came_before_the_last_synchronization() -> None:
    records, written = waiting(4)
    records.keep(b"a", NOP)
    records.fence()
    records.keep(b"b", NOP)
    assert written == []
    records.psb_csync()
    assert written == [b"a"]
    records.fence()
    records.psb_csync()
    assert written == [b"a", b"b"]


def test_no_more_records_wait_than_may() -> None:
    records, written = waiting(2)
    for record in (b"a", b"b", b"c"):
        records.keep(record, NOP)
    assert written == [b"a"]


def test_nothing_waits_where_the_buffer_would_be_full() -> None:
    records, written = waiting(4, fits=2)
    for record in (b"a", b"b", b"c"):
        records.keep(record, NOP)
    assert written == [b"a", b"b", b"c"]


class Memory:
    """Memory below 0x1000, which notes what is stored."""

    def __init__(self) -> None:
        self.stored: dict[int, bytes] = {}

    def read(self, address: int, size: int, space: PASpace) -> bytes | None:
        return bytes(size) if address < 0x1000 else None

    def write(self, address: int, data: bytes, space: PASpace) -> bool:
        self.stored[address] = data
        return True


def test_bytes_reach_memory_at_a_dsb_after_a_psb_csync() -> None:
    memory = Memory()
    late = WaitingBytes(memory, Window.of(ImpDef(), Clock()))
    assert late.write(0x10, b"a", SPACE)
    late.dsb()
    assert memory.stored == {}
    late.psb_csync()
    assert late.write(0x20, b"b", SPACE)
    late.dsb()
    assert memory.stored == {0x10: b"a"}


def test_a_store_where_nothing_answers_is_refused_at_once() -> None:
    late = WaitingBytes(Memory(), Window.of(ImpDef(), Clock()))
    assert not late.write(0x1000, b"a", SPACE)


def test_bytes_that_wait_are_bounded() -> None:
    memory = Memory()
    late = WaitingBytes(memory, Window.of(ImpDef(), Clock()))
    for number in range(100):
        late.write(number, bytes(1024), SPACE)
    assert late.s.size == 1 << 16
    assert len(memory.stored) == 100 - 64


class Line:
    def __init__(self) -> None:
        self.levels: list[bool] = []

    def set_level(self, level: bool) -> None:
        self.levels.append(level)


def test_an_interrupt_rises_late_and_falls_at_once() -> None:
    clock, line = Clock(), Line()
    late = LateLine(line, 4, Window.of(ImpDef(), clock), RandomStream(3))
    late.set_level(True)
    assert line.levels == []
    assert clock.now < late.due <= clock.now + 4
    clock.now = late.due
    late.happen()
    assert line.levels == [True]
    late.set_level(False)
    assert line.levels == [True, False]


def test_an_interrupt_that_is_served_before_it_rises_never_does() -> None:
    line = Line()
    late = LateLine(line, 4, Window.of(ImpDef(), Clock()), RandomStream(3))
    late.set_level(True)
    late.set_level(False)
    assert late.due == NEVER
    assert True not in line.levels


def test_an_interrupt_does_not_outlast_a_wait_for_it() -> None:
    line = Line()
    late = LateLine(line, 4096, Window.of(ImpDef(), Clock()), RandomStream(3))
    late.settle()
    assert line.levels == []  # nothing is to rise
    late.set_level(True)
    late.settle()
    assert line.levels == [True]
    assert late.due == NEVER


def dues(choices: ImpDef) -> list[int]:
    """When three writes, ten operations apart, take effect; NEVER for one that is on time."""
    clock = Clock()
    late, _ = writes(choices, clock)
    found = []
    for register in (PMSCR_EL1, PMSICR_EL1, PMBPTR_EL1):
        late.takes(register, 1)
        found.append(late.due)
        late.synchronize()
        clock.now += 10
    return found


def test_a_shorter_window_changes_no_other_delay() -> None:
    whole = dues(replace(LATE, late_writes=64))
    last = dues(replace(LATE, late_writes=64, late_from=120))
    assert last == [NEVER, NEVER, whole[2]]
    assert dues(replace(LATE, late_writes=64, late_until=101)) == [whole[0], NEVER, NEVER]


def test_a_smaller_choice_makes_no_delay_longer() -> None:
    for less in range(1, 64):
        shorter, longer = (dues(replace(LATE, late_writes=most)) for most in (less, less + 1))
        assert all(one <= other for one, other in zip(shorter, longer, strict=True))


def test_a_write_on_time_ends_an_earlier_one_that_waits() -> None:
    clock = Clock()
    late, registers = writes(replace(LATE, late_until=101), clock)
    late.takes(PMBPTR_EL1, 0x1000)
    clock.now += 1
    late.takes(PMBPTR_EL1, 0x2000)
    late.synchronize()
    assert registers.raw(PMBPTR_EL1) == 0x2000


def test_a_window_tells_of_what_it_makes_late() -> None:
    clock = Clock()
    window = Window(100, 101, clock)
    told: list[int] = []
    window.used.connect(told.append)
    line = LateLine(Line(), 4, window, RandomStream(1))
    line.set_level(True)
    clock.now += 50
    line.set_level(False)
    line.set_level(True)
    assert told == [100]


def stale() -> tuple[StaleReads, RegisterFile, Clock]:
    clock = Clock()
    registers = RegisterFile(frozenset({Feature.FEAT_SPE}), SPE_REGISTERS)
    reads = StaleReads(registers, 8, 0, Window.of(ImpDef(), clock))
    registers.write(PMBPTR_EL1, 0x1000)
    reads.wrote(PMBPTR_EL1)
    reads.wrote(PMSCR_EL1)
    registers.write(PMBPTR_EL1, 0x1040)  # the unit has written a record
    return reads, registers, clock


def test_a_read_is_stale_for_a_time_and_never_again() -> None:
    reads, _, clock = stale()
    assert reads.pending
    assert reads.shown(PMBPTR_EL1, 0x1040) == 0x1000
    clock.now += 7
    assert reads.shown(PMBPTR_EL1, 0x1040) == 0x1000
    clock.now += 1
    assert reads.shown(PMBPTR_EL1, 0x1040) == 0x1040
    assert not reads.pending


@pytest.mark.parametrize("missing", ["", "first", "psb_csync", "second"])
def test_a_read_behind_the_whole_drain_is_right(missing: str) -> None:
    reads, _, _ = stale()
    if missing != "first":
        reads.context_synchronization()
    if missing != "psb_csync":
        reads.psb_csync()
    if missing != "second":
        reads.context_synchronization()
    assert (reads.shown(PMBPTR_EL1, 0x1040) == 0x1040) == (not missing)


@pytest.mark.parametrize("synchronized", [False, True])
def test_the_counter_is_stale_up_to_a_context_synchronization_event(synchronized: bool) -> None:
    clock = Clock()
    registers = RegisterFile(frozenset({Feature.FEAT_SPE}), SPE_REGISTERS)
    reads = StaleReads(registers, 0, 8, Window.of(ImpDef(), clock))
    registers.write(PMSICR_EL1, 100)
    reads.wrote(PMSICR_EL1)
    registers.write(PMSICR_EL1, 60)  # the unit has counted 40 operations
    if synchronized:
        reads.context_synchronization()
    assert reads.shown(PMSICR_EL1, 60) == (60 if synchronized else 100)
    clock.now += 8
    assert reads.shown(PMSICR_EL1, 60) == 60


def test_only_what_may_be_stale_is() -> None:
    reads, registers, _ = stale()
    registers.write(PMSICR_EL1, 100)
    reads.wrote(PMSICR_EL1)
    assert reads.shown(PMSICR_EL1, 60) == 60
