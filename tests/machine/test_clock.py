"""MachineOptions.clock: how many operations a second of the guest has."""

from __future__ import annotations

import pytest

from spe_unicorn.cores.profile import CoreError, parse_core
from spe_unicorn.machine.boot.fdt import parse
from spe_unicorn.machine.boot.plan import machine_dtb
from spe_unicorn.machine.options import MachineOptions, OptionError
from tests.support import a64 as a
from tests.support.small_boards import board_at

CNTVCT_EL0, CNTV_CTL_EL0, CNTV_CVAL_EL0 = (3, 3, 14, 0, 2), (3, 3, 14, 3, 1), (3, 3, 14, 3, 2)
CNTFRQ_EL0 = (3, 3, 14, 0, 0)
WFI = 0xD503_207F


@pytest.mark.parametrize(
    ("clock", "ticks"),
    [
        (None, 62),
        (100_000_000, 625),
        (1_000_000, 62_500),
        (62_500_000, 1000),
        (62_501_000, 999),  # 1000 operations take 15.99974 us, 999.98 ticks
        (2_500_000_000, 25),
    ],
)
def test_the_counter_goes_so_many_ticks_in_a_thousand_operations(clock, ticks) -> None:
    nop = 0xD503_201F
    code = [*([nop] * 1000), a.mrs(1, CNTVCT_EL0), a.mrs(2, CNTFRQ_EL0), a.b(0)]
    board = board_at(code, clock=clock)
    board.run(1002)
    assert board.cpu.engine.x(1) == ticks
    assert board.cpu.engine.x(2) == 62_500_000


@pytest.mark.parametrize("pes", [1, 2])
def test_a_timer_wakes_at_its_operation(pes) -> None:
    code = [
        *a.mov64(1, 625_000_000),
        a.msr(CNTV_CVAL_EL0, 1),
        a.movz(2, 1),
        a.msr(CNTV_CTL_EL0, 2),
        a.mrs(3, CNTV_CTL_EL0),
        a.b(-4),
    ]
    board = board_at(code, pes=pes, clock=1_000_000, core="generic")
    board.run(40_000)
    for pe in board.pes:
        assert pe.due == 10_000_000  # ten seconds, of a million operations each


def test_a_core_may_say_it_and_the_machine_otherwise() -> None:
    core = parse_core(b'name = "x"\nmidr = 1\nclock = 2000000000\n', "x")
    assert MachineOptions(core=core).frequency == 2_000_000_000
    assert MachineOptions(core=core, clock=5_000_000).frequency == 5_000_000
    with pytest.raises(CoreError, match="clock: allowed are whole kHz from 1M to 10G, got 5"):
        parse_core(b'name = "x"\nmidr = 1\nclock = 5\n', "x")


def test_the_device_tree_says_it() -> None:
    for clock, cells in ((None, "3b9aca00"), (10_000_000_000, "00000002540be400")):
        node = parse(machine_dtb(MachineOptions(clock=clock))).root.find("/cpus/cpu@0")
        assert node.properties["clock-frequency"].hex() == cells


def test_one_that_no_machine_has_is_refused() -> None:
    with pytest.raises(OptionError, match="`clock`: allowed are whole kHz from 1M to 10G, got 7"):
        MachineOptions(clock=7)
