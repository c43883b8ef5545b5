"""Reads hand-written access matrices, ``data/*_order.txt``, and runs their combinations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path

from spe_unicorn.arch.access.spe import SPE_ACCESSORS
from spe_unicorn.arch.access.still import StillPE
from spe_unicorn.arch.access.verdicts import Allowed, NVMem, SysRegTable, Undefined, Verdict, access
from spe_unicorn.arch.features import Feature, ImpDef
from spe_unicorn.arch.registers.sysreg import SysReg

DATA = Path(__file__).parent / "data"
TABLE = SysRegTable(SPE_ACCESSORS)
NVX_BITS = ("nv2", "nv1", "nv")


@dataclass(frozen=True)
class Line:
    rule: str
    conditions: tuple[str, ...]
    outcome: str
    branch: str | None = None


@dataclass
class Section:
    title: str
    names: list[str]
    directions: str
    levels: list[int]
    absent: frozenset[Feature]
    given: list[str]
    lines: list[Line] = field(default_factory=list)
    also: list[str] = field(default_factory=list)

    def toggles(self) -> list[str]:
        """Every condition that the section names, once, in order of appearance."""
        found: dict[str, None] = {}
        for token in [c for line in self.lines for c in line.conditions] + self.also:
            if token.startswith("nvx="):
                found.update(dict.fromkeys(reversed(NVX_BITS)))
            else:
                found[token.lstrip("!")] = None
        return list(found)


def sections(text: str) -> list[Section]:
    found: list[Section] = []
    for raw in text.splitlines():
        words = raw.split()
        if not words or raw.startswith("#"):
            continue
        if words[0] == "section":
            found.append(_section(raw, words[1:]))
        elif words[0] == "also":
            found[-1].also = words[1:]
        else:
            branch = words.pop(0).strip("{}") if words[0].startswith("{") else None
            rule, *conditions = words
            outcome = conditions.pop()
            if conditions and conditions[-1] == "NVMem":
                outcome = f"{conditions.pop()} {outcome}"
            conditions = [] if conditions == ["-"] else conditions
            found[-1].lines.append(Line(rule, tuple(conditions), outcome, branch))
    return found


def _section(raw: str, words: list[str]) -> Section:
    names, directions, levels = words[:3]
    absent: list[str] = []
    given: list[str] = []
    into = absent
    for word in words[3:]:
        if word == "absent":
            into = absent
        elif word == "given":
            into = given
        else:
            into.append(word)
    return Section(
        raw.removeprefix("section "),
        names.split(","),
        directions,
        [int(level[2:]) for level in levels.split(",")],
        frozenset(Feature(name) for name in absent),
        given,
    )


@cache
def load_sections(matrix: str = "access_order.txt") -> tuple[Section, ...]:
    return tuple(sections((DATA / matrix).read_text()))


@cache
def load_conditions() -> tuple[dict[str, list[str]], dict[str, str]]:
    """Settings by condition, and the trapping setting of each register's fine-grained bit."""
    settings: dict[str, list[str]] = {}
    bits: dict[str, str] = {}
    for raw in (DATA / "access_conditions.txt").read_text().splitlines():
        words = raw.split()
        if not words or raw.startswith("#"):
            continue
        if words[0] == "bit":
            bits[words[1]] = words[2]
        else:
            settings.setdefault(words[0], []).extend(words[1:])
    return settings, bits


EVERYTHING = frozenset(Feature) - {Feature.FEAT_RME}


@cache
def _pe(features: frozenset[Feature], priority: bool) -> StillPE:
    return StillPE(features, ImpDef(el3_sdd_undef_priority=priority))


@cache
def _registers() -> dict[str, type[SysReg]]:
    return {r.__name__: r for r in _pe(EVERYTHING, False).registers}


def prepare(features: frozenset[Feature], el: int, settings: list[str]) -> StillPE:
    """A PE at ``el`` with the settings, ``REG.FIELD=V`` and the like, on top of zeroes."""
    pe = _pe(features, "PRIORITY=1" in settings)
    pe.el, pe.halted, pe.sdd = el, False, False
    values: dict[type[SysReg], SysReg] = {}
    for setting in settings:
        target, _, number = setting.partition("=")
        if target == "HALTED":
            pe.halted = True
        elif target == "EDSCR.SDD":
            pe.sdd = True
        elif target != "PRIORITY":
            name, _, field_name = target.partition(".")
            register = _registers()[name]
            old = values.get(register, register(0))
            values[register] = old.replace(**{field_name: int(number, 0)})
    for register in _STEERING:
        pe.registers.set_raw(_registers()[register], 0)
    for register_class, value in values.items():
        pe.registers.set_raw(register_class, value.value)
    return pe


_STEERING = (
    "SCR_EL3",
    "MDCR_EL3",
    "MDCR_EL2",
    "HCR_EL2",
    "HDFGRTR_EL2",
    "HDFGWTR_EL2",
    "HDFGRTR2_EL2",
    "HDFGWTR2_EL2",
    "HFGITR_EL2",
    "PMSCR_EL1",
    "PMSCR_EL2",
)


def spelled(verdict: Verdict) -> str:
    """A verdict in the words of the data file."""
    if isinstance(verdict, Allowed):
        return verdict.register.__name__
    if isinstance(verdict, Undefined):
        return "UNDEFINED"
    if isinstance(verdict, NVMem):
        return f"NVMem {verdict.offset:#x}"
    assert verdict.ec == 0x18
    return f"EL{verdict.target_el}"


def holds(condition: str, on: frozenset[str]) -> bool:
    if condition.startswith("nvx="):
        pattern = condition[4:]
        actual = "".join("1" if bit in on else "0" for bit in NVX_BITS) if "nv" in on else "000"
        return all(p in ("x", a) for p, a in zip(pattern, actual, strict=True))
    if condition.startswith("!"):
        return condition[1:] not in on
    return condition in on


@dataclass(frozen=True)
class Outcome:
    """One case: what the file expects and what the rules say."""

    case: str
    expected: tuple[str, str]
    actual: tuple[str, str]
    branch: str | None


def run(section: Section, table: SysRegTable = TABLE) -> Iterator[Outcome]:
    """Every combination of the section's conditions, for every name, direction and level."""
    settings, bits = load_conditions()
    toggles = section.toggles()
    features = EVERYTHING - section.absent
    for name, direction, el in product(section.names, section.directions, section.levels):
        accessor = table.named(name)
        assert accessor is not None
        place = {
            "{HDFG}": "HDFGRTR_EL2" if direction == "r" else "HDFGWTR_EL2",
            "{HDFG2}": "HDFGRTR2_EL2" if direction == "r" else "HDFGWTR2_EL2",
            "{BIT}": bits.get(name, ""),
        }
        for choice in product((False, True), repeat=len(toggles)):
            on = frozenset(t for t, chosen in zip(toggles, choice, strict=True) if chosen)
            wanted = [*settings["base"], *section.given]
            for condition in toggles:
                if condition in on:
                    wanted += [_fill(s, place) for s in settings[condition]]
            pe = prepare(features, el, wanted)
            verdict = access(pe, accessor, read=direction == "r")
            line = next(one for one in section.lines if all(holds(c, on) for c in one.conditions))
            outcome = name if line.outcome == "$" else line.outcome
            yield Outcome(
                f"{name} {direction} EL{el} {sorted(on)}",
                (line.rule.replace("$EL", f"EL{el}"), outcome),
                (verdict.rule.name, spelled(verdict)),
                line.branch,
            )


def _fill(setting: str, place: dict[str, str]) -> str:
    for mark, text in place.items():
        setting = setting.replace(mark, text)
    return setting
