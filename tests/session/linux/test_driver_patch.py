"""docs/how-to/linux.md, from an installation to a failing test of a driver's patch, as it stands.

The patch is a mistake that silicon may keep to itself: the driver does not wait for its records. It
is made in Debian's driver, whose PSB CSYNC instructions become NOP, so that no kernel is built.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from spe_unicorn.session.linux.archive import fetch
from spe_unicorn.session.linux.planned import Wanted

HOW_TO = Path(__file__).parents[3] / "docs/how-to/linux.md"
SIGNED = b"~Module signature appended~\n"
PSB_CSYNC, NOP = bytes.fromhex("3f2203d5"), bytes.fromhex("1f2003d5")


def commands() -> list[str]:
    """The commands of the section, one a string; a here-document belongs to its own."""
    text = HOW_TO.read_text().partition("## A test of your driver")[2]
    block = re.search(r"```sh\n(.*?)```", text, re.S)
    assert block is not None
    found = re.findall(r"^(?:cat >.*?^END$|(?:[^\n]*\\\n)*[^\n]+)$", block.group(1), re.S | re.M)
    assert len(found) == 5
    return found


def unsigned(module: bytes) -> bytes:
    """A module without the signature at its end: 12 bytes, of which the last four are its size."""
    if not module.endswith(SIGNED):
        return module
    end = len(module) - len(SIGNED)
    return module[: end - 12 - int.from_bytes(module[end - 4 : end], "big")]


@pytest.mark.slow
@pytest.mark.parametrize("planted", [True, False])
def test_the_planted_mistake_fails_and_the_driver_as_it_was_does_not(
    tmp_path: Path, planted: bool
) -> None:
    packages = fetch(Wanted().folder / "kernel", "bookworm", ("standard",), ("busybox-static",))
    module = unsigned(packages.module("standard", "arm_spe_pmu").read_bytes())
    assert module.count(PSB_CSYNC) == 2
    driver = tmp_path / "linux/drivers/perf/arm_spe_pmu.ko"
    driver.parent.mkdir(parents=True)
    driver.write_bytes(module.replace(PSB_CSYNC, NOP) if planted else module)
    image = tmp_path / "linux/arch/arm64/boot/Image"
    image.parent.mkdir(parents=True)
    image.symlink_to(packages.kernel("standard").resolve())
    said = ""
    for command in commands()[2:]:  # after pip and make
        ours = re.sub(r"^spe-unicorn", f"{sys.executable} -m spe_unicorn", command)
        done = subprocess.run(ours, shell=True, cwd=tmp_path, capture_output=True, text=True)
        said += done.stdout
        assert done.returncode == (1 if planted and "--matrix" in command else 0), done.stderr
    assert ("not ok 1 - spe_client" in said) == planted
    assert ("SPE is misused: write-before-drain" in said) == planted
    results = (tmp_path / "results.xml").read_text()
    assert f'failures="{2 if planted else 0}"' in results
