"""Each PE profiles itself alone (Arm ARM D17.1.2, "Multithreaded implementations")."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from spe_unicorn.arch.operation import Operation
from spe_unicorn.arch.pe import EL1
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.pe import ProcessingElement
from spe_unicorn.machine.schedule import TURN
from spe_unicorn.spe.packets import CounterIndex
from spe_unicorn.spe.record import PlacedRecord, read_record
from tests.support import a64
from tests.support.small_boards import CPU_ON, MPIDR_EL1, RAM, board_at, psci

PES = 3
INTERVAL = 256
BUFFERS = RAM + 0x8_0000
SIZE = 0x1_0000
"""Bytes of the buffer of each PE."""
TICK = 16
TURNS = 6
"""Turns of each PE in a run."""

PMSCR_EL1, PMSIRR_EL1, PMSICR_EL1 = (3, 0, 9, 9, 0), (3, 0, 9, 9, 3), (3, 0, 9, 9, 2)
PMSFCR_EL1 = (3, 0, 9, 9, 4)
PMBLIMITR_EL1, PMBPTR_EL1, PMBSR_EL1 = (3, 0, 9, 10, 0), (3, 0, 9, 10, 1), (3, 0, 9, 10, 3)
E1SPE, TS = 1 << 1, 1 << 5


def program(pes: int) -> list[int]:
    """PE 0 starts the others; each PE sets its own buffer up, and works for ever."""
    others = [word for pe in range(1, pes) for word in psci(CPU_ON, pe, RAM)]
    return [
        a64.mrs(10, MPIDR_EL1),
        a64.and_low_bits(10, 10, 0, 8),
        a64.cbnz(10, 4 * len(others) + 4),
        *others,
        a64.msr(PMSCR_EL1, 31),  # its value after reset may have the counter run from here on
        *a64.mov64(11, SIZE),
        a64.mul(11, 10, 11),
        *a64.mov64(12, BUFFERS),
        a64.add(11, 11, 12),
        a64.msr(PMBPTR_EL1, 11),
        *a64.mov64(12, SIZE | 1),
        a64.add(11, 11, 12),
        a64.msr(PMBLIMITR_EL1, 11),
        *(a64.msr(register, 31) for register in (PMBSR_EL1, PMSFCR_EL1, PMSICR_EL1)),
        *a64.mov64(12, INTERVAL),
        a64.msr(PMSIRR_EL1, 12),
        *a64.mov64(13, E1SPE | TS),
        *a64.mov64(14, RAM + 0x1000),
        a64.msr(PMSCR_EL1, 13),
        a64.add_imm(0, 0, 1),
        a64.ldr(1, 14),
        a64.add(2, 1, 0),
        a64.b(-12),
    ]


@dataclass
class Notes:
    """What is seen of a PE's records: the PE's own number of each operation, and the bytes."""

    operations: list[int] = field(default_factory=list)
    data: bytearray = field(default_factory=bytearray)
    latencies: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)


def watch(pe: ProcessingElement) -> Notes:
    """Take notes of a PE's records."""
    notes = Notes()

    def on_record(record: bytes, _: Operation) -> None:
        placed = read_record(record, 0)
        assert isinstance(placed, PlacedRecord)
        notes.operations.append(pe.cpu.counted())
        notes.data.extend(record)
        notes.latencies.append(placed.record.counter(CounterIndex.TOTAL) or 0)
        notes.times.append(placed.record.timestamp or 0)

    pe.unit.recorded.connect(on_record)
    return notes


def run(pes: int) -> tuple[Board, list[Notes]]:
    """All of ``pes`` at work, for a few turns each."""
    board = board_at(program(pes), pes, el=EL1)
    notes = [watch(pe) for pe in board.pes]
    board.run(pes * TURNS * TURN)
    return board, notes


@pytest.fixture(scope="module")
def together() -> tuple[Board, list[Notes]]:
    return run(PES)


@pytest.fixture(scope="module")
def alone() -> Notes:
    return run(1)[1][0]


def test_an_interval_counter_counts_only_the_operations_of_its_own_pe(together) -> None:
    board, all_notes = together
    for pe, notes in zip(board.pes, all_notes, strict=True):
        numbers = notes.operations
        assert len(numbers) == pe.unit.statistics.population // (INTERVAL + 1)
        assert len(numbers) >= (TURNS - 1) * TURN // (INTERVAL + 1)
        distances = {b - a for a, b in pairwise(numbers)}
        assert distances == {INTERVAL + 1}


def test_latencies_count_only_cycles_in_which_the_pe_ran(together, alone) -> None:
    """Between records the other PEs had their turns, which timestamps show and latencies do not."""
    _, all_notes = together
    for notes in all_notes:
        steps = [b - a for a, b in pairwise(notes.times)]
        assert max(steps) >= (PES - 1) * TURN // TICK
    count = min(len(notes.latencies) for notes in (*all_notes, alone))
    assert len(set(alone.latencies[:count])) > 1
    for notes in all_notes:
        assert notes.latencies[:count] == alone.latencies[:count]


def test_no_pe_writes_into_the_buffer_of_another(together) -> None:
    board, all_notes = together
    for number, notes in enumerate(all_notes):
        buffer = board.memory.read(BUFFERS + number * SIZE, SIZE)
        assert 0 < len(notes.data) < SIZE
        assert buffer == notes.data + bytes(SIZE - len(notes.data))
