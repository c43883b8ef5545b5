"""The interrupt of a full Profiling Buffer is taken before the next operation.

``irq_latency`` asks the same of every other cause, from within.
"""

from __future__ import annotations

from spe_unicorn import Machine
from spe_unicorn.arch.exceptions.entry import ExceptionEntry, ExceptionRecord, ExceptionType
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.session.processing_element import PE


def test_no_operation_lies_between_a_full_buffer_and_the_vector() -> None:
    machine = Machine(shipped_firmware("spe_irq_el1"))
    pe = machine.pes[0]
    deliverable: list[int] = []
    taken: list[int] = []

    def rises(_: PE, level: bool) -> None:
        if level and not pe.pstate.I:
            deliverable.append(pe.operations)

    def takes(_: PE, record: ExceptionRecord, entry: ExceptionEntry) -> None:
        if record.kind is ExceptionType.IRQ:
            taken.append(pe.operations)

    machine.observe("pmbirq", rises)
    machine.observe("exception", takes)
    assert machine.run().ending == "exit"
    assert len(deliverable) >= 8
    assert set(deliverable) <= set(taken)
