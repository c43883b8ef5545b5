"""SIGTERM and SIGHUP, of commands that do not take them: what they began is ended."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from spe_unicorn.cli import Guarded

ENDED: list[Path] = []


@click.command()
@click.argument("number", type=int)
def begun(number: int) -> None:
    """A command that a signal ends while it has a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        ENDED.append(Path(folder))
        os.kill(os.getpid(), number)
        signal.sigtimedwait((), 60)


GROUP = Guarded(commands={"begun": begun})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_command_removes_its_folders_and_the_status_is_the_signal_s(
    number: signal.Signals,
) -> None:
    before = signal.getsignal(number)
    result = CliRunner().invoke(GROUP, ["begun", str(int(number))])
    assert result.exit_code == 128 + number
    assert not ENDED.pop().exists()
    assert signal.getsignal(number) is before


def test_under_nohup_sighup_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "sigtimedwait", lambda *_: None)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        result = CliRunner().invoke(GROUP, ["begun", str(int(signal.SIGHUP))])
    finally:
        signal.signal(signal.SIGHUP, before)
    assert result.exit_code == 0
    assert not ENDED.pop().exists()
