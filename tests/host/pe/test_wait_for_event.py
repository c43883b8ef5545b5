"""WFE that EL2 or EL3 traps: only one that would wait."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from spe_unicorn.arch.pe import EL2
from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from tests.support import a64 as a
from tests.support.small_boards import RAM, board_at

GUEST, VECTORS = RAM + 0x1000, RAM + 0x2000
FROM_LOWER = 0x400
WFE, SEV, SEVL = 0xD503_205F, 0xD503_209F, 0xD503_20BF
RW, TWE = 1 << 31, 1 << 14
EL1H = 0x3C5
TRAPPED = 0x07E0_0001
RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])


def put(register: type[SysReg], value: int) -> list[int]:
    return [*a.mov64(0, value), a.msr(astuple(register.encoding), 0)]


def traps(guest: list[int], runner: type[Runner], hcr: int = RW | TWE) -> list[int]:
    """The places in the guest's code, counted from 0, at which EL2 traps it; the last 8."""
    code = [
        *put(system.VBAR_EL2, VECTORS),
        *put(system.HCR_EL2, hcr),
        *put(system.SCTLR_EL1, 0x30D0_0800),
    ]
    code += [
        *a.mov64(24, RAM + 0x4000),
        *put(system.SPSR_EL2, EL1H),
        *put(system.ELR_EL2, GUEST),
        a.ERET,
    ]
    handler = [
        a.mrs(21, astuple(system.ESR_EL2.encoding)),
        a.mrs(22, astuple(system.ELR_EL2.encoding)),
        a.str9(22, 24, 8, a.POST),
        a.str9(21, 24, 8, a.POST),
        a.add_imm(22, 22, 4),
        a.msr(astuple(system.ELR_EL2.encoding), 22),
        a.ERET,
    ]
    board: Board = board_at(code, el=EL2, runner=runner)
    board.memory.fill(VECTORS + FROM_LOWER, a.code(handler))
    board.memory.fill(GUEST, a.code([*guest, a.b(0)]))
    assert board.run(300) is Ending.LIMIT
    assert board.cpu.pc == GUEST + 4 * len(guest)
    size = board.cpu.engine.x(24) - RAM - 0x4000
    data = board.memory.read(RAM + 0x4000, size) or b""
    words = [int.from_bytes(data[n : n + 8], "little") for n in range(0, size, 8)]
    assert set(words[1::2]) <= {TRAPPED}
    return [(address - GUEST) // 4 for address in words[::2]]


@RUNNERS
def test_the_first_wfe_behind_an_exception_return_does_not_wait(
    runner: type[ReferenceRunner] | type[Runner],
) -> None:
    assert traps([a.movz(5, 1), WFE, WFE, a.movz(6, 1), WFE], runner) == [2]


@RUNNERS
@pytest.mark.parametrize("event", [SEV, SEVL])
def test_a_wfe_behind_an_event_does_not_wait(
    runner: type[ReferenceRunner] | type[Runner], event: int
) -> None:
    assert traps([WFE, event, WFE, event, event, WFE, WFE], runner) == [6]


@RUNNERS
def test_without_the_bit_none_is_trapped(runner: type[ReferenceRunner] | type[Runner]) -> None:
    assert traps([WFE, WFE, WFE], runner, hcr=RW) == []
