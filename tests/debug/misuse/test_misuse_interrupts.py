"""Mistakes about PMBIRQ: enabled too early, never taken, taken for another one, never ended."""

from __future__ import annotations

import re

import pytest

from spe_unicorn.arch.pe import EL1
from spe_unicorn.arch.registers.system import VBAR_EL1
from spe_unicorn.debug.misuse import Misuses, watch_misuse
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.support import a64 as a
from tests.support.small_boards import RAM, board_at

PMBSR_EL1 = (3, 0, 9, 10, 3)
ICC_PMR_EL1, ICC_IGRPEN1_EL1 = (3, 0, 4, 6, 0), (3, 0, 12, 12, 7)
ICC_IAR1_EL1, ICC_EOIR1_EL1 = (3, 0, 12, 12, 0), (3, 0, 12, 12, 1)
DAIF = (3, 3, 4, 2, 1)
GICD_CTLR, GICD_ISENABLER = 0x0800_0000, 0x0800_0100
GICR_WAKER, GICR_ISENABLER0 = 0x080A_0014, 0x080B_0100
VECTORS = RAM + 0x800


def store(address: int, value: int) -> list[int]:
    return [*a.mov64(1, address), *a.mov64(0, value), a.str_(0, 1, size=2)]


def write(op: tuple[int, int, int, int, int], value: int) -> list[int]:
    return [*a.mov64(0, value), a.msr(op, 0)]


def enable(intid: int) -> list[int]:
    if intid < 32:
        return store(GICR_ISENABLER0, 1 << intid)
    return store(GICD_ISENABLER + intid // 32 * 4, 1 << intid % 32)


CLEAR, ASSERT = write(PMBSR_EL1, 0), [*write(PMBSR_EL1, 1 << 17), a.ISB]
GIC: dict[str, list[int]] = {
    "distributor": store(GICD_CTLR, 1 << 4 | 0b11),
    "waker": store(GICR_WAKER, 0),
    "groups": write(ICC_IGRPEN1_EL1, 1),
    "mask": write(ICC_PMR_EL1, 0xFF),
}
UNMASK, MASK = [a.msr(DAIF, 31), a.NOP], write(DAIF, 0x3C0)


def gic(**steps: list[int]) -> list[int]:
    return [word for name, step in GIC.items() for word in steps.get(name, step)]


def found(
    words: list[int], handler: list[int] | None = None, runner: type[Runner] = Runner
) -> Misuses:
    board = board_at([*words, a.b(0)], el=EL1, runner=runner)
    misuses = watch_misuse(board)
    board.pes[0].start(EL1, RAM)
    code = [a.b(0)] if handler is None else handler
    board.memory.fill(VECTORS + 0x280, a.code(code))
    board.cpu.registers.set_raw(VBAR_EL1, VECTORS)
    board.run(len(words) + 200)
    misuses.finish()
    return misuses


def rules(misuses: Misuses) -> list[str]:
    return [misuse.rule.name for misuse in misuses.found]


SERVED = [a.mrs(9, ICC_IAR1_EL1), a.msr(PMBSR_EL1, 31), a.ISB, a.msr(ICC_EOIR1_EL1, 9), a.ERET]


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_an_interrupt_that_is_served_is_no_mistake(runner: type[Runner]) -> None:
    words = [*CLEAR, *gic(), *enable(21), *UNMASK, *ASSERT, *ASSERT]
    assert rules(found(words, SERVED, runner)) == []


def test_nor_is_a_driver_that_polls() -> None:
    assert rules(found([*CLEAR, *gic(), *ASSERT])) == []
    assert rules(found([*CLEAR, *gic(), *enable(33), *ASSERT])) == []  # the UART's


def test_the_status_is_cleared_before_the_interrupt_is_enabled() -> None:
    begin = [*gic(), *UNMASK]
    misuses = found([*begin, *enable(21), *CLEAR])
    assert rules(misuses) == ["status-unknown"]
    assert misuses.found[0].pc == RAM + 4 * (len(begin) + len(enable(21)) - 1)


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_while_the_interrupt_is_masked_the_status_may_be_unknown(runner: type[Runner]) -> None:
    assert rules(found([*gic(), *enable(21), *CLEAR, *UNMASK], runner=runner)) == []
    no_group = gic(groups=[])
    assert rules(found([*no_group, *UNMASK, *enable(21), *CLEAR, *GIC["groups"]])) == []
    # unmasked before it is cleared
    at = RAM + 4 * (len(gic()) + len(enable(21)) - 1)
    for words in ([*gic(), *enable(21), *UNMASK, *CLEAR], [*gic(), *enable(21), *UNMASK]):
        misuses = found(words, SERVED, runner)
        assert rules(misuses) == ["status-unknown"]
        assert misuses.found[0].pc == at


def test_an_interrupt_that_is_disabled_again_needs_no_status() -> None:
    disable = store(GICR_ISENABLER0 + 0x80, 1 << 21)
    assert rules(found([*gic(), *enable(21), *disable, *UNMASK, *CLEAR])) == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (gic(), "PSTATE.I is 1"),
        ([*gic(groups=[]), *UNMASK], "GROUP1_NS is not enabled in ICC_IGRPENx_EL1"),
        ([*gic(mask=write(ICC_PMR_EL1, 0)), *UNMASK], "ICC_PMR_EL1 masks its priority 0x"),
        ([*gic(distributor=store(GICD_CTLR, 0)), *UNMASK], "GROUP1_NS is not enabled in GICD_CTLR"),
    ],
    ids=["PSTATE", "group", "priority", "distributor"],
)
def test_what_masks_an_interrupt_that_was_never_taken_is_named(words: list[int], why: str) -> None:
    misuses = found([*CLEAR, *words, *enable(21), *ASSERT])
    assert rules(misuses) == ["interrupt-not-taken"]
    what = misuses.found[0].what
    assert what.startswith(f"INTID 21 is enabled and asserted, and was never taken: {why}")
    assert misuses.found[0].pc == RAM + 4 * (len(CLEAR) + len(words) + len(enable(21)) - 1)


@pytest.mark.parametrize(
    ("intid", "text"),
    [(5, "an SGI"), (37, "an SPI; PPIs begin at 16 and end"), (53, "an SPI; PPIs have no 32")],
)
def test_another_interrupt_that_is_taken_for_it_is_named(intid: int, text: str) -> None:
    misuses = found([*CLEAR, *gic(), *enable(intid), *UNMASK, *ASSERT])
    assert rules(misuses) == ["interrupt-not-taken"]
    what = misuses.found[0].what
    assert what.startswith(f"PMBIRQ is asserted, and INTID {intid} is enabled: {text}")


def test_all_sgis_enabled_are_not_taken_for_it() -> None:
    assert rules(found([*CLEAR, *gic(), *store(GICR_ISENABLER0, 0xFF), *UNMASK, *ASSERT])) == []


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_an_interrupt_is_ended_before_its_handler_returns(runner: type[Runner]) -> None:
    handler = [a.mrs(9, ICC_IAR1_EL1), a.msr(PMBSR_EL1, 31), a.ISB, a.ERET]
    misuses = found([*CLEAR, *gic(), *enable(21), *UNMASK, *ASSERT], handler, runner)
    assert rules(misuses) == ["interrupt-not-ended"]
    assert misuses.found[0].pc == VECTORS + 0x280


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_a_handler_that_leaves_the_cause_makes_a_storm(runner: type[Runner]) -> None:
    words = [*CLEAR, *gic(), *enable(21), *UNMASK, *ASSERT]
    leaves = [a.mrs(9, ICC_IAR1_EL1), a.msr(ICC_EOIR1_EL1, 9), a.ERET]
    misuses = found(words, leaves, runner)
    assert rules(misuses) == ["interrupt-storm"]
    assert misuses.found[0].pc == VECTORS + 0x280
    assert misuses.found[0].what == (
        "INTID 21 was acknowledged 10 times in a row, and PMBSR_EL1.S was not cleared"
    )
    assert misuses.found[0].count > 10
    misuses = found(words, [a.ERET], runner)
    assert rules(misuses)[0] == "interrupt-storm"
    assert misuses.found[0].pc == VECTORS + 0x280
    assert misuses.found[0].what == (
        "PMBIRQ was due 10 times in a row, and the handler has neither read ICC_IARx_EL1 nor"
        " cleared PMBSR_EL1.S"
    )
    # an interrupt that comes again after it was served is none
    assert rules(found([*words, *ASSERT, *ASSERT, *ASSERT], SERVED, runner)) == []


def test_a_return_from_an_exception_in_the_handler_is_not_its_own() -> None:
    board_handler = [
        *[a.mrs(9, ICC_IAR1_EL1), a.mrs(10, (3, 0, 4, 0, 1)), a.mrs(11, (3, 0, 4, 0, 0))],
        a.svc(0),  # its vector returns at once
        *[a.msr((3, 0, 4, 0, 1), 10), a.msr((3, 0, 4, 0, 0), 11)],
        *[a.msr(PMBSR_EL1, 31), a.ISB, a.msr(ICC_EOIR1_EL1, 9), a.ERET],
    ]
    words = [*CLEAR, *gic(), *enable(21), *UNMASK, *ASSERT]
    board = board_at([*words, a.b(0)], el=EL1)
    misuses = watch_misuse(board)
    board.pes[0].start(EL1, RAM)
    board.memory.fill(VECTORS + 0x200, a.code([a.ERET]))
    board.memory.fill(VECTORS + 0x280, a.code(board_handler))
    board.cpu.registers.set_raw(VBAR_EL1, VECTORS)
    board.run(len(words) + 200)
    misuses.finish()
    assert board.cpu.entries.last_exception is not None
    assert board.cpu.entries.last_exception.esr == 0x5600_0000
    assert rules(misuses) == []


def test_what_shows_at_the_end_is_found_once() -> None:
    misuses = found([*CLEAR, *gic(), *enable(21), *ASSERT])
    misuses.finish()
    assert [(misuse.rule.name, misuse.count) for misuse in misuses.found] == [
        ("interrupt-not-taken", 1)
    ]
    assert re.search("do: enable INTID 21", str(misuses.found[0]))
