"""Every shipped program can be traced in every way, in the options that it is made for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from spe_unicorn.cli import main
from spe_unicorn.debug.trace import TRACERS
from spe_unicorn.machine.shipped import shipped_names
from tests.firmware.programs import MADE_FOR, TYPED, arguments

EACH = ("insn", "memory")
"""Kinds that look at each operation."""
OTHERS = tuple(kind for kind in TRACERS if kind not in EACH)
EACH_MOST, MOST = 4_000, 200_000
"""Operations after which a long program is left alone, where each is traced and where not."""
ENDS, LIMIT_STATUS = 0, 124
LINE = re.compile(r"(?:cpu \d )?\d+ (\w+) \S.*")


def traced(name: str, folder: Path, most: int = MOST) -> dict[str, list[str]]:
    """The lines of each kind of trace, while driver mistakes are watched for, too."""
    files = {kind: folder / f"{kind}.txt" for kind in TRACERS}
    for kinds, limit in ((EACH, EACH_MOST), (OTHERS, most)):
        options = [f"--trace={kind}:{files[kind]}" for kind in kinds]
        result = CliRunner().invoke(
            main,
            ["run", "-q", "--warn=misuse", f"--max-insns={limit}", *options, *arguments(name)],
            input=TYPED.get(name),
        )
        said = result.stdout[-2000:], result.stderr[-2000:]
        assert result.exit_code in (ENDS, LIMIT_STATUS), said
    return {kind: file.read_text().splitlines() for kind, file in files.items()}


@pytest.mark.sweep
@pytest.mark.parametrize("name", shipped_names())
def test_every_kind_of_trace_of_a_program_is_lines_of_that_kind(name: str, tmp_path: Path) -> None:
    for kind, lines in traced(name, tmp_path).items():
        for line in lines:
            match = LINE.fullmatch(line)
            assert match is not None, line
            assert match[1] == kind, line


def test_a_register_of_the_gic_is_traced_with_what_is_written_and_not_read_again(
    tmp_path: Path,
) -> None:
    found = traced("spe_irq_el1", tmp_path, 2_000_000)["sysreg"]
    lines = [line.partition(" EL1 ")[2] for line in found]
    assert "MSR ICC_IGRPEN1_EL1, 0x1 (Enable 1) allowed [EL1/register]" in lines
    acknowledged = [line for line in lines if line.startswith("MRS ICC_IAR1_EL1 ")]
    ended = [line for line in lines if line.startswith("MSR ICC_EOIR1_EL1, ")]
    # 21 is PMBIRQ. Another read of ICC_IAR1_EL1 would give 1023, a spurious interrupt.
    assert acknowledged
    assert len(acknowledged) == len(ended)
    assert all(line.endswith(": 0x15 (INTID 0x15)") for line in acknowledged)


def test_the_programs_that_need_options_are_shipped() -> None:
    assert set(MADE_FOR) | set(TYPED) <= set(shipped_names())
