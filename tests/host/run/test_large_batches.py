"""Batches of thousands of samples, against the reference and against the same samples one by one.

The buffer of the unit has pages that lie in memory in another order, and fills up in the middle.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import pytest

from spe_unicorn.arch.registers.spe import (
    PMBLIMITR_EL1,
    PMBPTR_EL1,
    PMSCR_EL1,
    PMSFCR_EL1,
    PMSICR_EL1,
    PMSIRR_EL1,
)
from spe_unicorn.arch.registers.system import MAIR_EL1, SCTLR_EL1, TCR_EL1, TTBR0_EL1
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.spe.batch import Kind
from spe_unicorn.spe.management import ManagementEvent
from spe_unicorn.spe.sampler import Sampler
from tests.support import a64 as a
from tests.support.counters import put
from tests.support.machine_runs import Machine, Result, image_of

CODE, DATA, TABLES = 0x4000_0000, 0x4010_0000, 0x4020_0000
FRAMES, BUFFER = 0x4100_0000, 0x8000_0000
PAGE: Final = 0x1000
PAGES: Final = 128
START: Final = BUFFER + 0x40
INTERVAL: Final = 0x100
ROOM: Final = PAGES * PAGE // 64
"""So many records of 64 bytes are more than fit behind START."""
TOO_MANY: Final = ROOM + 300
LARGE: Final = 1024
"""Each run has a batch of more samples than this."""
LOADS: Final = 1 << 1 | 1 << 17
"""PMSFCR_EL1.FT and LD: records of loads alone."""
LOOP = [
    a.ldr_reg(1, 9, 3, a.LSL, 1),
    a.add(2, 2, 1),
    a.str_(2, 9, 8),
    a.tbz(2, 1, 8),
    a.eor(2, 2, 3),
    a.add_imm(3, 3, 1),
    a.and_low_bits(3, 3, 0, 6),
    a.mul(4, 2, 3),
    a.cbnz(9, -32),
]
"""Loads, stores and branches of two ways; each time around has 8 operations or 9."""


@pytest.fixture(params=["1", "0"], ids=["inline", "not inline"], autouse=True)
def inline(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks count themselves, where the host has that, or do not."""
    monkeypatch.setenv("SPE_UNICORN_INLINE", request.param)


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of samples in each batch."""
    sizes: list[int] = []
    complete_all = Sampler.complete_all

    def counted(
        self: Sampler, samples: Any, kinds: Sequence[Kind], members: int, *more: Any
    ) -> bool:
        done = complete_all(self, samples, kinds, members, *more)
        sizes.extend([len(samples)] * done)
        return done

    monkeypatch.setattr(Sampler, "complete_all", counted)
    return sizes


def from_outside(runner: type[Runner], period: int, jitter: bool) -> Result:
    image = image_of({CODE: a.code([*a.mov64(9, DATA), *LOOP])}, CODE)
    machine = Machine(image, runner=runner, period=period, jitter=jitter, together=True)
    return machine.run(4200 * 6)


@cache
def stepped_from_outside(period: int, jitter: bool) -> Result:
    return from_outside(ReferenceRunner, period, jitter)


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize(("period", "jitter"), [(6, False), (8, True)], ids=["periodic", "random"])
def test_sampled_from_outside_they_are_those_of_the_reference(
    period: int, jitter: bool, batches: list[int]
) -> None:
    """Of the periodic ones there are more than the hook has room for. No block is as long."""
    stepped = stepped_from_outside(period, jitter)
    assert batches == []
    assert from_outside(Runner, period, jitter).differences(stepped) == {}
    assert max(batches) > LARGE


def frame(page: int) -> int:
    """Where in memory a page of the buffer lies: no two that follow each other do so there."""
    return FRAMES + PAGE * (page * 37 % PAGES)


def profiled(*, rnd: int = 0, pmsfcr: int = 0, together: bool = True) -> Machine:
    """A machine that profiles :data:`LOOP` into the buffer, MMU on."""
    words = [
        *put(PMBPTR_EL1, START),
        *put(PMBLIMITR_EL1, BUFFER + PAGE * PAGES | 1),
        *put(PMSFCR_EL1, pmsfcr),
        *put(PMSIRR_EL1, INTERVAL | rnd),
        *put(PMSICR_EL1, 0),
        *put(PMSCR_EL1, 0b11),
        *a.mov64(9, DATA),
        *LOOP,
    ]
    machine = Machine(image_of({CODE: a.code(words)}, CODE), together=together)
    memory, registers = machine.board.memory, machine.board.cpu.registers
    entries = {
        TABLES + 8: 0x4000_0000 | 0x701,  # a block of 1 GB: itself, AF, Inner Shareable
        TABLES + 16: TABLES + PAGE | 3,
        TABLES + PAGE: TABLES + 2 * PAGE | 3,
        **{TABLES + 2 * PAGE + 8 * page: frame(page) | 0x703 for page in range(PAGES)},
    }
    for address, entry in entries.items():
        memory.write(address, entry.to_bytes(8, "little"))
    registers.set_raw(MAIR_EL1, 0xFF)
    registers.set_raw(TCR_EL1, 25 | 1 << 23 | 2 << 32)  # T0SZ, EPD1, 40 bits of PA
    registers.set_raw(TTBR0_EL1, TABLES)
    registers.set_raw(SCTLR_EL1, registers.raw(SCTLR_EL1) | 1)
    machine.board.cpu.engine.rebuild()
    machine.board.handler.controls_written()
    return machine


def in_buffer(machine: Machine, size: int) -> bytes:
    """The first bytes of the records, as the guest finds them in its buffer."""
    pages = (machine.board.memory.read(frame(page), PAGE) for page in range(PAGES))
    return b"".join(page or b"" for page in pages)[START - BUFFER :][:size]


def fills(machine: Machine) -> list[bool]:
    """Of each management event, whether it is that of a full buffer."""
    events = [event for _, event, _ in machine.events if isinstance(event, ManagementEvent)]
    return [event.is_full for event in events]


def assert_same(result: Result, other: Result) -> None:
    assert result.differences(other, ignoring=["records"]) == {}


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("rnd", [0, 1], ids=["periodic", "random"])
@pytest.mark.parametrize("pmsfcr", [0, LOADS], ids=["all", "loads"])
def test_in_a_buffer_they_are_the_same_one_by_one(
    rnd: int, pmsfcr: int, batches: list[int]
) -> None:
    """Without a filter they fill the buffer."""
    single = profiled(rnd=rnd, pmsfcr=pmsfcr, together=False).run(INTERVAL * TOO_MANY)
    assert batches == []
    machine = profiled(rnd=rnd, pmsfcr=pmsfcr)
    result = machine.run(INTERVAL * TOO_MANY)
    assert max(batches) > LARGE
    assert_same(result, single)
    stream = result.stream[0]
    assert stream
    assert in_buffer(machine, len(stream)) == stream
    assert fills(machine) == ([] if pmsfcr else [True])


def test_the_end_of_a_full_buffer_is_as_stepped(batches: list[int]) -> None:
    """The reference goes on from a place before it, in the middle of a batch of the other."""
    stepped = profiled()
    stepped.run(INTERVAL * ROOM)
    stepped.go_on_with(ReferenceRunner)
    assert stepped.events == []
    other = stepped.run(INTERVAL * 50)
    batches.clear()
    machine = profiled()
    assert_same(machine.run(INTERVAL * (ROOM + 50)), other)
    assert max(batches) > LARGE
    assert fills(machine) == [True]


@pytest.mark.parametrize("piece", [100_003, 270_001])
def test_a_run_that_ends_within_a_batch_goes_on_with_the_next_sample(
    piece: int, batches: list[int]
) -> None:
    pieces = profiled()
    count = INTERVAL * 5000 // piece
    for _ in range(count):
        other = pieces.run(piece)
    batches.clear()
    assert_same(profiled().run(count * piece), other)
    assert max(batches) > LARGE
