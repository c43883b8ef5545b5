from __future__ import annotations

from pathlib import Path

import pytest

import spe_unicorn
from spe_unicorn.signals import Signal


def test_listeners_are_told_in_the_order_in_which_they_came():
    signal: Signal[[int]] = Signal()
    told: list[str] = []
    signal.connect(lambda n: told.append(f"first {n}"))
    signal.connect(lambda n: told.append(f"second {n}"))
    signal(7)
    assert told == ["first 7", "second 7"]


def test_a_listener_that_was_taken_off_hears_no_more():
    signal: Signal[[int]] = Signal()
    told: list[int] = []
    stop = signal.connect(told.append)
    signal(1)
    stop()
    stop()
    signal(2)
    assert told == [1]


def test_one_function_that_listens_twice_is_taken_off_once():
    signal: Signal[[int]] = Signal()
    told: list[int] = []
    stop = signal.connect(told.append)
    signal.connect(told.append)
    stop()
    signal(1)
    assert told == [1]


def test_a_signal_is_true_while_somebody_listens():
    signal: Signal[[]] = Signal()
    assert not signal
    stop = signal.connect(lambda: None)
    assert signal
    stop()
    assert not signal


def test_who_leaves_while_others_are_told_takes_nobody_along():
    signal: Signal[[]] = Signal()
    told: list[str] = []

    def leaves() -> None:
        told.append("leaves")
        stop()

    stop = signal.connect(leaves)
    signal.connect(lambda: told.append("stays"))
    signal()
    signal()
    assert told == ["leaves", "stays", "stays"]


def test_what_a_listener_raises_is_seen_by_who_tells():
    signal: Signal[[]] = Signal()

    def fails() -> None:
        raise ZeroDivisionError

    signal.connect(fails)
    with pytest.raises(ZeroDivisionError):
        signal()


def test_what_is_part_of_a_machine_is_wired_and_not_an_observer():
    """An observer is told nothing where a machine goes again where it has been."""
    root = Path(spe_unicorn.__file__).parent
    rooms = ("arch", "cores", "decode", "devices", "host", "machine", "pmu", "spe", "symbols")
    files = [file for room in rooms for file in (root / room).rglob("*.py")]
    assert [file.name for file in files if ".connect(" in file.read_text()] == []


def test_observers_hear_nothing_while_a_signal_is_muted():
    signal: Signal[[int]] = Signal()
    heard, wired = [], []
    signal.connect(heard.append)
    signal.wire(wired.append)
    signal.mute(True)
    signal(1)
    signal.mute(False)
    signal(2)
    assert (heard, wired) == ([2], [1, 2])
