"""Who may access the registers of self-hosted debug (Arm ARM D24.3, the access pseudocode of each).

Each group has a trap of EL2's and one of EL3's: TDA most of them, TDOSA the OS lock and power, TDRA
the ROM table, TDCC (with FEAT_FGT) and TDA the Debug Communications Channel. MDCR_EL2.TDE counts as
the first three, and for EL0 so does HCR_EL2.TGE.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from spe_unicorn.arch.access.accessors import NOT_AT_EL0, allowed, trap
from spe_unicorn.arch.access.checks import el3_bit, fgt
from spe_unicorn.arch.access.verdicts import Accessor, Levels, Step, Steps, Test
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3, PE
from spe_unicorn.arch.registers import debug as d
from spe_unicorn.arch.registers.fgt import HDFGRTR_EL2, HDFGWTR_EL2
from spe_unicorn.arch.registers.roles import Owner
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import MDCR_EL2, MDCR_EL3
from spe_unicorn.arch.rules.effective import el2_enabled, el_is_in_host, tge

_TDE: Final = MDCR_EL2.TDE.mask


def _el2(name: str, pe: PE) -> bool:
    """EL2 is enabled and takes accesses by MDCR_EL2.TDE or a field named."""
    return el2_enabled(pe) and bool(pe.registers.raw(MDCR_EL2) & (_TDE | MDCR_EL2.field(name).mask))


def _el0(pe: PE) -> bool:
    """EL2 takes EL0's accesses by HCR_EL2.TGE, MDCR_EL2.TDE or TDA."""
    return tge(pe) or _el2("TDA", pe)


def _with_fgt(test: Test) -> Test:
    return lambda pe: Feature.FEAT_FGT in pe.features and test(pe)


def _tdcc(pe: PE) -> bool:
    """EL2 takes accesses to the DCC by MDCR_EL2.TDCC, but a host's applications are its own."""
    if not el2_enabled(pe) or (pe.el == EL0 and el_is_in_host(pe, EL0)):
        return False
    return bool(pe.registers.read(MDCR_EL2).TDCC)


def _to_el3(el: int, name: str) -> Step:
    test = el3_bit(MDCR_EL3, name, 1)
    if name == "TDCC":
        test = _with_fgt(test)
    return trap(el, EL3, name, f"MDCR_EL3.{name} is 1", test)


def _levels(register: type[SysReg], by_el2: Steps, *by_el3: str) -> Levels:
    return (
        NOT_AT_EL0,
        (*by_el2, *(_to_el3(EL1, name) for name in by_el3), allowed(EL1, register)),
        (*(_to_el3(EL2, name) for name in by_el3), allowed(EL2, register)),
        (allowed(EL3, register),),
    )


def _bit_of(register: type[SysReg]) -> str:
    """The name of its bit in HDFGRTR_EL2 and HDFGWTR_EL2."""
    name = register.__name__
    if issubclass(register, (d.DBGBVR, d.DBGBCR, d.DBGWVR, d.DBGWCR)):
        return f"{name[:6]}n_EL1"
    return "DBGCLAIM" if name.startswith("DBGCLAIM") else name


_FINE_GRAINED: Final = frozenset(
    field.name for register in (HDFGRTR_EL2, HDFGWTR_EL2) for field in register.fields
)


def _accessor(register: type[SysReg], field: str, by_el3: str) -> Accessor:
    """A register of EL1 that a field of MDCR_EL2 traps, and a field of MDCR_EL3."""

    def levels(read: bool) -> Levels:
        steps: list[Step] = []
        if _bit_of(register) in _FINE_GRAINED:
            check = fgt(_bit_of(register))(read)
            steps.append(trap(EL1, EL2, check.name, check.text, check.test))
        text = f"MDCR_EL2.TDE or {field} is 1"
        steps.append(trap(EL1, EL2, field, text, partial(_el2, field)))
        return _levels(register, tuple(steps), by_el3)

    read = None if register is d.OSLAR_EL1 else levels(True)
    write = None if register.read_only else levels(False)
    return Accessor(register.__name__, register.encoding, register, read, write)


def _channel(register: type[SysReg]) -> Accessor:
    """A register of the DCC that EL1 has."""
    by_el2 = (
        trap(EL1, EL2, "TDCC", "MDCR_EL2.TDCC is 1", _with_fgt(_tdcc)),
        trap(EL1, EL2, "TDA", "MDCR_EL2.TDE or TDA is 1", partial(_el2, "TDA")),
    )
    levels = _levels(register, by_el2, "TDCC", "TDA")
    return Accessor(register.__name__, register.encoding, register, levels, levels)


def _own_tdcc(pe: PE) -> bool:
    return bool(pe.registers.read(d.MDSCR_EL1).TDCC)


def _channel_of_el0(register: type[SysReg], name: str, *, read: bool, write: bool) -> Accessor:
    """A register of the DCC that EL0 has, too."""
    el0: Steps = (
        trap(EL0, EL2, "MDSCR/TGE", "MDSCR_EL1.TDCC is 1", lambda pe: _own_tdcc(pe) and tge(pe)),
        trap(EL0, EL1, "MDSCR", "MDSCR_EL1.TDCC is 1", _own_tdcc),
        trap(EL0, EL2, "TDCC", "MDCR_EL2.TDCC is 1", _with_fgt(_tdcc)),
        trap(EL0, EL2, "TDA", "HCR_EL2.TGE, MDCR_EL2.TDE or TDA is 1", _el0),
        *(_to_el3(EL0, field) for field in ("TDCC", "TDA")),
        allowed(EL0, register),
    )
    _, el1, el2, el3 = _channel(register).read or ((),) * 4
    levels: Levels = (el0, el1, el2, el3)
    return Accessor(
        name, register.encoding, register, levels if read else None, levels if write else None
    )


DEBUG_ACCESSORS: Final[tuple[Accessor, ...]] = (
    *(_accessor(r, "TDA", "TDA") for r in (*d.DBGBVRS, *d.DBGBCRS, *d.DBGWVRS, *d.DBGWCRS)),
    *(
        _accessor(r, "TDA", "TDA")
        for r in (
            d.MDSCR_EL1,
            d.OSECCR_EL1,
            d.DBGCLAIMSET_EL1,
            d.DBGCLAIMCLR_EL1,
            d.DBGAUTHSTATUS_EL1,
        )
    ),
    *(
        _accessor(r, "TDOSA", "TDOSA")
        for r in (d.OSLAR_EL1, d.OSLSR_EL1, d.OSDLR_EL1, d.DBGPRCR_EL1)
    ),
    _accessor(d.MDRAR_EL1, "TDRA", "TDA"),
    *map(_channel, (d.MDCCINT_EL1, d.OSDTRRX_EL1, d.OSDTRTX_EL1)),
    _channel_of_el0(d.MDCCSR_EL0, "MDCCSR_EL0", read=True, write=False),
    _channel_of_el0(d.DBGDTR_EL0, "DBGDTR_EL0", read=True, write=True),
    _channel_of_el0(d.DBGDTRTX_EL0, "DBGDTRTX_EL0", read=True, write=True),
)
"""The accessor of each register of self-hosted debug."""
FIRST_ACCESSORS: Final = tuple(
    a
    for a in DEBUG_ACCESSORS
    if not (a.encoding.crn == 0 and a.encoding.op2 >= 4 and a.encoding.crm)
)
"""The same, but of breakpoints and watchpoints those of number 0 alone."""
EMULATED: Final = tuple(
    a for a in DEBUG_ACCESSORS if a.register is not None and a.register.owner is Owner.EMULATED
)
"""Those of registers that the engine has, too: their traps have to be looked out for."""
_EL2_BITS: Final = sum(
    MDCR_EL2.field(name).mask for name in ("TDE", "TDA", "TDRA", "TDOSA", "TDCC")
)
_EL3_BITS: Final = sum(MDCR_EL3.field(name).mask for name in ("TDA", "TDOSA", "TDCC"))


def may_trap(pe: PE) -> bool:
    """Whether any control that traps these registers is on: most of the time none is."""
    registers = pe.registers
    if registers.raw(MDCR_EL2) & _EL2_BITS if MDCR_EL2 in registers else False:
        return True
    if registers.raw(MDCR_EL3) & _EL3_BITS if MDCR_EL3 in registers else False:
        return True
    fine = (HDFGRTR_EL2, HDFGWTR_EL2)
    return any(register in registers and registers.raw(register) for register in fine)
