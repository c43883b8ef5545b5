"""Instructions of an ELF file that a core lacks."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from spe_unicorn.cli import main
from spe_unicorn.cores.profile import load_core
from spe_unicorn.debug.advice.scanning import lines_of, scan

AS, LD = (shutil.which(f"aarch64-linux-gnu-{tool}") for tool in ("as", "ld"))
pytestmark = pytest.mark.skipif(AS is None or LD is None, reason="no binutils for AArch64")
SOURCE = """
        .arch   armv8.5-a+sve2+memtag
        .global _start
        .type   _start, %function
_start: mul     z1.s, z2.s, z3.s
        ldadd   w1, w2, [x3]
        bti     c
        mul     z4.s, z5.s, z6.s
        .word   0x04a36041              // data, which looks like MUL
        .size   _start, . - _start
        .type   tags, %function
tags:   stgm    x1, [x2]
        ret
        .size   tags, . - tags
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "a.s").write_text(SOURCE)
    subprocess.run([str(AS), "-o", tmp_path / "a.o", tmp_path / "a.s"], check=True)
    made = tmp_path / "a.elf"
    subprocess.run([str(LD), "-Ttext=0x40080000", "-o", made, tmp_path / "a.o"], check=True)
    return made


SVE2 = ("_start", "2", "MUL (vectors, unpredicated)")
MTE2 = ("tags", "1", "STGM")


@pytest.mark.parametrize(
    ("core", "expected"),
    [
        (
            "neoverse-n1",
            [
                (*SVE2, "neoverse-n1 has no SVE2", "0x40080000"),
                (*MTE2, "neoverse-n1 has no MTE2", "0x40080014"),
            ],
        ),
        ("neoverse-n2", []),
    ],
)
def test_what_a_core_lacks_is_told_by_function(
    program: Path, core: str, expected: list[tuple[str, ...]]
) -> None:
    """A hint is a NOP where it is not there, and data among code are none of it."""
    chosen = load_core(core)
    found = scan(program, chosen)
    assert found.operations == 6
    assert list(lines_of(found, chosen)) == expected


def test_the_exit_status_says_whether_some_are_lacking(program: Path) -> None:
    result = CliRunner().invoke(main, ["scan", str(program), "--core", "neoverse-v1"])
    assert result.exit_code == 1
    assert "_start  2  MUL (vectors, unpredicated)" in result.output
    assert result.output.endswith("3 of 6 instructions are lacking on neoverse-v1\n")
    assert CliRunner().invoke(main, ["scan", str(program), "--core", "none"]).exit_code == 2
    assert CliRunner().invoke(main, ["scan", "/nowhere.elf"]).exit_code == 2


def test_nothing_is_lacking_in_code_for_the_first_version(tmp_path: Path, program: Path) -> None:
    plain = tmp_path / "plain.elf"
    (tmp_path / "b.s").write_text(".global _start\n_start: nop\n ret\n")
    subprocess.run([str(AS), "-o", tmp_path / "b.o", tmp_path / "b.s"], check=True)
    subprocess.run([str(LD), "-o", plain, tmp_path / "b.o"], check=True)
    result = CliRunner().invoke(main, ["scan", str(plain), "--core", "neoverse-n1"])
    assert (result.exit_code, result.output) == (
        0,
        "0 of 2 instructions are lacking on neoverse-n1\n",
    )


@pytest.mark.parametrize(
    ("core", "fcma"),
    [
        ("neoverse-n1", "has it not  does not execute it"),
        ("neoverse-n1,strict=off", "has it not  executes it"),
    ],
)
def test_cores_tells_of_each_feature(core: str, fcma: str) -> None:
    result = CliRunner().invoke(main, ["cores", core])
    rows = {line.split()[0]: line.split(maxsplit=5) for line in result.output.splitlines() if line}
    where = ["FEAT_LSE", "Armv8.1", "ID_AA64ISAR0_EL1.Atomic", ">=", "2"]
    assert rows["FEAT_LSE"] == [*where, "has it      executes it"]
    assert rows["FEAT_FCMA"][5] == fcma
    assert rows["FEAT_BF16"][5] == "has it not  does not execute it"
    assert rows["FEAT_MOPS"][5] == "has it not  does not execute it"
