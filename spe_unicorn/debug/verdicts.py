"""Accesses to registers in words: the verdict of the rules, and the fields of the values."""

from __future__ import annotations

from spe_unicorn.arch.access.verdicts import Allowed, NVMem, SystemAccessTrap, Verdict
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.bits import Res0, Res1


def outcome(verdict: Verdict) -> str:
    """What a verdict does, without its reason."""
    if isinstance(verdict, Allowed):
        return f"accesses {verdict.register.__name__}"
    if isinstance(verdict, SystemAccessTrap):
        return f"traps to EL{verdict.target_el} with EC {verdict.ec:#04x}"
    if isinstance(verdict, NVMem):
        return f"accesses memory at VNCR_EL2.BADDR + {verdict.offset:#x}"
    return "is UNDEFINED"


def fields(register: type[SysReg], value: int, features: object) -> str:
    """The fields of a value that are not zero, by name, in parentheses."""
    shown = [
        f"{field.name} {field.text(number)}"
        for field in register.active(features)
        if (number := value >> field.lsb & field.max) and not isinstance(field, (Res0, Res1))
    ]
    return f" ({', '.join(shown)})" if shown else ""


def changes(register: type[SysReg], old: int, new: int, features: object) -> str:
    """The fields that differ between two values of a register, by name."""
    differing = [
        f"{field.name} {field.text(before)} -> {field.text(after)}"
        for field in register.active(features)
        if (before := old >> field.lsb & field.max) != (after := new >> field.lsb & field.max)
    ]
    return ", ".join(differing) or "no change"
