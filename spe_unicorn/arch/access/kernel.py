"""Who may access what an operating system sets up and hypervisors and firmware trap.

The registers themselves are not looked into here (``OPAQUE``), but for CPACR_EL1 and CPTR_EL2. Arm
ARM D24.2, the access pseudocode of each. Not modelled: nested virtualization's accesses to memory,
fine-grained traps (``arch.access.fine_grained_traps``) and HCR_EL2.{TVM,TRVM}.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import new_class
from typing import Any, Final

from spe_unicorn.arch.access.accessors import (
    NESTED_AT_EL1,
    NOT_AT_EL0,
    accessor,
    allowed,
    no_host_at_el2,
    trap,
    undefined,
)
from spe_unicorn.arch.access.verdicts import (
    SVE_TRAP,
    Accessor,
    Levels,
    Rule,
    Step,
    Steps,
    SystemAccessTrap,
    Test,
)
from spe_unicorn.arch.pe import EL1, EL2, EL3, PE
from spe_unicorn.arch.registers.sysreg import Encoding, SysReg
from spe_unicorn.arch.registers.system import (
    CPACR_EL1,
    CPTR_EL2,
    CPTR_EL3,
    HCR_EL2,
    SCR_EL3,
)
from spe_unicorn.arch.rules.effective import el2_enabled, el_is_in_host, have_el, tge
from spe_unicorn.bits import Field

_TCPAC, _TZ = 1 << 31, 1 << 8
"""CPTR_EL2.TCPAC, and TZ without HCR_EL2.E2H."""
_TLOR, _APK = 1 << 35, 1 << 40
"""Bits of HCR_EL2."""


class Opaque(SysReg):
    """A register that nothing here looks into."""

    __slots__ = ()

    VALUE = Field(63, 0)


def _opaque(name: str, *op: int) -> type[SysReg]:
    def body(namespace: dict[str, Any]) -> None:
        namespace.update(__slots__=(), __doc__=f"{name}, as a whole.", __module__=__name__)

    made: type[SysReg] = new_class(name, (Opaque,), {"op": op}, body)
    return made


def _el2(register: type[SysReg], mask: int, value: int) -> Test:
    """EL2 is enabled, and these bits of a register of its have a value."""
    return lambda pe: el2_enabled(pe) and pe.registers.raw(register) & mask == value


def _el3(register: type[SysReg], name: str, value: int) -> Test:
    """There is EL3, and a field of a register of its has a value."""
    field = register.field(name)
    return lambda pe: (
        have_el(pe, EL3) and (pe.registers.raw(register) & field.mask) >> field.lsb == value
    )


def _host(pe: PE) -> bool:
    return el_is_in_host(pe, EL2)


def _both(levels: Levels, register: type[SysReg]) -> Accessor:
    return accessor(register, read=levels, write=levels)


def _alias(name: str, register: type[SysReg], steps: Iterable[Step], el3: Steps = ()) -> Accessor:
    """An _EL12 name of a register of EL1."""
    absent = undefined("E2H", "HCR_EL2.E2H is 0", no_host_at_el2)
    levels: Levels = (
        NOT_AT_EL0,
        NESTED_AT_EL1,
        (absent, *steps, allowed(EL2, register)),
        (absent, *el3, allowed(EL3, register)),
    )
    at = register.encoding
    encoding = Encoding(at.op0, 5, at.crn, at.crm, at.op2)
    return Accessor(name, encoding, register, levels, levels)


# CPACR_EL1 and CPTR_EL2


def _tcpac(el: int) -> Step:
    text = "CPTR_EL3.TCPAC is 1"
    return trap(el, EL3, "TCPAC", text, _el3(CPTR_EL3, "TCPAC", 1))


_CPACR_EL1: Final[Levels] = (
    NOT_AT_EL0,
    (
        trap(EL1, EL2, "TCPAC", "CPTR_EL2.TCPAC is 1", _el2(CPTR_EL2, _TCPAC, _TCPAC)),
        _tcpac(EL1),
        allowed(EL1, CPACR_EL1),
    ),
    (_tcpac(EL2), allowed(EL2, CPTR_EL2, _host), allowed(EL2, CPACR_EL1)),
    (allowed(EL3, CPACR_EL1),),
)
_CPTR_EL2: Final[Levels] = (
    NOT_AT_EL0,
    NESTED_AT_EL1,
    (_tcpac(EL2), allowed(EL2, CPTR_EL2)),
    (allowed(EL3, CPTR_EL2),),
)

# ZCR_ELx

ZCR_EL1, ZCR_EL2, ZCR_EL3 = (
    _opaque(f"ZCR_EL{el}", 3, op1, 1, 2, 0) for el, op1 in ((1, 0), (2, 4), (3, 6))
)


def _sve(el: int, target_el: int, name: str, text: str, test: Test) -> Step:
    """A trap of SVE, which has a class of its own."""
    return Step(test, SystemAccessTrap(target_el, SVE_TRAP, Rule(f"EL{el}/{name}", text)))


def _zen(pe: PE) -> bool:
    return not pe.registers.raw(CPACR_EL1) >> 16 & 1


def _cptr_el2(pe: PE) -> bool:
    """CPTR_EL2 keeps SVE from EL1 and EL2: TZ, or with HCR_EL2.E2H ZEN."""
    if not el2_enabled(pe):
        return False
    cptr = pe.registers.raw(CPTR_EL2)
    return not cptr >> 16 & 1 if _host(pe) else bool(cptr & _TZ)


def _of_el2(el: int) -> tuple[Step, Step]:
    return (
        _sve(el, EL2, "ZEN", "CPTR_EL2.TZ is 1, or ZEN with E2H is 0bx0", _cptr_el2),
        _sve(el, EL3, "EZ", "CPTR_EL3.EZ is 0", _el3(CPTR_EL3, "EZ", 0)),
    )


_AT_EL3: Final = _sve(EL3, EL3, "EZ", "CPTR_EL3.EZ is 0", _el3(CPTR_EL3, "EZ", 0))
_ZEN: Final = "CPACR_EL1.ZEN is 0bx0"
_ZCR_EL1: Final[Levels] = (
    NOT_AT_EL0,
    (
        _sve(EL1, EL2, "ZEN/TGE", _ZEN, lambda pe: _zen(pe) and tge(pe)),
        _sve(EL1, EL1, "ZEN", _ZEN, _zen),
        *_of_el2(EL1),
        allowed(EL1, ZCR_EL1),
    ),
    (*_of_el2(EL2), allowed(EL2, ZCR_EL2, _host), allowed(EL2, ZCR_EL1)),
    (_AT_EL3, allowed(EL3, ZCR_EL1)),
)
_ZCR_EL2: Final[Levels] = (
    NOT_AT_EL0,
    NESTED_AT_EL1,
    (*_of_el2(EL2), allowed(EL2, ZCR_EL2)),
    (_AT_EL3, allowed(EL3, ZCR_EL2)),
)
_BELOW: Final = undefined("below-EL3", "it is a register of EL3")
_ZCR_EL3: Final[Levels] = ((_BELOW,), (_BELOW,), (_BELOW,), (_AT_EL3, allowed(EL3, ZCR_EL3)))

# Keys of pointer authentication, LORegions

KEYS: Final = tuple(
    _opaque(f"AP{key}Key{half}_EL1", 3, 0, 2, crm, op2)
    for key, crm, first in (("IA", 1, 0), ("IB", 1, 2), ("DA", 2, 0), ("DB", 2, 2), ("GA", 3, 0))
    for op2, half in enumerate(("Lo", "Hi"), first)
)
LOREGIONS: Final = tuple(
    _opaque(f"LOR{name}_EL1", 3, 0, 10, 4, op2) for op2, name in enumerate(("SA", "EA", "N", "C"))
)


def _key(register: type[SysReg]) -> Accessor:
    def kept(el: int) -> Step:
        return trap(el, EL3, "APK", "SCR_EL3.APK is 0", _el3(SCR_EL3, "APK", 0))

    levels: Levels = (
        NOT_AT_EL0,
        (
            trap(EL1, EL2, "APK", "HCR_EL2.APK is 0", _el2(HCR_EL2, _APK, 0)),
            kept(EL1),
            allowed(EL1, register),
        ),
        (kept(EL2), allowed(EL2, register)),
        (allowed(EL3, register),),
    )
    return _both(levels, register)


def _loregion(register: type[SysReg]) -> Accessor:
    secure = undefined("NS", "SCR_EL3.NS is 0", _el3(SCR_EL3, "NS", 0))

    def kept(el: int) -> Step:
        return trap(el, EL3, "TLOR", "SCR_EL3.TLOR is 1", _el3(SCR_EL3, "TLOR", 1))

    levels: Levels = (
        NOT_AT_EL0,
        (
            secure,
            trap(EL1, EL2, "TLOR", "HCR_EL2.TLOR is 1", _el2(HCR_EL2, _TLOR, _TLOR)),
            kept(EL1),
            allowed(EL1, register),
        ),
        (secure, kept(EL2), allowed(EL2, register)),
        (secure, allowed(EL3, register)),
    )
    return _both(levels, register)


SVE_ACCESSORS: Final = (
    _both(_ZCR_EL1, ZCR_EL1),
    _both(_ZCR_EL2, ZCR_EL2),
    _both(_ZCR_EL3, ZCR_EL3),
    _alias("ZCR_EL12", ZCR_EL1, _of_el2(EL2), (_AT_EL3,)),
)
CPACR_ACCESSORS: Final = (
    _both(_CPACR_EL1, CPACR_EL1),
    _alias("CPACR_EL12", CPACR_EL1, (_tcpac(EL2),)),
    _both(_CPTR_EL2, CPTR_EL2),
)
KERNEL_ACCESSORS: Final[tuple[Accessor, ...]] = (
    *CPACR_ACCESSORS,
    *SVE_ACCESSORS,
    *map(_key, KEYS),
    *map(_loregion, LOREGIONS),
)
