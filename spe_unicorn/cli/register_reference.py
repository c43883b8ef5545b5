"""The reference of registers, ``docs/reference/registers.md``, from their declarations.

``python -m spe_unicorn.cli.register_reference docs/reference/registers.md`` writes it anew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from spe_unicorn.arch.access.caches import CACHE_ACCESSORS
from spe_unicorn.arch.access.debug import FIRST_ACCESSORS
from spe_unicorn.arch.access.identity import IDENTITY_ACCESSORS
from spe_unicorn.arch.access.pmu import pmu_accessors
from spe_unicorn.arch.access.spe import SPE_ACCESSORS, STEERING_ACCESSORS
from spe_unicorn.arch.access.verdicts import Accessor
from spe_unicorn.arch.registers.pmu import MOST_COUNTERS
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.cli import register_text

_HEAD = """\
# Registers

Generated from the declarations; do not edit. `spe-unicorn regs NAME` shows the same for one core,
and `spe-unicorn regs NAME --at EL1 --with REG.FIELD=V,...` explains one access.

A field that a core's features do not bring is RES0 there. UNKNOWN reset values are drawn from the
seed. Only accesses to the registers on this page obey HCR_EL2.{NV,NV1,NV2}: the engine has no
nested virtualisation. Access rules are tried in their order; the first that holds decides. A trap
with EC 0x18 has the encoding, the direction and Rt in its ISS, and returns to the instruction.
"""


_EVENT_COUNTERS: Final = 6
"""Of a core whose profile does not say."""
_FURTHER: Final = {
    f"PMEV{kind}{n}_EL0" for kind in ("CNTR", "TYPER") for n in range(1, MOST_COUNTERS)
}
_MONITORS: Final = tuple(a for a in pmu_accessors(_EVENT_COUNTERS) if a.name not in _FURTHER)
_GROUPS: Final = (
    ("SPE", SPE_ACCESSORS),
    ("What steers SPE", STEERING_ACCESSORS),
    ("The PE and its caches", (*IDENTITY_ACCESSORS, *CACHE_ACCESSORS)),
    (
        f"Performance Monitors, number 0 of the {_EVENT_COUNTERS} event counters' registers",
        _MONITORS,
    ),
    ("Debug, number 0 of each breakpoint and watchpoint register", FIRST_ACCESSORS),
)


def register_reference() -> str:
    """The whole page, in Markdown."""
    return "\n".join((_HEAD, *_overview(), *_details())) + "\n"


def _overview() -> Iterator[str]:
    for title, accessors in _GROUPS:
        yield f"## {title}"
        yield ""
        yield from _table(
            ("Name", "Encoding", "MRS X0", "MSR X0", "", "Needs", ""),
            (
                (
                    a.name,
                    str(a.encoding),
                    "-" if a.read is None else f"{a.encoding.instruction(0, read=True):08X}",
                    "-" if a.write is None else f"{a.encoding.instruction(0, read=False):08X}",
                    register_text.directions(a),
                    register_text.needs(a),
                    register_text.summary(a),
                )
                for a in accessors
            ),
        )
        yield ""


def _details() -> Iterator[str]:
    for accessor in (a for _, accessors in _GROUPS for a in accessors):
        yield f"## {accessor.name}"
        yield ""
        register = accessor.register
        if register is not None and accessor.name == register.__name__:
            yield f"{_paragraph(register)}"
            yield ""
            yield from _table(
                ("Bits", "Name", "Reset", "Meaning"), register_text.field_rows(register, None)
            )
        else:
            yield f"{register_text.summary(accessor)}."
        yield ""
        yield from _access(accessor)


def _paragraph(register: type[SysReg]) -> str:
    return " ".join((register.__doc__ or "").split())


def _access(accessor: Accessor) -> Iterator[str]:
    for el in range(4):
        yield f"At EL{el}:"
        yield ""
        yield from (
            f"{number}. {line}" for number, line in enumerate(register_text.steps(accessor, el), 1)
        )
        yield ""


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    yield from (f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(register_reference(), encoding="utf-8")
