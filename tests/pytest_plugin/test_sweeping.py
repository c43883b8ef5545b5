"""Tests with an interrupt before each operation of a window: what races with it fails, by place."""

from __future__ import annotations

from pathlib import Path

import pytest

from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.pytest_plugin import elf as elf_tests
from spe_unicorn.pytest_plugin import evidence, machine, sweeping

pytest_plugins = ["pytester"]
IMPORTED = (elf_tests, evidence, machine, sweeping)
"""Imported before pytest runs within pytest: numpy can be imported only once in a process."""


def test_a_marked_test_fails_where_the_interrupt_matters(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")  # one process
    Path(pytester.path / "planted.elf").symlink_to(shipped_firmware("planted"))
    pytester.makepyfile("""
        import pytest

        @pytest.mark.spe_interrupt_sweep("30,share-share+0x30")
        @pytest.mark.parametrize("mistake", ["none", "race"])
        def test_share(spe_run, mistake):
            spe_run("planted.elf", arguments=(mistake,))

        @pytest.mark.spe_interrupt_sweep("30,nowhere-share")
        def test_window(spe_run):
            spe_run("planted.elf")
    """)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist")
    result.assert_outcomes(passed=1, failed=2)
    text = result.stdout.str()
    assert "INTID 30 before 0x" in text
    assert "<share+" in text
    assert "not ok 3 - nothing of the counter was lost" in text
    assert "  repeat: spe-unicorn run " in text
    assert "spe_interrupt_sweep: planted.elf has no symbol 'nowhere'" in text
