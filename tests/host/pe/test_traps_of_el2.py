"""Traps of HCR_EL2 and SCR_EL3 that leave a register or a call to EL2, or make it UNDEFINED."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.pe import EL2, EL3
from spe_unicorn.arch.registers import system
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.host.guests import (
    EL1H,
    FROM_LOWER,
    GUEST,
    VECTORS,
    board,
    enter_application,
    put,
    run,
)
from tests.support import a64 as a
from tests.support.small_boards import board_at

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
RW, TID1, TID2, TID3, TSC, HCD = 1 << 31, 1 << 16, 1 << 17, 1 << 18, 1 << 19, 1 << 29
SMC = 0xD400_0003
REVIDR, AIDR = (3, 0, 0, 0, 6), (3, 1, 0, 0, 7)
CCSIDR, CLIDR, CSSELR = (3, 1, 0, 0, 0), (3, 1, 0, 0, 1), (3, 2, 0, 0, 0)
CTR, MIDR, DCZID = (3, 3, 0, 0, 1), (3, 0, 0, 0, 0), (3, 3, 0, 0, 7)
GROUPS = {TID1: (REVIDR, AIDR), TID2: (CCSIDR, CLIDR, CSSELR, CTR)}
ALL = (REVIDR, AIDR, CCSIDR, CLIDR, CSSELR, CTR, MIDR, DCZID)


def trap(op: tuple[int, int, int, int, int], rt: int, read: bool) -> int:
    op0, op1, crn, crm, op2 = op
    iss = op0 << 20 | op2 << 17 | op1 << 14 | crn << 10 | rt << 5 | crm << 1 | read
    return 0x6200_0000 | iss


@RUNNERS
@pytest.mark.parametrize("bit", [TID1, TID2])
@pytest.mark.parametrize("op", ALL)
def test_identification_is_trapped_by_groups(
    runner: type[ReferenceRunner] | type[Runner], bit: int, op: tuple[int, int, int, int, int]
) -> None:
    subject = board({system.HCR_EL2: RW | bit}, [a.movz(5, 1), a.mrs(6, op)], runner)
    if op in GROUPS[bit]:
        assert run(subject) == (1, trap(op, 6, True), GUEST + 4)
    else:
        assert run(subject)[0] == 0


@RUNNERS
@pytest.mark.parametrize("traps", [True, False])
def test_the_id_register_of_sve_is_trapped_with_the_others(
    runner: type[ReferenceRunner] | type[Runner], traps: bool
) -> None:
    zfr0 = (3, 0, 0, 4, 4)
    subject = board({system.HCR_EL2: RW | TID3 * traps}, [a.movz(5, 1), a.mrs(5, zfr0)], runner)
    if traps:
        assert run(subject) == (1, trap(zfr0, 5, True), GUEST + 4)
        assert subject.cpu.engine.x(5) == 1
    else:
        assert run(subject)[0] == 0
        assert subject.cpu.engine.x(5) == 0  # SVE, and nothing of SVE2: the engine has no more


@RUNNERS
def test_a_write_of_csselr_is_trapped_with_its_group(
    runner: type[ReferenceRunner] | type[Runner],
) -> None:
    subject = board({system.HCR_EL2: RW | TID2}, [a.msr(CSSELR, 6)], runner)
    assert run(subject) == (1, trap(CSSELR, 6, False), GUEST)


@RUNNERS
@pytest.mark.parametrize(("hcr", "traps"), [(RW | TID2, 1), (RW, 0)])
def test_el0_is_trapped_at_ctr(
    runner: type[ReferenceRunner] | type[Runner], hcr: int, traps: int
) -> None:
    application = [a.mrs(6, CTR)]
    guest = [*put(system.SCTLR_EL1, 0x30D0_0800 | 1 << 15), *enter_application()]
    subject = board({system.HCR_EL2: hcr}, guest, runner, application)
    assert run(subject)[0] == traps
    assert subject.cpu.el == 0


@RUNNERS
def test_smc_is_trapped_with_its_own_address(runner: type[ReferenceRunner] | type[Runner]) -> None:
    subject = board({system.HCR_EL2: RW | TSC}, [a.movz(5, 1), SMC | 0x12 << 5], runner)
    assert run(subject) == (1, 0x5E00_0012, GUEST + 4)


@RUNNERS
@pytest.mark.parametrize("call", [SMC, a.hvc(0)])
@pytest.mark.parametrize("enabled", [True, False])
def test_smd_and_hce_make_calls_undefined(
    runner: type[ReferenceRunner] | type[Runner], call: int, enabled: bool
) -> None:
    """By EL3, with EL3 as the one who sees it: an UNDEFINED call comes to EL1's own vector."""
    scr = 1 | 3 << 4 | 1 << 10 | (1 << 8 if enabled else 1 << 7)
    code = [
        *put(system.SCR_EL3, scr),
        *put(system.HCR_EL2, RW),
        *put(system.SCTLR_EL1, 0x30D0_0800),
        *put(system.VBAR_EL1, VECTORS),
        *put(system.VBAR_EL2, VECTORS + 0x1000),
        *put(system.VBAR_EL3, VECTORS + 0x2000),
        *put(system.SPSR_EL3, EL1H),
        *put(system.ELR_EL3, GUEST),
        a.ERET,
    ]
    subject = board_at(code, el=EL3, runner=runner)
    subject.memory.fill(GUEST, a.code([call, a.b(0)]))
    vectors = {1: (VECTORS, 0x200), 2: (VECTORS + 0x1000, FROM_LOWER)}
    vectors[3] = (VECTORS + 0x2000, FROM_LOWER)
    for base, offset in vectors.values():
        subject.memory.fill(base + offset, a.code([a.b(0)]))
    subject.run(100)
    cpu = subject.cpu
    if not enabled:
        assert (cpu.el, cpu.registers.raw(system.ESR_EL1)) == (1, 0x0200_0000)
        assert cpu.registers.raw(system.ELR_EL1) == GUEST
    else:
        assert cpu.el == (EL3 if call == SMC else EL2)
        assert cpu.pc == vectors[cpu.el][0] + FROM_LOWER


@RUNNERS
@pytest.mark.parametrize("hcd", [0, HCD])
def test_hcd_has_no_effect_where_there_is_an_el3(
    runner: type[ReferenceRunner] | type[Runner], hcd: int
) -> None:
    subject = board({system.HCR_EL2: RW | hcd}, [a.hvc(7)], runner, skips=0)
    assert run(subject) == (1, 0x5A00_0007, GUEST + 4)
