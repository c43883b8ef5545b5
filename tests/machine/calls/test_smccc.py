"""What the machine's firmware answers: SMCCC, TRNG, PSCI, and NOT_SUPPORTED to all else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from spe_unicorn.arch.pe import EL1, EL2
from spe_unicorn.arch.registers import system
from spe_unicorn.host.ports import Ending
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.calls.psci import CPUSuspend, PowerState
from spe_unicorn.machine.calls.smccc import Registers, firmware_call
from tests.support import a64 as a
from tests.support.small_boards import RAM, board_at

SMCCC_VERSION, ARCH_FEATURES, ARCH_SOC_ID = 0x8000_0000, 0x8000_0001, 0x8000_0002
ARCH_WORKAROUND_1 = 0x8000_8000
PSCI_VERSION, PSCI_FEATURES, MIGRATE_INFO_TYPE = 0x8400_0000, 0x8400_000A, 0x8400_0006
CPU_SUSPEND, CPU_SUSPEND_64 = 0x8400_0001, 0xC400_0001
TRNG_VERSION, TRNG_FEATURES, TRNG_GET_UUID = 0x8400_0050, 0x8400_0051, 0x8400_0052
TRNG_RND, TRNG_RND_64 = 0x8400_0053, 0xC400_0053
VENDOR_HYP_UID, STANDARD_SECURE_UID = 0x8600_FF01, 0x8400_FF01
MINUS_1, MINUS_2 = (1 << 64) - 1, (1 << 64) - 2
SMC = 0xD400_0003


def pattern() -> Callable[[], int]:
    """A source of "random" numbers that are told apart: 0x1111..., 0x2222..., and so on."""
    numbers: Iterator[int] = count(1)
    return lambda: next(numbers) * 0x1111_1111_1111_1111


def call(function: int, *arguments: int) -> object:
    pes = {0: PowerState.ON}
    return firmware_call(function, (*arguments, 0, 0, 0)[:3], pes, pattern())


@pytest.mark.parametrize(
    ("function", "argument", "answer"),
    [
        (SMCCC_VERSION, 0, 0x1_0002),
        (ARCH_FEATURES, SMCCC_VERSION, 0),
        (ARCH_FEATURES, ARCH_FEATURES, 0),
        (ARCH_FEATURES, ARCH_SOC_ID, MINUS_1),
        (ARCH_FEATURES, ARCH_WORKAROUND_1, MINUS_1),
        (PSCI_VERSION, 0, 0x1_0001),
        (PSCI_FEATURES, SMCCC_VERSION, 0),  # how an OS finds out that there is SMCCC 1.1
        (PSCI_FEATURES, CPU_SUSPEND_64, 0),  # the original format of power states
        (MIGRATE_INFO_TYPE, 0, 2),
        (TRNG_VERSION, 0, 0x1_0000),
        (TRNG_FEATURES, TRNG_RND_64, 0),
        (TRNG_FEATURES, 0x8400_0054, MINUS_1),
        (ARCH_SOC_ID, 0, MINUS_1),
        (VENDOR_HYP_UID, 0, MINUS_1),
        (STANDARD_SECURE_UID, 0, MINUS_1),
        (0, 0, MINUS_1),
        (0xFFFF_FFFF, 0, MINUS_1),
        (0xDEAD_0000_8000_0000, 0, 0x1_0002),  # only W0 counts
    ],
)
def test_answers_in_x0(function: int, argument: int, answer: int) -> None:
    assert call(function, argument) == answer


@pytest.mark.parametrize("function", [CPU_SUSPEND, CPU_SUSPEND_64])
@pytest.mark.parametrize(
    ("power_state", "valid"),
    [(0, True), (0xFFFF, True), (1 << 16, True), (1 << 24, False), (1 << 31, False)],
)
def test_cpu_suspend_takes_states_of_a_single_pe(
    function: int, power_state: int, valid: bool
) -> None:
    assert call(function, power_state) == (CPUSuspend() if valid else MINUS_2)


@pytest.mark.parametrize(
    ("function", "bits", "x"),
    [
        (TRNG_RND_64, 1, (0, 0, 0, 1)),
        (TRNG_RND_64, 64, (0, 0, 0, 0x1111_1111_1111_1111)),
        (TRNG_RND_64, 72, (0, 0, 0x22, 0x1111_1111_1111_1111)),
        (TRNG_RND_64, 192, tuple(n * 0x1111_1111_1111_1111 for n in (0, 3, 2, 1))),
        (TRNG_RND, 33, (0, 0, 1, 0x1111_1111)),
        (TRNG_RND, 96, (0, 0x2222_2222, 0x1111_1111, 0x1111_1111)),
    ],
)
def test_random_bits_stand_in_x1_to_x3_the_lowest_in_x3(
    function: int, bits: int, x: tuple[int, ...]
) -> None:
    assert call(function, bits) == Registers(x)


@pytest.mark.parametrize(
    ("function", "bits"), [(TRNG_RND, 0), (TRNG_RND, 97), (TRNG_RND_64, 0), (TRNG_RND_64, 193)]
)
def test_no_bits_and_too_many_are_invalid(function: int, bits: int) -> None:
    assert call(function, bits) == MINUS_2


def test_the_entropy_source_has_a_uuid_that_is_not_an_error() -> None:
    answer = call(TRNG_GET_UUID)
    assert isinstance(answer, Registers)
    assert len(answer.x) == 4
    assert all(0 <= x < 1 << 32 for x in answer.x)
    assert answer.x[0] != 0xFFFF_FFFF


# On a board


def board(instruction: int, function: int, *arguments: int, el: int = EL1) -> Board:
    """A board whose guest makes one call."""
    words = a.mov64(0, function)
    for number, value in enumerate(arguments, 1):
        words += a.mov64(number, value)
    made = board_at([*words, instruction, a.b(0)], el=el)
    made.firmware.conduit = "hvc" if el == EL1 else "smc"
    made.runner.run(len(words))
    return made


@pytest.mark.parametrize(("el", "instruction"), [(EL1, a.hvc(0)), (EL2, SMC)])
def test_an_unknown_function_is_answered_by_the_conduit_of_the_start(
    el: int, instruction: int
) -> None:
    made = board(instruction, VENDOR_HYP_UID, 7, el=el)
    at = made.cpu.pc
    made.runner.run(1)
    assert (made.cpu.el, made.cpu.pc) == (el, at + 4)
    assert (made.cpu.engine.x(0), made.cpu.engine.x(1)) == (MINUS_1, 7)
    assert made.handler.failure is None


def test_smc_is_undefined_where_hvc_leads_to_firmware() -> None:
    made = board(SMC, PSCI_VERSION)
    at = made.cpu.pc
    registers = made.cpu.registers
    registers.set_raw(system.VBAR_EL1, RAM + 0x8000)
    made.memory.fill(RAM + 0x8200, a.code([a.b(0)]))
    made.runner.run(1)
    assert (made.cpu.el, made.cpu.pc) == (EL1, RAM + 0x8200)
    assert registers.raw(system.ESR_EL1) == 0x0200_0000  # Unknown reason, IL
    assert registers.raw(system.ELR_EL1) == at
    assert made.cpu.engine.x(0) == PSCI_VERSION


def test_hvc_is_the_guests_own_where_smc_leads_to_firmware() -> None:
    made = board(a.hvc(5), PSCI_VERSION, el=EL2)
    registers = made.cpu.registers
    registers.set_raw(system.VBAR_EL2, RAM + 0x8000)
    made.memory.fill(RAM + 0x8200, a.code([a.b(0)]))
    made.runner.run(1)
    assert made.cpu.pc == RAM + 0x8200
    assert registers.raw(system.ESR_EL2) == 0x5A00_0005


def test_cpu_suspend_waits_for_an_interrupt() -> None:
    made = board(a.hvc(0), CPU_SUSPEND_64, 1 << 16, RAM, 9)
    at = made.cpu.pc
    assert made.runner.run(2) is Ending.ASLEEP
    assert (made.cpu.pc, made.cpu.engine.x(0)) == (at + 4, 0)
    made.pes[0].interrupts.irq.set_level(True)  # masked, and it wakes all the same
    assert made.runner.run(3) is not Ending.ASLEEP
    assert made.cpu.pc == at + 4


def test_cpu_suspend_returns_at_once_where_an_interrupt_is_pending() -> None:
    made = board(a.hvc(0), CPU_SUSPEND, 0)
    made.pes[0].interrupts.irq.set_level(True)
    assert made.runner.run(2) is not Ending.ASLEEP
    assert made.cpu.engine.x(0) == 0


def drawn(seed: int) -> tuple[int, ...]:
    words = [*a.mov64(0, TRNG_RND_64), *a.mov64(1, 192), a.hvc(0), a.b(0)]
    made = board_at(words, el=EL1, seed=seed)
    made.runner.run(len(words) - 1)
    return tuple(made.cpu.engine.x(n) for n in range(4))


def test_random_bits_come_from_the_seed() -> None:
    assert drawn(1) == drawn(1)
    assert drawn(1)[0] == drawn(2)[0] == 0
    assert len({*drawn(1)[1:], *drawn(2)[1:]}) == 6
