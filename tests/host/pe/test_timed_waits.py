"""WFET and WFIT: they wait until CNTVCT_EL0 has come to a count (Arm ARM C6.2, D1.7)."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.id import ID_AA64ISAR2_EL1
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.host.guests import GUEST, board, enter_application, run
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.small_boards import RAM, board_at

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
WAITS = pytest.mark.parametrize("wait", [0xD503_1000, 0xD503_1020], ids=["WFET", "WFIT"])
CNTVCT = (3, 3, 14, 0, 2)
VBAR, ESR = astuple(system.VBAR_EL1.encoding), astuple(system.ESR_EL1.encoding)
CTL, TVAL = (3, 3, 14, 3, 1), (3, 3, 14, 3, 0)
"""CNTV_CTL_EL0 and CNTV_TVAL_EL0."""
TWI_TWE = 1 << 13 | 1 << 14
WFX_TRAP = 1 << 26 | 1 << 25 | 0x1E << 20 | 1 << 2
"""EC 1, IL, CV and COND as ever, and RV: the register is told."""
CYCLES = 16
"""A tick of the counter, at 1 GHz and 62.5 MHz."""


def waiting(wait: int, ticks: int) -> list[int]:
    """Wait for so many ticks: X1 is the count before, X2 after, X3 is waited for."""
    first = [wait] if not wait & 0x20 else []  # the first WFE finds an event
    return [*a.mov64(3, 0), *first, a.mrs(1, CNTVCT), *a.mov64(4, ticks), a.add(3, 1, 4), wait | 3]


@WAITS
@RUNNERS
def test_time_passes_until_the_count(wait: int, runner: type[Runner]) -> None:
    code = [*waiting(wait, 10_000), a.mrs(2, CNTVCT)]
    found = board_at([*code, a.b(0)], el=1, core=load_core("max"), runner=runner)
    assert found.run(len(code)) is Ending.LIMIT
    x = found.cpu.engine.x
    assert found.executed == len(code)
    assert x(3) <= x(2) <= x(3) + 1
    assert found.cpu.state.skipped >= 9_900 * CYCLES


@WAITS
@RUNNERS
def test_a_count_that_has_passed_is_not_waited_for(wait: int, runner: type[Runner]) -> None:
    """So it does not trap either."""
    subject = board(
        {system.HCR_EL2: 1 << 31 | TWI_TWE}, [a.NOP, wait | 31, a.NOP], runner, core="max"
    )
    assert run(subject)[0] == 0
    assert subject.cpu.state.skipped == 0


@WAITS
@RUNNERS
def test_el2_traps_it_with_its_register(wait: int, runner: type[Runner]) -> None:
    guest = waiting(wait, 1 << 40)
    subject = board({system.HCR_EL2: 1 << 31 | TWI_TWE}, guest, runner, core="max")
    count, syndrome, address = run(subject)
    kind = 2 if wait & 0x20 else 3
    assert (count, syndrome, address) == (1, WFX_TRAP | 3 << 5 | kind, GUEST + 4 * len(guest) - 4)
    assert subject.cpu.state.skipped == 0


@RUNNERS
def test_el1_traps_that_of_el0(runner: type[Runner]) -> None:
    """SCTLR_EL1.nTWI is 0."""
    guest = [*a.mov64(0, RAM + 0x3000), a.msr(VBAR, 0), *enter_application()]
    application = [*a.mov64(5, 1 << 40), 0xD503_1025]
    subject = board({}, guest, runner, application, core="max")
    subject.memory.fill(RAM + 0x3400, a.code([a.mrs(7, ESR), a.b(0)]))
    run(subject)
    assert subject.cpu.engine.x(7) == WFX_TRAP | 5 << 5 | 2


@RUNNERS
def test_an_interrupt_ends_it(runner: type[Runner]) -> None:
    """The virtual timer, which is masked: what is pending ends the wait, and is not taken."""
    timer = [*a.mov64(6, 500), a.msr(TVAL, 6), *a.mov64(6, 1), a.msr(CTL, 6)]
    enabled = [*a.mov64(8, 0x080B_0100), *a.mov64(9, 1 << 27), a.str_(9, 8, size=2)]  # PPI 27
    group = [*a.mov64(8, 0x080B_0080), *a.mov64(9, 1 << 27), a.str_(9, 8, size=2)]
    distributor = [*a.mov64(8, 0x0800_0000), *a.mov64(9, 0x12), a.str_(9, 8, size=2)]
    interface = [
        *[a.mov64(10, 0xFF)[0], a.msr((3, 0, 4, 6, 0), 10)],  # ICC_PMR_EL1
        *[a.movz(10, 1), a.msr((3, 0, 12, 12, 7), 10)],  # ICC_IGRPEN1_EL1
    ]
    start = [*group, *enabled, *distributor, *interface, *timer]
    code = [*start, *waiting(0xD503_1020, 1 << 30), a.mrs(2, CNTVCT)]
    found = board_at([*code, a.b(0)], el=1, core=load_core("max"), runner=runner)
    assert found.run(len(code)) is Ending.LIMIT
    x = found.cpu.engine.x
    assert x(2) - x(1) <= 501


@RUNNERS
def test_one_that_never_ends_is_a_sleep_for_ever(runner: type[Runner]) -> None:
    code = [*a.mov64(3, (1 << 64) - 1), 0xD503_1023]
    found = board_at([*code, a.b(0)], el=1, core=load_core("max"), runner=runner)
    assert found.run(100) is Ending.ASLEEP
    assert found.cpu.state.skipped == 0


@RUNNERS
def test_with_other_pes_it_ends_with_the_turn(runner: type[Runner]) -> None:
    code = [*waiting(0xD503_1020, 1 << 40), a.add_imm(9, 9, 1), a.b(-8)]
    found = board_at(code, pes=2, core=load_core("max"), runner=runner)
    assert found.run(2000) is Ending.LIMIT
    assert all(pe.cpu.engine.x(9) > 0 for pe in found.pes)


@pytest.mark.parametrize(
    "core", ["neoverse-v2", "generic", "max,FEAT_WFxT=off", "cortex-x4", "max"]
)
def test_a_core_has_it_or_not(core: str) -> None:
    has = core in ("cortex-x4", "max")
    code = [*a.mov64(0, RAM + 0x2000), a.msr(VBAR, 0), 0xD503_103F]
    found = board_at([*code, a.b(0)], el=1, core=load_core(core))
    found.run(len(code))
    assert found.cpu.pc == (RAM + 4 * len(code) if has else RAM + 0x2200)
    assert found.cpu.registers.read(ID_AA64ISAR2_EL1).WFxT == 2 * has


def test_two_runners_sample_it_alike() -> None:
    loop = [*waiting(0xD503_1000, 50), *waiting(0xD503_1020, 70)]
    image = image_of({RAM: a.code([*loop, a.b(-4 * len(loop))])}, RAM)
    fast, reference = (
        Machine(image, runner=runner, period=1, core="max") for runner in (Runner, ReferenceRunner)
    )
    assert fast.run(200).differences(reference.run(200)) == {}
