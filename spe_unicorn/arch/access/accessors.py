"""The steps that accessors are built of (see ``arch.access.verdicts``), and simple accessors."""

from __future__ import annotations

from spe_unicorn.arch.access.checks import NESTED
from spe_unicorn.arch.access.verdicts import (
    SYSREG_TRAP,
    Accessor,
    Allowed,
    Levels,
    Rule,
    Step,
    Steps,
    SystemAccessTrap,
    Test,
    Undefined,
)
from spe_unicorn.arch.pe import EL1, EL2, EL3, PE
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.rules.effective import el_is_in_host


def undefined(name: str, text: str, test: Test | None = None) -> Step:
    """UNDEFINED, where ``test`` holds."""
    return Step(test, Undefined(Rule(name, text)))


def trap(el: int, target_el: int, name: str, text: str, test: Test) -> Step:
    """A trap from ``el`` to ``target_el``, where ``test`` holds."""
    rule = Rule(f"EL{el}/{name}", text)
    return Step(test, SystemAccessTrap(target_el, SYSREG_TRAP, rule))


def allowed(el: int, register: type[SysReg], test: Test | None = None) -> Step:
    """The access is made to ``register``, where ``test`` holds."""
    text = "nothing traps it" if test is None else f"it leads to {register.__name__} here"
    return Step(test, Allowed(register, Rule(f"EL{el}/register", text)))


def no_host_at_el2(pe: PE) -> bool:
    """HCR_EL2.E2H is 0, or there is no EL2 for it to be of."""
    return not el_is_in_host(pe, EL2)


NOT_AT_EL0: Steps = (undefined("EL0", "it is never accessible at EL0"),)
NESTED_AT_EL1: Steps = (
    trap(EL1, EL2, NESTED.name, NESTED.text, NESTED.test),
    undefined("EL1", "it is a name for EL2"),
)
"""What EL1 gets from a name for EL2: a nested hypervisor is trapped."""


def accessor(
    register: type[SysReg],
    *,
    read: Levels | None,
    write: Levels | None,
) -> Accessor:
    """The accessor of a register by its own name.

    On a core that does not have the register every level is UNDEFINED first.
    """

    def guarded(levels: Levels | None) -> Levels | None:
        if levels is None or register.when is None:
            return levels
        absent = undefined(
            "feature",
            f"the core does not have {register.__name__}",
            lambda pe: not register.implemented(pe.features),
        )
        el0, el1, el2, el3 = levels
        return (absent, *el0), (absent, *el1), (absent, *el2), (absent, *el3)

    return Accessor(register.__name__, register.encoding, register, guarded(read), guarded(write))


def el2_name(name: type[SysReg], register: type[SysReg]) -> Accessor:
    """An _EL02 or _EL12 name: a host at EL2 reaches the ``register`` of EL1 by it.

    Nested virtualization's accesses to memory are not modelled: a nested hypervisor is trapped.
    """
    alone = undefined("E2H", "HCR_EL2.E2H is 0", no_host_at_el2)
    levels = (
        NOT_AT_EL0,
        NESTED_AT_EL1,
        (alone, allowed(EL2, register)),
        (alone, allowed(EL3, register)),
    )
    return accessor(name, read=levels, write=levels)
