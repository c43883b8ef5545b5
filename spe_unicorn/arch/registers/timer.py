"""The registers of the generic timer's counters and comparators (Arm ARM D24.11).

The controls of the lower levels (CNTKCTL_EL1, CNTHCTL_EL2) and the offsets (CNTVOFF_EL2,
CNTPOFF_EL2) are ``arch.registers.system``'.
"""

from __future__ import annotations

from spe_unicorn.arch.features import Feature, every
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.bits import Field, ReadOnly, Res0

_EL2 = Feature.FEAT_EL2
_VHE = every(Feature.FEAT_EL2, Feature.FEAT_VHE)
_EL3 = Feature.FEAT_EL3
_ECV = Feature.FEAT_ECV


class TimerControl(SysReg):
    """A timer's CTL. ISTATUS says whether the condition is met, also while IMASK holds it back.

    ENABLE and IMASK are UNKNOWN after a reset by the architecture. Ours are zero: no timer runs
    that nobody started.
    """

    __slots__ = ()

    RES0_63_3 = Res0(63, 3)
    ISTATUS = ReadOnly(2, reset=0)
    IMASK = Field(1, reset=0)
    ENABLE = Field(0, reset=0)


class TimerCompareValue(SysReg):
    """A timer's CVAL: the count, less the timer's offset, from which the condition is met."""

    __slots__ = ()

    CompareValue = Field(63, 0)


class TimerValue(SysReg):
    """A timer's TVAL: a signed 32-bit view of how many ticks are left."""

    __slots__ = ()

    RES0_63_32 = Res0(63, 32)
    TimerValue = Field(31, 0)


class Count(SysReg):
    """A counter."""

    __slots__ = ()

    Count = ReadOnly(63, 0)


class CNTFRQ_EL0(SysReg, op=(3, 3, 14, 0, 0)):
    """Counter-timer Frequency Register, in Hz: what firmware says it is, not what it is."""

    RES0_63_32 = Res0(63, 32)
    ClockFrequency = Field(31, 0)


class CNTPCT_EL0(Count, op=(3, 3, 14, 0, 1), read_only=True):
    """Counter-timer Physical Count Register."""

    __slots__ = ()


class CNTVCT_EL0(Count, op=(3, 3, 14, 0, 2), read_only=True):
    """Counter-timer Virtual Count Register."""

    __slots__ = ()


class CNTPCTSS_EL0(Count, op=(3, 3, 14, 0, 5), when=_ECV, read_only=True):
    """Counter-timer Self-Synchronized Physical Count Register."""

    __slots__ = ()


class CNTVCTSS_EL0(Count, op=(3, 3, 14, 0, 6), when=_ECV, read_only=True):
    """Counter-timer Self-Synchronized Virtual Count Register."""

    __slots__ = ()


class CNTP_TVAL_EL0(TimerValue, op=(3, 3, 14, 2, 0)):
    """Physical timer, TimerValue."""

    __slots__ = ()


class CNTP_CTL_EL0(TimerControl, op=(3, 3, 14, 2, 1)):
    """Physical timer, control."""

    __slots__ = ()


class CNTP_CVAL_EL0(TimerCompareValue, op=(3, 3, 14, 2, 2)):
    """Physical timer, CompareValue."""

    __slots__ = ()


class CNTV_TVAL_EL0(TimerValue, op=(3, 3, 14, 3, 0)):
    """Virtual timer, TimerValue."""

    __slots__ = ()


class CNTV_CTL_EL0(TimerControl, op=(3, 3, 14, 3, 1)):
    """Virtual timer, control."""

    __slots__ = ()


class CNTV_CVAL_EL0(TimerCompareValue, op=(3, 3, 14, 3, 2)):
    """Virtual timer, CompareValue."""

    __slots__ = ()


class CNTHP_TVAL_EL2(TimerValue, op=(3, 4, 14, 2, 0), when=_EL2):
    """EL2 physical timer, TimerValue."""

    __slots__ = ()


class CNTHP_CTL_EL2(TimerControl, op=(3, 4, 14, 2, 1), when=_EL2):
    """EL2 physical timer, control."""

    __slots__ = ()


class CNTHP_CVAL_EL2(TimerCompareValue, op=(3, 4, 14, 2, 2), when=_EL2):
    """EL2 physical timer, CompareValue."""

    __slots__ = ()


class CNTHV_TVAL_EL2(TimerValue, op=(3, 4, 14, 3, 0), when=_VHE):
    """EL2 virtual timer, TimerValue."""

    __slots__ = ()


class CNTHV_CTL_EL2(TimerControl, op=(3, 4, 14, 3, 1), when=_VHE):
    """EL2 virtual timer, control."""

    __slots__ = ()


class CNTHV_CVAL_EL2(TimerCompareValue, op=(3, 4, 14, 3, 2), when=_VHE):
    """EL2 virtual timer, CompareValue."""

    __slots__ = ()


class CNTPS_TVAL_EL1(TimerValue, op=(3, 7, 14, 2, 0), when=_EL3):
    """Secure physical timer, TimerValue."""

    __slots__ = ()


class CNTPS_CTL_EL1(TimerControl, op=(3, 7, 14, 2, 1), when=_EL3):
    """Secure physical timer, control."""

    __slots__ = ()


class CNTPS_CVAL_EL1(TimerCompareValue, op=(3, 7, 14, 2, 2), when=_EL3):
    """Secure physical timer, CompareValue."""

    __slots__ = ()


class CNTKCTL_EL12(SysReg, op=(3, 5, 14, 1, 0), when=_VHE):
    """CNTKCTL_EL1, as a host at EL2 reaches it."""

    VALUE = Field(63, 0)


class CNTP_TVAL_EL02(TimerValue, op=(3, 5, 14, 2, 0), when=_VHE):
    """CNTP_TVAL_EL0, as a host at EL2 reaches it."""

    __slots__ = ()


class CNTP_CTL_EL02(TimerControl, op=(3, 5, 14, 2, 1), when=_VHE):
    """CNTP_CTL_EL0, as a host at EL2 reaches it."""

    __slots__ = ()


class CNTP_CVAL_EL02(TimerCompareValue, op=(3, 5, 14, 2, 2), when=_VHE):
    """CNTP_CVAL_EL0, as a host at EL2 reaches it."""

    __slots__ = ()


class CNTV_TVAL_EL02(TimerValue, op=(3, 5, 14, 3, 0), when=_VHE):
    """CNTV_TVAL_EL0, as a host at EL2 reaches it."""

    __slots__ = ()


class CNTV_CTL_EL02(TimerControl, op=(3, 5, 14, 3, 1), when=_VHE):
    """CNTV_CTL_EL0, as a host at EL2 reaches it."""

    __slots__ = ()


class CNTV_CVAL_EL02(TimerCompareValue, op=(3, 5, 14, 3, 2), when=_VHE):
    """CNTV_CVAL_EL0, as a host at EL2 reaches it."""

    __slots__ = ()


COUNTERS: tuple[type[SysReg], ...] = (
    CNTFRQ_EL0,
    CNTPCT_EL0,
    CNTVCT_EL0,
    CNTPCTSS_EL0,
    CNTVCTSS_EL0,
)
"""The counters and their frequency."""

COMPARATORS: tuple[type[SysReg], ...] = (
    CNTP_TVAL_EL0,
    CNTP_CTL_EL0,
    CNTP_CVAL_EL0,
    CNTV_TVAL_EL0,
    CNTV_CTL_EL0,
    CNTV_CVAL_EL0,
    CNTHP_TVAL_EL2,
    CNTHP_CTL_EL2,
    CNTHP_CVAL_EL2,
    CNTHV_TVAL_EL2,
    CNTHV_CTL_EL2,
    CNTHV_CVAL_EL2,
    CNTPS_TVAL_EL1,
    CNTPS_CTL_EL1,
    CNTPS_CVAL_EL1,
)
"""What :class:`~spe_unicorn.devices.timer.GenericTimer` reads and writes."""

ALIASES: tuple[type[SysReg], ...] = (
    CNTKCTL_EL12,
    CNTP_TVAL_EL02,
    CNTP_CTL_EL02,
    CNTP_CVAL_EL02,
    CNTV_TVAL_EL02,
    CNTV_CTL_EL02,
    CNTV_CVAL_EL02,
)
"""Second names, which lead to a register of another name or nowhere."""

TIMER_REGISTERS: tuple[type[SysReg], ...] = (*COUNTERS, *COMPARATORS, *ALIASES)
"""Every register that this module declares."""
