"""Machine code while it is made: its time, and the check before each function."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.compiled import checked, entry, making, prepared, seconds_spent


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
