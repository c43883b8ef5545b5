"""The Power State Coordination Interface, version 1.1 (Arm DEN 0022): ids in, answers out.

Nothing happens here. A call's answer is a value: a number for X0, or something for the machine to
do. The machine says which PEs there are and what they are doing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum

AFFINITY_MASK = 0xFF_00FF_FFFF
"""The bits of MPIDR_EL1 that name a PE: Aff3 in 39:32, Aff2 to Aff0 in 23:0."""

_VERSION_1_1 = 1 << 16 | 1
_SMCCC_VERSION = 0x8000_0000
_NO_TRUSTED_OS = 2
_NOT_A_POWER_STATE = 0xFFFE_0000
"""Bits of CPU_SUSPEND's power state that no state of a single PE has."""
_SMC64 = 1 << 30


class Status(IntEnum):
    """What X0 says of a call that went wrong, or right."""

    SUCCESS = 0
    NOT_SUPPORTED = -1
    INVALID_PARAMETERS = -2
    DENIED = -3
    ALREADY_ON = -4
    ON_PENDING = -5
    INVALID_ADDRESS = -9


class PowerState(IntEnum):
    """What a PE is doing, as AFFINITY_INFO numbers it."""

    ON = 0
    OFF = 1
    ON_PENDING = 2


class SystemAction(Enum):
    """The machine as a whole stops; the call does not return."""

    OFF = "off"
    RESET = "reset"


@dataclass(frozen=True, slots=True)
class CPUOn:
    """Start the PE called ``affinity`` at ``entry`` with ``context`` in X0; X0 here is SUCCESS."""

    affinity: int
    entry: int
    context: int


@dataclass(frozen=True, slots=True)
class CPUOff:
    """The calling PE goes off; the call does not return."""


@dataclass(frozen=True, slots=True)
class CPUSuspend:
    """The calling PE waits as in a WFI, then goes on after the call; X0 is SUCCESS."""


Answer = int | SystemAction | CPUOn | CPUOff | CPUSuspend
PEs = Mapping[int, PowerState]
"""Each PE of the machine by its affinity (:data:`AFFINITY_MASK` of its MPIDR_EL1)."""


def is_psci(function: int) -> bool:
    """Whether W0 of an HVC or SMC names a function of the standard secure service range."""
    return function & 0xBFFF_FFE0 == 0x8400_0000


def psci_call(function: int, arguments: Sequence[int], pes: PEs) -> Answer:
    """The answer to function ``function`` (W0) with ``arguments`` (X1 to X3) on ``pes``.

    Numbers are for X0, sign-extended to 64 bits and not negative. Calls by the 32-bit convention
    (bit 30 clear) look at the low words of their arguments only.
    """
    function &= 0xFFFF_FFFF
    handler = _FUNCTIONS.get(function)
    if handler is None:
        return _x0(Status.NOT_SUPPORTED)
    width = (1 << 64) - 1 if function & _SMC64 else 0xFFFF_FFFF
    answer = handler([argument & width for argument in arguments], pes)
    return _x0(answer) if isinstance(answer, int) else answer


def _x0(value: int) -> int:
    return value & (1 << 64) - 1


def _version(_: Sequence[int], __: PEs) -> Answer:
    return _VERSION_1_1


def _features(arguments: Sequence[int], _: PEs) -> Answer:
    asked = arguments[0]
    # That of SMCCC_VERSION says that there is SMCCC 1.1 or later.
    there = asked in _FUNCTIONS or asked == _SMCCC_VERSION
    return Status.SUCCESS if there else Status.NOT_SUPPORTED


def _cpu_suspend(arguments: Sequence[int], _: PEs) -> Answer:
    """CPU_SUSPEND. A power down is made a standby, which the caller has to allow for (5.4.2)."""
    if arguments[0] & _NOT_A_POWER_STATE:
        return Status.INVALID_PARAMETERS
    return CPUSuspend()


def _migrate_info_type(_: Sequence[int], __: PEs) -> Answer:
    return _NO_TRUSTED_OS


def _cpu_on(arguments: Sequence[int], pes: PEs) -> Answer:
    target, entry, context = arguments[:3]
    state = pes.get(target) if target & ~AFFINITY_MASK == 0 else None
    if state is None:
        return Status.INVALID_PARAMETERS
    if state is PowerState.ON:
        return Status.ALREADY_ON
    if state is PowerState.ON_PENDING:
        return Status.ON_PENDING
    if entry % 4:
        return Status.INVALID_ADDRESS
    return CPUOn(target, entry, context)


def _cpu_off(_: Sequence[int], __: PEs) -> Answer:
    return CPUOff()


def _affinity_info(arguments: Sequence[int], pes: PEs) -> Answer:
    """AFFINITY_INFO. Only level 0, a single PE, is answered: version 1.0 made the rest optional."""
    target, level = arguments[:2]
    state = pes.get(target)
    if level or state is None:
        return Status.INVALID_PARAMETERS
    return state


def _system_off(_: Sequence[int], __: PEs) -> Answer:
    return SystemAction.OFF


def _system_reset(_: Sequence[int], __: PEs) -> Answer:
    return SystemAction.RESET


_FUNCTIONS: dict[int, Callable[[Sequence[int], PEs], Answer]] = {
    0x8400_0000: _version,
    0x8400_0001: _cpu_suspend,
    0xC400_0001: _cpu_suspend,
    0x8400_0002: _cpu_off,
    0x8400_0003: _cpu_on,
    0xC400_0003: _cpu_on,
    0x8400_0004: _affinity_info,
    0xC400_0004: _affinity_info,
    0x8400_0006: _migrate_info_type,
    0x8400_0008: _system_off,
    0x8400_0009: _system_reset,
    0x8400_000A: _features,
}
