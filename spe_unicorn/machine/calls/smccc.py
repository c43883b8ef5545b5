"""Calls of the machine's firmware: SMCCC 1.2 (Arm DEN 0028), PSCI 1.1, TRNG 1.0 (Arm DEN 0098).

Nothing happens here. A call's answer is a value: numbers for X0 to X3, or something for the machine
to do. What is not there is NOT_SUPPORTED, vendors' services and those of hypervisors among it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from spe_unicorn.machine.calls.psci import Answer as PowerAnswer
from spe_unicorn.machine.calls.psci import PEs, Status, is_psci, psci_call

SMCCC_VERSION: Final = 0x8000_0000
SMCCC_ARCH_FEATURES: Final = 0x8000_0001
TRNG_VERSION: Final = 0x8400_0050
TRNG_FEATURES: Final = 0x8400_0051
TRNG_GET_UUID: Final = 0x8400_0052
TRNG_RND_32: Final = 0x8400_0053
TRNG_RND_64: Final = 0xC400_0053

_SMCCC_1_2: Final = 1 << 16 | 2
_TRNG_1_0: Final = 1 << 16
_ARCH: Final = (SMCCC_VERSION, SMCCC_ARCH_FEATURES)
_TRNG: Final = (TRNG_VERSION, TRNG_FEATURES, TRNG_GET_UUID, TRNG_RND_32, TRNG_RND_64)
_UUID: Final = (0x2A9D_6C5E, 0x4F1B_4B7C, 0x9A53_0C41, 0x61E7_5D38)
"""Of our entropy source, as X0 to X3 hold it: any that is not all ones."""
_WORD: Final = 0xFFFF_FFFF
_U64: Final = (1 << 64) - 1
_SMC64: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Registers:
    """What X0 and the registers after it hold after the call."""

    x: tuple[int, ...]


Answer = PowerAnswer | Registers


def firmware_call(
    function: int, arguments: Sequence[int], pes: PEs, entropy: Callable[[], int]
) -> Answer:
    """The answer to function ``function`` (W0) with ``arguments`` (X1 to X3).

    ``entropy`` gives 64 random bits. Numbers are for X0, as 64 bits that are not negative.
    """
    function &= _WORD
    if is_psci(function):
        return psci_call(function, arguments, pes)
    if function == SMCCC_VERSION:
        return _SMCCC_1_2
    if function == SMCCC_ARCH_FEATURES:
        return _supported(arguments[0] & _WORD in _ARCH)
    if function == TRNG_VERSION:
        return _TRNG_1_0
    if function == TRNG_FEATURES:
        return _supported(arguments[0] & _WORD in _TRNG)
    if function == TRNG_GET_UUID:
        return Registers(_UUID)
    if function in (TRNG_RND_32, TRNG_RND_64):
        width = 64 if function & _SMC64 else 32
        return _random_bits(arguments[0] & (1 << width) - 1, width, entropy)
    return _status(Status.NOT_SUPPORTED)


def _random_bits(bits: int, width: int, entropy: Callable[[], int]) -> Answer:
    """TRNG_RND: so many random bits, at most three registers of them, the lowest in X3."""
    if not 0 < bits <= 3 * width:
        return _status(Status.INVALID_PARAMETERS)
    drawn = 0
    for n in range(0, bits, 64):
        drawn |= entropy() << n
    drawn &= (1 << bits) - 1
    mask = (1 << width) - 1
    return Registers((Status.SUCCESS, *(drawn >> n * width & mask for n in (2, 1, 0))))


def _supported(there: bool) -> int:
    return _status(Status.SUCCESS if there else Status.NOT_SUPPORTED)


def _status(status: Status) -> int:
    return int(status) & _U64
