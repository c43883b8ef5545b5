"""PSTATE.SSBS and PSTATE.DIT: by MSR and MRS, over exceptions and returns, by both runners.

Arm ARM C5.2 (SSBS, DIT), AArch64.TakeException() (SSBS becomes SCTLR_ELx.DSSBS, DIT stays), and
SetPSTATEFromPSR().
"""

from __future__ import annotations

from dataclasses import astuple

import pytest

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.id import ID_AA64PFR0_EL1, ID_AA64PFR1_EL1
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.accelerators import NAMES, OPTION
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.snapshot.board_state import BoardSaver
from tests.host.guests import put
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.small_boards import RAM, board_at

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
SSBS, DIT = (3, 3, 4, 2, 6), (3, 3, 4, 2, 5)
SSBS_BIT, DIT_BIT = 1 << 12, 1 << 24
BOTH = SSBS_BIT | DIT_BIT
MSR_SSBS = {0: 0xD503_403F, 1: 0xD503_413F}
MSR_DIT = {0: 0xD503_405F, 1: 0xD503_415F}
SPSR_EL1, ELR_EL1 = (3, 0, 4, 0, 0), (3, 0, 4, 0, 1)
VECTORS, USER = RAM + 0x2000, RAM + 0x4000
EL0T = 0x3C0
V1 = load_core("neoverse-v1")


def to_user(pstate: int) -> list[int]:
    """EL1 goes to ``USER`` at EL0 with that SPSR_EL1."""
    return [
        *[*put(system.VBAR_EL1, VECTORS), *a.mov64(9, pstate), a.msr(SPSR_EL1, 9)],
        *[*a.mov64(9, USER), a.msr(ELR_EL1, 9), a.ERET],
    ]


def shown(spsr: int) -> int:
    return spsr & BOTH


@RUNNERS
@pytest.mark.parametrize("el", [1, 2, 3])
def test_msr_and_mrs(el: int, runner: type[Runner]) -> None:
    code = [
        *[a.mrs(0, SSBS), a.mrs(1, DIT), MSR_SSBS[1], a.mrs(2, SSBS), a.mrs(3, DIT)],
        *[MSR_DIT[1], MSR_SSBS[0], a.mrs(4, SSBS), a.mrs(5, DIT)],
        *[
            *a.mov64(9, (1 << 64) - 1),
            a.msr(SSBS, 9),
            a.msr(DIT, 31),
            a.mrs(6, SSBS),
            a.mrs(7, DIT),
        ],
        *[a.msr(DIT, 9), MSR_DIT[0], a.mrs(8, DIT), a.b(0)],
    ]
    board = board_at(code, el=el, runner=runner, core=V1)
    board.run(len(code))
    x = board.cpu.engine.x
    assert [x(n) for n in range(9)] == [0, 0, SSBS_BIT, 0, 0, DIT_BIT, SSBS_BIT, 0, 0]


@pytest.mark.sweep
@RUNNERS
@pytest.mark.parametrize("used", ["none", *NAMES, ",".join(NAMES)])
@pytest.mark.parametrize("bits", [0, SSBS_BIT, DIT_BIT, BOTH])
@pytest.mark.parametrize("dssbs", [0, 1])
def test_they_go_over_exceptions_and_returns(
    dssbs: int, bits: int, used: str, runner: type[Runner], monkeypatch: pytest.MonkeyPatch
) -> None:
    """EL0 reads them, calls EL1, which returns to EL0 as often as eight times."""
    monkeypatch.setenv(OPTION, used)
    sctlr = 0x30D0_0800 | dssbs << 44
    user = [
        *[a.mrs(0, SSBS), a.mrs(1, DIT), a.orr(2, 2, 0), a.orr(2, 2, 1), a.add_imm(3, 3, 1)],
        *[a.svc(0), a.b(-4 * 6)],
    ]
    handler = [
        *[a.mrs(10, SSBS), a.mrs(11, DIT), a.mrs(12, SPSR_EL1), a.orr(13, 10, 11)],
        *[a.orr(14, 14, 12), a.ERET],
    ]
    code = [*put(system.SCTLR_EL1, sctlr), *to_user(EL0T | bits)]
    board = board_at(code, el=1, runner=runner, core=V1)
    board.memory.fill(USER, a.code(user))
    board.memory.fill(VECTORS + 0x400, a.code(handler))
    rounds = 8
    board.run(len(code) + rounds * (len(user) + len(handler)) - len(handler) - 1)
    x = board.cpu.engine.x
    assert x(3) == rounds
    assert (x(0) | x(1), x(2)) == (bits, bits)
    assert shown(x(14)) == bits
    assert x(13) == (SSBS_BIT if dssbs else 0) | bits & DIT_BIT
    assert shown(board.cpu.pstate) == x(13)


@RUNNERS
def test_el0_sets_them_and_they_are_saved(runner: type[Runner]) -> None:
    code = to_user(EL0T)
    user = [MSR_SSBS[1], a.NOP, a.svc(0), MSR_DIT[1], a.svc(0), MSR_SSBS[0], a.svc(0), a.b(0)]
    handler = [a.mrs(12, SPSR_EL1), a.lsr_imm(12, 12, 12), a.and_low_bits(12, 12, 0, 13)]
    # X15 collects: bit 0 is SSBS, bit 12 is DIT, 16 bits for each of three calls
    handler += [0xD37C_EC00 | 15 | 15 << 5, a.orr(15, 15, 12), a.ERET]
    handler[3] = 0xD370_BDEF  # LSL X15, X15, #16
    board = board_at(code, el=1, runner=runner, core=V1)
    board.memory.fill(USER, a.code(user))
    board.memory.fill(VECTORS + 0x400, a.code(handler))
    board.run(len(code) + len(user) + 3 * len(handler))
    assert board.cpu.engine.x(15) == 0x0001_1001_1000


@RUNNERS
def test_a_return_that_faults_at_once_has_them_all_the_same(runner: type[Runner]) -> None:
    """The fetch at EL0 faults, so the exception saves what the ERET has set."""
    code = [*put(system.VBAR_EL1, VECTORS), *a.mov64(9, EL0T | BOTH), a.msr(SPSR_EL1, 9)]
    code += [*a.mov64(9, 0x7000_0000), a.msr(ELR_EL1, 9), a.ERET]
    board = board_at(code, el=1, runner=runner, core=V1)
    board.memory.fill(VECTORS + 0x400, a.code([a.mrs(12, SPSR_EL1), a.b(0)]))
    board.run(len(code) + 2)
    assert shown(board.cpu.engine.x(12)) == BOTH


@pytest.mark.parametrize("period", [1, 2, 3, 5, 7])
def test_both_runners_sample_the_same(period: int) -> None:
    user = [a.mrs(0, SSBS), a.add_imm(3, 3, 1), a.svc(0), a.b(-4 * 3)]
    handler = [a.mrs(12, SPSR_EL1), a.add_imm(4, 4, 1), a.ERET]
    memory = {
        RAM: a.code(to_user(EL0T | BOTH)),
        USER: a.code(user),
        VECTORS + 0x400: a.code(handler),
    }
    runners: tuple[type[Runner], ...] = (Runner, ReferenceRunner)
    fast, reference = (
        Machine(image_of(memory, RAM), runner=runner, period=period, core=V1, ram=1 << 20)
        for runner in runners
    )
    assert fast.run(400).differences(reference.run(400)) == {}


@RUNNERS
@pytest.mark.parametrize("at", range(8, 16))
def test_a_saved_machine_has_them(at: int, runner: type[Runner]) -> None:
    code = to_user(EL0T | BOTH)
    user = [a.mrs(0, SSBS), a.mrs(1, DIT), a.svc(0), a.b(-4 * 3)]
    made = []
    for _ in range(2):
        board = board_at(code, el=1, runner=runner, core=V1)
        board.memory.fill(USER, a.code(user))
        board.memory.fill(VECTORS + 0x400, a.code([a.mrs(12, SPSR_EL1), a.ERET]))
        made.append(board)
    board, other = made
    board.run(at)
    BoardSaver(other).restore(BoardSaver(board).save())
    other.run(40 - at)
    board.run(40 - at)
    assert other.cpu.pstate == board.cpu.pstate
    x = other.cpu.engine.x
    assert (x(0), x(1), shown(x(12))) == (SSBS_BIT, DIT_BIT, BOTH)


PROMISED = {
    "neoverse-n1": (2, 0),
    "neoverse-v1": (2, 1),
    "neoverse-n2": (2, 1),
    "neoverse-v2": (2, 1),
    "cortex-x4": (2, 1),
    "max": (2, 1),
    "generic": (0, 0),
    "minimal": (0, 0),
}


@RUNNERS
@pytest.mark.parametrize("core", PROMISED)
def test_what_is_promised_is_there_and_nothing_else(core: str, runner: type[Runner]) -> None:
    """Each access that is not there is UNDEFINED; the handler counts in X20 and goes on."""
    profile = load_core(core)
    tried = [a.mrs(0, SSBS), a.msr(SSBS, 31), MSR_SSBS[1], a.mrs(0, DIT), a.msr(DIT, 31)]
    tried += [MSR_DIT[1]]
    handler = [a.add_imm(20, 20, 1), a.mrs(21, ELR_EL1), a.add_imm(21, 21, 4), a.msr(ELR_EL1, 21)]
    handler += [a.ERET]
    start = put(system.VBAR_EL1, VECTORS)
    ids = [a.mrs(1, astuple(r.encoding)) for r in (ID_AA64PFR0_EL1, ID_AA64PFR1_EL1)]
    ids[1] |= 3
    code = [*start, *tried, *ids, a.b(0)]
    board = board_at(code, el=1, runner=runner, core=profile)
    board.memory.fill(VECTORS + 0x200, a.code(handler))
    ssbs, dit = PROMISED[core]
    missing = (0 if ssbs else 3) + (0 if dit else 3)
    board.run(len(code) + missing * len(handler))
    x = board.cpu.engine.x
    assert x(20) == missing
    assert (x(3) >> 4 & 15, x(1) >> 48 & 15) == (ssbs, dit)
    assert (Feature.FEAT_SSBS2 in profile.features) == (ssbs == 2)
