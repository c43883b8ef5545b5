"""What docs/reference/neoverse.md says of registers: the profiles say it, and guests read it."""

from __future__ import annotations

import re
from dataclasses import astuple
from pathlib import Path
from typing import Final

import pytest

from spe_unicorn.arch.registers import id as ids
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.cores.profile import Core, load_core
from tests.support import a64 as a
from tests.support.small_boards import board_at

PAGE = Path(__file__).parents[2] / "docs/reference/neoverse.md"
CORES: Final = ("neoverse-n1", "neoverse-v1", "neoverse-n2", "neoverse-v2")
ENGINES: Final = "the engine's"
MANUAL: Final[tuple[type[SysReg], ...]] = (
    ids.ID_AA64PFR0_EL1,
    ids.ID_AA64PFR1_EL1,
    ids.ID_AA64ISAR0_EL1,
    ids.ID_AA64ISAR1_EL1,
    ids.ID_AA64MMFR0_EL1,
    ids.ID_AA64MMFR1_EL1,
    ids.ID_AA64MMFR2_EL1,
)


def rows() -> dict[str, list[str]]:
    """The first table's rows, by what stands first in them."""
    table = PAGE.read_text().partition("## Registers")[2].partition("## Records")[0]
    cells = [line.strip("|").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return {name.strip(): [value.strip() for value in values] for name, *values in cells}


def cell(name: str, core: str) -> str:
    """What the page says of a core; "as V1" stands for what it says there."""
    row = rows()[name]
    found = row[CORES.index(core)]
    if found.startswith("as "):
        return cell(name, f"neoverse-{found.split()[1].strip(',').lower()}")
    return found


def read(core: Core, registers: tuple[type[SysReg], ...]) -> dict[type[SysReg], int]:
    """What a guest at EL1 reads."""
    code = [a.mrs(n, astuple(register.encoding)) for n, register in enumerate(registers)]
    board = board_at([*code, a.b(0)], el=1, core=core)
    board.run(len(code))
    return {register: board.cpu.engine.x(n) for n, register in enumerate(registers)}


@pytest.mark.parametrize("name", CORES)
def test_the_page_has_the_profiles_numbers(name: str) -> None:
    core = load_core(name)
    manual = dict(core.impdef.identity)
    assert int(cell("MIDR_EL1", name).split()[0], 16) == core.midr
    assert int(cell("PMBIDR_EL1.Align", name)) == core.impdef.align
    said = {key: int(value) for key, value in re.findall(r"(\w+) (\d+)", cell("PMSIDR_EL1", name))}
    assert said == {
        "MaxSize": core.impdef.max_size,
        "CountSize": core.impdef.count_size,
        "Interval": core.impdef.interval,
    }
    for register in MANUAL:
        text = cell(register.__name__, name)
        value = manual.get(register.__name__)
        assert value is None if text == ENGINES else value == int(text, 16), register
    assert manual["CLIDR_EL1"] == int(cell("CLIDR_EL1", name).partition(":")[0], 16)
    found = int(cell("CPUECTLR_EL1", name), 16)
    assert core.register_values.get("CPUECTLR_EL1", 0) == found


def test_guests_read_the_manuals_values_but_for_the_fields_that_the_page_names() -> None:
    different: dict[type[SysReg], set[str]] = {register: set() for register in MANUAL}
    for name in CORES:
        core = load_core(name)
        manual = dict(core.impdef.identity)
        for register, value in read(core, MANUAL).items():
            said, found = register(manual.get(register.__name__, value)), register(value)
            names = (field.name for field in register.fields)
            different[register] |= {n for n in names if getattr(said, n) != getattr(found, n)}
    for register in MANUAL:
        words = set(re.findall(r"\w+", rows()[register.__name__][-1]))
        named = words & {field.name for field in register.fields}
        assert different[register] == named, register


@pytest.mark.parametrize("name", CORES)
def test_a_guest_reads_the_versions_that_the_page_has(name: str) -> None:
    found = read(load_core(name), (ids.ID_AA64DFR0_EL1,))[ids.ID_AA64DFR0_EL1]
    debug = ids.ID_AA64DFR0_EL1(found)
    versions = [int(number) for number in re.findall(r"\d+", cell("ID_AA64DFR0_EL1", name))]
    assert versions == [debug.DebugVer, debug.PMUVer, debug.PMSVer]
    assert (debug.TraceVer, debug.TraceFilt) == (0, 0)
