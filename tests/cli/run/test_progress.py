from __future__ import annotations

import io

import pytest

from spe_unicorn.cli.run import progress
from spe_unicorn.cli.run.progress import Progress, short


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that pass when a test says so."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (999.7, "1k"),
        (12345, "12.3k"),
        (2e6, "2M"),
        (1.5e9, "1.5G"),
        (7e13, "70T"),
    ],
)
def test_numbers_are_shortened_to_three_digits(number: float, text: str) -> None:
    assert short(number) == text


def test_a_short_run_shows_no_line(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    line = Progress()
    clock[0] += 0.4
    line.update(1000, 1)
    assert terminal.getvalue() == ""


def test_the_line_is_drawn_over_itself_and_taken_away(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    line = Progress()
    clock[0] += 2
    line.update(4_000_000, 12)
    first = "4M operations, 2M/s, 12 samples"
    assert terminal.getvalue() == f"\r{first}"
    line.update(5_000_000, 13)  # no time has passed
    assert terminal.getvalue() == f"\r{first}"
    line.hide()
    line.hide()
    assert terminal.getvalue() == f"\r{first}\r{' ' * len(first)}\r"


def test_nothing_is_drawn_where_there_is_no_terminal(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = io.StringIO()
    monkeypatch.setattr("sys.stderr", file)
    line = Progress()
    clock[0] += 2
    line.update(1000, 1)
    line.hide()
    assert file.getvalue() == ""
