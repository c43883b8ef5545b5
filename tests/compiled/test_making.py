"""Machine code while it is made: its time, and the check before each function."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.compiled import checked, entry, making, prepared, seconds_spent
from tests.support.running.processes import WALL_SECONDS


class EnoughError(Exception):
    """What a check raises in these tests."""


def enough() -> None:
    raise EnoughError


@pytest.fixture(autouse=True)
def nothing_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is in the cache, nor in the package."""
    monkeypatch.setenv("SPE_UNICORN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(prepared, "PLACE", tmp_path / "none")


def test_a_check_keeps_the_next_function_from_being_made() -> None:
    @entry("int64", "int64")
    def plus_one(number: Any) -> Any:
        return number + 1

    with checked(enough), pytest.raises(EnoughError):
        _ = plus_one.address
    assert plus_one(2) == 3, "it is made later all the same"


def test_what_is_made_already_is_not_checked() -> None:
    @entry("int64", "int64")
    def plus_two(number: Any) -> Any:
        return number + 2

    assert plus_two(2) == 4
    with checked(enough):
        assert plus_two(3) == 5


def test_the_time_of_making_is_counted_once() -> None:
    before, began = seconds_spent(), time.monotonic()
    with making.measured():
        with making.measured():
            time.sleep(0.05)
        assert seconds_spent() == before, "the outer block counts"
    assert 0.05 <= seconds_spent() - before <= time.monotonic() - began


def test_it_is_counted_too_if_it_fails() -> None:
    before = seconds_spent()
    with pytest.raises(EnoughError), making.measured():
        enough()
    assert seconds_spent() > before


class Held:
    """A function that is made when it is let go, and the thread that makes it."""

    def __init__(self) -> None:
        self.begun, self.go, self.ended = (threading.Event() for _ in range(3))
        self.thread = ""

    def make(self) -> bytes:
        self.thread = threading.current_thread().name
        self.begun.set()
        self.go.wait(WALL_SECONDS)
        self.ended.set()
        return b"code"


def test_what_a_check_raises_leaves_a_function_that_is_being_made() -> None:
    held = Held()

    def enough_when_begun() -> None:
        if held.begun.is_set():
            raise EnoughError

    with making.interruptible(), checked(enough_when_begun), pytest.raises(EnoughError):
        making.made_by(held.make)
    assert making.is_left(), "the compiler is not done"
    held.go.set()
    assert held.ended.wait(WALL_SECONDS)
    wait(making._left, WALL_SECONDS)
    assert not making.is_left()


def test_code_and_errors_come_from_the_other_thread() -> None:
    held = Held()
    held.go.set()
    with making.interruptible():
        assert making.made_by(held.make) == b"code"
        with pytest.raises(ZeroDivisionError):
            making.made_by(lambda: bytes(1 // 0))
    assert held.thread != threading.main_thread().name
    making.made_by(held.make)
    assert held.thread == threading.main_thread().name, "nobody asked for a thread"
    assert not making.is_left()


def test_a_process_ends_with_its_status_while_a_function_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[int] = []
    monkeypatch.setattr(making.os, "_exit", ended.append)
    making.end_if_left(2)
    assert ended == []
    left: Future[bytes] = Future()
    monkeypatch.setattr(making, "_left", [left])
    making.end_if_left(2)
    assert ended == [2]
