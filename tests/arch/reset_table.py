"""Reads the hand-written table of reset values, ``data/reset_values.txt``."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from pathlib import Path

from spe_unicorn.arch.registers.aarch32_id import AARCH32_ID_REGISTERS
from spe_unicorn.arch.registers.caches import CACHE_REGISTERS, CSSELR_EL1
from spe_unicorn.arch.registers.debug import DEBUG_REGISTERS
from spe_unicorn.arch.registers.identity import IDENTITY_REGISTERS
from spe_unicorn.arch.registers.known import REGISTERS
from spe_unicorn.arch.registers.pmu import PMU_REGISTERS
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import CPTR_EL2, TTBR1_EL2
from spe_unicorn.arch.registers.timer import TIMER_REGISTERS
from spe_unicorn.bits import Field, Res0, Res1

TABLE = Path(__file__).parent / "data" / "reset_values.txt"
DECLARED = {
    register.__name__: register
    for register in (
        *(*REGISTERS, *PMU_REGISTERS, *DEBUG_REGISTERS, *TIMER_REGISTERS, *IDENTITY_REGISTERS),
        *(*CACHE_REGISTERS, CSSELR_EL1, *AARCH32_ID_REGISTERS, CPTR_EL2, TTBR1_EL2),
    )
}
"""Every register of ``arch.registers``, by name."""


def fields_of(register: type[SysReg]) -> list[Field]:
    """All fields that are not reserved."""
    return [field for field in register.fields if not isinstance(field, (Res0, Res1))]


def numbered(name: str) -> list[str]:
    """The registers that a name of the table stands for."""
    pattern = re.compile(re.escape(name).replace("<n>", r"\d+"))
    return [declared for declared in DECLARED if pattern.fullmatch(declared)] or [name]


@cache
def reset_table() -> dict[str, dict[str, str]]:
    """What the manual says of each field, by register and field. A field has one row."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for line in TABLE.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        row, says, *names = line.split()
        for register in numbered(row):
            for name in names:
                if found[register].setdefault(name, says) != says:
                    raise ValueError(f"{register}.{name} has two rows")
    return dict(found)


def says_of(register: type[SysReg], field: Field) -> str | None:
    """What the table says of a field; None where it has no row."""
    rows = reset_table().get(register.__name__, {})
    return rows.get(field.name, rows.get("*"))
