"""Who may access the IMPLEMENTATION DEFINED registers of a core: S3_<op1>_C15_<Cm>_<op2>.

They are read as a constant, mostly zero, and ignore writes. A name ends with the lowest Exception
level that has it.
Not modelled: the bits of ACTLR_EL2 and ACTLR_EL3 by which EL1 may write some of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import new_class
from typing import Any, Final

from spe_unicorn.arch.access.accessors import NOT_AT_EL0, accessor, allowed, trap, undefined
from spe_unicorn.arch.access.checks import el2_bit
from spe_unicorn.arch.access.verdicts import Accessor
from spe_unicorn.arch.pe import EL1, EL2, EL3
from spe_unicorn.arch.registers.sysreg import Encoding, SysReg
from spe_unicorn.arch.registers.system import HCR_EL2
from spe_unicorn.bits import ReadOnly

_PLACE: Final = re.compile(r"S3_([0-7])_C(11|15)_C(\d|1[0-5])_([0-7])")
_NAME: Final = re.compile(r"[A-Z][A-Z0-9_]*_EL([123])")


def encoding_of(name: str, place: str) -> Encoding:
    """The encoding of a register, of its name and a text such as ``S3_0_C15_C1_4``.

    Raises ValueError for a name without a level, and for a place that the architecture does not
    leave to cores.
    """
    found = _PLACE.fullmatch(place)
    if found is None:
        raise ValueError(f"{name} = {place!r}: allowed are S3_0_C11_C0_0 to S3_7_C15_C15_7")
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{name}: a register's name ends with _EL1, _EL2 or _EL3")
    op1, crn, crm, op2 = map(int, found.groups())
    return Encoding(3, op1, crn, crm, op2)


def core_accessors(registers: Mapping[str, Encoding]) -> tuple[Accessor, ...]:
    """The accessors of a core's own registers, by their names."""
    return tuple(_accessor(name, encoding) for name, encoding in registers.items())


def _accessor(name: str, encoding: Encoding) -> Accessor:
    op = (encoding.op0, encoding.op1, encoding.crn, encoding.crm, encoding.op2)

    def body(namespace: dict[str, Any]) -> None:
        namespace["__doc__"] = "A register of the core's own, which ignores writes."
        namespace["Value"] = ReadOnly(63, 0)

    register: type[SysReg] = new_class(name, (SysReg,), {"op": op}, body)
    lowest = int(name[-1])
    from_el1 = (
        trap(EL1, EL2, "TIDCP", "HCR_EL2.TIDCP is 1", el2_bit(HCR_EL2, "TIDCP")),
        allowed(EL1, register),
    )
    levels = (
        NOT_AT_EL0,
        from_el1 if lowest == EL1 else (undefined("EL1", f"it is a register of EL{lowest}"),),
        (allowed(EL2, register),) if lowest <= EL2 else (undefined("EL2", "it is EL3's"),),
        (allowed(EL3, register),),
    )
    return accessor(register, read=levels, write=levels)


@dataclass(frozen=True)
class Constant:
    """What answers accesses to such a register: a ``host.ports.DeviceRegister``."""

    value: int

    def read(self) -> int:
        """What an MRS gives."""
        return self.value

    def write(self, value: int) -> None:
        """What an MSR does: nothing."""


def answers(
    accessors: Iterable[Accessor], values: Mapping[str, int]
) -> dict[type[SysReg], Constant]:
    """What answers at each of them; ``values`` are those that are not zero, by name."""
    return {
        a.register: Constant(values.get(a.name, 0)) for a in accessors if a.register is not None
    }
