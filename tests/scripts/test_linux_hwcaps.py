"""What ``scripts/linux --check hwcaps`` expects Linux to say of a core."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from tests.cores import test_hwcaps as silicon
from tests.scripts.linux_modules import importable, module

ALWAYS = {"fp", "asimd", "evtstrm", "cpuid"}


@pytest.fixture(scope="module", autouse=True)
def _importable() -> Iterator[None]:
    with importable():
        yield


def test_a_process_is_told_by_two_entries_of_its_vector() -> None:
    entries = (3, 0x40), (16, 1 << 3 | 1 << 22), (6, 4096), (26, 1 << 18 | 1 << 63), (0, 0)
    auxiliary = b"".join(struct.pack("<2Q", *entry) for entry in entries)
    assert module("hwcaps").told(auxiliary) == {"aes", "sve", "mte", "bit 63 of entry 26"}
    assert module("hwcaps").told(b"") == set()


def test_words_are_those_of_the_core_and_of_the_kernel() -> None:
    promised = module("hwcaps").promised
    assert promised("neoverse-n1", (6, 1)) == ALWAYS | set(silicon.FIRST.split())
    newer = promised("max", (6, 12)) - promised("max", (6, 1))
    assert {"mops", "hbc", "cssc", "lse128"} <= newer


def test_fields_are_those_that_the_profiles_are_compared_by() -> None:
    """Both tables are from elf_hwcaps.rst, written apart."""
    words = module("hwcaps").WORDS
    for name, (register, field, least) in silicon.WORDS.items():
        there = words[name]
        assert (f"ID_AA64{there.register}_EL1", there.field, there.least) == (
            register.__name__,
            field,
            least,
        )


def test_no_two_words_have_one_bit() -> None:
    words = module("hwcaps").WORDS
    assert len({(word.vector, word.bit) for word in words.values()}) == len(words)
