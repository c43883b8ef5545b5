"""Life of an interrupt in a GIC with one Security state: pend, signal, acknowledge, end."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL1, EL2, EL3
from spe_unicorn.devices.gicv3 import PMBIRQ, GICPort, GICv3
from spe_unicorn.devices.gicv3 import registers as icc
from spe_unicorn.devices.gicv3.registers import ICC_ASGI1R_EL1, ICC_SGI0R_EL1, ICC_SGI1R_EL1
from tests.devices.gic_board import (
    ICACTIVER,
    ICENABLER,
    ICPENDR,
    IRM,
    IROUTER,
    ISACTIVER,
    ISPENDR,
    NSACR,
    SCR_FIQ,
    SCR_IRQ,
    SCR_NS,
    SGI_BASE,
    WAKER,
    Board,
)
from tests.support.fakes import FakeLine, FakePE

SPURIOUS = 1023
SPI = 40


def kernel_board(pes: int = 1, **options) -> Board:
    """A board that a kernel has set up: Group 1 on, nothing masked by PMR but priority 0xF8 up."""
    board = Board(pes, **options)
    board.gicd(0, 0b11)
    for pe in range(pes):
        board.gicr(WAKER, 0, pe=pe)
        board.msr(icc.ICC_PMR_EL1, 0xF8, pe)
        board.msr(icc.ICC_IGRPEN0_EL1, 1, pe)
        board.msr(icc.ICC_IGRPEN1_EL1, 1, pe)
    return board


def test_level_interrupt_from_line_to_end() -> None:
    board = kernel_board()
    line = board.gic.spi(SPI)
    board.configure(SPI)
    assert board.lines() == ""
    line.set_level(True)
    assert board.lines() == "IRQ"
    assert board.mrs(icc.ICC_HPPIR1_EL1) == SPI
    assert board.mrs(icc.ICC_IAR1_EL1) == SPI
    assert board.lines() == ""
    assert board.mrs(icc.ICC_IAR1_EL1) == SPURIOUS
    line.set_level(False)
    board.msr(icc.ICC_EOIR1_EL1, SPI)
    assert board.lines() == ""
    assert board.mrs(icc.ICC_RPR_EL1) == 0xFF


def test_level_interrupt_fires_again_after_its_end_while_the_line_is_high() -> None:
    board = kernel_board()
    board.configure(PMBIRQ)
    board.gic.ppi(0, PMBIRQ).set_level(True)
    assert board.mrs(icc.ICC_IAR1_EL1) == PMBIRQ
    assert board.lines() == ""
    board.msr(icc.ICC_EOIR1_EL1, PMBIRQ)
    assert board.lines() == "IRQ"
    assert board.mrs(icc.ICC_IAR1_EL1) == PMBIRQ


def test_level_interrupt_whose_line_falls_before_acknowledgement_is_gone() -> None:
    board = kernel_board()
    line = board.gic.spi(SPI)
    board.configure(SPI)
    line.set_level(True)
    line.set_level(False)
    assert board.lines() == ""
    assert board.mrs(icc.ICC_IAR1_EL1) == SPURIOUS


def test_edge_interrupt_is_remembered_and_taken_once() -> None:
    board = kernel_board()
    line = board.gic.spi(SPI)
    board.configure(SPI, edge=True)
    line.set_level(True)
    line.set_level(False)
    assert board.lines() == "IRQ"
    assert board.mrs(icc.ICC_IAR1_EL1) == SPI
    line.set_level(True)  # a second edge while active: active and pending
    assert board.read_gicd(ISPENDR + 4) == 1 << 8
    assert board.read_gicd(ISACTIVER + 4) == 1 << 8
    assert board.lines() == ""
    board.msr(icc.ICC_EOIR1_EL1, SPI)
    assert board.lines() == "IRQ"
    assert board.mrs(icc.ICC_IAR1_EL1) == SPI
    board.msr(icc.ICC_EOIR1_EL1, SPI)
    assert board.lines() == ""


def test_holding_an_edge_line_high_makes_one_interrupt() -> None:
    board = kernel_board()
    board.configure(SPI, edge=True)
    board.gic.spi(SPI).set_level(True)
    assert board.mrs(icc.ICC_IAR1_EL1) == SPI
    board.msr(icc.ICC_EOIR1_EL1, SPI)
    assert board.lines() == ""


@pytest.mark.parametrize("hidden_by", ["enable", "distributor", "cpu group", "mask"])
def test_interrupt_is_signalled_only_when_nothing_hides_it(hidden_by: str) -> None:
    board = kernel_board()
    board.configure(SPI)
    board.gic.spi(SPI).set_level(True)
    hide, show = {
        "enable": (
            lambda: board.gicd(ICENABLER + 4, 1 << 8),
            lambda: board.configure(SPI),
        ),
        "distributor": (lambda: board.gicd(0, 0b01), lambda: board.gicd(0, 0b11)),
        "cpu group": (
            lambda: board.msr(icc.ICC_IGRPEN1_EL1, 0),
            lambda: board.msr(icc.ICC_IGRPEN1_EL1, 1),
        ),
        "mask": (
            lambda: board.msr(icc.ICC_PMR_EL1, 0xA0),
            lambda: board.msr(icc.ICC_PMR_EL1, 0xA8),
        ),
    }[hidden_by]
    hide()
    assert board.lines() == ""
    assert board.mrs(icc.ICC_IAR1_EL1) == SPURIOUS
    show()
    assert board.lines() == "IRQ"


def test_interrupt_of_a_group_that_is_off_does_not_hide_one_of_a_group_that_is_on() -> None:
    board = kernel_board()
    board.msr(icc.ICC_IGRPEN0_EL1, 0)
    board.configure(33, group1=False, priority=0x10)
    board.configure(34, group1=True, priority=0x80)
    board.gic.spi(33).set_level(True)
    board.gic.spi(34).set_level(True)
    assert board.lines() == "IRQ"
    assert board.mrs(icc.ICC_IAR1_EL1) == 34


@pytest.mark.parametrize(
    ("first", "second", "taken"),
    [
        ((40, 0x80), (41, 0x40), 41),
        ((40, 0x40), (41, 0x80), 40),
        ((41, 0x80), (40, 0x80), 40),  # the lowest INTID of equals
        ((20, 0x80), (40, 0x80), 20),
        ((20, 0x80), (40, 0x78), 40),
    ],
)
def test_most_urgent_pending_interrupt_is_taken_first(
    first: tuple[int, int], second: tuple[int, int], taken: int
) -> None:
    board = kernel_board()
    for intid, priority in (first, second):
        board.configure(intid, priority=priority)
        line = board.gic.ppi(0, intid) if intid < 32 else board.gic.spi(intid)
        line.set_level(True)
    assert board.mrs(icc.ICC_IAR1_EL1) == taken


def test_more_urgent_interrupt_preempts_and_less_urgent_one_waits() -> None:
    board = kernel_board()
    for intid, priority in ((40, 0xA0), (41, 0x60), (42, 0x80)):
        board.configure(intid, priority=priority)
    board.gic.spi(40).set_level(True)
    assert board.mrs(icc.ICC_IAR1_EL1) == 40
    assert board.mrs(icc.ICC_RPR_EL1) == 0xA0
    board.gic.spi(41).set_level(True)
    assert board.lines() == "IRQ"
    assert board.mrs(icc.ICC_IAR1_EL1) == 41
    assert board.mrs(icc.ICC_RPR_EL1) == 0x60
    assert board.mrs(icc.ICC_AP1R0_EL1) == 1 << (0xA0 >> 3) | 1 << (0x60 >> 3)
    board.gic.spi(42).set_level(True)
    assert board.lines() == ""
    board.gic.spi(41).set_level(False)
    board.msr(icc.ICC_EOIR1_EL1, 41)
    assert board.mrs(icc.ICC_RPR_EL1) == 0xA0
    assert board.lines() == "IRQ"
    assert board.mrs(icc.ICC_IAR1_EL1) == 42


@pytest.mark.parametrize(
    ("point", "priority", "preempts"),
    [
        # Group 1's binary point n leaves priority bits 7:n to decide on preemption.
        (3, 0x98, True),
        (4, 0x98, True),
        (4, 0x90, True),
        (5, 0x98, True),  # 0b101.. active, 0b100.. pending
        (6, 0x98, False),  # both 0b10..
        (6, 0x78, True),
        (7, 0x80, False),  # only bit 7 decides
        (7, 0x78, True),
    ],
)
def test_binary_point_decides_which_priorities_preempt_0xa0(
    point: int, priority: int, preempts: bool
) -> None:
    board = kernel_board()
    board.msr(icc.ICC_BPR1_EL1, point)
    board.configure(40, priority=0xA0)
    board.configure(41, priority=priority)
    board.gic.spi(40).set_level(True)
    assert board.mrs(icc.ICC_IAR1_EL1) == 40
    board.gic.spi(41).set_level(True)
    assert (board.lines() == "IRQ") is preempts


def test_running_priority_is_the_group_priority() -> None:
    board = kernel_board()
    board.msr(icc.ICC_BPR1_EL1, 6)
    board.configure(SPI, priority=0xA8)
    board.gic.spi(SPI).set_level(True)
    board.mrs(icc.ICC_IAR1_EL1)
    assert board.mrs(icc.ICC_RPR_EL1) == 0x80


def test_common_binary_point_rules_group_1_and_reads_one_more() -> None:
    board = kernel_board()
    board.msr(icc.ICC_BPR0_EL1, 5)
    board.msr(icc.ICC_CTLR_EL1, 1)
    assert board.mrs(icc.ICC_BPR1_EL1) == 6
    board.msr(icc.ICC_BPR1_EL1, 3)  # ignored
    assert board.mrs(icc.ICC_BPR1_EL1) == 6
    board.configure(40, priority=0xA0)
    board.configure(41, priority=0x98)
    board.gic.spi(40).set_level(True)
    board.mrs(icc.ICC_IAR1_EL1)
    board.gic.spi(41).set_level(True)
    assert board.lines() == ""


def test_binary_points_have_the_least_values_of_32_priority_levels() -> None:
    board = kernel_board()
    assert board.mrs(icc.ICC_BPR0_EL1) == 2
    assert board.mrs(icc.ICC_BPR1_EL1) == 3
    board.msr(icc.ICC_BPR0_EL1, 0)
    board.msr(icc.ICC_BPR1_EL1, 0)
    assert board.mrs(icc.ICC_BPR0_EL1) == 2
    assert board.mrs(icc.ICC_BPR1_EL1) == 3


def test_priority_mask_keeps_five_bits_and_masks_its_own_value() -> None:
    board = kernel_board()
    board.msr(icc.ICC_PMR_EL1, 0xFF)
    assert board.mrs(icc.ICC_PMR_EL1) == 0xF8
    board.configure(SPI, priority=0xF8)
    board.gic.spi(SPI).set_level(True)
    assert board.lines() == ""
    board.configure(SPI, priority=0xF0)
    assert board.lines() == "IRQ"


def test_split_end_drops_priority_first_and_deactivates_later() -> None:
    board = kernel_board()
    board.msr(icc.ICC_CTLR_EL1, 0b10)
    board.configure(SPI)
    board.gic.spi(SPI).set_level(True)
    assert board.mrs(icc.ICC_IAR1_EL1) == SPI
    board.msr(icc.ICC_EOIR1_EL1, SPI)
    assert board.mrs(icc.ICC_RPR_EL1) == 0xFF
    assert board.read_gicd(ISACTIVER + 4) == 1 << 8
    assert board.lines() == ""  # still active, so not signalled although its line is high
    board.configure(41, priority=0xB0)
    board.gic.spi(41).set_level(True)
    assert board.lines() == "IRQ"  # the running priority is idle: a lesser one gets through
    assert board.mrs(icc.ICC_IAR1_EL1) == 41
    board.msr(icc.ICC_DIR_EL1, SPI)
    assert board.read_gicd(ISACTIVER + 4) == 1 << 9
    assert board.lines() == "IRQ"


def test_deactivation_is_ignored_unless_ends_are_split() -> None:
    board = kernel_board()
    board.configure(SPI)
    board.gic.spi(SPI).set_level(True)
    board.mrs(icc.ICC_IAR1_EL1)
    board.msr(icc.ICC_DIR_EL1, SPI)
    assert board.read_gicd(ISACTIVER + 4) == 1 << 8


def test_hypervisor_owned_interrupts_are_not_deactivated_by_their_guest() -> None:
    board = kernel_board()
    board.msr(icc.ICC_CTLR_EL1, 0b10)
    board.configure(SPI)
    board.gic.spi(SPI).set_level(True)
    board.mrs(icc.ICC_IAR1_EL1)
    board.set_hcr(1 << 4)  # IMO
    board.msr(icc.ICC_DIR_EL1, SPI)
    assert board.read_gicd(ISACTIVER + 4) == 1 << 8
    board.be(EL2, SCR_NS)
    board.msr(icc.ICC_DIR_EL1, SPI)
    assert board.read_gicd(ISACTIVER + 4) == 0


@pytest.mark.parametrize("intid", [1020, 1021, 1022, 1023, 288, 0xFF_FFFF])
def test_ending_what_is_no_interrupt_changes_nothing(intid: int) -> None:
    board = kernel_board()
    board.configure(SPI)
    board.gic.spi(SPI).set_level(True)
    board.mrs(icc.ICC_IAR1_EL1)
    board.msr(icc.ICC_EOIR1_EL1, intid)
    assert board.mrs(icc.ICC_RPR_EL1) == 0xA0


def test_end_through_the_register_of_the_other_group_changes_nothing() -> None:
    board = kernel_board()
    board.configure(SPI)
    board.gic.spi(SPI).set_level(True)
    board.mrs(icc.ICC_IAR1_EL1)
    board.msr(icc.ICC_EOIR0_EL1, SPI)
    assert board.mrs(icc.ICC_RPR_EL1) == 0xA0


def test_group_0_is_an_fiq_with_its_own_acknowledge_register() -> None:
    board = kernel_board()
    board.configure(SPI, group1=False)
    board.gic.spi(SPI).set_level(True)
    assert board.lines() == "FIQ"
    assert board.mrs(icc.ICC_HPPIR1_EL1) == SPURIOUS
    assert board.mrs(icc.ICC_IAR1_EL1) == SPURIOUS
    assert board.mrs(icc.ICC_IAR0_EL1) == SPI
    assert board.mrs(icc.ICC_AP0R0_EL1) == 1 << (0xA0 >> 3)
    board.gic.spi(SPI).set_level(False)
    board.msr(icc.ICC_EOIR0_EL1, SPI)
    assert board.mrs(icc.ICC_AP0R0_EL1) == 0


def test_only_the_most_urgent_interrupt_of_both_groups_is_shown() -> None:
    board = kernel_board()
    board.configure(40, group1=True, priority=0x80)
    board.configure(41, group1=False, priority=0x40)
    board.gic.spi(40).set_level(True)
    board.gic.spi(41).set_level(True)
    assert board.lines() == "FIQ"
    assert board.mrs(icc.ICC_HPPIR1_EL1) == SPURIOUS
    assert board.mrs(icc.ICC_HPPIR0_EL1) == 41


def test_software_sets_and_clears_pending_state() -> None:
    board = kernel_board()
    board.configure(SPI)
    board.gicd(ISPENDR + 4, 1 << 8)
    assert board.lines() == "IRQ"
    board.gicd(ICPENDR + 4, 1 << 8)
    assert board.lines() == ""
    board.gic.spi(SPI).set_level(True)
    board.gicd(ICPENDR + 4, 1 << 8)  # the line keeps it pending
    assert board.read_gicd(ISPENDR + 4) == 1 << 8
    assert board.lines() == "IRQ"


def test_software_sets_and_clears_active_state() -> None:
    board = kernel_board()
    board.configure(SPI)
    board.gic.spi(SPI).set_level(True)
    board.gicd(ISACTIVER + 4, 1 << 8)
    assert board.lines() == ""
    board.gicd(ICACTIVER + 4, 1 << 8)
    assert board.lines() == "IRQ"


def test_restored_active_priorities_hold_interrupts_back() -> None:
    board = kernel_board()
    board.configure(SPI, priority=0xA0)
    board.gic.spi(SPI).set_level(True)
    board.msr(icc.ICC_AP1R0_EL1, 1 << (0x80 >> 3))
    assert board.lines() == ""
    assert board.mrs(icc.ICC_RPR_EL1) == 0x80
    board.msr(icc.ICC_AP1R0_EL1, 0)
    assert board.lines() == "IRQ"


# Where interrupts go


@pytest.mark.parametrize("target", [0, 1, 2])
def test_private_interrupts_stay_with_their_pe(target: int) -> None:
    board = kernel_board(3)
    for pe in range(3):
        board.configure(27, pe=pe)
    board.gic.ppi(target, 27).set_level(True)
    assert [board.lines(pe) for pe in range(3)] == [
        "IRQ" if pe == target else "" for pe in range(3)
    ]


def test_shared_interrupt_follows_its_affinity() -> None:
    board = kernel_board(3, affinities=(0x000, 0x001, 0x01_000100))
    board.configure(SPI)
    board.gic.spi(SPI).set_level(True)
    assert board.lines(0) == "IRQ"
    board.gicd(IROUTER + 8 * SPI, 0x1, size=8)
    assert [board.lines(pe) for pe in range(3)] == ["", "IRQ", ""]
    board.gicd(IROUTER + 8 * SPI, 0x01_0000_0100, size=8)
    assert [board.lines(pe) for pe in range(3)] == ["", "", "IRQ"]
    assert board.read_gicd(IROUTER + 8 * SPI, size=8) == 0x01_0000_0100
    board.gicd(IROUTER + 8 * SPI, 0x2, size=8)  # nobody's
    assert [board.lines(pe) for pe in range(3)] == ["", "", ""]
    board.gicd(IROUTER + 8 * SPI, 0x1, size=4)  # half a register at a time
    board.gicd(IROUTER + 8 * SPI + 4, 0x0, size=4)
    assert [board.lines(pe) for pe in range(3)] == ["", "IRQ", ""]


def test_one_of_n_interrupt_goes_to_the_first_pe_that_is_awake_and_has_the_group_on() -> None:
    board = kernel_board(3)
    board.configure(SPI)
    board.gicd(IROUTER + 8 * SPI, IRM, size=8)
    board.gic.spi(SPI).set_level(True)
    assert [board.lines(pe) for pe in range(3)] == ["IRQ", "", ""]
    board.gicr(WAKER, 2, pe=0)
    assert [board.lines(pe) for pe in range(3)] == ["", "IRQ", ""]
    board.msr(icc.ICC_IGRPEN1_EL1, 0, pe=1)
    assert [board.lines(pe) for pe in range(3)] == ["", "", "IRQ"]
    assert board.mrs(icc.ICC_IAR1_EL1, pe=2) == SPI
    board.gicr(WAKER, 0, pe=0)
    assert [board.lines(pe) for pe in range(3)] == ["", "", ""]


def sgi(intid: int, targets: int, *, aff1: int = 0, irm: int = 0) -> int:
    return irm << 40 | intid << 24 | aff1 << 16 | targets


@pytest.mark.parametrize(
    ("request_value", "received"),
    [
        (sgi(3, 0b0001), [True, False, False, False]),
        (sgi(3, 0b0110), [False, True, False, False]),
        (sgi(3, 0b0011, aff1=1), [False, False, True, True]),
        (sgi(3, 0xFFFF), [True, True, False, False]),
        (sgi(3, 0, irm=1), [True, False, True, True]),  # all but the sender
        (sgi(3, 0xFFFF, aff1=2), [False, False, False, False]),
    ],
)
def test_sgi_reaches_the_pes_of_its_list(request_value: int, received: list[bool]) -> None:
    board = kernel_board(4, affinities=(0x000, 0x001, 0x100, 0x101))
    for pe in range(4):
        board.configure(3, pe=pe)
    board.msr(icc.ICC_SGI1R_EL1, request_value, pe=1)
    assert [board.lines(pe) == "IRQ" for pe in range(4)] == received


def test_sgi_is_taken_once_and_acknowledged_on_its_own_pe() -> None:
    board = kernel_board(2)
    for pe in range(2):
        board.configure(3, pe=pe)
    board.msr(icc.ICC_SGI1R_EL1, sgi(3, 0b11))
    assert board.mrs(icc.ICC_IAR1_EL1, pe=0) == 3
    assert (board.lines(0), board.lines(1)) == ("", "IRQ")
    board.msr(icc.ICC_EOIR1_EL1, 3, pe=0)
    assert board.lines(0) == ""
    assert board.mrs(icc.ICC_IAR1_EL1, pe=1) == 3


def test_sgi_of_the_other_group_does_not_arrive() -> None:
    board = kernel_board()
    board.configure(3, group1=False)
    board.msr(icc.ICC_SGI1R_EL1, sgi(3, 1))
    assert board.lines() == ""
    board.msr(icc.ICC_SGI0R_EL1, sgi(3, 1))
    assert board.lines() == "FIQ"


def test_sgi_for_the_other_state_is_group_0_where_there_is_one_state() -> None:
    board = kernel_board()
    board.configure(3, group1=False)
    board.configure(4, group1=True)
    board.msr(icc.ICC_ASGI1R_EL1, sgi(4, 1))
    assert board.lines() == ""
    board.msr(icc.ICC_ASGI1R_EL1, sgi(3, 1))
    assert board.lines() == "FIQ"


# Two Security states

S_EL1 = (EL1, 0)
NS_EL1 = (EL1, SCR_NS)
MONITOR = (EL3, 0)
MONITOR_NS = (EL3, SCR_NS)


def monitor_board(pes: int = 1) -> Board:
    """A board that an EL3 monitor has set up, with FIQs routed to itself."""
    board = Board(pes, two_states=True)
    board.gicd(0, 0b111)
    for pe in range(pes):
        board.gicr(WAKER, 0, pe=pe)
        board.msr(icc.ICC_PMR_EL1, 0xF8, pe)
        board.msr(icc.ICC_IGRPEN0_EL1, 1, pe)
        board.msr(icc.ICC_IGRPEN1_EL3, 0b11, pe)
    return board


GROUPS = {
    "G0": {"group1": False},
    "G1S": {"group1": False, "modifier": True},
    "G1NS": {"group1": True},
}


@pytest.mark.parametrize(
    ("group", "state", "line"),
    [
        ("G0", S_EL1, "FIQ"),
        ("G0", NS_EL1, "FIQ"),
        ("G0", MONITOR, "FIQ"),
        ("G1S", S_EL1, "IRQ"),
        ("G1S", NS_EL1, "FIQ"),
        ("G1S", MONITOR, "FIQ"),
        ("G1NS", S_EL1, "FIQ"),
        ("G1NS", NS_EL1, "IRQ"),
        ("G1NS", (EL2, SCR_NS), "IRQ"),
        ("G1NS", MONITOR_NS, "FIQ"),
    ],
)
def test_group_and_security_state_decide_between_irq_and_fiq(
    group: str, state: tuple[int, int], line: str
) -> None:
    board = monitor_board()
    board.configure(SPI, **GROUPS[group])
    board.be(*state)
    board.gic.spi(SPI).set_level(True)
    assert board.lines() == line


@pytest.mark.parametrize(
    ("group", "state", "iar0", "iar1"),
    [
        ("G0", S_EL1, SPI, SPURIOUS),
        ("G0", NS_EL1, SPURIOUS, SPURIOUS),
        ("G0", MONITOR, SPI, SPURIOUS),
        ("G1S", S_EL1, SPURIOUS, SPI),
        ("G1S", NS_EL1, SPURIOUS, SPURIOUS),
        ("G1S", MONITOR_NS, 1020, SPI),
        ("G1NS", S_EL1, SPURIOUS, SPURIOUS),
        ("G1NS", NS_EL1, SPURIOUS, SPI),
        ("G1NS", MONITOR, 1021, SPI),
    ],
)
@pytest.mark.parametrize("acknowledge", [False, True])
def test_only_the_right_state_sees_an_interrupt(
    group: str, state: tuple[int, int], iar0: int, iar1: int, acknowledge: bool
) -> None:
    names = (
        (icc.ICC_IAR0_EL1, icc.ICC_IAR1_EL1)
        if acknowledge
        else (icc.ICC_HPPIR0_EL1, icc.ICC_HPPIR1_EL1)
    )
    for register, expected in zip(names, (iar0, iar1), strict=True):
        board = monitor_board()
        board.configure(SPI, **GROUPS[group])
        board.be(*state)
        board.gic.spi(SPI).set_level(True)
        assert board.mrs(register) == expected


def test_non_secure_software_sees_the_lower_half_of_the_priorities() -> None:
    board = monitor_board()
    board.configure(SPI, priority=0xA0)
    word = 0x400 + SPI
    assert board.read_gicd(word, secure=True, size=1) == 0xA0
    assert board.read_gicd(word, secure=False, size=1) == 0x40
    board.gicd(word, 0x80, secure=False, size=1)
    assert board.read_gicd(word, secure=True, size=1) == 0xC0


def test_non_secure_priority_mask_is_half_the_range_and_cannot_undo_a_secure_mask() -> None:
    board = monitor_board()
    board.be(EL1, SCR_NS | SCR_FIQ)
    assert board.mrs(icc.ICC_PMR_EL1) == 0xF0
    board.msr(icc.ICC_PMR_EL1, 0x80)
    assert board.mrs(icc.ICC_PMR_EL1) == 0x80
    board.be(*MONITOR)
    assert board.mrs(icc.ICC_PMR_EL1) == 0xC0
    board.msr(icc.ICC_PMR_EL1, 0x40)
    board.be(EL1, SCR_NS | SCR_FIQ)
    assert board.mrs(icc.ICC_PMR_EL1) == 0
    board.msr(icc.ICC_PMR_EL1, 0xF0)
    board.be(*MONITOR)
    assert board.mrs(icc.ICC_PMR_EL1) == 0x40


def test_non_secure_view_of_priorities_needs_fiqs_routed_to_el3() -> None:
    board = monitor_board()
    board.be(*NS_EL1)
    assert board.mrs(icc.ICC_PMR_EL1) == 0xF8


@pytest.mark.parametrize(("priority", "secure", "nonsecure"), [(0xA0, 0xA0, 0x40), (0x40, 0x40, 0)])
def test_running_priority_in_either_view(priority: int, secure: int, nonsecure: int) -> None:
    board = monitor_board()
    board.configure(SPI, priority=priority)
    board.be(*NS_EL1)
    board.gic.spi(SPI).set_level(True)
    assert board.mrs(icc.ICC_IAR1_EL1) == SPI
    board.be(EL1, SCR_NS | SCR_FIQ)
    assert board.mrs(icc.ICC_RPR_EL1) == nonsecure
    board.be(*MONITOR)
    assert board.mrs(icc.ICC_RPR_EL1) == secure


def test_idle_running_priority_reads_the_same_in_both_views() -> None:
    board = monitor_board()
    board.be(EL1, SCR_NS | SCR_FIQ)
    assert board.mrs(icc.ICC_RPR_EL1) == 0xFF


def test_group_1_enable_is_banked_and_el3_sees_both_copies() -> None:
    board = Board(two_states=True)
    board.be(*NS_EL1)
    board.msr(icc.ICC_IGRPEN1_EL1, 1)
    assert board.mrs(icc.ICC_IGRPEN1_EL1) == 1
    board.be(*S_EL1)
    assert board.mrs(icc.ICC_IGRPEN1_EL1) == 0
    board.be(*MONITOR)
    assert board.mrs(icc.ICC_IGRPEN1_EL3) == 0b01
    assert board.mrs(icc.ICC_IGRPEN1_EL1) == 0
    board.be(*MONITOR_NS)
    assert board.mrs(icc.ICC_IGRPEN1_EL1) == 1


def test_el3_control_register_aliases_the_controls_of_both_states() -> None:
    board = Board(two_states=True)
    board.msr(icc.ICC_CTLR_EL3, 0b11111)
    assert board.mrs(icc.ICC_CTLR_EL3) & 0x7F == 0b11111
    for state in (S_EL1, NS_EL1):
        board.be(*state)
        assert board.mrs(icc.ICC_CTLR_EL1) & 0x7F == 0b11
    board.msr(icc.ICC_CTLR_EL1, 0)  # CBPR is EL3's to change, EOImode is not
    assert board.mrs(icc.ICC_CTLR_EL1) & 0x7F == 0b01
    board.be(*MONITOR)
    assert board.mrs(icc.ICC_CTLR_EL3) & 0x7F == 0b01111


def test_each_exception_level_ends_by_its_own_mode() -> None:
    board = monitor_board()
    board.msr(icc.ICC_CTLR_EL3, 1 << 4)  # EOImode_EL1NS
    board.configure(SPI)
    line = board.gic.spi(SPI)
    line.set_level(True)
    board.be(*NS_EL1)
    board.mrs(icc.ICC_IAR1_EL1)
    board.msr(icc.ICC_EOIR1_EL1, SPI)
    assert board.read_gicd(ISACTIVER + 4) == 1 << 8
    board.msr(icc.ICC_DIR_EL1, SPI)
    assert board.read_gicd(ISACTIVER + 4) == 0
    board.be(*MONITOR)
    board.mrs(icc.ICC_IAR1_EL1)
    board.msr(icc.ICC_EOIR1_EL1, SPI)
    assert board.read_gicd(ISACTIVER + 4) == 0


def test_non_secure_software_cannot_end_a_secure_interrupt() -> None:
    board = monitor_board()
    board.configure(SPI, **GROUPS["G1S"])
    board.gic.spi(SPI).set_level(True)
    board.be(*S_EL1)
    assert board.mrs(icc.ICC_IAR1_EL1) == SPI
    board.be(*NS_EL1)
    board.msr(icc.ICC_EOIR1_EL1, SPI)
    assert board.mrs(icc.ICC_RPR_EL1) == 0xA0
    board.be(*S_EL1)
    board.msr(icc.ICC_EOIR1_EL1, SPI)
    assert board.mrs(icc.ICC_RPR_EL1) == 0xFF


def test_non_secure_software_cannot_claim_secure_priorities_active() -> None:
    board = monitor_board()
    board.be(*NS_EL1)
    board.msr(icc.ICC_AP1R0_EL1, 0xFFFF_FFFF)
    assert board.mrs(icc.ICC_AP1R0_EL1) == 0xFFFF_0000


@pytest.mark.parametrize(
    ("el", "scr", "deactivates"),
    [
        (EL3, 0, True),
        (EL1, SCR_NS, True),
        (EL2, SCR_NS, True),
        (EL1, 0, True),
        (EL1, SCR_NS | SCR_IRQ, False),
        (EL2, SCR_NS | SCR_IRQ, False),
    ],
)
def test_deactivation_needs_an_interrupt_that_is_routed_here(
    el: int, scr: int, deactivates: bool
) -> None:
    board = monitor_board()
    board.msr(icc.ICC_CTLR_EL3, 0b11100)  # split everywhere
    board.configure(SPI)
    board.gicd(ISACTIVER + 4, 1 << 8)
    board.be(el, scr)
    board.msr(icc.ICC_DIR_EL1, SPI)
    assert (board.read_gicd(ISACTIVER + 4) == 0) is deactivates


SGI0R, SGI1R, ASGI1R = icc.ICC_SGI0R_EL1, icc.ICC_SGI1R_EL1, icc.ICC_ASGI1R_EL1


@pytest.mark.parametrize(
    ("state", "register", "group", "nsacr", "arrives"),
    [
        (S_EL1, SGI0R, "G0", 0, True),
        (S_EL1, SGI0R, "G1S", 0, False),
        (S_EL1, SGI0R, "G1NS", 0, False),
        (S_EL1, SGI1R, "G0", 0, True),
        (S_EL1, SGI1R, "G1S", 0, True),
        (S_EL1, SGI1R, "G1NS", 0, False),
        (S_EL1, ASGI1R, "G1NS", 0, True),
        (S_EL1, ASGI1R, "G1S", 0, False),
        (MONITOR_NS, SGI1R, "G1S", 0, True),
        (NS_EL1, SGI1R, "G1NS", 0, True),
        (NS_EL1, SGI1R, "G1S", 3, False),
        (NS_EL1, SGI0R, "G0", 0, False),
        (NS_EL1, SGI0R, "G0", 1, True),
        (NS_EL1, ASGI1R, "G1S", 1, False),
        (NS_EL1, ASGI1R, "G1S", 2, True),
        (NS_EL1, ASGI1R, "G0", 1, True),
        (NS_EL1, ASGI1R, "G1NS", 3, False),
    ],
)
def test_sgi_across_security_states(
    state: tuple[int, int],
    register: type[ICC_ASGI1R_EL1] | type[ICC_SGI0R_EL1] | type[ICC_SGI1R_EL1],
    group: str,
    nsacr: int,
    arrives: bool,
) -> None:
    board = monitor_board()
    board.configure(3, **GROUPS[group])
    board.gicr(SGI_BASE + NSACR, nsacr << 6)
    board.be(*state)
    board.msr(register, sgi(3, 1))
    assert (board.read_gicr(SGI_BASE + ISPENDR) == 1 << 3) is arrives


def test_change_of_security_state_moves_a_pending_interrupt_between_the_inputs() -> None:
    board = monitor_board()
    board.configure(SPI)
    board.be(*S_EL1)
    board.gic.spi(SPI).set_level(True)
    assert board.lines() == "FIQ"
    board.be(*NS_EL1)
    assert board.lines() == "IRQ"
    assert board.gic.cpu_interfaces[0].irq_and_fiq() == (True, False)


# The controller as a whole


def test_reset_forgets_everything_but_the_lines() -> None:
    board = kernel_board()
    board.configure(SPI)
    board.gic.spi(SPI).set_level(True)
    board.mrs(icc.ICC_IAR1_EL1)
    board.gic.reset()
    assert board.lines() == ""
    assert board.read_gicd(0) == 0x50
    assert board.read_gicd(ISACTIVER + 4) == 0
    assert board.read_gicd(ISPENDR + 4) == 1 << 8  # level-sensitive, and still driven
    assert board.mrs(icc.ICC_PMR_EL1) == 0
    assert board.mrs(icc.ICC_RPR_EL1) == 0xFF


def test_reset_for_a_non_secure_start_wakes_the_pes_and_puts_every_interrupt_into_group_1() -> None:
    board = Board(two_states=True)
    board.gic.reset(nonsecure=True)
    assert board.read_gicr(SGI_BASE + 0x80) == 0xFFFF_FFFF
    assert board.read_gicd(0x84) == 0xFFFF_FFFF
    assert board.read_gicr(WAKER) == 0


def test_without_el3_the_kernel_has_a_copy_of_its_own() -> None:
    board = kernel_board(features=frozenset({Feature.FEAT_EL2}))
    board.configure(SPI)
    board.gic.spi(SPI).set_level(True)
    assert board.lines() == "IRQ"
    assert board.mrs(icc.ICC_IAR1_EL1) == SPI


@pytest.mark.parametrize(("pes", "spis"), [(0, 256), (9, 256), (1, 100), (1, 992)])
def test_machine_that_cannot_be_is_refused(pes: int, spis: int) -> None:
    ports = [GICPort(FakePE({}), n, FakeLine(), FakeLine()) for n in range(pes)]
    with pytest.raises(ValueError, match="GIC"):
        GICv3(ports, spis=spis)


def test_inputs_that_are_not_there_are_refused() -> None:
    gic = Board().gic
    for intid in (0, 15, 32):
        with pytest.raises(ValueError, match="PPIs have INTIDs 16 to 31"):
            gic.ppi(0, intid)
    for intid in (31, 288):
        with pytest.raises(ValueError, match="SPIs have INTIDs 32 to 287"):
            gic.spi(intid)


def test_write_only_and_read_only_registers_have_one_direction() -> None:
    board = kernel_board()
    with pytest.raises(KeyError):
        board.mrs(icc.ICC_EOIR1_EL1)
    with pytest.raises(KeyError):
        board.msr(icc.ICC_IAR1_EL1, 0)


def test_system_register_interface_is_always_on() -> None:
    board = kernel_board()
    assert board.mrs(icc.ICC_SRE_EL1) == 0x7
    board.msr(icc.ICC_SRE_EL2, 0)
    assert board.mrs(icc.ICC_SRE_EL2) == 0xF
    assert board.mrs(icc.ICC_SRE_EL3) == 0xF
