"""The interrupt of a full Profiling Buffer is taken in front of the next operation.

``irq_latency`` asks the same of every other cause, from within.
"""

from __future__ import annotations

from spe_unicorn.arch.exceptions.entry import ExceptionEntry, ExceptionRecord, ExceptionType
from spe_unicorn.arch.registers.system import SPSR
from spe_unicorn.host.ports import Ending
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.boot.loader import load_elf
from spe_unicorn.machine.memory_map import RAM_BASE
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.machine.shipped import shipped_firmware

RAM_SIZE = 128 << 20


def test_no_operation_lies_between_a_full_buffer_and_the_vector() -> None:
    board = Board(MachineOptions(ram=RAM_SIZE))
    board.load(load_elf(shipped_firmware("spe_irq_el1"), RAM_BASE, RAM_SIZE))
    cpu = board.cpu
    deliverable: list[int] = []
    taken: list[int] = []

    def rises(level: bool) -> None:
        if level and not cpu.pstate & SPSR.I.mask:
            deliverable.append(cpu.executed)

    def takes(record: ExceptionRecord, entry: ExceptionEntry) -> None:
        if record.kind is ExceptionType.IRQ:
            taken.append(cpu.executed)

    board.pmbirq.changed.connect(rises)
    cpu.exception_taken.connect(takes)
    assert board.run() is Ending.EXIT
    assert len(deliverable) >= 8
    assert set(deliverable) <= set(taken)
