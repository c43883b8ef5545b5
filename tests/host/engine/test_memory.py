"""Guest memory and what the host refuses."""

from __future__ import annotations

import resource

from spe_unicorn.host.engine.memory import Ram

BASE = 0x4000_0000


def test_memory_is_there_under_a_limit_of_file_sizes():
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        ram = Ram(BASE, 1 << 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    ram.bytes[0xF_FFFF] = 0x5A
    assert list(ram.used()) == [(0, 1 << 20)]
    ram.clear(0xF_0000, 0x1_0000)
    assert not any(ram.bytes)


def test_parts_that_nobody_stored_to_are_told():
    ram = Ram(BASE, 1 << 20)
    ram.bytes[0x8_0000] = 1
    ((first, end),) = ram.used()
    assert 0 < first <= 0x8_0000 < end < 1 << 20
