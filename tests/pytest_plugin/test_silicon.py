"""Tests on several implementations: each choice that a test cannot bear is named alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.pytest_plugin import elf as elf_tests
from spe_unicorn.pytest_plugin import evidence, machine, silicon

pytest_plugins = ["pytester"]
IMPORTED = (elf_tests, evidence, machine, silicon)
"""Imported before pytest runs within pytest: numpy can be imported only once in a process."""


@pytest.fixture
def folder(pytester: pytest.Pytester) -> pytest.Pytester:
    Path(pytester.path / "hello.elf").symlink_to(shipped_firmware("hello"))
    return pytester


def run(folder: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return folder.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist", *arguments)


def test_a_marked_test_runs_on_each_and_names_the_one_choice(folder: pytest.Pytester) -> None:
    folder.makepyfile("""
        import pytest

        @pytest.mark.spe_silicon(runs=6, only=["count_size", "altclk", "packet_order"])
        def test_counters(spe_machine):
            assert spe_machine("hello.elf", core="max").registers.PMSIDR_EL1.CountSize == 3

        @pytest.mark.spe_silicon(runs=2)
        def test_hello(spe_run):
            assert spe_run("hello.elf", core="max").exit_status == 0
    """)
    result = run(folder)
    outcomes = result.parseoutcomes()
    assert outcomes["passed"] + outcomes["failed"] == 8
    assert 1 <= outcomes["failed"] <= 6
    text = result.stdout.str()
    assert "\nmax,count_size=2\nchoice: count_size\n  rule: D24.7, PMSIDR_EL1.CountSize" in text
    assert "choice: altclk" not in text
    assert "choice: packet_order" not in text


def test_a_test_that_fails_on_the_usual_machine_says_so(folder: pytest.Pytester) -> None:
    folder.makepyfile("""
        import pytest

        @pytest.mark.spe_silicon(runs=1)
        def test_wrong(spe_run):
            assert spe_run("hello.elf", core="max").exit_status == 7
    """)
    assert "it fails without any choice as well" in run(folder).stdout.str()


@pytest.mark.parametrize("asked", ["runs=0", "only=['late']", "times=3", "3"])
def test_a_mark_that_cannot_be_meant_so_is_a_sentence(folder: pytest.Pytester, asked: str) -> None:
    folder.makepyfile(f"""
        import pytest

        @pytest.mark.spe_silicon({asked})
        def test_hello(spe_run):
            pass
    """)
    result = run(folder)
    assert result.ret == pytest.ExitCode.INTERRUPTED or result.ret == pytest.ExitCode.USAGE_ERROR
    assert "test_hello: spe_silicon: " in result.stdout.str() + result.stderr.str()


def test_files_are_tried_as_one_more_test(folder: pytest.Pytester) -> None:
    result = run(folder, "--spe-elf", "hello.elf", "--spe-silicon", "2", "-v")
    result.assert_outcomes(passed=2)
    assert "hello.elf::silicon PASSED" in result.stdout.str()
