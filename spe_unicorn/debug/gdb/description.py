"""The target description: which registers there are, and their fields, as GDB's XML has it.

The first features have the names and the order that GDB prescribes for AArch64 (GDB manual,
"AArch64 Features"). The features after them are ours. There is one for each group, so that ``info
registers spe`` shows SPE's registers, and each register has a flags type, so that GDB prints fields
by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from xml.sax.saxutils import quoteattr

from spe_unicorn.arch.registers.sysreg import SysReg


@dataclass(frozen=True, slots=True)
class Described:
    """One register as GDB knows it. ``number`` is GDB's, ``bits`` its size."""

    number: int
    name: str
    bits: int
    feature: str
    kind: str
    group: str = ""
    sysreg: type[SysReg] | None = None


CORE = "org.gnu.gdb.aarch64.core"
FPU = "org.gnu.gdb.aarch64.fpu"
SVE = "org.gnu.gdb.aarch64.sve"
OURS = "org.spe-unicorn."
"""Features of ours are this and the name of the group."""

_CPSR = (
    (31, "N"),
    (30, "Z"),
    (29, "C"),
    (28, "V"),
    (22, "PAN"),
    (21, "SS"),
    (20, "IL"),
    (9, "D"),
    (8, "A"),
    (7, "I"),
    (6, "F"),
)
_TYPES = {
    CORE: [
        '<flags id="cpsr_flags" size="4">',
        '  <field name="SP" start="0" end="0"/>',
        '  <field name="EL" start="2" end="3"/>',
        *(f'  <field name="{name}" start="{bit}" end="{bit}"/>' for bit, name in _CPSR[::-1]),
        "</flags>",
    ],
    FPU: [
        '<vector id="v2d" type="ieee_double" count="2"/>',
        '<vector id="v2u" type="uint64" count="2"/>',
        '<vector id="v4f" type="ieee_single" count="4"/>',
        '<vector id="v4u" type="uint32" count="4"/>',
        '<vector id="v8u" type="uint16" count="8"/>',
        '<vector id="v16u" type="uint8" count="16"/>',
        '<vector id="v1u" type="uint128" count="1"/>',
        '<union id="aarch64v">',
        '  <field name="d" type="v2d"/>',
        '  <field name="du" type="v2u"/>',
        '  <field name="f" type="v4f"/>',
        '  <field name="s" type="v4u"/>',
        '  <field name="h" type="v8u"/>',
        '  <field name="b" type="v16u"/>',
        '  <field name="q" type="v1u"/>',
        "</union>",
    ],
}


def describe(
    groups: Iterable[tuple[str, Iterable[type[SysReg]]]], vector_bits: int = 0
) -> tuple[Described, ...]:
    """The registers of a PE in the order of their numbers.

    ``groups`` are names and System registers; ``vector_bits`` is the vector length of SVE, 0
    without it.
    """
    found: list[Described] = []

    def add(name: str, bits: int, feature: str, kind: str, **more: object) -> None:
        found.append(Described(len(found), name, bits, feature, kind, **more))  # type: ignore[arg-type]

    for n in range(31):
        add(f"x{n}", 64, CORE, "int")
    add("sp", 64, CORE, "data_ptr")
    add("pc", 64, CORE, "code_ptr")
    add("cpsr", 32, CORE, "cpsr_flags")
    if vector_bits:
        for n in range(32):
            add(f"z{n}", vector_bits, SVE, "svev")
        add("fpsr", 32, SVE, "int", group="float")
        add("fpcr", 32, SVE, "int", group="float")
        for n in range(16):
            add(f"p{n}", vector_bits // 8, SVE, "svep")
        add("ffr", vector_bits // 8, SVE, "svep", group="vector")
        add("vg", 64, SVE, "int")
    else:
        for n in range(32):
            add(f"v{n}", 128, FPU, "aarch64v")
        add("fpsr", 32, FPU, "int", group="float")
        add("fpcr", 32, FPU, "int", group="float")
    for group, registers in groups:
        for register in registers:
            name = register.__name__
            add(name, 64, OURS + group, f"{name}_fields", group=group, sysreg=register)
    return tuple(found)


def target_xml(registers: Iterable[Described]) -> str:
    """``target.xml`` for GDB: one document, a feature for each run of registers."""
    registers = tuple(registers)
    lines = [
        '<?xml version="1.0"?>',
        '<!DOCTYPE target SYSTEM "gdb-target.dtd">',
        '<target version="1.0">',
        "  <architecture>aarch64</architecture>",
    ]
    for feature in dict.fromkeys(r.feature for r in registers):
        mine = [r for r in registers if r.feature == feature]
        lines.append(f"  <feature name={quoteattr(feature)}>")
        types = _TYPES.get(feature, []) if feature != SVE else _sve_types(mine[0].bits)
        lines += [f"    {line}" for line in types]
        for register in mine:
            if register.sysreg is not None:
                lines += [f"    {line}" for line in _flags(register.kind, register.sysreg)]
        for register in mine:
            group = f" group={quoteattr(register.group)}" if register.group else ""
            save = ' save-restore="no"' if register.sysreg is not None else ""
            lines.append(
                f'    <reg name="{register.name}" bitsize="{register.bits}"'
                f' type="{register.kind}" regnum="{register.number}"{group}{save}/>'
            )
        lines.append("  </feature>")
    return "\n".join([*lines, "</target>", ""])


def _flags(name: str, register: type[SysReg]) -> list[str]:
    """A flags type: GDB wants fields from the lowest bit up; reserved ones have no name."""
    named = sorted((f for f in register.fields if not _reserved(f.name)), key=lambda f: f.lsb)
    spans = [(f.name, f.lsb, f.msb) for f in named] or [("", 0, 63)]
    fields = [f'  <field name="{field}" start="{lsb}" end="{msb}"/>' for field, lsb, msb in spans]
    return [f'<flags id="{name}" size="8">', *fields, "</flags>"]


def _reserved(name: str) -> bool:
    return name.startswith(("RES0", "RES1"))


def _sve_types(bits: int) -> list[str]:
    """The types that GDB expects of Z and P registers of that many bits."""
    sizes = (
        ("q", "uint128", 128),
        ("d", "uint64", 64),
        ("s", "uint32", 32),
        ("h", "uint16", 16),
        ("b", "uint8", 8),
    )
    vectors = [
        f'<vector id="svev_{letter}" type="{kind}" count="{bits // size}"/>'
        for letter, kind, size in sizes
    ]
    fields = [f'  <field name="{letter}" type="svev_{letter}"/>' for letter, _, _ in sizes]
    return [
        *vectors,
        '<union id="svev">',
        *fields,
        "</union>",
        f'<vector id="svep" type="uint8" count="{bits // 64}"/>',
    ]
