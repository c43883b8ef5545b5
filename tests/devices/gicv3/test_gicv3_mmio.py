"""The memory-mapped registers: identification, views by Security state, sizes of accesses.

Identification and the values after reset are those that QEMU 7.2's virt board shows, but for what
this GIC has not (LPIs) or does better (the number of SPIs, 1-of-N routing).
"""

from __future__ import annotations

import pytest

from tests.devices.gic_board import (
    FRAMES,
    ICACTIVER,
    ICENABLER,
    ICFGR,
    ICPENDR,
    IGROUPR,
    IGRPMODR,
    IPRIORITYR,
    IROUTER,
    ISACTIVER,
    ISENABLER,
    ISPENDR,
    NSACR,
    SGI_BASE,
    WAKER,
    Board,
)

ID_TAIL = [0x0D, 0xF0, 0x05, 0xB1]


def test_distributor_identifies_itself_as_a_gicv3_of_arm() -> None:
    board = Board()
    assert board.read_gicd(0x8) == 0x43B
    words = [board.read_gicd(0xFFD0 + 4 * n) for n in range(12)]
    assert words == [0x44, 0, 0, 0, 0x92, 0xB4, 0x3B, 0, *ID_TAIL]


def test_redistributors_identify_themselves() -> None:
    board = Board(2)
    for pe in range(2):
        assert board.read_gicr(0x4, pe=pe) == 0x43B
        words = [board.read_gicr(0xFFD0 + 4 * n, pe=pe) for n in range(12)]
        assert words == [0x44, 0, 0, 0, 0x93, 0xB4, 0x3B, 0, *ID_TAIL]


@pytest.mark.parametrize(("two_states", "security"), [(False, 0), (True, 1 << 10)])
def test_distributor_type_has_288_interrupts_and_no_lpis(two_states: bool, security: int) -> None:
    typer = Board(two_states=two_states).read_gicd(0x4)
    assert typer == 1 << 24 | 0xF << 19 | security | 8


def test_redistributor_types_have_affinity_number_and_last() -> None:
    board = Board(3, affinities=(0x0, 0x1, 0x0100_0200))
    types = [board.read_gicr(0x8, pe=pe, size=8) for pe in range(3)]
    assert types == [0x0, 0x1_0000_0100, 0x0100_0200_0000_0210]


def test_redistributors_end_behind_the_last_pe() -> None:
    board = Board(2)
    assert board.gic.redistributors.size == 2 * FRAMES
    assert board.read_gicr(0xFFE8, pe=2) == 0
    board.gicr(WAKER, 0, pe=2)
    assert board.read_gicr(WAKER, pe=1) == 6


def test_waker_reports_children_asleep_as_long_as_the_processor_sleeps() -> None:
    board = Board()
    assert board.read_gicr(WAKER) == 0b110
    board.gicr(WAKER, 0)
    assert board.read_gicr(WAKER) == 0
    board.gicr(WAKER, 0xFFFF_FFFF)
    assert board.read_gicr(WAKER) == 0b110


def test_waker_is_secure() -> None:
    board = Board(two_states=True)
    assert board.read_gicr(WAKER, secure=False) == 0
    board.gicr(WAKER, 0, secure=False)
    assert board.read_gicr(WAKER) == 0b110


def test_control_register_with_one_security_state() -> None:
    board = Board()
    assert board.read_gicd(0, secure=False) == 0x50
    board.gicd(0, 0xFFFF_FFFF, secure=False)
    assert board.read_gicd(0, secure=False) == 0x53


def test_control_register_in_both_views() -> None:
    board = Board(two_states=True)
    assert board.read_gicd(0, secure=True) == 0x30
    assert board.read_gicd(0, secure=False) == 0x10
    board.gicd(0, 0b111, secure=False)
    assert board.read_gicd(0, secure=True) == 0x32
    assert board.read_gicd(0, secure=False) == 0x12
    board.gicd(0, 0b101, secure=True)
    assert board.read_gicd(0, secure=True) == 0x35
    assert board.read_gicd(0, secure=False) == 0x10


def test_security_once_disabled_stays_so_until_reset() -> None:
    board = Board(two_states=True)
    board.gicd(0, 1 << 6 | 0b111, secure=True)
    assert board.read_gicd(0, secure=False) == 0x53
    assert board.read_gicd(4) & 1 << 10 == 0
    board.gicd(0, 0, secure=True)
    assert board.read_gicd(0, secure=True) == 0x50
    board.gic.reset()
    assert board.read_gicd(0, secure=True) == 0x30


def test_non_secure_software_cannot_disable_security() -> None:
    board = Board(two_states=True)
    board.gicd(0, 1 << 6, secure=False)
    assert board.read_gicd(0, secure=True) == 0x30


@pytest.mark.parametrize("offset", [IGROUPR, ISENABLER, ISPENDR, ISACTIVER, IPRIORITYR, ICFGR])
def test_distributor_words_of_private_interrupts_are_not_there(offset: int) -> None:
    board = Board()
    board.gicd(offset, 0xFFFF_FFFF)
    assert board.read_gicd(offset) == 0
    assert board.read_gicr(SGI_BASE + offset) in (0, 0xAAAA_AAAA if offset == ICFGR else 0)


@pytest.mark.parametrize("offset", [0x800, 0x820, 0xF00, 0xF10, 0x40, 0x10, 0xC, 0x8000])
def test_legacy_and_absent_distributor_registers_read_zero(offset: int) -> None:
    board = Board()
    board.gicd(offset, 0xFFFF_FFFF)
    assert board.read_gicd(offset) == 0


@pytest.mark.parametrize("offset", [0x0, 0x10, 0x40, 0x70, 0x78, 0xA0])
def test_redistributor_registers_of_lpis_read_zero(offset: int) -> None:
    board = Board()
    board.gicr(offset, 0xFFFF_FFFF)
    assert board.read_gicr(offset) == 0


@pytest.mark.parametrize("offset", [0x84, 0x104, 0x204, 0x304, 0x420, 0xC08, 0xD04, 0xE08, 0x6000])
def test_redistributor_has_only_the_32_private_interrupts(offset: int) -> None:
    board = Board(two_states=True)
    board.gicr(SGI_BASE + offset, 0xFFFF_FFFF)
    assert board.read_gicr(SGI_BASE + offset) == 0


def test_last_spi_is_there_and_the_next_is_not() -> None:
    board = Board()
    board.gicd(ISENABLER + 32, 0xFFFF_FFFF)
    board.gicd(ISENABLER + 36, 0xFFFF_FFFF)
    assert board.read_gicd(ISENABLER + 32) == 0xFFFF_FFFF
    assert board.read_gicd(ISENABLER + 36) == 0
    board.gicd(IROUTER + 8 * 287, 1, size=8)
    board.gicd(IROUTER + 8 * 288, 1, size=8)
    assert board.read_gicd(IROUTER + 8 * 287, size=8) == 1
    assert board.read_gicd(IROUTER + 8 * 288, size=8) == 0


@pytest.mark.parametrize(
    ("set_offset", "clear_offset"),
    [(ISENABLER, ICENABLER), (ISPENDR, ICPENDR), (ISACTIVER, ICACTIVER)],
)
def test_set_and_clear_registers_act_on_the_ones_of_a_write(
    set_offset: int, clear_offset: int
) -> None:
    board = Board()
    board.gicd(set_offset + 4, 0b1110)
    board.gicd(set_offset + 4, 0b0001)
    board.gicd(clear_offset + 4, 0b0100)
    assert board.read_gicd(set_offset + 4) == 0b1011
    assert board.read_gicd(clear_offset + 4) == 0b1011


def test_configuration_keeps_the_upper_bit_of_each_pair_and_sgis_are_edges() -> None:
    board = Board()
    assert board.read_gicr(SGI_BASE + ICFGR) == 0xAAAA_AAAA
    board.gicr(SGI_BASE + ICFGR, 0)
    assert board.read_gicr(SGI_BASE + ICFGR) == 0xAAAA_AAAA
    assert board.read_gicr(SGI_BASE + ICFGR + 4) == 0
    board.gicr(SGI_BASE + ICFGR + 4, 0xFFFF_FFFF)
    assert board.read_gicr(SGI_BASE + ICFGR + 4) == 0xAAAA_AAAA
    board.gicd(ICFGR + 8, 0b1101)
    assert board.read_gicd(ICFGR + 8) == 0b1000


def test_registers_are_reached_by_bytes_halfwords_and_doublewords() -> None:
    board = Board()
    board.gicd(IPRIORITYR + 33, 0x12, size=1)
    board.gicd(IPRIORITYR + 34, 0x5634, size=2)
    assert board.read_gicd(IPRIORITYR + 32) == 0x5634_1200
    board.gicd(IPRIORITYR + 32, 0x8877_6655_4433_2211, size=8)
    assert board.read_gicd(IPRIORITYR + 32, size=8) == 0x8877_6655_4433_2211
    assert board.read_gicd(IPRIORITYR + 38, size=1) == 0x77
    board.gicd(IGROUPR + 4, 0xFF, size=1)
    assert board.read_gicd(IGROUPR + 4) == 0xFF
    board.gicd(IGROUPR + 5, 0xAA, size=1)
    assert board.read_gicd(IGROUPR + 4) == 0xAAFF


def test_group_modifier_and_nsacr_exist_with_two_states_only() -> None:
    board = Board()
    for offset in (IGRPMODR + 4, NSACR + 8):
        board.gicd(offset, 0xFFFF_FFFF)
        assert board.read_gicd(offset) == 0
    board = Board(two_states=True)
    for offset in (IGRPMODR + 4, NSACR + 8):
        board.gicd(offset, 0xFFFF_FFFF, secure=True)
        assert board.read_gicd(offset, secure=True) == 0xFFFF_FFFF
        assert board.read_gicd(offset, secure=False) == 0


# SPI 32 is Secure (Group 0), SPI 33 is Non-secure Group 1.
SECURE_BIT, NONSECURE_BIT = 0b01, 0b10


def mixed_board() -> Board:
    board = Board(two_states=True)
    board.gicd(IGROUPR + 4, NONSECURE_BIT)
    return board


@pytest.mark.parametrize("offset", [ISENABLER, ISPENDR, ISACTIVER])
def test_non_secure_writes_reach_only_non_secure_interrupts(offset: int) -> None:
    board = mixed_board()
    board.gicd(offset + 4, 0b11, secure=False)
    assert board.read_gicd(offset + 4, secure=True) == NONSECURE_BIT


@pytest.mark.parametrize("offset", [ISENABLER, ISPENDR, ISACTIVER, ICENABLER, ICPENDR, ICACTIVER])
def test_non_secure_reads_show_only_non_secure_interrupts(offset: int) -> None:
    board = mixed_board()
    for family in (ISENABLER, ISPENDR, ISACTIVER):
        board.gicd(family + 4, 0b11, secure=True)
    assert board.read_gicd(offset + 4, secure=False) == NONSECURE_BIT


def test_groups_priorities_and_configuration_of_secure_interrupts_are_hidden() -> None:
    board = mixed_board()
    assert board.read_gicd(IGROUPR + 4, secure=False) == 0
    board.gicd(IGROUPR + 4, 0b11, secure=False)
    assert board.read_gicd(IGROUPR + 4, secure=True) == NONSECURE_BIT
    board.gicd(IPRIORITYR + 32, 0xFFFF, secure=False)
    assert board.read_gicd(IPRIORITYR + 32, secure=True) == 0xFF00
    board.gicd(IPRIORITYR + 32, 0x20, secure=True, size=1)
    assert board.read_gicd(IPRIORITYR + 32, secure=False, size=1) == 0
    board.gicd(ICFGR + 8, 0b1010, secure=False)
    assert board.read_gicd(ICFGR + 8, secure=True) == 0b1000


@pytest.mark.parametrize(
    ("nsacr", "set_pending", "clear_pending", "reads_active", "routes"),
    [
        (0, False, False, False, False),
        (1, True, False, False, False),
        (2, True, True, True, False),
        (3, True, True, True, True),
    ],
)
def test_nsacr_opens_a_secure_interrupt_step_by_step(
    nsacr: int, set_pending: bool, clear_pending: bool, reads_active: bool, routes: bool
) -> None:
    board = mixed_board()
    board.gicd(NSACR + 8, nsacr)
    board.gicd(ISPENDR + 4, SECURE_BIT, secure=False)
    assert (board.read_gicd(ISPENDR + 4) == SECURE_BIT) is set_pending
    board.gicd(ISPENDR + 4, SECURE_BIT)
    board.gicd(ICPENDR + 4, SECURE_BIT, secure=False)
    assert (board.read_gicd(ISPENDR + 4) == 0) is clear_pending
    board.gicd(ISACTIVER + 4, SECURE_BIT)
    assert (board.read_gicd(ISACTIVER + 4, secure=False) == SECURE_BIT) is reads_active
    board.gicd(ICACTIVER + 4, SECURE_BIT, secure=False)
    assert board.read_gicd(ISACTIVER + 4) == SECURE_BIT
    board.gicd(IROUTER + 8 * 32, 1, secure=False, size=8)
    assert (board.read_gicd(IROUTER + 8 * 32, size=8) == 1) is routes


def test_nsacr_of_sgis_opens_no_registers() -> None:
    board = Board(two_states=True)
    board.gicr(SGI_BASE + NSACR, 0xFFFF_FFFF)
    board.gicr(SGI_BASE + ISPENDR, 0b1, secure=False)
    assert board.read_gicr(SGI_BASE + ISPENDR) == 0
    board.gicr(SGI_BASE + ISPENDR, 0b1)
    assert board.read_gicr(SGI_BASE + ISPENDR, secure=False) == 0
