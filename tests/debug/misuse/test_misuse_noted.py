"""Context synchronization events that compiled code notes: found is what stepping finds."""

from __future__ import annotations

from random import Random

import pytest

from spe_unicorn.debug.misuse import Misuse, watch_misuse
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.perform import Performer
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.debug.misuse.drivers import ENABLE, SET_UP, STOP, WORK
from tests.support import a64 as a
from tests.support.machine_runs import Machine, Result, image_of
from tests.support.user_engine import (
    BUFFER,
    CODE,
    PMBLIMITR_EL1,
    PMBPTR_EL1,
    PMBSR_EL1,
    PMSFCR_EL1,
    PMSICR_EL1,
)

VBAR_EL1, ESR_EL1, TTBR0_EL1 = (3, 0, 12, 0, 0), (3, 0, 5, 2, 0), (3, 0, 2, 0, 0)
ELR_EL1, SPSR_EL1 = (3, 0, 4, 0, 1), (3, 0, 4, 0, 0)
DSB_NSH = 0xD503_379F
VECTORS = CODE + 0x1_0000
CURRENT_EL = 0x200
"""Offset of the vector for exceptions from EL1 to EL1."""
SVC64 = 0x15
DATA = CODE + 0x2_0000
UART = 0x0900_0000
NOWHERE = 0x3000_0000
"""Here is neither memory nor a device."""
HANDLER = [
    a.mrs(20, ESR_EL1),
    a.lsr_imm(20, 20, 26),
    a.sub_imm(20, 20, SVC64),
    a.cbz(20, 16),
    a.mrs(20, ELR_EL1),
    a.add_imm(20, 20, 4),
    a.msr(ELR_EL1, 20),
    a.ERET,
]
"""Goes on after an SVC, and after an operation that aborted."""
BEGIN = [*a.mov64(9, VECTORS), a.msr(VBAR_EL1, 9), a.ISB]
BARRIERS = [[a.ISB], [a.PSB_CSYNC], [DSB_NSH], [a.ISB], [a.DMB_ISH]]
RETURN = [a.adr(9, 20), a.msr(ELR_EL1, 9), a.movz(9, 0x3C5), a.msr(SPSR_EL1, 9), a.ERET]
"""To EL1, to what follows."""
EXCEPTIONS = [[a.svc(0)], RETURN, [*a.mov64(9, NOWHERE), a.ldr(10, 9), a.NOP, a.ISB]]
ACCESSES = [
    [a.mrs(10, PMBPTR_EL1)],
    [a.mrs(10, PMBSR_EL1)],
    [a.mrs(10, PMSICR_EL1)],
    [a.msr(PMSICR_EL1, 31)],
    [a.msr(PMSFCR_EL1, 31)],
    [a.msr(PMBLIMITR_EL1, 31)],
    [a.movz(9, 0x1000), a.msr(TTBR0_EL1, 9)],
    [a.msr(TTBR0_EL1, 31)],
    [STOP],
    ENABLE,
    SET_UP,
    [*SET_UP, *ENABLE],
    [a.ISB, a.PSB_CSYNC, a.ISB],
]


def loads(random: Random) -> list[int]:
    """Loads from where records may be: a few, or more than are noted between two looks."""
    count = random.choice([1, 2, 5, 70])
    first = BUFFER + 64 * random.randrange(3)
    return [*a.mov64(11, first), *(a.ldr(12, 11, 8 * (n % 16)) for n in range(count))]


def program(random: Random) -> list[int]:
    words = [*BEGIN, *SET_UP, *ENABLE]
    for _ in range(60):
        kind = random.random()
        if kind < 0.3:
            words += [a.NOP] * random.choice([1, 3, 20, 130, 300])
        elif kind < 0.6:
            words += random.choice(BARRIERS)
        elif kind < 0.75:
            words += random.choice(EXCEPTIONS)
        elif kind < 0.88:
            words += loads(random)
        else:
            words += random.choice(ACCESSES)
    return [*words, a.b(0)]


def watched(
    words: list[int], runner: type[Runner] = Runner, operations: int = 0, **options: str
) -> tuple[Result, list[Misuse]]:
    segments = {CODE: a.code(words), VECTORS + CURRENT_EL: a.code(HANDLER)}
    machine = Machine(image_of(segments, CODE), runner=runner, **options)
    misuses = watch_misuse(machine.board)
    misuses.identified = True  # what PMBIDR_EL1 says was read before
    result = machine.run(operations or 2 * len(words))
    misuses.finish()
    return result, misuses.found


def found_by_both(words: list[int], operations: int = 0, **options: str) -> list[Misuse]:
    """What is found, by either runner."""
    fast, found = watched(words, operations=operations, **options)
    stepped, expected = watched(words, ReferenceRunner, operations, **options)
    assert fast.differences(stepped) == {}
    assert found == expected
    return found


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("seed", range(8))
def test_what_is_noted_is_found_as_by_stepping(seed: int) -> None:
    found_by_both(program(Random(seed)))


@pytest.mark.parametrize("seed", range(3))
def test_so_is_what_is_found_among_micro_operations(seed: int) -> None:
    found_by_both(program(Random(seed)), core="neoverse-v2")


PROFILED = [*BEGIN, *SET_UP, *ENABLE, *WORK]
POLL = a.mrs(10, PMSICR_EL1)


def left_early(before: list[int]) -> list[str]:
    """What is found where the caller leaves a block in front of the ISB at its end.

    ``before`` comes before that block, after a first ISB and a read of PMSICR_EL1.
    """
    block = [a.str_(31, 9), a.NOP, a.ISB]
    words = [*PROFILED, a.ISB, POLL, *WORK, *a.mov64(9, UART), *before, *block, POLL, a.b(0)]
    machine = Machine(image_of({CODE: a.code(words)}, CODE))
    misuses = watch_misuse(machine.board)
    misuses.identified = True  # what PMBIDR_EL1 says was read before

    def end(address: int, size: int, value: int) -> None:
        machine.board.runner.handler.ending = Ending.INTERRUPTED

    machine.board.peripherals.bus.stored.connect(end)
    assert machine.board.run(2 * len(words)) is Ending.INTERRUPTED
    machine.board.cpu.pc = CODE + 4 * (len(words) - 2)
    machine.board.run(2)
    return [misuse.rule.name for misuse in misuses.found]


def test_an_event_that_its_block_does_not_reach_orders_nothing() -> None:
    assert left_early([]) == ["read-not-synchronized"]
    assert left_early([a.ISB, a.NOP]) == []


def test_members_behind_the_event_are_not_synchronized() -> None:
    stores = [*a.mov64(0, DATA), *[a.str9(3, 0, 8, a.POST)] * 30]
    words = [*PROFILED, a.ISB, *stores, STOP, POLL, a.b(0)]
    for core in ("generic", "neoverse-v2"):
        names = [misuse.rule.name for misuse in found_by_both(words, core=core)]
        assert names.count("read-not-synchronized") == 1


def test_a_load_behind_the_event_is_not_looked_at_before_what_follows_it() -> None:
    load = [*a.mov64(11, BUFFER), a.ldr(12, 11)]
    read = a.mrs(10, PMBPTR_EL1)
    words = [*PROFILED, a.ISB, *load, read, STOP, a.b(0)]
    names = [misuse.rule.name for misuse in found_by_both(words)]
    assert names == ["read-not-synchronized", "records-not-synchronized"]
    words = [*PROFILED, *load, a.ISB, read, STOP, a.b(0)]
    names = [misuse.rule.name for misuse in found_by_both(words)]
    assert names == ["records-not-synchronized", "read-not-synchronized"]


def test_loads_in_the_block_of_the_event_are_looked_at_behind_it() -> None:
    many = [*a.mov64(11, BUFFER), *[a.ldr(12, 11)] * 64]
    words = [*PROFILED, *many, a.ISB, *many, a.b(4), a.ISB, STOP, a.b(0)]
    found = found_by_both(words)
    assert [misuse.count for misuse in found] == [1] * 128


def test_the_engine_does_not_stop_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    step = Performer.step

    def note(runs: Performer) -> None:
        steps.append(1)
        step(runs)

    monkeypatch.setattr(Performer, "step", note)
    watched([*PROFILED, *[a.ISB, a.NOP] * 50, STOP, a.b(0)])
    assert len(steps) < 15


LOADS = 3000
INTERVAL = 257
"""Members from one sample to the next: PMSIRR_EL1.INTERVAL is 256, and COUNT counts down to 0."""


def test_samples_of_a_watched_loop_are_taken_in_compiled_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A load of a record is a mistake only after the record's operation, however late it is told.

    The ISB behind the write that enables profiling is the first member, the loads are members 2, 5
    and so on. The sixth record, from which they are, is of member 1542.
    """
    steps = []
    step = Performer.step
    monkeypatch.setattr(Performer, "step", lambda runs: (steps.append(1), step(runs)))
    loop = [a.ldr(12, 11), a.sub_imm(13, 13, 1), a.cbnz(13, -8)]
    place = [*a.mov64(11, BUFFER + 5 * 64), *a.mov64(13, LOADS)]
    before = [*BEGIN, *SET_UP, *place, *ENABLE[:-1]]
    words = [*before, a.ISB, *loop, STOP, a.b(0)]
    (found,) = found_by_both(words, len(words) + 3 * LOADS)
    early = len(range(2, 6 * INTERVAL + 1, 3))
    assert found.rule.name == "records-not-synchronized"
    assert found.count == LOADS - early
    assert found.operation == len(before) + 2 + 3 * early
    assert f"operation {6 * INTERVAL}; synchronized are 0" in found.what
    assert len(steps) < 3 * LOADS // INTERVAL // 2


def test_an_event_in_a_block_that_is_sampled_is_noted() -> None:
    """Each turn of the loop has one sample, in the block that ends with its ISB.

    After the last ISB there are the last two operations of the loop and the write that stops.
    """
    loop = [*[a.NOP] * (INTERVAL - 3), a.ISB, a.sub_imm(13, 13, 1), a.cbnz(13, -4 * INTERVAL + 4)]
    drain = [STOP, a.PSB_CSYNC, a.ISB, a.mrs(10, PMBPTR_EL1), a.b(0)]
    begin = [*a.mov64(13, 50), *ENABLE, *[a.NOP] * 10]
    words = [*BEGIN, *SET_UP, *begin, *loop, *drain]
    (found,) = found_by_both(words, len(words) + 50 * INTERVAL)
    assert found.rule.name == "read-not-synchronized"
    assert found.what.endswith("with 3 profiled operations not synchronized")
