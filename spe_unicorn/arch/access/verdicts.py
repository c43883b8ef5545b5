"""Who may access which System register: Arm's access pseudocode, accessor by accessor.

An :class:`Accessor` is one name in an MRS or MSR. For each direction and Exception level it has
the steps of the pseudocode in their order: the first whose test holds gives the verdict. So a
verdict is a value, and carries the :class:`Rule` that decided it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from spe_unicorn.arch.pe import PE
from spe_unicorn.arch.registers.sysreg import Encoding, SysReg

SYSREG_TRAP: Final = 0x18
SVE_TRAP: Final = 0x19
"""Exception class of a trapped MSR, MRS or system instruction."""
PSB_CSYNC_TRAP: Final = 0x0A
"""Exception class of a trapped PSB CSYNC."""
PSB_CSYNC_ISS: Final = 0x3
"""ISS of a trapped PSB CSYNC."""


class Rule(NamedTuple):
    """What decided: a stable name such as ``EL1/FGT``, and a sentence."""

    name: str
    text: str


@dataclass(frozen=True)
class Allowed:
    """The access is made, to ``register``, which need not be the one that was named."""

    register: type[SysReg]
    rule: Rule = field(compare=False)


@dataclass(frozen=True)
class Undefined:
    """The instruction is UNDEFINED."""

    rule: Rule = field(compare=False)


@dataclass(frozen=True)
class SystemAccessTrap:
    """AArch64_SystemAccessTrap(): an exception to ``target_el``; the caller knows the ISS."""

    target_el: int
    ec: int
    rule: Rule = field(compare=False)


@dataclass(frozen=True)
class NVMem:
    """The access is made to memory, as EL2 would make it, at VNCR_EL2.BADDR plus ``offset``."""

    offset: int
    rule: Rule = field(compare=False)


Verdict: TypeAlias = Allowed | Undefined | SystemAccessTrap | NVMem
Test: TypeAlias = Callable[[PE], bool]


class Step(NamedTuple):
    """One branch of the pseudocode; without a test, its ``else``."""

    test: Test | None
    verdict: Verdict


Steps: TypeAlias = tuple[Step, ...]
Levels: TypeAlias = tuple[Steps, Steps, Steps, Steps]


@dataclass(frozen=True)
class Accessor:
    """One name of a System register: ``read`` and ``write`` hold the steps for EL0 to EL3.

    A direction without steps has no instruction: it is UNDEFINED. ``register`` is the one that
    the name stands for, None for an encoding that is not allocated.
    """

    name: str
    encoding: Encoding
    register: type[SysReg] | None
    read: Levels | None
    write: Levels | None


def access(pe: PE, accessor: Accessor, read: bool) -> Verdict:
    """What an MRS (``read``) or MSR of ``accessor`` does now. Changes nothing.

    Raises LookupError for steps without an ``else``.
    """
    levels = accessor.read if read else accessor.write
    if levels is None:
        return _NO_INSTRUCTION[read]
    for test, verdict in levels[pe.el]:
        if test is None or test(pe):
            return verdict
    raise LookupError(f"the steps of {accessor.name} at EL{pe.el} end without a verdict")


def reaches_its_own(pe: PE, accessor: Accessor, read: bool) -> bool:
    """Whether an MRS (``read``) or MSR of ``accessor`` is allowed now, and means its register."""
    return accessor.register is not None and reaches(pe, accessor, accessor.register, read)


def reaches(pe: PE, accessor: Accessor, register: type[SysReg], read: bool) -> bool:
    """Whether an MRS (``read``) or MSR of ``accessor`` is allowed now, and means ``register``."""
    verdict = access(pe, accessor, read=read)
    return isinstance(verdict, Allowed) and verdict.register is register


_NO_INSTRUCTION = {
    True: Undefined(Rule("write-only", "there is no MRS for this register")),
    False: Undefined(Rule("read-only", "there is no MSR for this register")),
}


class SysRegTable:
    """Finds the accessor that an MRS or MSR names."""

    def __init__(self, accessors: Iterable[Accessor]) -> None:
        self._by_key = {a.encoding.key: a for a in accessors}

    def get(self, key: int) -> Accessor | None:
        """The accessor of :attr:`Encoding.key`; None where the table has nothing to say.

        Encodings among those of SPE that Arm has not allocated have one, which is UNDEFINED.
        """
        found = self._by_key.get(key)
        if found is None and key & _SPE_SPACE_MASK in _SPE_SPACE:
            return _unallocated(Encoding.from_key(key))
        return found

    def named(self, name: str) -> Accessor | None:
        """The accessor with a name, such as ``PMSCR_EL12``."""
        return next((a for a in self if a.name == name), None)

    def __iter__(self) -> Iterator[Accessor]:
        return iter(self._by_key.values())


def _unallocated(encoding: Encoding) -> Accessor:
    rule = Rule("unallocated", "Arm has not allocated this encoding")
    levels: Levels = ((Step(None, Undefined(rule)),),) * 4
    return Accessor(str(encoding), encoding, None, levels, levels)


_SPE_SPACE_MASK: Final = Encoding(3, 0, 15, 15, 0).key
_SPE_SPACE: Final = (Encoding(3, 0, 9, 9, 0).key, Encoding(3, 0, 9, 10, 0).key)
"""CRn and CRm of all SPE registers, under any op1."""
