"""Translation tables that the check of loads past the cache has looked through."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.spaces import PASpace
from spe_unicorn.host.pe.checks import noncoherent
from spe_unicorn.host.pe.checks.noncoherent import _Tables
from tests.support.fakes import FakeMemory

NS = PASpace.NonSecure


def memory_with_tables() -> FakeMemory:
    memory = FakeMemory()
    assert memory.write(0x1000, b"12345678abcdefgh", NS)
    return memory


def looked_through(memory: FakeMemory) -> _Tables:
    tables = _Tables(memory)
    assert tables.read(0x1000, 8, NS) == b"12345678"
    assert tables.read(0x1008, 8, NS) == b"abcdefgh"
    return tables


def test_tables_are_the_same_until_one_of_them_says_something_else() -> None:
    memory = memory_with_tables()
    tables = looked_through(memory)
    memory.write(0x1010, b"+", NS)  # beside them
    memory.write(0x1000, b"1", NS)  # what is there
    assert tables.are_the_same()
    memory.write(0x1008, b"A", NS)
    assert not tables.are_the_same()


def test_a_look_sets_no_flag_of_a_descriptor() -> None:
    memory = memory_with_tables()
    tables = looked_through(memory)
    assert tables.write(0x1000, b"........", NS)
    assert memory.read(0x1000, 8, NS) == b"12345678"


def test_tables_that_are_not_kept_may_always_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noncoherent, "_MOST_BYTES", 15)
    memory = memory_with_tables()
    assert not looked_through(memory).are_the_same()
