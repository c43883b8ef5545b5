"""What GDB is told of the registers."""

from __future__ import annotations

import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from spe_unicorn.arch.registers.spe import PMSCR_EL1, SPE_REGISTERS
from spe_unicorn.arch.registers.system import SYSTEM_REGISTERS
from spe_unicorn.debug.gdb.description import describe, target_xml
from tests.support.running.processes import WALL_SECONDS, limit_cpu

GROUPS = [("spe", SPE_REGISTERS), ("system", SYSTEM_REGISTERS)]
GDB = shutil.which("gdb-multiarch")


def test_the_numbers_of_core_registers_are_those_that_gdb_expects() -> None:
    numbers = {r.name: r.number for r in describe([])}
    assert (numbers["x0"], numbers["x30"], numbers["sp"]) == (0, 30, 31)
    assert (numbers["pc"], numbers["cpsr"], numbers["v0"]) == (32, 33, 34)
    assert (numbers["fpsr"], numbers["fpcr"]) == (66, 67)


def test_with_sve_the_vectors_are_z_registers_and_predicates_an_eighth_of_them() -> None:
    sizes = {r.name: r.bits for r in describe([], vector_bits=256)}
    assert (sizes["z31"], sizes["p15"], sizes["ffr"], sizes["vg"]) == (256, 32, 32, 64)
    assert "v0" not in sizes


def test_the_numbers_of_sve_s_registers_are_those_that_gdb_expects() -> None:
    """GDB's arch/aarch64.h: 32 Z registers from 34 on, FPSR, FPCR, 16 predicates, FFR and VG."""
    numbers = {r.name: r.number for r in describe([], vector_bits=128)}
    assert [numbers[name] for name in ("z0", "z31", "fpsr", "fpcr")] == [34, 65, 66, 67]
    assert [numbers[name] for name in ("p0", "p15", "ffr", "vg")] == [68, 83, 84, 85]
    assert len(numbers) == 86


def test_gdb_is_told_of_what_parts_vectors_have() -> None:
    root = ElementTree.fromstring(target_xml(describe([], vector_bits=256)))
    counts = {v.get("id"): v.get("count") for v in root.iter("vector")}
    assert counts == {
        "svev_q": "2",
        "svev_d": "4",
        "svev_s": "8",
        "svev_h": "16",
        "svev_b": "32",
        "svep": "4",  # a bit for each byte of a vector, in bytes
    }


def test_a_flags_type_names_the_fields_from_the_lowest_bit_up() -> None:
    root = ElementTree.fromstring(target_xml(describe([("spe", (PMSCR_EL1,))])))
    flags = root.find(".//flags[@id='PMSCR_EL1_fields']")
    assert flags is not None
    assert [(f.get("name"), f.get("start"), f.get("end")) for f in flags][:4] == [
        *(("E0SPE", "0", "0"), ("E1SPE", "1", "1"), ("CX", "3", "3"), ("PA", "4", "4"))
    ]


@pytest.mark.skipif(GDB is None, reason="gdb-multiarch is not installed")
@pytest.mark.parametrize("vector_bits", [0, 128])
def test_gdb_reads_the_description_and_knows_the_group(tmp_path: Path, vector_bits: int) -> None:
    path = tmp_path / "target.xml"
    path.write_text(target_xml(describe(GROUPS, vector_bits)))
    done = subprocess.run(
        [
            *("gdb-multiarch", "-batch", "-nx", "-ex", f"set tdesc filename {path}"),
            *("-ex", "maint print reggroups", "-ex", "maint print registers"),
        ],
        capture_output=True,
        text=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )
    assert "warning" not in done.stderr.lower(), done.stderr
    assert re.search(r"^ *spe +user", done.stdout, re.MULTILINE)
    assert "PMBSR_EL1" in done.stdout
