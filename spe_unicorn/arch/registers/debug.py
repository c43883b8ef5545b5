"""The System registers of self-hosted debug: MDSCR_EL1, breakpoints, watchpoints, locks, the DCC.

Arm ARM D24.3. What resets to an UNKNOWN value is 0 here: it says "disabled" wherever that matters.
Nobody debugs the PE from outside, so the Debug Communications Channel keeps what is sent.
"""

from __future__ import annotations

from types import new_class
from typing import Any, Final, TypeVar

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.registers.roles import Owner
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.bits import Field, ReadOnly, Res0, Res1

BREAKPOINTS, WATCHPOINTS, CONTEXTS = 6, 4, 2
"""How many there are, on each core that has a profile; the last ``CONTEXTS`` breakpoints are
context-aware."""


class MDCCINT_EL1(SysReg, op=(2, 0, 0, 2, 0), owner=Owner.EMULATED):
    """Monitor DCC Interrupt Enable Register."""

    RES0_63_31 = Res0(63, 31)
    RX = Field(30, reset=0)
    TX = Field(29, reset=0)
    RES0_28_0 = Res0(28, 0)


class MDSCR_EL1(SysReg, op=(2, 0, 0, 2, 2), owner=Owner.EMULATED):
    """Monitor Debug System Control Register; bits of external debug need the OS lock locked."""

    RES0_63_32 = Res0(63, 32)
    TFO = Field(31, reset=0)
    RXfull = Field(30, reset=0)
    TXfull = Field(29, reset=0)
    RES0_28 = Res0(28)
    RXO = Field(27, reset=0)
    TXU = Field(26, reset=0)
    RES0_25_24 = Res0(25, 24)
    INTdis = Field(23, 22, reset=0)
    TDA = Field(21, reset=0)
    RES0_20 = Res0(20)
    SC2 = Field(19, reset=0)
    RES0_18_16 = Res0(18, 16)
    MDE = Field(15, reset=0, doc="Breakpoint, Watchpoint and Vector Catch exceptions.")
    HDE = Field(14, reset=0)
    KDE = Field(13, reset=0, doc="Debug exceptions at the level that takes them.")
    TDCC = Field(12, reset=0, doc="Trap EL0's accesses to the DCC.")
    RES0_11_7 = Res0(11, 7)
    ERR = Field(6, reset=0)
    RES0_5_1 = Res0(5, 1)
    SS = Field(0, reset=0, doc="Software step.")


LOCKED_BITS: Final = sum(
    MDSCR_EL1.field(name).mask
    for name in ("TFO", "RXfull", "TXfull", "RXO", "TXU", "INTdis", "TDA", "SC2", "HDE", "ERR")
)
"""What of MDSCR_EL1 is read-only unless the OS lock is locked: it belongs to external debug."""


class OSDTRRX_EL1(SysReg, op=(2, 0, 0, 0, 2), owner=Owner.HOST):
    """OS Lock Data Transfer Register, Receive."""

    RES0_63_32 = Res0(63, 32)
    DTRRX = Field(31, 0, reset=0)


class OSDTRTX_EL1(SysReg, op=(2, 0, 0, 3, 2), owner=Owner.HOST):
    """OS Lock Data Transfer Register, Transmit."""

    RES0_63_32 = Res0(63, 32)
    DTRTX = Field(31, 0, reset=0)


class OSECCR_EL1(SysReg, op=(2, 0, 0, 6, 2), owner=Owner.HOST):
    """OS Lock Exception Catch Control Register."""

    RES0_63_32 = Res0(63, 32)
    EDECCR = Field(31, 0, reset=0)


class DBGBVR(SysReg):
    """What the Debug Breakpoint Value Registers share."""

    __slots__ = ()

    VALUE = Field(63, 0, reset=0, doc="An address, or context and virtual machine identifiers.")


class DBGBCR(SysReg):
    """What the Debug Breakpoint Control Registers share."""

    __slots__ = ()

    RES0_63_24 = Res0(63, 24)
    BT = Field(23, 20, reset=0, doc="What is matched, and whether it is linked.")
    LBN = Field(19, 16, reset=0, doc="The context-aware breakpoint that it is linked to.")
    SSC = Field(15, 14, reset=0)
    HMC = Field(13, reset=0)
    RES0_12_9 = Res0(12, 9)
    BAS = Res1(8, 5)
    RES0_4_3 = Res0(4, 3)
    PMC = Field(2, 1, reset=0)
    E = Field(0, reset=0)


class DBGWVR(SysReg):
    """What the Debug Watchpoint Value Registers share."""

    __slots__ = ()

    VA = Field(63, 2, reset=0)
    RES0_1_0 = Res0(1, 0)


class DBGWCR(SysReg):
    """What the Debug Watchpoint Control Registers share."""

    __slots__ = ()

    RES0_63_29 = Res0(63, 29)
    MASK = Field(28, 24, reset=0, doc="Number of address bits that do not count.")
    RES0_23_21 = Res0(23, 21)
    WT = Field(20, reset=0, doc="It is linked.")
    LBN = Field(19, 16, reset=0, doc="The context-aware breakpoint that it is linked to.")
    SSC = Field(15, 14, reset=0)
    HMC = Field(13, reset=0)
    BAS = Field(12, 5, reset=0, doc="The bytes that are watched.")
    LSC = Field(4, 3, reset=0, doc="1 loads, 2 stores, 3 both.")
    PAC = Field(2, 1, reset=0)
    E = Field(0, reset=0)


R = TypeVar("R", bound=SysReg)


def _numbered(base: type[R], op2: int, count: int, text: str) -> tuple[type[R], ...]:
    made: list[type[R]] = []
    for n in range(count):

        def body(namespace: dict[str, Any], n: int = n) -> None:
            namespace.update(__slots__=(), __doc__=f"{text} {n}.", __module__=__name__)

        name = f"{base.__name__}{n}_EL1"
        keywords = {"op": (2, 0, 0, n, op2), "owner": Owner.EMULATED}
        made.append(new_class(name, (base,), keywords, body))
    return tuple(made)


DBGBVRS: Final = _numbered(DBGBVR, 4, BREAKPOINTS, "Debug Breakpoint Value Register")
"""DBGBVR<n>_EL1, by n."""
DBGBCRS: Final = _numbered(DBGBCR, 5, BREAKPOINTS, "Debug Breakpoint Control Register")
"""DBGBCR<n>_EL1, by n."""
DBGWVRS: Final = _numbered(DBGWVR, 6, WATCHPOINTS, "Debug Watchpoint Value Register")
"""DBGWVR<n>_EL1, by n."""
DBGWCRS: Final = _numbered(DBGWCR, 7, WATCHPOINTS, "Debug Watchpoint Control Register")
"""DBGWCR<n>_EL1, by n."""


class MDRAR_EL1(SysReg, op=(2, 0, 1, 0, 0), read_only=True, owner=Owner.EMULATED):
    """Monitor Debug ROM Address Register: there is no ROM table."""

    ROMADDR = ReadOnly(63, 12, reset=0)
    RES0_11_2 = Res0(11, 2)
    Valid = ReadOnly(1, 0, reset=0)


class OSLAR_EL1(SysReg, op=(2, 0, 1, 0, 4), owner=Owner.EMULATED):
    """OS Lock Access Register: a write of 1 locks, of 0 unlocks. It is write-only."""

    RES0_63_1 = Res0(63, 1)
    OSLK = Field(0, reset=0)


class OSLSR_EL1(SysReg, op=(2, 0, 1, 1, 4), read_only=True, owner=Owner.EMULATED):
    """OS Lock Status Register."""

    RES0_63_4 = Res0(63, 4)
    OSLM_1 = Res1(3)
    nTT = ReadOnly(2, reset=0)
    OSLK = ReadOnly(1, reset=1)
    OSLM_0 = ReadOnly(0, reset=0)


class OSDLR_EL1(SysReg, op=(2, 0, 1, 3, 4), owner=Owner.EMULATED):
    """OS Double Lock Register."""

    RES0_63_1 = Res0(63, 1)
    DLK = Field(0, when=Feature.FEAT_DoubleLock, reset=0)


class DBGPRCR_EL1(SysReg, op=(2, 0, 1, 4, 4), owner=Owner.HOST):
    """Debug Power Control Register."""

    RES0_63_1 = Res0(63, 1)
    CORENPDRQ = Field(0, reset=0)


class DBGCLAIMSET_EL1(SysReg, op=(2, 0, 7, 8, 6), owner=Owner.HOST):
    """Debug Claim Tag Set Register: reads as ones, a write of a one sets a tag."""

    RES0_63_8 = Res0(63, 8)
    CLAIM = Field(7, 0, reset=0xFF)


class DBGCLAIMCLR_EL1(SysReg, op=(2, 0, 7, 9, 6), owner=Owner.HOST):
    """Debug Claim Tag Clear Register: reads as the tags, a write of a one clears a tag."""

    RES0_63_8 = Res0(63, 8)
    CLAIM = Field(7, 0, reset=0)


class DBGAUTHSTATUS_EL1(SysReg, op=(2, 0, 7, 14, 6), read_only=True, owner=Owner.HOST):
    """Debug Authentication Status Register: external debug is there and disabled."""

    RES0_63_8 = Res0(63, 8)
    SNID = ReadOnly(7, 6, reset=0b10)
    SID = ReadOnly(5, 4, reset=0b10)
    NSNID = ReadOnly(3, 2, reset=lambda f: 0b11 if Feature.FEAT_Debugv8p4 in f else 0b10)
    NSID = ReadOnly(1, 0, reset=0b10)


class MDCCSR_EL0(SysReg, op=(2, 3, 0, 1, 0), read_only=True, owner=Owner.HOST):
    """Monitor DCC Status Register."""

    RES0_63_31 = Res0(63, 31)
    RXfull = ReadOnly(30, reset=0)
    TXfull = ReadOnly(29, reset=0)
    RES0_28_0 = Res0(28, 0)


class DBGDTR_EL0(SysReg, op=(2, 3, 0, 4, 0), owner=Owner.HOST):
    """Debug Data Transfer Register, half-duplex: what is received low, what is sent high."""

    HighWord = Field(63, 32, reset=0)
    LowWord = Field(31, 0, reset=0)


class DBGDTRTX_EL0(SysReg, op=(2, 3, 0, 5, 0), owner=Owner.HOST):
    """Debug Data Transfer Register, by which a PE sends; reads are of what is received."""

    RES0_63_32 = Res0(63, 32)
    DTRTX = Field(31, 0, reset=0)


DEBUG_REGISTERS: Final[tuple[type[SysReg], ...]] = (
    MDCCINT_EL1,
    MDSCR_EL1,
    OSDTRRX_EL1,
    OSDTRTX_EL1,
    OSECCR_EL1,
    *DBGBVRS,
    *DBGBCRS,
    *DBGWVRS,
    *DBGWCRS,
    MDRAR_EL1,
    OSLAR_EL1,
    OSLSR_EL1,
    OSDLR_EL1,
    DBGPRCR_EL1,
    DBGCLAIMSET_EL1,
    DBGCLAIMCLR_EL1,
    DBGAUTHSTATUS_EL1,
    MDCCSR_EL0,
    DBGDTR_EL0,
    DBGDTRTX_EL0,
)
"""All of them."""
