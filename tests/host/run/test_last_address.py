"""Code at the last virtual addresses: nothing lies behind it, and it is stepped as any other."""

from __future__ import annotations

import struct
from typing import Any, Final

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.host.stale_tables import CODE, TLBI_VMALLE1, loop, mapped, put, tables
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

TOP: Final = (1 << 64) - 16
"""Four operations, up to the last one there can be."""
HIGH1, HIGH2, MEMORY = 0x4011_0000, 0x4011_1000, 0x4080_0000
"""Tables of the high addresses, and the 2 MiB of memory that the last ones have."""
BLOCK, TABLE = 1 << 10 | 0b01, 0b11
ROUNDS: Final = 30


def machine_of(last: int, **options: Any) -> Machine:
    """A machine that calls the code at TOP again and again; its last operation is ``last``."""
    tcr = system.TCR_EL1.of(T0SZ=25, T1SZ=25, TG1=2, SH0=3, ORGN0=1, IRGN0=1, IPS=2)
    body = [
        *(
            *put(system.TTBR1_EL1, HIGH1),
            *put(system.TCR_EL1, tcr.value),
            TLBI_VMALLE1,
            a.DSB_SY,
            a.ISB,
        ),
        *(*a.mov64(5, TOP), *loop(ROUNDS, [a.blr(5)]), a.b(0)),
    ]
    segments = {
        **tables(),
        CODE: a.code([*mapped(), *body]),
        HIGH1: struct.pack("<512Q", *[0] * 511, HIGH2 | TABLE),
        HIGH2: struct.pack("<512Q", *[0] * 511, MEMORY | BLOCK),
        MEMORY + (2 << 20) - 16: a.code([a.add_imm(1, 1, 1), a.NOP, a.NOP, last]),
    }
    return Machine(image_of(segments, CODE), ram=16 << 20, **options)


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
@pytest.mark.parametrize("model", ["none", "cache"])
@pytest.mark.parametrize("period", [1, 3, 5])
def test_each_sampled_operation_there_has_a_record(
    runner: type[Runner], model: Any, period: int
) -> None:
    machine = machine_of(a.RET, runner=runner, model=model, period=period)
    before = len(mapped()) + 13
    machine.run(before + ROUNDS * 7)
    assert machine.board.cpu.engine.x(1) == ROUNDS
    there = [operation.pc for operation in machine.operations if operation.pc >= TOP]
    assert there.count(TOP + 12) >= ROUNDS // period - 1
    assert not any(operation.exception for operation in machine.operations)
