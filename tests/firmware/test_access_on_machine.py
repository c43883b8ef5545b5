"""The access rules on the machine, against rows written by hand in ``firmware/spe_access.c``."""

from __future__ import annotations

import re

import pytest

from spe_unicorn import Machine
from spe_unicorn.machine.shipped import shipped_firmware

PROGRAM = "spe_access"

CORES = {
    "generic": ("# PMSVer 3; FnE VHE FGT", 4000),
    "max": ("# PMSVer 6; FnE FDS nVM EXC VHE FGT FGT2 NV2", 6000),
    "minimal": ("# PMSVer 1;", 1600),
    "neoverse-n1": ("# PMSVer 1; VHE", 1900),
    "neoverse-v2": ("# PMSVer 2; VHE NV2", 2300),
}
"""What the program finds implemented, and how many cases it then tries at least."""


def run_at_el3(core_name: str) -> tuple[int | None, str]:
    """The exit status and the console of the program, started at EL3."""
    machine = Machine(shipped_firmware(PROGRAM), core=core_name, el=3)
    return machine.run().exit_status, machine.console.text


@pytest.mark.sweep
@pytest.mark.parametrize("core", CORES)
def test_every_access_does_what_its_row_says(core: str, capsys: pytest.CaptureFixture[str]) -> None:
    features, least = CORES[core]
    status, text = run_at_el3(core)
    lines = text.splitlines()
    assert [line for line in lines if line.startswith("not ok")] == [], _without_good(lines)
    assert status == 0, text[-2000:]
    assert features in lines
    good = [line for line in lines if line.startswith("ok ")]
    assert lines[-1] == f"1..{len(good)}"
    (cases,) = (int(n) for n in re.findall(r"^# (\d+) cases$", text, re.MULTILINE))
    assert cases == sum(int(n) for n in re.findall(r"^ok \d+ - (\d+) cases at", text, re.MULTILINE))
    assert cases >= least
    with capsys.disabled():
        print(f"\n{PROGRAM} on {core}: {cases} cases in {len(good)} groups")


def _without_good(lines: list[str]) -> str:
    return "\n".join(line for line in lines if not line.startswith("ok "))
