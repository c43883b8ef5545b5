"""``spe-unicorn linux``: what is refused before anything is fetched or booted."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from spe_unicorn.cli import main
from spe_unicorn.machine.shipped import shipped_firmware
from tests.support.small_programs import printing, program

FIRMWARE = str(shipped_firmware("hello"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--add", "nowhere"), "no file and no folder is called 'nowhere'"),
        (("--add", f"{Path(__file__).name}:etc"), "'etc' is no path in the guest"),
        (("--add", f"{Path(__file__).name}:/a/../b"), "'/a/../b' is no path in the guest"),
        (("--kernel", "k", "--busybox", "nowhere"), "'nowhere' does not exist"),
        (("--kernel", Path(__file__).name), "is no kernel: give arch/arm64/boot/Image"),
        (("--kernel", "nowhere"), "nowhere: No such file or directory"),
        (("--kernel", "."), ".: is a directory, not a file"),
        (
            ("--kernel", FIRMWARE, "--busybox", Path(__file__).name, "--module", "mine"),
            "no module mine in any folder: --modules names one",
        ),
    ],
)
def test_a_wrong_command_line_is_refused(
    words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    done = CliRunner().invoke(main, ["linux", *words, "--", "true"])
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())


def test_a_guest_that_says_it_told_its_names_and_did_not_runs_on(tmp_path: Path) -> None:
    kernel = program(tmp_path, printing("=== copied /proc/kallsyms\r\n=== exit status 3\r\n"))
    words = ("--kernel", kernel, "--busybox", "none", "--warn", "misuse")
    done = CliRunner().invoke(main, ["linux", *words, "--", "true"])
    assert done.exit_code == 3
    assert "the guest does not tell its kernel's names: " in done.output


def test_names_of_a_file_that_is_not_there_are_refused_before_the_boot(tmp_path: Path) -> None:
    kernel = program(tmp_path, printing("=== copied /proc/kallsyms\r\n"))
    words = ("--kernel", kernel, "--busybox", "none", "--warn", "misuse", "--symbols", "vmlinux")
    done = CliRunner().invoke(main, ["linux", *words, "--", "true"])
    assert done.exit_code == 2
    assert "vmlinux" in done.output
    assert "===" not in done.output
