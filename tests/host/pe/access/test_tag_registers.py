"""Accesses to the registers of Allocation Tags, which the engine lacks and Python answers."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.pe.checks.operations import FailedCheck
from spe_unicorn.host.pe.stops import StopHandler
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.host.guests import GUEST, board, run
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.small_boards import RAM, board_at

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
REGISTERS = pytest.mark.parametrize(
    ("register", "kept"),
    [
        (system.GCR_EL1, 0x1_FFFF),
        (system.RGSR_EL1, 0xFF_FF0F),
        (system.TFSR_EL1, 3),
        (system.TFSRE0_EL1, 3),
    ],
)
GCR, RGSR = astuple(system.GCR_EL1.encoding), astuple(system.RGSR_EL1.encoding)
IRG_X3 = 0x9ADF_1043
"""IRG X3, X2, XZR."""


@RUNNERS
@REGISTERS
def test_what_is_written_is_read(register: type[SysReg], kept: int, runner: type[Runner]) -> None:
    name = astuple(register.encoding)
    code = [a.NOP, a.msr(name, 1), a.mrs(2, name), a.msr(name, 31), a.mrs(3, name), a.b(0)]
    found = board_at([*a.mov64(1, (1 << 64) - 1), *code], el=1, core="max", runner=runner)
    found.run(len(a.mov64(1, (1 << 64) - 1)) + len(code))
    x = found.cpu.engine.x
    assert (x(2), x(3)) == (kept, 0)


@REGISTERS
def test_the_run_goes_on_after_each(
    register: type[SysReg], kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They decide about no run, and operating systems write them at each switch of tasks."""
    stops: list[Stop] = []
    handle = StopHandler.handle

    def noted(self: StopHandler, stop: Stop, fault: FailedCheck | None = None) -> bool:
        stops.append(stop)
        return handle(self, stop, fault)

    monkeypatch.setattr(StopHandler, "handle", noted)
    name = astuple(register.encoding)
    found = board_at([a.msr(name, 5), a.add_imm(5, 5, 1), a.b(-8)], el=1, core="max")
    found.run(301)
    assert stops == []
    assert found.executed == 301
    assert found.cpu.registers.raw(register) == 100 & kept


@pytest.mark.parametrize("period", [None, 1, 3])
@pytest.mark.parametrize("core", ["max", "neoverse-n2"])
def test_two_runners_come_to_the_same(core: str, period: int | None) -> None:
    loop = [a.msr(GCR, 5), a.msr(RGSR, 6), IRG_X3, a.mrs(6, RGSR), a.add_imm(5, 5, 1), a.b(-20)]
    image = image_of({RAM: a.code(loop)}, RAM)
    fast, reference = (
        Machine(image, runner=runner, core=core, period=period)
        for runner in (Runner, ReferenceRunner)
    )
    for operations in (1, 7, 200):
        assert fast.run(operations).differences(reference.run(operations)) == {}
        one, other = (machine.board.cpu.registers for machine in (fast, reference))
        assert one.raw(system.GCR_EL1) == other.raw(system.GCR_EL1)
        assert one.raw(system.RGSR_EL1) == other.raw(system.RGSR_EL1)
    assert fast.operations == reference.operations


@RUNNERS
@pytest.mark.parametrize("ata", [0, 1])
def test_el2_keeps_them_from_el1_without_ata(ata: int, runner: type[Runner]) -> None:
    """HCR_EL2.ATA is bit 56. The syndrome is that of MSR GCR_EL1, X3."""
    guest = [a.NOP, a.msr(GCR, 3), a.NOP]
    subject = board({system.HCR_EL2: 1 << 31 | ata << 56}, guest, runner, core="max")
    count, syndrome, address = run(subject)
    assert count == (ata == 0)
    if not ata:
        iss = 3 << 20 | 6 << 17 | 0 << 14 | 1 << 10 | 3 << 5 | 0 << 1
        assert (syndrome, address) == (0x6200_0000 | iss, GUEST + 4)
