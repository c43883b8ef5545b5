"""COSP RCTX of FEAT_SPECRES2 (Arm ARM C5.6): it does nothing here, but for its traps."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers import fgt, system
from spe_unicorn.arch.registers.id import ID_AA64ISAR1_EL1
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.host.guests import APPLICATION, GUEST, board, enter_application, put, run
from tests.support import a64 as a
from tests.support.small_boards import RAM, board_at

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
COSP = 0xD50B_73C5  # COSP RCTX, X5
SCTLR, EN_RCTX = 0x30D0_0800 | 1 << 26 | 1 << 14, 1 << 10
TRAPPED = 0x18 << 26 | 1 << 25 | 1 << 20 | 6 << 17 | 3 << 14 | 7 << 10 | 5 << 5 | 3 << 1
"""The syndrome: Op0 1, Op2 6, Op1 3, CRn 7, X5, CRm 3, a write."""
UNDEFINED = 1 << 25


@RUNNERS
@pytest.mark.parametrize(
    ("core", "there"), [("max", True), ("max,FEAT_SPECRES2=off", False), ("cortex-x4", False)]
)
def test_cores_that_have_it(core: str, there: bool, runner: type[Runner]) -> None:
    code = [*put(system.VBAR_EL1, RAM + 0x2000), COSP, a.NOP]
    subject = board_at([*code, a.b(0)], el=1, core=load_core(core), runner=runner)
    subject.run(len(code) - (not there))
    assert subject.cpu.pc == (RAM + 4 * len(code) if there else RAM + 0x2200)
    assert subject.executed == len(code) - (not there)
    if not there:
        assert subject.cpu.registers.raw(system.ESR_EL1) == UNDEFINED


@RUNNERS
def test_fine_grained_traps(runner: type[Runner]) -> None:
    subject = board({fgt.HFGITR_EL2: 1 << 60}, [COSP], runner, core=load_core("max"))
    assert run(subject) == (1, TRAPPED, GUEST)


@RUNNERS
@pytest.mark.parametrize("enabled", [False, True])
def test_el0_needs_enrctx(enabled: bool, runner: type[Runner]) -> None:
    code = [
        *put(system.VBAR_EL1, RAM + 0x2000),
        *put(system.SCTLR_EL1, SCTLR | enabled * EN_RCTX),
        *enter_application(),
    ]
    subject = board_at(code, el=1, core=load_core("max"), runner=runner)
    subject.memory.fill(APPLICATION, a.code([a.NOP, COSP, a.b(0)]))
    subject.run(len(code) + 2)
    assert subject.cpu.pc == (APPLICATION + 8 if enabled else RAM + 0x2400)
    if not enabled:
        assert subject.cpu.registers.raw(system.ESR_EL1) == TRAPPED


def test_the_id_field() -> None:
    for core, value in (("max", 2), ("generic", 1), ("neoverse-n1", 0), ("neoverse-n2", 1)):
        isar1 = board_at([], core=load_core(core)).cpu.registers.read(ID_AA64ISAR1_EL1)
        assert (core, int(isar1.SPECRES)) == (core, value)
