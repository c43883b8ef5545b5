from __future__ import annotations

import pytest

from spe_unicorn.machine.calls.psci import (
    CPUOff,
    CPUOn,
    PowerState,
    SystemAction,
    is_psci,
    psci_call,
)

VERSION, CPU_SUSPEND, CPU_OFF, CPU_ON, AFFINITY_INFO = (
    0x8400_0000,
    0x8400_0001,
    *range(0x8400_0002, 0x8400_0005),
)
SYSTEM_OFF, SYSTEM_RESET, FEATURES = 0x8400_0008, 0x8400_0009, 0x8400_000A
CPU_ON_64, AFFINITY_INFO_64 = 0xC400_0003, 0xC400_0004
IMPLEMENTED = (
    *(VERSION, CPU_SUSPEND, CPU_OFF, CPU_ON, CPU_ON_64, AFFINITY_INFO, AFFINITY_INFO_64),
    *(SYSTEM_OFF, SYSTEM_RESET, FEATURES),
)
SMCCC_VERSION = 0x8000_0000
HIGH = 0x1_0000_0000  # a PE with Aff3 = 1
PES = {0: PowerState.ON, 1: PowerState.OFF, 2: PowerState.ON_PENDING, HIGH: PowerState.OFF}


def signed(value: object) -> int:
    """X0 as a signed number; it must be a value that a register can hold."""
    assert isinstance(value, int)
    assert 0 <= value < 1 << 64
    return value - (1 << 64) if value >> 63 else value


def call(function: int, *arguments: int) -> object:
    return psci_call(function, (*arguments, 0, 0, 0)[:3], PES)


def test_the_version_is_1_1() -> None:
    assert call(VERSION) == 0x1_0001


@pytest.mark.parametrize("function", IMPLEMENTED)
def test_features_of_what_exists_are_0(function: int) -> None:
    assert call(FEATURES, function) == 0


@pytest.mark.parametrize("function", [0x8400_0005, 0xC400_0000, SMCCC_VERSION + 1, 0])
def test_features_of_what_does_not_exist_are_not_supported(function: int) -> None:
    assert signed(call(FEATURES, function)) == -1


@pytest.mark.parametrize("function", [0x8400_0005, 0x8400_001F, 0xC400_0000, 0xC400_0008])
def test_unknown_functions_are_not_supported(function: int) -> None:
    assert signed(call(function)) == -1


def test_only_the_low_word_of_the_function_counts() -> None:
    assert call(0xDEAD_0000_8400_0000) == 0x1_0001


def test_system_off_and_reset_are_for_the_machine() -> None:
    assert call(SYSTEM_OFF) is SystemAction.OFF
    assert call(SYSTEM_RESET) is SystemAction.RESET


def test_cpu_off_is_for_the_machine() -> None:
    assert call(CPU_OFF) == CPUOff()


def test_cpu_on_of_a_pe_that_is_off_starts_it() -> None:
    assert call(CPU_ON_64, HIGH, 0x4008_0000, 0x1234_5678_9ABC_DEF0) == CPUOn(
        HIGH, 0x4008_0000, 0x1234_5678_9ABC_DEF0
    )


def test_cpu_on_by_the_32_bit_convention_uses_low_words() -> None:
    assert call(CPU_ON, 0xFFFF_0000_0000_0001, 0xFFFF_0000_4008_0000, 0xFFFF_0000_0000_0007) == (
        CPUOn(1, 0x4008_0000, 7)
    )


@pytest.mark.parametrize("function", [CPU_ON, CPU_ON_64])
@pytest.mark.parametrize(
    ("target", "entry", "status"),
    [(0, 0x4000_0000, -4), (2, 0x4000_0000, -5), (3, 0x4000_0000, -2), (1, 0x4000_0002, -9)],
)
def test_cpu_on_refuses(function: int, target: int, entry: int, status: int) -> None:
    assert signed(call(function, target, entry)) == status


def test_cpu_on_refuses_bits_of_mpidr_that_name_no_pe() -> None:
    assert signed(call(CPU_ON_64, 1 << 31 | 1, 0x4000_0000)) == -2


@pytest.mark.parametrize("function", [AFFINITY_INFO, AFFINITY_INFO_64])
@pytest.mark.parametrize(("target", "state"), [(0, 0), (1, 1), (2, 2), (9, -2)])
def test_affinity_info_tells_what_a_pe_does(function: int, target: int, state: int) -> None:
    assert signed(call(function, target, 0)) == state


def test_affinity_info_answers_for_single_pes_only() -> None:
    assert signed(call(AFFINITY_INFO_64, 0, 1)) == -2


@pytest.mark.parametrize("function", [VERSION, CPU_ON_64, 0x8400_001F, 0xC400_0012])
def test_the_psci_range_is_recognized(function: int) -> None:
    assert is_psci(function)


@pytest.mark.parametrize(
    "function", [0, SMCCC_VERSION, 0x8400_0020, 0x0400_0000, 0x8600_0000, 0x8401_0000]
)
def test_other_services_are_not_psci(function: int) -> None:
    assert not is_psci(function)
