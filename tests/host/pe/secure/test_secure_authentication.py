"""Pointer authentication at Secure EL1: the engine would take it to EL2."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.host.pe.stops import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from tests.host.guests import put
from tests.support import a64 as a
from tests.support.small_boards import RAM, board_at

EL1_CODE, VECTORS = RAM + 0x1000, RAM + 0x2000
PACIASP, AUTIASP, RETAA, PACIZA_X1, AUTIZA_X1 = (
    *(0xD503_233F, 0xD503_23BF, 0xD65F_0BFF, 0xDAC1_23E1, 0xDAC1_33E1),
)
KEY_LO, KEY_HI = (3, 0, 2, 1, 0), (3, 0, 2, 1, 1)
RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])


def board(code: list[int], scr: int, runner: type[Runner]) -> Board:
    """EL3 gives EL1 a key and enters ``code`` there; X20 is the syndrome of what EL3 takes."""
    start = [
        *put(system.SCR_EL3, scr),
        *put(system.VBAR_EL3, VECTORS),
        *put(system.SCTLR_EL1, 0x30D0_0800 | 1 << 31),
        *put(system.TCR_EL1, 16 << 16 | 16),  # T1SZ and T0SZ: where a pointer's code begins
        *[*a.mov64(0, 0x0123_4567_89AB_CDEF), a.msr(KEY_LO, 0), a.msr(KEY_HI, 0)],
        *put(system.SPSR_EL3, 0x3C5),
        *put(system.ELR_EL3, EL1_CODE),
        a.ERET,
    ]
    result = board_at(start, runner=runner)
    result.memory.fill(EL1_CODE, a.code([*code, a.b(0)]))
    handler = [a.mrs(20, astuple(system.ESR_EL3.encoding)), a.b(0)]
    result.memory.fill(VECTORS + 0x400, a.code(handler))
    return result


CODE = [
    *a.mov64(1, RAM + 0x8000),
    PACIZA_X1,
    a.add_imm(2, 1, 0),
    AUTIZA_X1,
    *a.mov64(0, RAM + 0x9000),
    a.add_imm(31, 0, 0),
    a.bl(8),
    a.b(16),
    PACIASP,
    a.add_imm(3, 30, 0),
    RETAA,
    a.add_imm(4, 30, 0),
]
"""X2 is a pointer with its code, X1 the same checked, X3 a return address with one."""


def outcome(scr: int, runner: type[Runner], operations: int = 200) -> list[int]:
    subject = board(CODE, scr, runner)
    assert subject.run(operations) is Ending.LIMIT
    return [subject.cpu.engine.x(n) for n in (1, 2, 3, 4, 20)]


@RUNNERS
def test_codes_in_secure_state_are_those_of_non_secure_state(runner: type[Runner]) -> None:
    secure, non_secure = 0x430 | 3 << 16, 0x431 | 3 << 16
    found = outcome(secure, runner)
    assert found[0] == RAM + 0x8000
    assert found[1] & 0xFFFF_FFFF == RAM + 0x8000
    assert found[1] != found[0]
    assert found[2] == found[3]  # RETAA has led back, and X30 keeps its code
    assert found[2] >> 48
    subject = board([*CODE], non_secure, runner)
    subject.cpu.registers.set_raw(system.HCR_EL2, 1 << 31 | 3 << 40)
    subject.handler.controls_written()
    assert subject.run(200) is Ending.LIMIT
    assert [subject.cpu.engine.x(n) for n in (1, 2, 3, 4, 20)] == found


def test_both_ways_to_run_count_alike() -> None:
    counts = []
    for runner in (Runner, ReferenceRunner):
        subject = board(CODE, 0x430 | 3 << 16, runner)
        subject.run(40)
        counts.append((subject.cpu.executed, subject.cpu.pc))
    assert counts[0] == counts[1]


@RUNNERS
def test_without_api_it_traps_to_el3(runner: type[Runner]) -> None:
    assert outcome(0x430 | 1 << 16, runner)[4] == 0x09 << 26 | 1 << 25
